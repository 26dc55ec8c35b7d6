"""What the levels of sanitizers mean for a launch: which checks ran, and the findings that ended it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from kcheck.device.base import Backend
from kcheck.model import SANITIZERS, Finding, OpSpec


def not_checked(spec: OpSpec, backend: Backend) -> tuple[str, ...]:
    """A note with the sanitizers that are on in the spec but that this device cannot run."""
    missing = [name for name, level in spec.sanitize.items() if level != "off" and name not in backend.sanitizers]
    return (f"not checked on the {backend.name}: {', '.join(missing)}",) if missing else ()


def checks_that_ran(spec: OpSpec, backend: Backend, seen: Collection[str]) -> tuple[str, ...]:
    """The sanitizers that ran and are not off."""
    names = (name for name in SANITIZERS if name in seen and name in backend.sanitizers)
    return tuple(name for name in names if spec.sanitize[name] != "off")


def fatal_ones(spec: OpSpec, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """The findings that ended a launch. They are errors even if their sanitizer is at a lower level, because there
    is no output to judge."""
    if any(f.severity == "error" and spec.sanitize.get(f.rule, "error") == "error" for f in findings):
        return findings
    return tuple(replace(finding, rule="launch", severity="error") for finding in findings)
