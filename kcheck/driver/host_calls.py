"""What a program that is not Python does with the API: where it allocates, which errors it does not read, and what
it does not free."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from kcheck.cpu.memory import Memory, MemoryBlock
from kcheck.dataclass import dataclass
from kcheck.driver.call_stack import Caller, Process
from kcheck.model import Finding
from kcheck.ptx.syntax.symbols import kernel_name
from kcheck.span import Span

_FREE = "call cudaFree, cudaFreeHost or cudaFreeArray when the memory is no longer needed"
_CHECK = "check what each call returns, and call cudaGetLastError() after each launch"


@dataclass(frozen=True, slots=True)
class Failed:
    """A call that failed: its name, the error, the kernel of a launch, and the return addresses of the call."""

    name: str
    error: int
    error_name: str
    kernel: str
    stack: tuple[int, ...]


class HostCalls:
    """The calls of one program.

    Args:
        pid: its process.
        memory: of its device.
        report: is called with each finding.
        finds_leaks: whether memory that is not freed is a finding.

    Attributes:
        stack: the return addresses of the current call, 8 bytes each; empty if they were not sent.
        kept: addresses of memory that belongs to graphs: it does not leak.
    """

    def __init__(
        self, pid: int, memory: Memory, report: Callable[[Finding], None], *, finds_leaks: bool = False
    ) -> None:
        self._process = Process(pid)
        self._memory = memory
        self._report = report
        self._finds_leaks = finds_leaks
        self._unread: list[Failed] = []
        self._explained: set[int] = set()  # threads whose call has a finding that says why it fails
        self._has_ended = False
        self.stack = b""
        self.kept: set[int] = set()
        memory.caller = self._caller

    def _caller(self) -> Callable[[], str] | None:
        if not self.stack:
            return None
        return Caller(self._process, _addresses(self.stack))

    def report(self, finding: Finding, stack: bytes) -> None:
        """Report a finding of a call that fails, with the line of the call."""
        self._explained.add(threading.get_ident())
        self._at(finding, _addresses(stack))

    def _at(self, finding: Finding, stack: Sequence[int]) -> None:
        found = self._process.caller(stack, finding.kernel or "")
        if found is not None and found.place is None:
            finding = finding.adding(f"the call is in {found}")
        self._report(replace(finding, place=None if found is None else found.place))

    def failed(self, name: int, error: int, error_name: int, kernel: int) -> None:
        """A call returned an error; the names are addresses of texts. ``kernel``: 0 unless it is a launch."""
        if (thread := threading.get_ident()) in self._explained:
            self._explained.discard(thread)
            return
        told, number, launched = (
            ctypes.string_at(each).decode() if each else "" for each in (name, error_name, kernel)
        )
        self._unread.append(Failed(told, error, number, kernel_name(launched), _addresses(self.stack)))

    def read(self, error: int) -> None:
        """The program reads its last error (0), or the name of an error."""
        self._unread = [each for each in self._unread if error and each.error != error]

    def ended(self) -> None:
        """The program ends normally; it may still free memory."""
        self._has_ended = True
        self._process.remember()

    def left(self) -> None:
        """The program is gone. If it was killed, or crashed, nothing is reported."""
        if not self._has_ended:
            return
        for each in self._unread:
            if self._process.ignores_result(each.stack):
                what = "the launch failed with" if each.kernel else f"{each.name} returned"
                message = f"{what} {each.error_name}, and the program did not read it"
                found = Finding("api-error", message, severity="warn", fix=_CHECK, kernel=each.kernel or None)
                self._at(found, each.stack)
        self.find_leaks()

    def find_leaks(self) -> None:
        """Report what the program allocated and did not free, once for each line."""
        groups: dict[Span | None, list[MemoryBlock]] = {}
        for block in self._memory.blocks if self._finds_leaks else ():
            if isinstance(block.made, Caller) and block.base not in self.kept:
                frame = block.made.frame
                groups.setdefault(None if frame is None else frame.place, []).append(block)
        for place, blocks in groups.items():
            message = f"{blocks[0].told} is never freed"
            if len(blocks) > 1:
                total = sum(block.size for block in blocks)
                message = (
                    f"{len(blocks)} allocations with {total} bytes are never freed; the first is {blocks[0].told}"
                )
            self._report(Finding("leakcheck", message, fix=_FREE, place=place))


def _addresses(stack: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(stack) // 8}Q", stack)
