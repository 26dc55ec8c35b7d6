"""Measurements of a project's kernels, and how they have changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from kcheck.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Limit:
    """How much worse a number may become: by at most ``more``, or by the factor ``times``. None: no limit."""

    more: float | None = None
    times: float | None = None

    def __str__(self) -> str:
        if self.more is not None:
            return f"+{self.more:g}"
        return f"{self.times:g}x" if self.times is not None else "off"


@dataclass(frozen=True, slots=True)
class Measure:
    """One of the numbers that are compared with a baseline.

    Attributes:
        better: whether a lower or a higher number is better.
        limit: the default limit; a spec or the project may set a different one.
        about: a description.
        words: its name in reports; empty for the name in ``regression:``.
    """

    better: Literal["less", "more"]
    limit: Limit
    about: str
    words: str = ""


MEASURES: Mapping[str, Measure] = {
    "passed": Measure("more", Limit(more=0), "cases that pass", "passed cases"),
    "error": Measure("less", Limit(times=1.5), "largest and 95th percentile of the errors, by output dtype"),
    "ulp": Measure("less", Limit(), "largest error in units in the last place", "max ulp"),
    "registers": Measure("less", Limit(more=4), "registers per thread"),
    "spills": Measure("less", Limit(more=0), "bytes of spill stores and loads per thread", "spilled bytes"),
    "stack": Measure("less", Limit(more=0), "bytes of local memory per thread", "stack bytes"),
    "shared": Measure("less", Limit(more=0), "bytes of static shared memory per block", "shared memory bytes"),
    "instructions": Measure("less", Limit(times=1.25), "instructions of PTX in the entry", "PTX instructions"),
    "float64": Measure("less", Limit(more=0), "instructions that compute in float64", "float64 instructions"),
    "fma": Measure(
        "more",
        Limit(more=0),
        "fused multiply-adds, if separate products and sums replace them",
        "fused multiply-adds",
    ),
    "divisions": Measure("less", Limit(more=0), "divisions and square roots with correct rounding"),
    "occupancy": Measure("more", Limit(more=0), "theoretical occupancy, percent"),
}
"""Every measure by its name in ``regression:``."""


@dataclass(frozen=True, slots=True)
class Errors:
    """Errors of one output dtype over the cases of a run: the largest error of each output of each case.

    Attributes:
        unit: ``floor`` (the noise floor of the element) or ``allowed`` (what a written tolerance accepts).
        cases: the number of errors.
        median, p95, largest: statistics of these errors.
        ulp: the largest error in units in the last place.
    """

    unit: str
    cases: int
    median: float
    p95: float
    largest: float
    ulp: float


@dataclass(frozen=True, slots=True)
class OpBaseline:
    """The measurements of one op.

    Attributes:
        spec: the path of its spec, relative to the project root.
        device: the device that ran its cases.
        count, seed: the number and the master seed of the cases.
        passed, failed: the number of cases; those that could not be checked count as failed.
        errors: by output dtype.
        kernels: the values of MEASURES by kernel, target and argument types.
        places: ``file:line`` of each kernel by name; known after a measurement, not stored.
    """

    spec: str
    device: str
    count: int
    seed: int
    passed: int
    failed: int
    errors: Mapping[str, Errors] = field(default_factory=dict)
    kernels: Mapping[tuple[str, str, str], Mapping[str, float]] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Baseline:
    """Measurements of a project's kernels.

    Attributes:
        versions: the versions of the tools that compiled and measured them.
        paths: the specs and folders that were requested, relative to the project root.
    """

    name: str
    versions: Mapping[str, str]
    paths: tuple[str, ...]
    ops: Mapping[str, OpBaseline]


@dataclass(frozen=True, slots=True)
class Change:
    """A number that has changed.

    Attributes:
        measure: a name in MEASURES; ``detail`` says which one, such as ``largest``.
        where: kernel, target and argument types, or the output's dtype.
        limit: how much worse it may become.
        kind: ``worse`` (beyond its limit), ``within`` (worse, but allowed), ``better``.
        at: ``file:line`` of the kernel, or the spec's path; empty if unknown.
    """

    op: str
    measure: str
    detail: str
    where: tuple[str, ...]
    before: float
    after: float
    limit: Limit
    kind: Literal["worse", "within", "better"]
    at: str = ""
