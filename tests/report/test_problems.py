"""The problems of a run: one for each bug, with a fingerprint that outlives the run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import fake_events
import pytest
from writing import collected, source

from kcheck.model import CaseFinished, Event, Span, Status
from kcheck.report.problems import Problem, problems, shown_path


def found(events: list[Event]) -> list[Problem]:
    return problems(collected(events), source)


def moved(events: list[Event], lines: int) -> list[Event]:
    """The same run after lines were inserted above the kernel."""

    def down(place: Span | None) -> Span | None:
        return None if place is None else replace(place, line=place.line + lines)

    def case(event: CaseFinished) -> CaseFinished:
        findings = tuple(
            replace(each, place=down(each.place), other_place=down(each.other_place))
            for each in event.verdict.findings
        )
        return replace(event, verdict=replace(event.verdict, findings=findings))

    return [case(event) if isinstance(event, CaseFinished) else event for event in events]


def test_a_bug_that_fails_many_cases_is_one_problem() -> None:
    """Nine cases fail because of one missing barrier: one problem, at the kernel's line, with both lines."""
    (problem,) = found(fake_events.missing_barrier())
    assert (problem.rule, problem.severity, problem.op) == ("racecheck", "error", "matmul")
    assert problem.place == Span("kernels/buggy/matmul.py", 28)
    assert problem.other == Span("kernels/buggy/matmul.py", 31)
    assert problem.cases == "9 of 12: every T, K > 0"
    assert "uninitialized reads in all 9" in problem.also
    assert problem.replay.startswith("kcheck run specs/buggy/matmul.yaml --case-seed ")


def test_every_error_and_warning_of_a_run_is_a_problem() -> None:
    """Faults of refused specs, causes of failing cases, and warnings about specs, in the order of the run."""
    rows = [(problem.rule, problem.severity, problem.place.file) for problem in found(fake_events.everything())]
    assert rows == [
        ("spec", "error", "specs/typo.yaml"),
        ("spec", "error", "specs/typo.yaml"),
        ("memcheck", "error", "kernels/buggy/softmax.py"),
        ("mismatch", "error", "specs/buggy/softmax.yaml"),
        ("reference", "error", "specs/rmsnorm.yaml"),
        ("vacuous", "warn", "specs/gelu.yaml"),
    ]


def test_a_passing_run_has_no_problems() -> None:
    """Notes are not problems."""
    assert found(fake_events.all_passing()) == []


def test_the_fingerprint_of_a_bug_is_the_same_in_another_run() -> None:
    """Other cases, seeds and threads, and lines that moved, do not make a bug another bug."""
    first = found(fake_events.missing_barrier())
    fewer = [event for n, event in enumerate(fake_events.missing_barrier()) if n not in (3, 4, 5)]
    assert [each.fingerprint for each in found(moved(fewer, 10))] == [each.fingerprint for each in first]


def test_the_fingerprints_of_two_bugs_differ() -> None:
    """Another op, another rule or another array is another bug; two equal ones in one run are numbered."""
    fingerprints = [problem.fingerprint for problem in found(fake_events.everything())]
    assert len(set(fingerprints)) == len(fingerprints)

    def one(op: str, output: str) -> str:
        failing = fake_events.case(op, 0, Status.FAILED, comparisons=(fake_events.mismatch(output),))
        events = [fake_events.spec_started(op, cases=1), failing, fake_events.spec_finished(op, failed=1)]
        return found(events)[0].fingerprint

    assert len({one("softmax", "y"), one("softmax", "z"), one("gelu", "y")}) == 3
    assert one("softmax", "y") == one("softmax", "y")


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("kernels/k.py", "sub/kernels/k.py"),
        ("../specs/a b.yaml", "specs/a b.yaml"),
        ("/elsewhere/k.py", None),
        ("../../k.py", None),
    ],
)
def test_paths_are_relative_to_the_checkout(
    path: str, shown: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if kcheck runs in a folder of it; a file outside has no such path."""
    (tmp_path / "checkout/sub").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "checkout/sub")
    assert shown_path(path, tmp_path / "checkout") == shown
