"""The description of a launch, and the ways in which it can end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from kcheck.cpu.memory import RangeLabel
from kcheck.cpu.module import LoadedModule
from kcheck.dataclass import dataclass
from kcheck.model import Index3
from kcheck.ptx.abi import FaultKind


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


ENDINGS: Mapping[FaultKind, Ending] = {
    FaultKind.MISALIGNED: Ending.MISALIGNED,
    FaultKind.TRAP: Ending.TRAPPED,
    FaultKind.STACK_OVERFLOW: Ending.STACK_OVERFLOW,
}
"""How a launch ends, by kind of fault. Kinds that are not here are illegal addresses."""


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """One launch.

    Attributes:
        params: the bytes of the parameters, in the layout of ``module.entries[entry]``.
        grid, block: in blocks and threads.
        shared: dynamic shared memory, in bytes.
        cooperative: whether grid barriers are allowed, so that every block must be resident.
        arrays: returns the arrays among the parameters, for findings: for each, the number of the parameter with
            its address, and its label. None: the arrays that are known from the kernel's mangled name (Numba).
    """

    module: LoadedModule
    entry: str
    params: bytes
    grid: Index3
    block: Index3
    shared: int
    cooperative: bool
    arrays: Callable[[], Sequence[tuple[int, RangeLabel]]] | None = None
