"""The verdicts on one kernel, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from kcheck.dataclass import dataclass
from kcheck.model import OpSpec, Span

CHECKS = ("memcheck", "racecheck", "synccheck", "overflow")

Word = Literal["proved", "refuted", "undecided", "off"]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a check is not proved.

    Attributes:
        message: in plain words; ``fix``: what in the spec would decide it, or empty.
        place: the line in the source; None: the whole kernel.
        values: the sizes and params that the solver proposes.
    """

    message: str
    fix: str = ""
    place: Span | None = None
    values: Mapping[str, int] = field(default_factory=dict, compare=False)

    @property
    def text(self) -> str:
        """The message with its line."""
        return (f"line {self.place.line}: " if self.place is not None else "") + self.message


@dataclass(frozen=True, slots=True)
class Proof:
    """The verdict of one check.

    Attributes:
        seed: of the case that refutes it; None if no case does.
        finding: what that case showed.
    """

    check: str
    word: Word
    reasons: tuple[Reason, ...] = ()
    seed: int | None = None
    finding: str = ""


@dataclass(frozen=True, slots=True)
class Proved:
    """The verdicts of one spec.

    Attributes:
        kernels: how many compiled kernels there are: one for each choice of dtypes, layouts and constants.
        seconds: how long it took, without the compiler of the kernel.
    """

    spec: OpSpec
    proofs: tuple[Proof, ...]
    assumptions: tuple[str, ...]
    kernels: int
    seconds: float
