"""The events of a run, in order. The store and the reporters read nothing else.

::

    RunStarted ( SpecRefused | SpecStarted ( Captured? CaseFinished )* Compiling? SpecFinished )* RunFinished
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from kcheck.dataclass import dataclass
from kcheck.model.coverage import CodeCoverage
from kcheck.model.levels import Level
from kcheck.model.outcome import Finding
from kcheck.model.shard import Part, Shard, Tally
from kcheck.model.snapshot import Snapshot
from kcheck.model.verdict import Verdict
from kcheck.span import Fault, Span

if TYPE_CHECKING:
    from kcheck.model.outcome import Array


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The run begins.

    Attributes:
        command: the command line, shell-quoted.
        device: ``gpu``, ``cpu`` or ``simulator``. ``device_name`` describes it for people.
        specs: how many specs were found.
        started: the time, with its time zone.
        sanitize: levels from the command line, which override those of every spec.
        strict: whether warnings about a spec as a whole are errors; their findings have that severity.
        profile: ``--profile``; empty without one.
        versions: the versions of the packages that compile and judge kernels; empty if the run is not stored.
        shard: the part of a larger run that this is; None if it is a complete run.
    """

    version: str
    command: str
    device: str
    device_name: str
    specs: int
    started: datetime
    sanitize: Mapping[str, Level] = field(default_factory=dict)
    strict: bool = False
    profile: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    shard: Shard | None = None


@dataclass(frozen=True, slots=True)
class SpecRefused:
    """A spec that is not run, because it is invalid or code that it names cannot be loaded.
    ``root`` is its project root; empty if unknown."""

    path: str
    faults: tuple[Fault, ...]
    started: datetime
    root: str = ""


@dataclass(frozen=True, slots=True)
class SpecStarted:
    """A spec's cases begin. ``line`` is where the spec names its kernel or launcher; ``root`` is its project.

    ``sources`` are the SHA-256 digests of the files that its verdicts depend on, by path from the root; empty if
    the run is not stored. ``part`` is the range of its cases, if this run has only some of them.
    ``kernel`` is the line that defines the kernel or launcher, if the text of its file shows it.
    """

    path: str
    line: int
    op: str
    description: str
    tags: tuple[str, ...]
    cases: int
    seed: int
    started: datetime
    root: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)
    part: Part | None = None
    kernel: Span | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Captured:
    """The inputs and outputs of a case that failed, immediately before its CaseFinished, if the run captures them.

    A consumer must copy the arrays that it keeps: they are large, and the run owns them.

    Attributes:
        outputs: by name; empty if the launch did not finish.
    """

    snapshot: Snapshot
    outputs: Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class CaseFinished:
    """A case was judged. ``replay`` is the command line that runs only this case."""

    path: str
    line: int
    verdict: Verdict
    replay: str
    started: datetime


@dataclass(frozen=True, slots=True)
class Compiling:
    """A spec's cases are done, but its kernels are still being compiled for ``artifact``, which takes seconds."""

    path: str
    op: str


@dataclass(frozen=True, slots=True)
class Sanitized:
    """How many cases of a spec a sanitizer checked.

    Attributes:
        proved: whether `kcheck prove` has proved that no case that the spec allows has a finding of it.
    """

    name: str
    level: Level
    cases: int
    proved: bool = False


@dataclass(frozen=True, slots=True)
class SpecFinished:
    """A spec's cases are done.

    Attributes:
        findings: errors and warnings about the spec as a whole (``vacuous``, ``artifact``).
        notes: what was not checked, without duplicates.
        skipped: cases that were planned but not run: ``--fail-fast``, ``--max-failures``, an interrupt, a broken
            spec, or a device that does not support them.
        sanitizers: the sanitizers whose level is not off.
        unsupported: how many of ``skipped`` the device does not support; only with ``--touched``.
        recalled: how many of the cases that ran are open failures beyond the planned cases; with ``--lf``, all.
        fixed: the number of stored failures that pass now. The store sets it, because the runner does not know
            them.
        fixed_since: the time of the last failure among these.
        coverage: the coverage of the kernel; None if no case ran in code that measures it.
        shapes: for each drawn dim, the classes of the sizes that ran: a boundary size itself, ``prime``,
            ``power of two``, ``equal`` (to another dim) or ``unequal``. Empty in runs that an older kcheck stored.
        tally: what the report of the whole spec needs, if this run has only a part of its cases.
    """

    path: str
    op: str
    passed: int
    failed: int
    errors: int
    skipped: int
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    seconds: float
    sanitizers: tuple[Sanitized, ...] = ()
    unsupported: int = 0
    recalled: int = 0
    fixed: int = 0
    fixed_since: datetime | None = None
    coverage: CodeCoverage | None = None
    shapes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tally: Tally | None = None


@dataclass(frozen=True, slots=True)
class RunFinished:
    """The run is over.

    Attributes:
        interrupted: whether Ctrl-C ended it.
        not_begun: the paths of the specs that were not started.
        budget: the time budget in seconds, if it ended the run before its last case; otherwise None.
    """

    seconds: float
    interrupted: bool
    not_begun: tuple[str, ...] = ()
    budget: float | None = None


Event: TypeAlias = (
    RunStarted | SpecRefused | SpecStarted | Captured | CaseFinished | Compiling | SpecFinished | RunFinished
)
