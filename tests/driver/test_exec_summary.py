"""The last lines of ``kcheck exec``: totals, and how to see lines of the source."""

from __future__ import annotations

import io
from pathlib import Path

from kcheck.driver.finding_log import FindingLog, collected, summary
from kcheck.model import Finding
from kcheck.span import Span

HINT = "kcheck: to see lines of the source, compile it with -lineinfo"


def test_a_kernel_without_lines_has_a_hint() -> None:
    """As a program that nvcc built without -lineinfo."""
    assert summary([Finding("memcheck", "reads y[8]", kernel="add")]) == ["kcheck: 1 error", HINT]


def test_lines_need_no_hint() -> None:
    place = Span("add.cu", 3, 1)
    assert summary([Finding("memcheck", "reads y[8]", kernel="add", place=place)]) == ["kcheck: 1 error"]


def test_code_that_does_not_load_needs_no_hint() -> None:
    """It has no lines because nothing was compiled."""
    assert summary([Finding("compile", "this program contains no PTX", kernel="add")]) == ["kcheck: 1 error"]


def test_a_program_without_findings_has_no_summary() -> None:
    assert summary([]) == []


def test_notes_are_not_reported(tmp_path: Path) -> None:
    """Correct kernels have them: copies of one value that differ in the last bits after a contracted product."""
    stream, path = io.StringIO(), str(tmp_path / "findings")
    log = FindingLog(path, {}, stream)
    log.report(Finding("racecheck", "threads store copies of one value that differ", severity="warn", note=True))
    assert log.is_empty
    log.report(Finding("racecheck", "writes y[0]", severity="warn", kernel="add"))
    assert stream.getvalue() == "kcheck: warning: racecheck in add: writes y[0]\n"
    assert [finding.message for finding in collected(path)] == ["writes y[0]"]
