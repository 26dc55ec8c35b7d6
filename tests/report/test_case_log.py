"""What is kept of the cases of a run of many."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kcheck.generator import plan
from kcheck.model import Case, CaseFinished, Finding, SpecStarted, Status, Verdict
from kcheck.report.case_log import CaseLog
from kcheck.specfile import load_spec

SPECS = sorted((Path(__file__).resolve().parents[2] / "specs").glob("*.yaml"))
STARTED = SpecStarted("specs/x.yaml", 1, "x", "", (), 30, 7, datetime(2026, 1, 1, tzinfo=UTC))


def finished(case: Case, **more: object) -> CaseFinished:
    verdict = Verdict(case, Status.PASSED, "cpu", checked=("memcheck",), levels={"memcheck": "error"})
    return CaseFinished(STARTED.path, STARTED.line, replace(verdict, **more), "", STARTED.started)


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_the_recipe_of_a_passing_case_is_kept(path: Path) -> None:
    """Every kind of dim, dtype, layout, distribution and param."""
    events = [finished(case) for case in plan(load_spec(path), count=30, master=7)]
    log = CaseLog(STARTED)
    for event in events:
        log.add(event)
    assert list(log) == events
    assert (len(log), log[-1], log[1:3]) == (len(events), events[-1], events[1:3])
    assert log.whole == tuple(e for e in events if any(value >= 2**63 for value in e.verdict.case.params.values()))


CASE = Case("s", "x", "iter_7", 5, {"N": 3}, {}, {"x": "contiguous"}, {}, {"p": 2, "q": True})


@pytest.mark.parametrize(
    "case",
    [
        replace(CASE, label="seed", seed=2**64 - 1),
        replace(CASE, label="stored_007"),
        replace(CASE, label=f"stored_{2**63}"),
        replace(CASE, dims={"N": 2**64}),
        replace(CASE, params={"p": 2.0, "q": 1, "r": float("inf"), "s": -0.0}),
        replace(CASE, params={"p": 2**70}),
        replace(CASE, dims={}, params={}),
    ],
    ids=str,
)
def test_unusual_labels_and_numbers_are_kept(case: Case) -> None:
    log = CaseLog(STARTED)
    for each in (CASE, case, replace(CASE, label="iter_8")):
        log.add(finished(each))
    assert repr([event.verdict.case for event in log]) == repr([CASE, case, replace(CASE, label="iter_8")])


def test_cases_with_something_to_say_are_kept_whole() -> None:
    """Those that failed, and passing ones with a warning, in their place."""
    log = CaseLog(STARTED)
    failed = finished(CASE, status=Status.FAILED, seconds=1.0, notes=("a note",))
    warned = finished(CASE, findings=(Finding("racecheck", "a race", severity="warn"),), seconds=2.0)
    plain = finished(CASE, seconds=3.0, notes=("another",))
    for event in (plain, failed, plain, warned):
        log.add(event)
    assert [event.verdict.seconds for event in log] == [0, 1, 0, 2]
    assert log.whole == (failed, warned)
    assert log[1] == failed
    assert log[2].verdict.notes == ()


def test_a_passing_case_takes_less_than_100_bytes() -> None:
    cases = plan(load_spec(next(path for path in SPECS if path.stem == "softmax")), count=2_000, master=0)
    events = [finished(replace(case, label=f"iter_{n}")) for n, case in enumerate(cases)]
    tracemalloc.start()
    log = CaseLog(STARTED)
    for _ in range(5):
        for event in events:
            log.add(event)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size / len(log) < 100


def test_failing_cases_share_what_is_equal() -> None:
    """Each event of a cluster is read from a message, so none of its parts is the same object as in another."""
    log = CaseLog(STARTED)
    for n in range(2):
        case = replace(CASE, seed=n, layouts={"x": "contiguous"})
        log.add(finished(case, status=Status.FAILED, notes=("a note",), levels={"memcheck": "error"}))
    first, second = (event.verdict for event in log.whole)
    assert first.levels is second.levels
    assert first.case.layouts is second.case.layouts


def test_any_case_is_found_among_many() -> None:
    """Pages of cases are compressed; a failing case is in its place among them."""
    log, events = CaseLog(STARTED), []
    for n in range(3_000):
        more = {"status": Status.FAILED} if n % 1_024 in (0, 1_023) else {}
        events.append(finished(replace(CASE, label=f"iter_{n}", seed=n * n, dims={"N": n % 7}), **more))
        log.add(events[-1])
    assert list(log) == events
    assert [log[n] for n in (2_999, 0, 1_024, 1_023, 2_048, -1)] == [
        events[n] for n in (2_999, 0, 1_024, 1_023, 2_048, -1)
    ]
