"""The result of a run, for the exit code: counts of its events."""

from __future__ import annotations

from dataclasses import field

from kcheck.dataclass import dataclass
from kcheck.model import CaseFinished, Event, RunFinished, SpecFinished, SpecRefused, Status


@dataclass(slots=True)
class Summary:
    """Counts of a run; feed it every event.

    Attributes:
        passed, failed, errors: cases by status.
        skipped: planned cases that did not run.
        refused: specs that could not run.
        spec_errors: findings of severity error about specs as a whole.
        interrupted: whether Ctrl-C ended the run.
        unsupported: by spec, the cases that were skipped because the device does not support them.
        failing: the specs that were refused, or have a case or a finding that fails, by path, in order.
        unchecked: sanitizers that were on in a spec but checked none of its cases.
    """

    passed: int = 0
    failed: int = 0
    errors: int = 0
    skipped: int = 0
    refused: int = 0
    spec_errors: int = 0
    interrupted: bool = False
    unsupported: dict[str, int] = field(default_factory=dict)
    unchecked: dict[str, None] = field(default_factory=dict)
    failing: dict[str, None] = field(default_factory=dict)

    def handle(self, event: Event) -> None:
        """Count one event."""
        match event:
            case CaseFinished(path=path, verdict=verdict):
                if verdict.status is not Status.PASSED:
                    self.failing[path] = None
                self.passed += verdict.status is Status.PASSED
                self.failed += verdict.status is Status.FAILED
                self.errors += verdict.status is Status.ERROR
            case SpecRefused(path=path):
                self.failing[path] = None
                self.refused += 1
            case SpecFinished():
                self.skipped += event.skipped
                if any(finding.severity == "error" for finding in event.findings):
                    self.failing[event.path] = None
                self.spec_errors += sum(finding.severity == "error" for finding in event.findings)
                if event.unsupported:
                    self.unsupported[event.path] = event.unsupported
                if event.passed or event.failed:
                    self.unchecked.update({each.name: None for each in event.sanitizers if not each.cases})
            case RunFinished():
                self.interrupted = event.interrupted
            case _:
                pass

    @property
    def cases(self) -> int:
        """Cases that ran."""
        return self.passed + self.failed + self.errors
