"""What docs/conformance-triton.md says about compute capabilities that a run leaves out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

_SECTION = re.compile(r"^## (.+)\n\n((?:(?!## ).*\n)*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Earlier:
    """The parts of a page that stay.

    Attributes:
        tables: by capability, such as ``sm_80``, the lines of its section.
        failures: by test, as the page writes it, the capabilities at which it failed, and the cause.
        findings: by rule and line, what it is.
        reasons: by capability, how many tests skip themselves for a reason.
    """

    tables: Mapping[str, list[str]] = field(default_factory=dict)
    failures: Mapping[str, tuple[list[str], str]] = field(default_factory=dict)
    findings: Mapping[str, str] = field(default_factory=dict)
    reasons: Mapping[str, Counter[str]] = field(default_factory=dict)


def read_earlier(text: str, replaced: Collection[str]) -> Earlier:
    """What a page says about capabilities that are not ``replaced``."""
    sections = {title: body.rstrip("\n").split("\n") for title, body in _SECTION.findall(text)}
    tables = {t: body for t, body in sections.items() if t.startswith("sm_") and t not in replaced}
    if not tables:
        return Earlier()
    failures = {}
    for test, where, cause in _rows(sections.get("What fails, and why", [])):
        if left := [name for name in where.split(", ") if name in tables]:
            failures[test] = (left, cause)
    findings = dict(_rows(sections.get("What memcheck and the other checks report", [])))
    skips = sections.get("Why tests skip themselves", [])
    names = _cells(skips[0])[1:] if skips else []
    reasons = {name: Counter[str]() for name in names if name in tables}
    for reason, *counts in _rows(skips):
        for name, count in zip(names, counts, strict=False):
            if name in reasons and count.isdigit() and int(count):
                reasons[name][reason] = int(count)
    return Earlier(tables, failures, findings, reasons)


def _rows(lines: list[str]) -> Iterator[list[str]]:
    """The rows of a table without its head."""
    yield from (_cells(line) for line in lines[2:] if line.startswith("|"))


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
