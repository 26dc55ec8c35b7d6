"""A run that is split between machines: the part of one of them,
and the data that the merged report needs from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TypeAlias

from kcheck.dataclass import dataclass
from kcheck.model.coverage import CodePoint

Patterns: TypeAlias = tuple[tuple[int, tuple[tuple[int, str], ...]], ...]
"""(cases, ((index of the code, its hits in hexadecimal), ...)): how many cases reached exactly these points."""


@dataclass(frozen=True, slots=True)
class PlannedSpec:
    """The cases of a spec in a run. ``digest`` is that of their recipes
    and of the files that verdicts depend on."""

    path: str
    cases: int
    digest: str


@dataclass(frozen=True, slots=True)
class Shard:
    """One of the parts of a run.

    Attributes:
        number: from 1.
        of: how many parts there are.
        plan: every spec of the run, in order; the same in all parts.
        versions: the versions of the packages that compile and judge kernels.
        settings: the settings of the run that can change verdicts, by name.
    """

    number: int
    of: int
    plan: tuple[PlannedSpec, ...]
    versions: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)

    def others_run(self, specs: int) -> bool:
        """Whether other shards have something to run.
        ``specs`` is how many specs this shard has, without any case."""
        return specs < len(self.plan) or any(spec.cases for spec in self.plan)


@dataclass(frozen=True, slots=True)
class Part:
    """Some of the cases of a spec: those from ``first`` to ``stop`` of ``planned``, in the order of its plan."""

    first: int
    stop: int
    planned: int

    @property
    def is_last(self) -> bool:
        """Whether it contains the last case of the spec."""
        return self.stop == self.planned


@dataclass(frozen=True, slots=True)
class Tally:
    """The data that the report of a whole spec needs from one part, in addition to its verdicts.

    Attributes:
        notes: five groups, in the order in which they are added.
        codes: (code, its points), without duplicates; paths are relative to the project root.
        patterns: the points that the cases reached.
        counted: how many cases ran in code that measures coverage.
    """

    notes: tuple[tuple[str, ...], ...] = ()
    codes: tuple[tuple[str, tuple[CodePoint, ...]], ...] = ()
    patterns: Patterns = ()
    counted: int = 0
