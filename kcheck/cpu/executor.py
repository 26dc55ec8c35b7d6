"""Runs kernels: what is under the driver's launch calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from kcheck.cpu.memory import Memory
from kcheck.cpu.module import Module
from kcheck.model import Finding, Index3


class Ending(StrEnum):
    """How a launch ended."""

    FINISHED = "finished"
    NOT_COMPILED = "not compiled"
    OUT_OF_MEMORY = "out of memory"
    ILLEGAL_ADDRESS = "illegal address"
    MISALIGNED = "misaligned address"
    TRAPPED = "trapped"
    STACK_OVERFLOW = "stack overflow"
    TIMED_OUT = "timed out"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """One launch.

    Attributes:
        params: the bytes of the parameters, laid out as ``module.entries[entry]`` says.
        grid, block: in blocks and threads.
        shared: dynamic shared memory, in bytes.
        cooperative: whether a grid barrier is allowed: every block is resident.
    """

    module: Module
    entry: str
    params: bytes
    grid: Index3
    block: Index3
    shared: int
    cooperative: bool


class Executor:
    """The memory and the processors of one device.

    Args:
        memory: its memory.
        report: is called with each finding, on the thread that launches.
    """

    def __init__(self, memory: Memory, report: Callable[[Finding], None]) -> None:
        self.memory = memory
        self._report = report

    def load(self, text: str) -> Module:
        """A module; raises PtxError."""
        return Module(text, self.memory)

    def report_compile_error(self, kernel: str, fault: Exception) -> None:
        """Report code that cannot be run."""
        self._report(Finding("compile", str(fault), kernel=kernel or None))

    def launch(self, launch: KernelLaunch) -> Ending:
        """Run a launch to its end."""
        return Ending.FINISHED
