"""The failures of a run, from the reports that ``kcheck run`` wrote, as marks in files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlparse

from kcheck.dataclass import dataclass
from kcheck.span import Span

State = Literal["passed", "failed", "refused", "error"]
_SEED = re.compile(r"--case-seed (\d+)")


@dataclass(frozen=True, slots=True)
class Mark:
    """One failure or warning of a run.

    Attributes:
        span: absolute file and line.
        other: the place of the other thread of a race, with what it does.
        file: of the spec, absolute.
        seed: of the simplest failing case; empty for a finding about the whole spec.
    """

    span: Span
    rule: str
    is_error: bool
    message: str
    fix: str
    file: str
    op: str
    seed: str
    other: tuple[tuple[Span, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Finished:
    """What a run found.

    Attributes:
        specs: the marks of each spec that ran or was refused, by its path relative to the root.
        text: the result in one line.
    """

    state: State
    specs: Mapping[str, tuple[Mark, ...]]
    text: str


def read(report: Mapping[str, Any], sarif: Mapping[str, Any], root: Path) -> Finished:
    """What a run found.

    Args:
        report: the JSON report.
        sarif: the SARIF report, which has one result for each bug.
        root: the folder in which the run was started, absolute.
    """
    found: dict[str, list[Mark]] = {str(spec["path"]): [] for spec in report["specs"]}
    for result in sarif["runs"][0]["results"]:
        found.setdefault(str(result["properties"]["spec"]), []).append(_mark(result, root))
    summary = report["summary"]
    counts = {name: int(summary[name]) for name in ("passed", "failed", "errors", "skipped", "refused")}
    state: State = "passed"
    if counts["refused"]:
        state = "refused"
    elif counts["failed"] or any(mark.is_error for marks in found.values() for mark in marks):
        state = "failed"
    elif counts["errors"]:
        state = "error"
    text = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count or name == "passed")
    return Finished(state, {path: tuple(marks) for path, marks in found.items()}, text)


def _mark(result: Mapping[str, Any], root: Path) -> Mark:
    properties = result["properties"]
    spec = str(properties.get("spec", ""))
    seed = _SEED.search(str(properties.get("replay", "")))
    return Mark(
        span=_span(result["locations"][0], root),
        rule=str(result["ruleId"]),
        is_error=result.get("level") == "error",
        message=str(result["message"]["text"]),
        fix=str(properties.get("fix", "")),
        file=os.path.join(root, spec.partition("::")[0]),
        op=str(properties.get("op", "")),
        seed=seed[1] if seed else "",
        other=tuple(_others(result, root)),
    )


def _others(result: Mapping[str, Any], root: Path) -> Iterator[tuple[Span, str]]:
    for location in result.get("relatedLocations", ()):
        yield _span(location, root), str(location.get("message", {}).get("text", ""))


def _span(location: Mapping[str, Any], root: Path) -> Span:
    physical = location["physicalLocation"]
    uri = str(physical["artifactLocation"]["uri"])
    path = unquote(urlparse(uri).path)
    line = int(physical.get("region", {}).get("startLine", 1))
    return Span(os.path.join(root, path), line)
