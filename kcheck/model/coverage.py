"""Which lines and branches of a kernel's source the cases of a spec have reached."""

from __future__ import annotations

from typing import TypeAlias

from kcheck.dataclass import dataclass

Place: TypeAlias = tuple[str, int]
"""A file and a line."""


@dataclass(frozen=True, slots=True)
class CodePoint:
    """A place in compiled code that notes whether a thread reached it.

    Attributes:
        lines: of the source of its instructions; of inlined code, the lines of the calls too.
        branch: where the source of a branch is, if the point is one way out of that branch.
        number: of the branch, unique in the compiled code.
        way: which way out, from 0.
    """

    lines: tuple[Place, ...] = ()
    branch: Place | None = None
    number: int = 0
    way: int = 0


@dataclass(frozen=True, slots=True)
class Reached:
    """What the launches of one case reached in one piece of compiled code.

    Attributes:
        code: identifies the code in this process; the same at all vector widths.
        hits: a byte for each point, 1 if it was reached.
    """

    code: str
    points: tuple[CodePoint, ...]
    hits: bytes


@dataclass(frozen=True, slots=True)
class FileCoverage:
    """The lines of a file that the compilers made code for.

    Attributes:
        path: from the root of the project if it is in there.
        lines: (line, cases that reached it), by line.
        branches: (line, cases by way out), by line. A line may be many branches of compiled code, since code is
            compiled for each type and loops are unrolled: this is the one that went most ways in most cases.
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
        """The lines that were reached, and on which no branch went all ways."""
        missed = set(self.missed)
        return tuple(line for line, ways in self.branches if not all(ways) and line not in missed)


@dataclass(frozen=True, slots=True)
class CodeCoverage:
    """What the cases of a spec have reached of its kernel. ``cases``: how many ran in code that counts."""

    cases: int
    files: tuple[FileCoverage, ...]


def both_ways(ways: tuple[int, ...]) -> tuple[int, int, int]:
    """Orders the branches of a line: the one that went most ways, in most cases, comes last."""
    return sum(map(bool, ways)), min(ways), sum(ways)
