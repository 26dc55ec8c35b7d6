"""The report as JUnit XML: a suite per spec, a test case per case.

For GitHub, GitLab and Jenkins. Names are unique in a suite. Every test case has a file and a line: the kernel's
if a finding has one, otherwise the spec's. A kernel that fails is a ``<failure>``; a case or a spec that could
not be judged is an ``<error>``. Timestamps are UTC without an offset (``YYYY-MM-DDThh:mm:ss``), which strict
readers of the schema of Ant's JUnit task require.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from datetime import UTC, datetime
from typing import Any, TextIO

from junit_xml import TestCase, TestSuite, to_xml_report_string

from kcheck.dataclass import dataclass
from kcheck.model import (
    CaseFinished,
    Event,
    Finding,
    RunFinished,
    RunStarted,
    Sanitized,
    SpecFinished,
    SpecRefused,
    SpecStarted,
    Status,
    Verdict,
)
from kcheck.model.paths import OP_MARK, file_name
from kcheck.report import ReportSettings, plain, wording
from kcheck.report.detail import ReadLine, finding_rows, headline, plain_text, read_line, rows


@dataclass(slots=True)
class _OpenSuite:
    started: SpecStarted
    cases: list[Any] = field(default_factory=list)
    finished: int = 0


class JunitReporter:
    """Writes the JUnit report at the end, because a suite begins with its counts.

    Args:
        source: reads the source line of a place that a finding names.
    """

    def __init__(self, stream: TextIO, settings: ReportSettings, source: ReadLine = read_line) -> None:
        self._stream = stream
        self._source = source
        self._run: RunStarted | None = None
        self._open: _OpenSuite | None = None
        self._suites: list[Any] = []
        self._names: set[str] = set()

    def handle(self, event: Event) -> None:
        """Takes the next event."""
        match event:
            case RunStarted():
                self._run = event
            case SpecRefused():
                self._refused(event)
            case SpecStarted():
                self._open = _OpenSuite(event)
            case CaseFinished():
                self._case(event)
            case SpecFinished():
                self._finish(event)
            case RunFinished():
                pass  # the time of the whole run is not needed: each suite has its time

    def close(self) -> None:
        """Writes the document; a spec that did not end has the cases seen so far."""
        if self._open is not None:
            self._suite(self._open, (), ())
        text = to_xml_report_string(self._suites, prettyprint=True, encoding="utf-8")
        self._stream.write(text)
        self._stream.flush()

    def _refused(self, event: SpecRefused) -> None:
        case = TestCase(
            "spec",
            classname=_classname(event.path),
            timestamp=_timestamp(event.started),
            file=plain.line(file_name(event.path)),
            line=event.faults[0].span.line if event.faults else 1,
        )
        faults = [plain.line(str(fault)) for fault in event.faults]
        case.add_error_info(faults[0] if faults else "refused", "\n".join(faults), "refused")
        self._add(event.path, [case], event.started)

    def _case(self, event: CaseFinished) -> None:
        if self._open is None:
            return
        verdict = event.verdict
        file, line = _case_place(verdict, self._open.started) or (file_name(event.path), event.line)
        case = TestCase(
            self._unique(plain.line(verdict.case.id)),
            classname=_classname(event.path),
            elapsed_sec=_seconds(verdict.seconds),
            timestamp=_timestamp(event.started),
            file=plain.line(file),
            line=line,
        )
        if verdict.status is Status.PASSED:
            warnings = [finding for finding in verdict.findings if finding.severity == "warn"]
            case.stdout = self._listing(warnings)
        else:
            add = case.add_failure_info if verdict.status is Status.FAILED else case.add_error_info
            add(headline(verdict), plain_text(rows(event, self._source)), _type(event))
        self._open.cases.append(case)
        self._open.finished += 1

    def _finish(self, event: SpecFinished) -> None:
        opened, self._open = self._open, None
        if opened is None:
            return
        wrong = [finding for finding in event.findings if finding.severity == "error"]
        warned = [finding for finding in event.findings if finding.severity == "warn"]
        if wrong or warned:
            case = self._about_spec(opened, f"{plain.line(event.op)}[spec]", _place(event.findings))
            if wrong:
                message = plain.line(f"{wrong[0].rule}: {wrong[0].message}")
                case.add_failure_info(message, self._listing(wrong), plain.line(wrong[0].rule))
            case.stdout = self._listing(warned)
            opened.cases.append(case)
        if event.skipped:
            case = self._about_spec(opened, f"{plain.line(event.op)}[not run]")
            case.add_skipped_info(f"{wording.count(event.skipped, 'case')} not run")
            opened.cases.append(case)
        self._suite(opened, event.notes, event.sanitizers)

    def _about_spec(self, opened: _OpenSuite, name: str, place: tuple[str, int] | None = None) -> Any:
        started = opened.started
        file, line = place or (file_name(started.path), started.line)
        return TestCase(self._unique(name), classname=_classname(started.path), file=plain.line(file), line=line)

    def _suite(self, opened: _OpenSuite, notes: tuple[str, ...], sanitizers: tuple[Sanitized, ...]) -> None:
        properties: dict[str, object] = {"op": opened.started.op, "seed": opened.started.seed}
        if opened.started.tags:
            properties["tags"] = " ".join(opened.started.tags)
        if notes:
            properties["not checked"] = "; ".join(notes)
        for each in sanitizers:
            proved = ", proved for all sizes" if each.proved else ""
            properties[each.name] = f"{each.level}, {each.cases} of {opened.finished} cases{proved}"
        self._add(opened.started.path, opened.cases, opened.started.started, properties)

    def _add(
        self,
        path: str,
        cases: list[Any],
        started: datetime,
        properties: dict[str, object] | None = None,
    ) -> None:
        known = {"kcheck": self._run.version, "device": self._run.device} if self._run is not None else {}
        described = {name: plain.line(str(text)) for name, text in {**known, **(properties or {})}.items()}
        self._suites.append(
            TestSuite(
                plain.line(path),
                cases,
                id=str(len(self._suites)),
                package="kcheck",
                timestamp=_timestamp(started),
                properties=described,
                file=plain.line(file_name(path)),
            )
        )
        self._names.clear()

    def _unique(self, name: str) -> str:
        """A unique name: JUnit readers merge equal names, and an example may be equal to a drawn case."""
        candidate, number = name, 2
        while candidate in self._names:
            candidate, number = f"{name} #{number}", number + 1
        self._names.add(candidate)
        return candidate

    def _listing(self, findings: list[Finding]) -> str:
        return "\n".join(plain_text(finding_rows(finding, self._source)) for finding in findings)


def _classname(path: str) -> str:
    """``specs.buggy.softmax``: readers treat the part before the last dot as a package."""
    name = plain.line(path).replace(f".py{OP_MARK}", "/")
    return name.removesuffix(".yaml").removesuffix(".yml").strip("./").replace("/", ".")


def _place(findings: Iterable[Finding]) -> tuple[str, int] | None:
    """File and line of the first error that has a place, otherwise of the first warning; None if there is none."""
    places = [(f.severity != "error", f.place) for f in findings if f.place is not None]
    for _, place in sorted(places, key=lambda pair: pair[0]):
        return place.file, place.line
    return None


def _case_place(verdict: Verdict, started: SpecStarted) -> tuple[str, int] | None:
    """File and line of a finding; otherwise of the store of an output that differs; otherwise, if the case failed,
    of the kernel. None if none of them is known."""
    errors = [finding for finding in verdict.findings if finding.severity == "error"]
    stores = (comparison.place for comparison in verdict.comparisons if not comparison.passed)
    kernel = started.kernel if verdict.status is Status.FAILED else None
    store = next((place for place in (*stores, kernel) if place is not None), None)
    found = _place(errors) or (None if store is None else (store.file, store.line))
    return found or _place(verdict.findings)


def _type(event: CaseFinished) -> str:
    for finding in event.verdict.findings:
        if finding.severity == "error":
            return plain.line(finding.rule)
    return "mismatch"


def _timestamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _seconds(duration: float) -> float:
    """The duration, rounded to 0.1 ms: smaller numbers would have an exponent, which xs:decimal does not allow."""
    return round(duration, 4)
