"""The report as SARIF 2.1.0, for GitHub code scanning and other viewers of static analysis results.

One result for each bug: failing cases are grouped by cause. Paths are relative to the checkout. Sources: OASIS
SARIF 2.1.0; GitHub, "SARIF support for code scanning" (limits, properties, ``primaryLocationLineHash``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from kcheck.model import Span
from kcheck.report import ReportSettings, plain, wording
from kcheck.report.collect import Collected, WholeReporter
from kcheck.report.problems import Problem, problems, shown_path
from kcheck.rules import rule

MOST_RESULTS = 5_000
"""The maximum number of results that GitHub stores for a run."""
MOST_BYTES = 10_000_000
"""The maximum size of the file. GitHub accepts 10 MB after gzip;
limiting the size before gzip is simpler and safe."""
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_ROOT = "SRCROOT"
_LEVELS = {"error": "error", "warn": "warning"}


class SarifReporter(WholeReporter):
    """Writes the SARIF report at the end."""

    def _write(self, run: Collected) -> None:
        document = _document(run, problems(run, self._source), self._settings)
        json.dump(document, self._stream, indent=1, allow_nan=False)
        self._stream.write("\n")


def _document(run: Collected, found: Sequence[Problem], settings: ReportSettings) -> dict[str, Any]:
    ordered = sorted(found, key=lambda problem: problem.severity != "error")
    rules = sorted({problem.rule for problem in ordered})
    results: list[dict[str, Any]] = []
    size = 0
    for problem in ordered[:MOST_RESULTS]:
        result = _result(problem, rules.index(problem.rule), settings.base)
        size += len(json.dumps(result, indent=1))
        if size > MOST_BYTES * 0.8:  # the rest is for the rules and for deeper indentation
            break
        results.append(result)
    invocation: dict[str, Any] = {"executionSuccessful": not run.interrupted}
    if run.run is not None:
        invocation["commandLine"] = plain.line(run.run.command)
        invocation["startTimeUtc"] = _time(run.run.started)
    if len(results) < len(ordered):
        text = (
            f"the SARIF report has {len(results):,} of {wording.count(len(ordered), 'result')}, because GitHub"
            f" accepts at most {MOST_RESULTS:,} results and 10 MB; the JSON report has all of them"
        )
        settings.warn(text)
        invocation["toolExecutionNotifications"] = [{"level": "warning", "message": {"text": text}}]
    driver: dict[str, Any] = {
        "name": "kcheck",
        "semanticVersion": run.run.version if run.run is not None else "0",
        "rules": [_rule(name) for name in rules],
    }
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "automationDetails": {"id": "kcheck/"},
                "invocations": [invocation],
                "originalUriBaseIds": {_ROOT: {"description": {"text": "The root of the checkout."}}},
                "columnKind": "unicodeCodePoints",
                **({"properties": {"proved": proved}} if (proved := _proved(run)) else {}),
                "results": results,
            }
        ],
    }


def _proved(run: Collected) -> dict[str, list[str]]:
    """By spec, the sanitizers of which no case that it allows has a finding."""
    found = {
        finished.path: [each.name for each in finished.sanitizers if each.proved] for _, finished in run.specs
    }
    return {path: names for path, names in found.items() if names}


def _rule(name: str) -> dict[str, Any]:
    about = rule(name)
    words = "".join(word.capitalize() for word in about.title.replace("-", " ").split())
    return {
        "id": name,
        "name": "".join(letter for letter in words if letter.isalnum()) or "Finding",
        "shortDescription": {"text": f"{about.title}."},
        "fullDescription": {"text": about.help.split("\n\n")[0]},
        "help": {"text": about.help, "markdown": f"# {about.title}\n\n{about.help}"},
        "properties": {"tags": ["gpu", "correctness"], "precision": "very-high"},
    }


def _result(problem: Problem, index: int, base: Path) -> dict[str, Any]:
    place = problem.place
    if shown_path(place.file, base) is None:  # a code host shows no results for files outside the checkout
        place = Span(problem.spec)
    result: dict[str, Any] = {
        "ruleId": problem.rule,
        "ruleIndex": index,
        "level": _LEVELS[problem.severity],
        "message": {"text": "\n".join(_text(problem))},
        "locations": [_location(place, base)],
        "partialFingerprints": {
            "primaryLocationLineHash": problem.fingerprint,
            "kcheckCause/v1": problem.fingerprint.partition(":")[0],
        },
        "properties": {"op": problem.op, "spec": problem.spec, "replay": problem.replay, "fix": problem.fix},
    }
    if problem.other is not None:
        result["relatedLocations"] = [{"id": 1, **_location(problem.other, base, "The other thread.")}]
    steps = list(_steps(problem))
    if len(steps) > 1:
        flow = [{"location": _location(at, base, text)} for at, text in steps]
        result["codeFlows"] = [{"threadFlows": [{"locations": flow}]}]
    return result


def _text(problem: Problem) -> Iterator[str]:
    about = f"op {problem.op}: " if problem.op else ""
    yield _sentence(f"{about}{problem.message}")
    for label, text in (("Cases", problem.cases), ("Also", ", ".join(problem.also)), ("Fix", problem.fix)):
        if text:
            yield _sentence(f"{label}: {text}")
    if problem.other is not None:
        program = problem.finding is not None and problem.finding.unit == "program"
        yield f"The other {'program' if program else 'thread'} is at [this line](1)."
    if problem.replay:
        yield f"Smallest case: {problem.smallest}"
        yield f"Replay: {problem.replay}"


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _steps(problem: Problem) -> Iterator[tuple[Span, str]]:
    """The lines of both threads of a race; for an inlined function, the callers."""
    finding = problem.finding
    if finding is None or problem.place != finding.place:
        return
    for place in reversed(finding.callers):
        yield place, "A call."
    if finding.unit == "program":
        yield problem.place, f"Program {finding.block}."
        if problem.other is not None:
            yield (
                problem.other,
                f"Program {finding.other[0]}." if finding.other is not None else "Another program.",
            )
        return
    who = f" {finding.thread} of block {finding.block}" if finding.thread is not None else ""
    yield problem.place, f"Thread{who}."
    if problem.other is not None:
        other = finding.other
        yield problem.other, f"Thread {other[1]} of block {other[0]}." if other is not None else "Another thread."


def _location(place: Span, base: Path, message: str = "") -> dict[str, Any]:
    region = {"startLine": place.line}
    if place.column > 1:
        region["startColumn"] = place.column
    shown = shown_path(place.file, base)
    artifact = {"uri": quote(shown), "uriBaseId": _ROOT} if shown else {"uri": Path(place.file).resolve().as_uri()}
    location: dict[str, Any] = {"physicalLocation": {"artifactLocation": artifact, "region": region}}
    if message:
        location["message"] = {"text": message}
    return location


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
