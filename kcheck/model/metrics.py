"""The measurements of the linter for one specialization of a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from kcheck.dataclass import dataclass
from kcheck.model.compiled import Resources
from kcheck.model.outcome import Finding
from kcheck.span import Span

FAMILIES = (
    "float16",
    "float32",
    "float64",
    "tensor",
    "special function",
    "integer",
    "compare",
    "convert",
    "move",
    "global memory",
    "shared memory",
    "local memory",
    "parameter",
    "constant memory",
    "atomic",
    "warp",
    "barrier",
    "branch",
    "call",
    "other",
)
"""The families by which PTX instructions are counted."""


@dataclass(frozen=True, slots=True)
class Occupancy:
    """The maximum number of warps of a kernel that one multiprocessor can hold.

    Attributes:
        block: threads per block; ``shared``: bytes per block, static and dynamic.
        warps, most: for this kernel, and for a kernel that needs no resources.
        limit: the resource that limits it: ``registers``, ``shared memory``, ``threads``, ``blocks``.
    """

    block: int
    shared: int
    warps: int
    most: int
    limit: str

    @property
    def share(self) -> float:
        """The fraction of the maximum number of warps, between 0 and 1."""
        return self.warps / self.most


@dataclass(frozen=True, slots=True)
class SassCounts:
    """The number of machine instructions of a kernel, without padding: in total and by FAMILIES.

    Functions that it calls, such as the slow path of a division, are not included.
    """

    instructions: int
    families: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Metrics:
    """One kernel for one target and one combination of argument types.

    Attributes:
        kernel: the name of the kernel in its source, or of the entry of a PTX file; ``place`` is its line.
        types: the types of its arguments, ``float32[:,:], int64``; empty if only PTX is known.
        resources: None if the kernel was not assembled.
        instructions: the number of PTX instructions in the entry.
        families: their number by FAMILIES; families without instructions are omitted.
        local: bytes of local memory that the PTX declares, per thread.
        float64: the number of instructions that compute in float64.
        fused, unfused: the number of fused multiply-adds, and of other floating-point multiplications and
            additions.
        divisions: the number of correctly rounded floating-point divisions and square roots, and integer
            divisions.
        prints: the number of calls of ``vprintf``.
        occupancy: None if the block size or the target's multiprocessor is unknown.
        sass: None if the kernel was not disassembled.
        advice: warnings about code that is probably slow or unintended.
        problem: why nothing could be measured; empty if the kernel compiled.
    """

    kernel: str
    place: Span
    target: str
    types: str
    resources: Resources | None = None
    instructions: int = 0
    families: Mapping[str, int] = field(default_factory=dict)
    local: int = 0
    float64: int = 0
    fused: int = 0
    unfused: int = 0
    divisions: int = 0
    prints: int = 0
    occupancy: Occupancy | None = None
    sass: SassCounts | None = None
    advice: tuple[Finding, ...] = ()
    problem: str = ""
