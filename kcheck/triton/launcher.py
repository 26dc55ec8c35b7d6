"""A launch by Triton: its arguments become the kernel's parameters, the device may access the memory of its
tensors, and a failure is raised as Triton's exception.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kcheck.cpu.executor import Ending, KernelLaunch
from kcheck.cpu.interrupts import without_launch
from kcheck.cpu.memory import RangeLabel
from kcheck.cpu.module import Entry, LoadedModule
from kcheck.dataclass import dataclass
from kcheck.driver.host_ranges import HostRanges
from kcheck.driver.launch import RESULTS
from kcheck.driver.machine import Machine
from kcheck.driver.staging import staged
from kcheck.model.multiprocessor import WARP
from kcheck.triton.signature import Type, is_pointer, laid_out, packed, scalars
from kcheck.triton.tensors import address_of, label_of, memory_of, with_size

_TEXTS = {  # cuGetErrorString
    Ending.NOT_COMPILED: "a PTX JIT compilation failed",
    Ending.OUT_OF_MEMORY: "out of memory",
    Ending.ILLEGAL_ADDRESS: "an illegal memory access was encountered",
    Ending.MISALIGNED: "misaligned address",
    Ending.TRAPPED: "unspecified launch failure",
    Ending.STACK_OVERFLOW: "invalid program counter",
    Ending.TIMED_OUT: "the launch timed out and was terminated",
    Ending.INTERRUPTED: "the launch was interrupted",
}


class LaunchError(RuntimeError):
    """A launch that failed, as Triton's own launcher raises it; ``code`` is the driver's CUresult."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(f"Triton Error [CUDA]: {_TEXTS[ending]}")
        self.code = int(RESULTS[ending])


@dataclass(frozen=True)
class LoadedFunction:
    """A loaded kernel."""

    module: LoadedModule
    entry: Entry


@dataclass(frozen=True, slots=True)
class _Pointer:
    """A tensor among the arguments: its parameter's index, name in the kernel, pointer type, address."""

    param: int
    name: str
    kind: str
    tensor: Any
    address: int


class Launcher:
    """Triton's ``launcher_cls``: one for each compiled kernel.

    Args:
        machine: runs the kernel.
        ranges: the host memory that kernels may access.
        source, metadata: those of the compiled kernel, from Triton.

    Raises:
        RuntimeError: the kernel uses clusters (``num_ctas``).
    """

    def __init__(self, machine: Machine, ranges: HostRanges, source: Any, metadata: Any) -> None:
        self._machine = machine
        self._ranges = ranges
        self._signature: tuple[tuple[str, Type], ...] = tuple(
            (str(n), kind) for n, kind in source.signature.items()
        )
        self._metadata = metadata
        self._scratch = [kind for kind in ("global", "profile") if getattr(metadata, f"{kind}_scratch_size", 0)]
        if getattr(metadata, "num_ctas", 1) > 1:
            raise RuntimeError(f"num_ctas={metadata.num_ctas} is not supported on kcheck's cpu device; use 1")

    def __call__(
        self,
        grid_x: int,
        grid_y: int,
        grid_z: int,
        stream: int,
        function: LoadedFunction,
        kernel_metadata: Any,
        launch_metadata: Any,
        enter_hook: Any,
        exit_hook: Any,
        *args: Any,
    ) -> None:
        """Run the kernel, and wait until it ends.

        Raises:
            LaunchError: the launch failed.
            TypeError, OverflowError: an argument does not match its parameter.
        """
        if not grid_x * grid_y * grid_z:
            return
        if enter_hook is not None:
            enter_hook(launch_metadata)
        tickets: list[int] = []
        try:
            parts, pointers = self._parameters(args, (grid_x, grid_y, grid_z), tickets)
            self._run(function, (grid_x, grid_y, grid_z), parts, pointers)
        finally:
            for ticket in reversed(tickets):
                self._ranges.release(ticket)
        if exit_hook is not None:
            exit_hook(launch_metadata)

    def _parameters(
        self, args: Sequence[Any], grid: tuple[int, int, int], tickets: list[int]
    ) -> tuple[list[bytes], list[_Pointer]]:
        """The bytes of each parameter, and the tensors among them, whose memory is accessible until the caller
        releases ``tickets``."""
        parts: list[bytes] = []
        pointers: list[_Pointer] = []
        missing = [name for name, kind in self._signature[len(args) :] if kind != "constexpr"]
        if missing:
            raise TypeError(f"the launch passes {len(args)} arguments, but none for {', '.join(missing)}")
        # Triton's launcher never reads constants, nor arguments after the last parameter.
        for (name, kind), value in zip(self._signature, args, strict=False):
            if kind == "constexpr":
                continue
            if isinstance(kind, str) and not kind.startswith("tensordesc"):
                self._add(parts, pointers, (kind, value, name), tickets)
                continue
            for part in scalars(kind, value, name):
                self._add(parts, pointers, part, tickets)
        for scratch in ("global", "profile"):
            memory = self._allocated(scratch, grid) if scratch in self._scratch else None
            self._add(parts, pointers, ("*i8", memory, f"{scratch} scratch memory"), tickets)
        return parts, pointers

    def _add(
        self, parts: list[bytes], pointers: list[_Pointer], part: tuple[str, Any, str], tickets: list[int]
    ) -> None:
        """Add one parameter, given as (type, value, name)."""
        kind, value, name = part
        if not is_pointer(kind):
            parts.append(packed(kind, value))
            return
        address = address_of(value)
        if address and not isinstance(value, int):
            value = with_size(value, kind, self._machine.memory)
            self._hold(*memory_of(value, kind), tickets)
            pointers.append(_Pointer(len(parts), name, kind, value, address))
        parts.append(address.to_bytes(8, "little"))

    def _allocated(self, kind: str, grid: tuple[int, int, int]) -> Any:
        """The scratch memory that the kernel requires, from the allocator that the program has set."""
        from triton.runtime import _allocation

        size = getattr(self._metadata, f"{kind}_scratch_size")
        allocator = _allocation._allocator if kind == "global" else _allocation._profile_allocator
        align = getattr(self._metadata, f"{kind}_scratch_align", 1)
        return allocator.get()(size * grid[0] * grid[1] * grid[2], align, 0)

    def _hold(self, address: int, size: int, tickets: list[int]) -> None:
        """Make memory accessible to kernels until the ticket is released, unless it already is."""
        if size and self._machine.memory.find(address, size) is None:
            tickets.append(self._ranges.hold(address, size))

    def _run(
        self,
        function: LoadedFunction,
        grid: tuple[int, int, int],
        parts: list[bytes],
        pointers: Sequence[_Pointer],
    ) -> None:
        executor = self._machine.executor
        with staged(self._machine, [pointer.address for pointer in pointers]) as moved:
            there = [replace(pointer, address=moved.get(pointer.address, pointer.address)) for pointer in pointers]
            for pointer in there:
                parts[pointer.param] = pointer.address.to_bytes(8, "little")
            entry = function.entry
            slots = entry.params
            content = laid_out(parts[: len(slots)], slots, entry.param_bytes)

            def arrays() -> list[tuple[int, RangeLabel]]:
                return [(p.param, label_of(p.tensor, p.kind, p.name, p.address)) for p in there]

            launch = KernelLaunch(
                function.module,
                entry.name,
                content,
                grid,
                (WARP * self._metadata.num_warps, 1, 1),
                self._metadata.shared,
                bool(getattr(self._metadata, "launch_cooperative_grid", False)),
                arrays,
            )
            ending = executor.launch(launch)
        if ending is Ending.INTERRUPTED and executor.raised is not None:
            error, executor.raised = executor.raised, None
            raise without_launch(error)
        if ending is not Ending.FINISHED:
            raise LaunchError(ending)
