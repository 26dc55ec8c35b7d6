"""What the runner tells the world, in order; reporters and the store read nothing else.

::

    RunStarted ( SpecRefused | SpecStarted ( Captured? CaseFinished )* Compiling? SpecFinished )* RunFinished
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from kcheck.model.outcome import Finding
from kcheck.model.snapshot import Snapshot
from kcheck.model.span import Fault
from kcheck.model.spec import Level
from kcheck.model.verdict import Verdict

if TYPE_CHECKING:
    from kcheck.model.outcome import Array


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The run begins.

    Attributes:
        command: the command line, shell-quoted, for the reader of a report.
        device: ``gpu``, ``cpu`` or ``simulator``; ``device_name`` says more, for people.
        specs: how many specs were found.
        started: with its time zone.
        sanitize: levels that the command line gives, over those of every spec.
        strict: warnings about a spec as a whole are errors, and their findings say so.
    """

    version: str
    command: str
    device: str
    device_name: str
    specs: int
    started: datetime
    sanitize: Mapping[str, Level] = field(default_factory=dict)
    strict: bool = False


@dataclass(frozen=True, slots=True)
class SpecRefused:
    """A spec that is not run: it is invalid, or code that it names cannot be loaded. ``root`` is its project, if
    that is known."""

    path: str
    faults: tuple[Fault, ...]
    started: datetime
    root: str = ""


@dataclass(frozen=True, slots=True)
class SpecStarted:
    """A spec's cases begin. ``line`` is that of its kernel or launcher in the spec file; ``root`` its project."""

    path: str
    line: int
    op: str
    description: str
    tags: tuple[str, ...]
    cases: int
    seed: int
    started: datetime
    root: str = ""


@dataclass(frozen=True, eq=False, slots=True)
class Captured:
    """What a case that failed was launched with, and what came back; just before its CaseFinished, where it was
    asked for. Whoever wants it takes it at once: it is large, and its arrays are the run's own.

    Attributes:
        outputs: by name; empty where the launch did not come to its end.
    """

    snapshot: Snapshot
    outputs: Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class CaseFinished:
    """A case was judged. ``replay`` is the command line that runs this case alone."""

    path: str
    line: int
    verdict: Verdict
    replay: str
    started: datetime


@dataclass(frozen=True, slots=True)
class Compiling:
    """A spec's cases are done, and its kernels still compile for ``artifact``: some seconds without a case."""

    path: str
    op: str


@dataclass(frozen=True, slots=True)
class Sanitized:
    """How many of a spec's cases a sanitizer saw. One that is off is not there at all."""

    name: str
    level: Level
    cases: int


@dataclass(frozen=True, slots=True)
class SpecFinished:
    """A spec's cases are done.

    Attributes:
        findings: about the spec as a whole (``vacuous``, ``artifact``), errors and warnings.
        notes: what was not checked, each once.
        skipped: cases that were planned but not run: ``--fail-fast``, ``--max-failures``, an interrupt, a broken
            spec, or a device that does not support them.
        sanitizers: those that are not off.
        unsupported: how many of ``skipped`` the device does not support; only with ``--touched``.
        recalled: how many of the cases that ran are open failures beyond the planned cases.
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


@dataclass(frozen=True, slots=True)
class RunFinished:
    """The run is over; ``interrupted``: by Ctrl-C, so what is not here was not run."""

    seconds: float
    interrupted: bool


Event: TypeAlias = (
    RunStarted | SpecRefused | SpecStarted | Captured | CaseFinished | Compiling | SpecFinished | RunFinished
)
