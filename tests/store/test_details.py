"""The events of a stored run come back as they were."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from stored_runs import NOON, Runs, verdict

from kcheck.model import (
    STRICT,
    CaseFinished,
    Fault,
    RunFinished,
    RunStarted,
    Span,
    SpecFinished,
    SpecRefused,
    SpecStarted,
    Status,
)
from kcheck.store import Recorder, Store, details
from kcheck.store.documents import DocumentRefused, StoreError, dumps


def test_every_event_of_a_run_comes_back(tmp_path: Path) -> None:
    """In order and whole: levels, faults, findings, the end; only captured arrays are not events of a report."""
    root = str(tmp_path)
    fault = Fault(Span("specs/b.yaml", 3, 7), "unknown key", "did you mean 'dims'?")
    one = verdict(rule="racecheck")
    path = one.case.spec
    events = [
        RunStarted("0.1", "kcheck run", "cpu", "a cpu", 3, NOON, {"racecheck": STRICT}, strict=True),
        SpecRefused("specs/a.yaml", (fault,), NOON, root),
        SpecStarted(path, 4, "twice", "Doubles.", ("tag",), 2, 2**64 - 1, NOON, root),
        CaseFinished(path, 4, one, "kcheck run --case-seed 7", NOON),
        CaseFinished(path, 4, verdict(Status.PASSED, seed=8), "kcheck run --case-seed 8", NOON),
        SpecFinished(path, "twice", 1, 1, 0, 0, one.findings, ("a note",), 1.5),
        SpecRefused("specs/c.yaml", (fault,), NOON, root),
        RunFinished(2.5, False, ("specs/d.yaml",)),
    ]
    recorder = Recorder(lambda why: pytest.fail(why))
    for event in events:
        recorder.handle(event)
    recorder.close()
    with Store.open(tmp_path) as store:
        # NaN differs from itself: the texts are compared.
        assert list(map(dumps, store.events(1))) == [dumps(_unplaced(event)) for event in events]
        assert store.events(2) == []


def _unplaced(event: object) -> object:
    """Places in specs are not part of a case's recipe."""
    if not isinstance(event, CaseFinished):
        return event
    case = event.verdict.case
    values = {name: type(drawn)(drawn.name, drawn.argument) for name, drawn in case.values.items()}
    return replace(event, verdict=replace(event.verdict, case=replace(case, values=values)))


def test_a_run_that_was_killed_has_what_it_showed(runs: Runs, tmp_path: Path) -> None:
    """Each verdict is stored before a report shows it."""
    recorder = runs(verdict(Status.PASSED, seed=1), ended=False)
    assert [type(event) for event in Store.open(tmp_path).events(1)] == [RunStarted, SpecStarted, CaseFinished]
    recorder.close()


def test_only_the_newest_runs_keep_their_details(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Older ones keep counts, verdicts and findings."""
    monkeypatch.setattr(details.forget_details, "__defaults__", (2,))
    for seed in range(4):
        runs(verdict(seed=seed))
    with Store.open(tmp_path) as store:
        assert [bool(store.events(run)) for run in (1, 2, 3, 4)] == [False, False, True, True]
        assert [run.failed for run in store.runs()] == [1, 1, 1, 1]


def test_the_details_of_a_passing_case_are_small() -> None:
    """A hundred bytes or so, since the store has them for every case of fifty runs."""
    event = CaseFinished("specs/softmax.yaml", 4, verdict(Status.PASSED), "kcheck run --case-seed 7", NOON)
    assert len(details.packed(event)) < 150


def test_damaged_details_are_an_error_with_a_fix(runs: Runs, tmp_path: Path) -> None:
    """The message names the store and the run."""
    runs(verdict())
    store = Store.open(tmp_path, writing=True)
    store._rows("UPDATE verdicts SET document = X'00'")
    with pytest.raises(StoreError, match=r"store\.db: run 1 cannot be read .* upgrade kcheck"):
        store.events(1)
    with pytest.raises(DocumentRefused):
        details.unpacked(b"", RunStarted)
    store.close()
