"""What the linter measures of one specialization of a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kcheck.model.compiled import Resources
from kcheck.model.outcome import Finding
from kcheck.model.span import Span

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
"""What an instruction of PTX is counted as; each is one of these."""


@dataclass(frozen=True, slots=True)
class Occupancy:
    """How many warps of a kernel one multiprocessor can hold at a time, at most.

    Attributes:
        block: threads per block; ``shared``: bytes per block, static and dynamic.
        warps, most: held, and held by a kernel that needs nothing.
        limit: what there is too little of for more: ``registers``, ``shared memory``, ``threads``, ``blocks``.
    """

    block: int
    shared: int
    warps: int
    most: int
    limit: str

    @property
    def share(self) -> float:
        """Between 0 and 1."""
        return self.warps / self.most


@dataclass(frozen=True, slots=True)
class SassCounts:
    """The machine code of a kernel, padding aside: how many instructions, and how many by name of FAMILIES. What
    it calls, such as the slow path of a division, is not in it."""

    instructions: int
    families: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Metrics:
    """One kernel for one target and one choice of argument types.

    Attributes:
        kernel: the Python function's name, or the entry's of a PTX file; ``place`` its line.
        types: of its arguments, ``float32[:,:], int64``; empty where only PTX is known.
        resources: None where the assembler was not asked.
        instructions: of PTX, in the entry.
        families: how many of them there are by name of FAMILIES; those that are not there are left out.
        local: bytes of local memory that the PTX declares, per thread.
        float64: instructions that compute in float64.
        fused, unfused: multiply-adds in one instruction, and floating-point products and sums that stand alone.
        divisions: floating-point and integer divisions, remainders and square roots that are rounded correctly.
        prints: calls of ``vprintf``.
        occupancy: None where no block is known, or the target's multiprocessor.
        sass: None where no disassembler was asked, or it gave none.
        advice: what is likely to be slow or unintended, as warnings.
        problem: why there is nothing to measure; empty when it compiled.
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
