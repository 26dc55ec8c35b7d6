"""The line about what a pre-commit hook could not check, so that a passing hook does not promise too much."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcheck.report import plain, wording

if TYPE_CHECKING:
    from kcheck.runner import Summary

HOOK_DEPENDENCY = "numba-cuda[cu13]"
"""The package that the cpu device needs in the hook's environment; .pre-commit-hooks.yaml pins its version."""


def unchecked(summary: Summary, device: str) -> str:
    """The sanitizers and cases that the device does not support, in one line. Empty if it supports them all."""
    parts = []
    if summary.unchecked:
        parts.append(f"not checked: {', '.join(summary.unchecked)}")
    if summary.unsupported:
        cases = wording.count(sum(summary.unsupported.values()), "case")
        parts.append(f"skipped: {cases} of {', '.join(map(plain.line, summary.unsupported))}")
    if not parts:
        return ""
    line = f"kcheck: warning: on the {device}, {'; '.join(parts)}"
    return f"{line}; {_fix()}" if device == "simulator" else line


def _fix() -> str:
    from kcheck.device.cpu import missing

    if not (why := missing()):
        return "--device cpu supports all of it"
    return f"the cpu device is not available: {why}. In a hook, add '{HOOK_DEPENDENCY}' to additional_dependencies"
