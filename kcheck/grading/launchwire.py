"""Launches as messages, from a candidate's process to its device process, which checks every field: it shares its
pages of device memory with the candidate, and trusts nothing else that comes from there.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any

from kcheck.cpu.blocks import MemoryState
from kcheck.cpu.executor import Executor, KernelLaunch
from kcheck.cpu.memory import MemoryBlock, MemoryKind, RangeLabel
from kcheck.cpu.module import LoadedModule
from kcheck.cpu.sanitizers import CHECKS
from kcheck.dataclass import dataclass
from kcheck.driver.device import MAX_BLOCK, MAX_GRID, MAX_THREADS_PER_BLOCK, shared_per_multiprocessor
from kcheck.model import Index3, Schedule
from kcheck.model.layouts import Spread

_MOST_ROWS = 1 << 24
_MOST_SHARED = shared_per_multiprocessor((10, 0))


@dataclass(frozen=True, eq=False, slots=True)
class SentLaunch:
    """A launch as it arrives.

    Attributes:
        launch: what to run.
        schedule: the order of threads.
        wanted: the sanitizers that the candidate's process asks for.
    """

    launch: KernelLaunch
    schedule: Schedule
    wanted: tuple[str, ...]


class LaunchWriter:
    """Writes the launches of a process. What has not changed since the last one is not sent again."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._table: object = None
        self._sent: set[str] = set()

    def written(self, launch: KernelLaunch) -> tuple[dict[str, Any], list[bytes]]:
        """The header and the blobs.

        Raises:
            PtxError, OutOfMemory: the variables of the module cannot be placed.
        """
        executor, module = self._executor, launch.module
        executor.allocate_heap()
        texts: list[bytes] = []
        fields: dict[str, Any] = {
            "kind": "launch",
            "module": self._module(module, texts),
            "reporting": None if module.reporting is None else self._module(module.reporting, texts),
            "entry": launch.entry,
            "shape": [*launch.grid, *launch.block, launch.shared],
            "cooperative": launch.cooperative,
            "arrays": None if launch.arrays is None else [[n, _label(one)] for n, one in launch.arrays()],
            "schedule": [executor.schedule.order, executor.schedule.seed, list(executor.schedule.blocks)],
            "wanted": [name for name, attribute in CHECKS.items() if getattr(executor.checks, attribute)],
        }
        fields |= self._memory()
        created, objects = executor.textures.state
        fields["textures"] = [created, [[content.hex(), size] for content, size in objects]]
        return fields, [launch.params, *texts]

    def staged(self) -> dict[str, Any]:
        """The header of a message that the arrays of a launch are on the device."""
        return {"kind": "staged", **self._memory()}

    def _memory(self) -> dict[str, Any]:
        memory = self._executor.memory
        table, _ = memory.table()
        if table is self._table:  # tables do not change
            return {}
        self._table = table
        return {"memory": _state(memory.state)}

    def _module(self, module: LoadedModule, texts: list[bytes]) -> dict[str, Any]:
        text = module.text.encode()
        digest = hashlib.blake2b(text, digest_size=16).hexdigest()
        is_new = digest not in self._sent
        if is_new:
            self._sent.add(digest)
            texts.append(text)
        return {"digest": digest, "sent": is_new, "variables": dict(module.variables())}


class LaunchReader:
    """Reads the launches of a process, and takes over what it has allocated."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._modules: dict[str, LoadedModule] = {}

    def read(self, fields: Mapping[str, Any], blobs: Sequence[bytes]) -> SentLaunch:
        """The launch in a message. Everything in it is of the process itself, and inside device memory.

        Raises:
            ValueError, KeyError, TypeError, AttributeError, OverflowError: it is not a launch.
            PtxError: a module cannot be read.
        """
        executor, texts = self._executor, list(blobs[1:])
        self.adopt(fields)
        executor.memory.taint()  # the process may have changed what is initialized
        executor.adopt_heap()
        created, objects = fields["textures"]
        executor.textures.adopt(_whole(created), [(bytes.fromhex(a), _whole(b)) for a, b in objects])
        module = self._module(fields["module"], texts)
        if fields["reporting"] is not None:
            module.reporting = self._module(fields["reporting"], texts)
        entry = module.entries[str(fields["entry"])]
        if len(blobs[0]) != entry.param_bytes:
            raise ValueError("the parameters")
        *sizes, shared = map(_whole, fields["shape"])
        grid, block = _index(sizes[:3]), _index(sizes[3:])
        _check_shape(grid, block, shared, entry.max_threads)
        arrays = fields["arrays"]
        labels = None if arrays is None else [(_whole(n), _read_label(one)) for n, one in arrays]
        launch = KernelLaunch(
            module, entry.name, blobs[0], grid, block, shared, fields["cooperative"] is True,
            None if labels is None else lambda: labels,
        )  # fmt: skip
        order, seed, blocks = fields["schedule"]
        if order not in ("natural", "reverse", "shuffle", "sample"):
            raise ValueError("the schedule")
        sampled = tuple(map(_whole, blocks))
        if any(number >= math.prod(grid) for number in sampled):
            raise ValueError("a block")
        wanted = tuple(name for name in CHECKS if name in fields["wanted"])
        return SentLaunch(launch, Schedule(order, _whole(seed), sampled), wanted)

    def adopt(self, fields: Mapping[str, Any]) -> None:
        """Take over what the process has allocated, if it has changed.

        Raises:
            ValueError, KeyError, TypeError, AttributeError, OverflowError: it is not memory of the device.
        """
        if (state := fields.get("memory")) is not None:
            self._executor.memory.adopt(_read_state(state))

    def _module(self, fields: Mapping[str, Any], texts: list[bytes]) -> LoadedModule:
        digest = str(fields["digest"])
        if fields["sent"] is True:
            text = texts.pop(0)
            if hashlib.blake2b(text, digest_size=16).hexdigest() != digest:
                raise ValueError("the digest of a module")
            self._modules[digest] = self._executor.load(text.decode())
        module = self._modules[digest]
        places = {str(name): (_whole(at), _whole(size)) for name, (at, size) in fields["variables"].items()}
        module.place_at(places)
        return module


def _check_shape(grid: Index3, block: Index3, shared: int, most: int | None) -> None:
    sizes, limits = (*grid, *block), (*MAX_GRID, *MAX_BLOCK)
    threads = math.prod(block)
    if (
        not all(0 < size <= limit for size, limit in zip(sizes, limits, strict=True))
        or threads > min(MAX_THREADS_PER_BLOCK, most or MAX_THREADS_PER_BLOCK)
        or shared > _MOST_SHARED
    ):
        raise ValueError("the shape of a launch")


def _state(state: MemoryState) -> dict[str, Any]:
    return {
        "blocks": [_block(one) for one in state.blocks],
        "freed": [_block(one) for one in state.freed],
        "labels": [_label(one) for one in state.labels],
        "exclusive": list(state.exclusive),
        "guards": list(state.guards.items()),
        "end": state.end,
    }


def _read_state(fields: Mapping[str, Any]) -> MemoryState:
    return MemoryState(
        tuple(map(_read_block, fields["blocks"])),
        tuple(map(_read_block, fields["freed"])),
        tuple(map(_read_label, fields["labels"])),
        tuple(map(_whole, fields["exclusive"])),
        {_whole(base): _whole(size) for base, size in fields["guards"]},
        _whole(fields["end"]),
    )


def _block(block: MemoryBlock) -> list[Any]:
    return [block.base, block.size, block.kind.value, block.serial]


def _read_block(fields: Sequence[Any]) -> MemoryBlock:
    base, size, kind, serial = fields
    return MemoryBlock(_whole(base), _whole(size), MemoryKind(kind), _whole(serial))


def _label(label: RangeLabel) -> list[Any]:
    return [
        label.name, label.base, label.shape, label.strides, label.itemsize, label.low, label.high, label.dtype,
        label.is_local, label.declared, None if label.far is None else astuple(label.far),
    ]  # fmt: skip


def _read_label(fields: Sequence[Any]) -> RangeLabel:
    name, base, shape, strides, itemsize, low, high, dtype, is_local, declared, far = fields
    return RangeLabel(
        str(name), _whole(base), tuple(map(_whole, shape)), tuple(map(_number, strides)), _whole(itemsize),
        _whole(low), _whole(high), str(dtype), is_local is True, str(declared),
        None if far is None else _read_spread(far),
    )  # fmt: skip


def _read_spread(fields: Sequence[Any]) -> Spread:
    spread = Spread(*map(_whole, fields))
    if spread.rows > _MOST_ROWS or not spread.apart:
        raise ValueError("rows that lie far apart")
    return spread


def _index(sizes: Sequence[int]) -> Index3:
    x, y, z = sizes
    return x, y, z


def _number(value: Any) -> int:
    if type(value) is not int or abs(value) >= 1 << 64:
        raise ValueError("a number")
    return value


def _whole(value: Any) -> int:
    if _number(value) < 0:
        raise ValueError("a number")
    return int(value)
