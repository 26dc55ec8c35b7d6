"""A run whose cases several machines share: which part one of them has, and what the whole report needs of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TypeAlias

from kcheck.dataclass import dataclass
from kcheck.model.coverage import CodePoint

Patterns: TypeAlias = tuple[tuple[int, tuple[tuple[int, str], ...]], ...]
"""(cases, ((number of the code, its hits as hexadecimal digits), ...)): how many cases reached the same."""


@dataclass(frozen=True, slots=True)
class PlannedSpec:
    """The cases of one spec in a run. ``digest``: of their recipes, and of the files that verdicts depend on."""

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
        versions: of what compiles kernels and judges them, by package.
        settings: of the run that change verdicts, by name.
    """

    number: int
    of: int
    plan: tuple[PlannedSpec, ...]
    versions: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)

    def others_run(self, specs: int) -> bool:
        """Whether other shards have something to run. ``specs``: of this one, without a case."""
        return specs < len(self.plan) or any(spec.cases for spec in self.plan)


@dataclass(frozen=True, slots=True)
class Part:
    """Some of the cases of a spec: those from ``first`` to ``stop`` of ``planned``, in the order of its plan."""

    first: int
    stop: int
    planned: int

    @property
    def is_last(self) -> bool:
        """Whether no case comes after it."""
        return self.stop == self.planned


@dataclass(frozen=True, slots=True)
class Tally:
    """What the report of a whole spec needs of one part beside its verdicts.

    Attributes:
        notes: in five groups, by when they arose.
        codes: (code, its points), each once; paths are relative to the root of the project.
        patterns: what the cases reached of them.
        counted: how many cases ran in code that counts.
    """

    notes: tuple[tuple[str, ...], ...] = ()
    codes: tuple[tuple[str, tuple[CodePoint, ...]], ...] = ()
    patterns: Patterns = ()
    counted: int = 0
