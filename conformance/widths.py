"""Launches each kernel twice from the same memory, with one lane per vector and as usual, and compares the
results. The code for one lane is optimized in LLVM's usual way, the usual code is the quick one that a kernel
begins with.

Loaded by the plugin in the processes that run tests. A kernel's results are every byte of every live allocation,
the used part of the device heap, the lines that it prints, and how it ends. A launch that differs is run again in
other orders of its threads: it is set aside only if its result depends on that, which CUDA leaves open. So is a
launch by a thread of the program, since other threads may copy to the device or allocate there between the two.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import re
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from conformance.verdicts import DIFFERENT, MOST_BYTES, MOST_SECONDS, SAME
from kcheck.cpu.executor import Ending, Executor, KernelLaunch
from kcheck.cpu.faults import kernel_name
from kcheck.cpu.memory import MemoryBlock, MemoryKind
from kcheck.model import NATURAL, Schedule

ORDERS = (Schedule("reverse"), Schedule("shuffle", 1), Schedule("shuffle", 2))
"""Other orders, tried on kernels that differ."""


@dataclass(frozen=True, slots=True)
class Memory:
    """All live memory at one moment: (block, its bytes); for the heap, its used part."""

    parts: tuple[tuple[MemoryBlock, bytes], ...]

    @classmethod
    def read(cls, executor: Executor) -> Memory:
        """The current memory."""
        used = {MemoryKind.HEAP: executor._heap_used}
        blocks = list(executor.memory)
        return cls(tuple((b, ctypes.string_at(b.base, used.get(b.kind, b.size))) for b in blocks))

    def restore(self) -> None:
        """Restore the memory."""
        for block, content in self.parts:
            ctypes.memmove(block.base, content, len(content))


@dataclass(frozen=True, slots=True)
class Left:
    """The results of a launch."""

    ending: Ending
    memory: Memory
    printed: tuple[bytes, ...]
    heap_used: int


class Comparison:
    """Wraps :meth:`Executor.launch`.

    Args:
        path: file to append verdicts to, lines of JSON.
        launch: makes a launch.
    """

    def __init__(self, path: Path, launch: Callable[[Executor, KernelLaunch], Ending] = Executor.launch) -> None:
        self.path = path
        self._launch = launch
        self._lock = threading.RLock()

    def install(self) -> None:
        """From here on, every launch of this process is compared."""

        def launch(executor: Executor, asked: KernelLaunch) -> Ending:
            with self._lock:
                return self.compare(executor, asked)

        Executor.launch = launch  # type: ignore[method-assign]

    def compare(self, executor: Executor, asked: KernelLaunch) -> Ending:
        """Launch as usual, keep its results, and record how it compares."""
        try:
            asked.module.variables()  # places them, before memory is read
        except Exception:  # the launch itself reports the error
            self._tell(asked, "not compiled")
            return self._launch(executor, asked)
        if sum(block.size for block in executor.memory if block.kind is not MemoryKind.HEAP) > MOST_BYTES:
            self._tell(asked, "large")
            return self._launch(executor, asked)
        before = Memory.read(executor)
        state = (executor._heap_used, executor._launches)
        narrow = self._run(executor, asked, 1, NATURAL)
        before.restore()
        executor._heap_used, executor._launches = state
        written: list[bytes] = []
        write = executor._write
        executor._write = lambda text: (written.append(text), write(text))[1]  # type: ignore[func-returns-value]
        try:
            ending = self._launch(executor, asked)
        finally:
            executor._write = write
        wide = Left(ending, Memory.read(executor), _lines(written), executor._heap_used)
        self._judge(executor, asked, before, state, narrow, wide)
        return ending

    def _run(self, executor: Executor, asked: KernelLaunch, width: int, order: Schedule) -> Left:
        """Run a launch and drop its findings."""
        written: list[bytes] = []
        kept = (executor.width, executor.schedule, executor.limit, executor.report, executor._write)
        executor.width, executor.schedule, executor.limit = width, order, MOST_SECONDS
        quick, executor.kernels.quick = executor.kernels.quick, width > 1
        executor.report, executor._write = (lambda finding: None), written.append
        try:
            ending = self._launch(executor, asked)
        finally:
            executor.width, executor.schedule, executor.limit, executor.report, executor._write = kept
            executor.kernels.quick = quick
        return Left(ending, Memory.read(executor), _lines(written), executor._heap_used)

    def _judge(
        self,
        executor: Executor,
        asked: KernelLaunch,
        before: Memory,
        state: tuple[int, int],
        narrow: Left,
        wide: Left,
    ) -> None:
        if narrow.ending is Ending.TIMED_OUT and wide.ending is not Ending.TIMED_OUT:
            return self._tell(asked, "slow")
        if narrow.ending is wide.ending is Ending.NOT_COMPILED:
            return self._tell(asked, "not compiled")
        if narrow.ending is wide.ending is not Ending.FINISHED:
            return self._tell(asked, "fault")
        found = difference(narrow, wide)
        if not found:
            return self._tell(asked, SAME)
        if threading.current_thread() is not threading.main_thread():
            return self._tell(asked, "threads", found)
        is_memory = narrow.ending is wide.ending and narrow.printed == wide.printed
        is_memory = is_memory and narrow.heap_used == wide.heap_used
        if is_memory and _are_addresses(executor, narrow, wide):
            return self._tell(asked, "address", found)
        after = (executor._heap_used, executor._launches)
        others = []
        for order in ORDERS:
            before.restore()
            executor._heap_used, executor._launches = state
            others.append(self._run(executor, asked, executor.width, order))
        wide.memory.restore()
        executor._heap_used, executor._launches = after
        if any(difference(other, wide) for other in others):
            return self._tell(asked, "order", found)
        return self._tell(asked, "ticket" if takes_tickets(asked.module.text) else DIFFERENT, found)

    def _tell(self, asked: KernelLaunch, verdict: str, detail: str = "") -> None:
        test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
        kernel = kernel_name(asked.entry)
        code = hashlib.blake2b(f"{asked.entry}\0{asked.module.text}".encode(), digest_size=8).hexdigest()
        line = json.dumps([test, kernel, code, verdict, detail]) + "\n"
        with self.path.open("a") as file:
            file.write(line)


def difference(first: Left, second: Left) -> str:
    """The first difference in words; empty: there is none."""
    if first.ending is not second.ending:
        return f"ends as {first.ending} with one lane and {second.ending} as usual"
    if first.printed != second.printed:
        return f"prints {first.printed!r} with one lane and {second.printed!r} as usual"
    if first.heap_used != second.heap_used:
        return "uses the heap otherwise"
    for (block, one), (_, other) in zip(first.memory.parts, second.memory.parts, strict=True):
        if one != other:
            at = next(n for n, (a, b) in enumerate(zip(one, other, strict=True)) if a != b)
            at -= at % 4
            return (
                f"byte {at} of {block.kind} memory of {block.size} bytes is {one[at : at + 8].hex()} with one lane"
                f" and {other[at : at + 8].hex()} as usual"
            )
    return ""


_TICKET = re.compile(r"\batom\.[\w.]+\s+(%\w+)\s*,")


def takes_tickets(ptx: str) -> bool:
    """Whether code reads a register that an atomic operation writes."""
    return any(len(re.findall(rf"{name}\b", ptx)) > 1 for name in _TICKET.findall(ptx))


def _lines(written: list[bytes]) -> tuple[bytes, ...]:
    """What was printed: threads print in any order."""
    return tuple(sorted(b"".join(written).split(b"\n")))


def _apart(first: Left, second: Left) -> list[tuple[bytes, bytes]]:
    """The allocations that differ."""
    both = zip(first.memory.parts, second.memory.parts, strict=True)
    return [(one, other) for (_, one), (_, other) in both if one != other]


def _are_addresses(executor: Executor, first: Left, second: Left) -> bool:
    """Whether all words that differ are addresses in the memory of blocks and threads."""
    windows = [
        (buffer.address, buffer.address + buffer.size)
        for workspace in [*(w.workspace for w in executor._scheduler._workers), *executor._scheduler._resident]
        for buffer in (workspace._shared, workspace._state)
    ]

    def inside(word: int) -> bool:
        return any(low <= word < high for low, high in windows)

    for one, other in _apart(first, second):
        whole = len(one) // 8
        words = zip(*(struct.unpack_from(f"<{whole}Q", content) for content in (one, other)), strict=True)
        if (
            any(a != b and not (inside(a) and inside(b)) for a, b in words)
            or one[8 * whole :] != other[8 * whole :]
        ):
            return False
    return True
