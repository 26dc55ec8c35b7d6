"""Which lines and branches of a kernel's source the cases of a spec have reached."""

from __future__ import annotations

from typing import TypeAlias

from kcheck.dataclass import dataclass

Place: TypeAlias = tuple[str, int]
"""A file and a line."""


@dataclass(frozen=True, slots=True)
class CodePoint:
    """A place in compiled code that records whether a thread reached it.

    Attributes:
        lines: the source lines of its instructions; for inlined code, also the lines of the calls.
        branch: the source line of a branch, if the point is one of its directions; otherwise None.
        number: the number of the branch, unique in the compiled code.
        way: the direction of the branch, from 0.
    """

    lines: tuple[Place, ...] = ()
    branch: Place | None = None
    number: int = 0
    way: int = 0


@dataclass(frozen=True, slots=True)
class Reached:
    """What the launches of one case reached in one piece of compiled code.

    Attributes:
        code: identifies the code in this process, regardless of the vector width.
        hits: one byte per point, 1 if it was reached.
    """

    code: str
    points: tuple[CodePoint, ...]
    hits: bytes


@dataclass(frozen=True, slots=True)
class FileCoverage:
    """The lines of a file for which there is compiled code.

    Attributes:
        path: relative to the project root if it is below that.
        lines: (line, number of cases that reached it), sorted.
        branches: (line, number of cases for each direction), sorted. A line may have many branches in compiled
            code, because code is compiled for each type and loops are unrolled: this is the one that took the most
            directions in the most cases.
    """

    path: str
    lines: tuple[tuple[int, int], ...]
    branches: tuple[tuple[int, tuple[int, ...]], ...]

    @property
    def missed(self) -> tuple[int, ...]:
        """The lines that no case reached."""
        return tuple(line for line, cases in self.lines if not cases)

    @property
    def one_sided(self) -> tuple[int, ...]:
        """The lines with branches that were reached, but did not take every direction."""
        missed = set(self.missed)
        return tuple(line for line, ways in self.branches if not all(ways) and line not in missed)


@dataclass(frozen=True, slots=True)
class CodeCoverage:
    """The coverage of a spec's kernel by its cases. ``cases`` is how many ran in code that measures coverage."""

    cases: int
    files: tuple[FileCoverage, ...]


def both_ways(ways: tuple[int, ...]) -> tuple[int, int, int]:
    """A sort key for branches: the branch that took the most directions in the most cases comes last."""
    return sum(map(bool, ways)), min(ways), sum(ways)
