"""What the store keeps of a run, and what it forgets."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from stored_runs import NOON, Runs, captured, case, verdict

from kcheck.generator import SnapshotRefused, expand, materialize, restore, snapshot
from kcheck.model import (
    LAYOUTS,
    LEAST_AXES,
    STRICT,
    Case,
    Distribution,
    FunctionRef,
    Level,
    Span,
    SpecFinished,
    Status,
    Strict,
    Verdict,
)
from kcheck.store import Limits, Store, StoreError, retention
from kcheck.store.documents import DocumentRefused, dumps, loads
from kcheck.store.rows import recipe
from kcheck.store.snapshots import pack, unpack


def test_a_run_is_stored_as_it_went(runs: Runs, tmp_path: Path) -> None:
    """Counts by status, the command line and the time of a run are those of its events."""
    runs(verdict(Status.PASSED, seed=1), verdict(seed=2), verdict(Status.ERROR, seed=3))
    (run,) = Store.open(tmp_path).runs()
    assert (run.planned, run.passed, run.failed, run.errors, run.specs) == (3, 1, 1, 1, 1)
    assert (run.command, run.device, run.seconds, run.interrupted) == ("kcheck run specs", "cpu", 1.0, False)
    assert run.started == NOON + timedelta(minutes=1)
    assert runs.warnings == []


def test_a_failure_comes_back_whole(runs: Runs, tmp_path: Path) -> None:
    """Verdict, case, distribution, worst elements and map are what was reported; NaN and infinities too."""
    one = verdict(rule="racecheck")
    runs(one)
    (failure,) = Store.open(tmp_path).failures()
    assert (failure.state, failure.rule, failure.times, failure.device) == ("open", "racecheck", 1, "cpu")
    # NaN differs from itself: the texts are compared.
    assert dumps(failure.verdict) == dumps(one)
    assert failure.case == one.case
    assert failure.verdict.comparisons[0].error_map is not None
    assert math.isnan(failure.verdict.comparisons[0].error_map.worst[0].actual)


def test_verdicts_are_there_before_the_run_ends(runs: Runs, tmp_path: Path) -> None:
    """A run that has not come to its end shows what it has judged so far, and no time."""
    recorder = runs(verdict(Status.PASSED, seed=1), verdict(seed=2), ended=False)
    (run,) = Store.open(tmp_path).runs()
    assert (run.passed, run.failed, run.seconds) == (1, 1, None)
    recorder.close()


def test_a_failure_is_fixed_by_the_same_case_alone(runs: Runs, tmp_path: Path) -> None:
    """The seed's case passes with other sizes: open. The very case passes: fixed. It fails again: open again."""
    runs(verdict(n=5))
    runs(verdict(Status.PASSED, n=6))
    runs(verdict(Status.ERROR, n=5))
    store = Store.open(tmp_path)
    assert [failure.state for failure in store.failures()] == ["open"]
    runs(verdict(Status.PASSED, n=5, label="seed"))
    assert store.failures() == []
    (fixed,) = store.failures(states=("fixed",))
    assert fixed.closed == runs.at
    runs(verdict(n=5))
    (failure,) = store.failures()
    assert (failure.times, failure.closed, failure.first_seen) == (2, None, NOON + timedelta(minutes=1))


def test_a_lower_level_fixes_nothing(runs: Runs, tmp_path: Path) -> None:
    """A case that failed at ``racecheck=error`` and passes with a warning at the default level stays open. It is
    fixed once racecheck finds nothing, or passes it at the level at which it failed."""
    failed = replace(verdict(rule="racecheck", checked=("racecheck",)), levels={"racecheck": STRICT})
    passed = verdict(Status.PASSED, rule="racecheck", checked=("racecheck",))
    (race,) = passed.findings
    warned = replace(passed, findings=(replace(race, severity="warn"),), levels={"racecheck": "error"})
    store = Store.open(tmp_path)
    for fixing in (replace(warned, findings=()), replace(warned, levels={"racecheck": STRICT})):
        runs(failed)
        runs(warned)
        store = Store.open(tmp_path)
        assert [failure.state for failure in store.failures()] == ["open"]
        runs(fixing)
        assert store.failures() == []


def test_the_levels_of_a_failure_are_stored(runs: Runs, tmp_path: Path) -> None:
    """With the difference between the default ``error`` and one that was set. An old store has none."""
    levels: dict[str, Level] = {"racecheck": STRICT, "initcheck": "error", "overflow": "off"}
    runs(replace(verdict(), levels=levels))
    (failure,) = Store.open(tmp_path).failures()
    assert failure.verdict.levels == levels
    assert [isinstance(failure.verdict.levels[name], Strict) for name in levels] == [True, False, False]
    old = json.loads(dumps(failure.verdict))
    del old["levels"]
    assert loads(json.dumps(old), Verdict).levels == {}


def test_what_is_fixed_is_reported(runs: Runs) -> None:
    """Reporters hear how many stored failures a run has fixed, and when they last failed; each once."""
    runs(verdict(seed=1), verdict(seed=2))
    runs(verdict(seed=2), verdict(seed=3), verdict(Status.PASSED, seed=4))
    since = runs.at
    assert isinstance(runs.finished, SpecFinished)
    assert runs.finished.fixed == 0
    runs(verdict(Status.PASSED, seed=1), verdict(Status.PASSED, seed=2), verdict(seed=3))
    assert isinstance(runs.finished, SpecFinished)
    assert (runs.finished.fixed, runs.finished.fixed_since) == (2, since)
    runs(verdict(Status.PASSED, seed=1), verdict(Status.PASSED, seed=4))
    assert isinstance(runs.finished, SpecFinished)
    assert (runs.finished.fixed, runs.finished.fixed_since) == (0, None)


@pytest.mark.parametrize(("checked", "left"), [((), 1), (("racecheck",), 0)])
def test_a_race_is_fixed_by_a_run_that_looks_for_races(
    runs: Runs, tmp_path: Path, checked: tuple[str, ...], left: int
) -> None:
    """A pass says nothing about a sanitizer that did not see the case."""
    runs(verdict(rule="racecheck"))
    runs(verdict(Status.PASSED, checked=checked))
    assert len(Store.open(tmp_path).failures()) == left


def test_another_device_fixes_nothing(runs: Runs, tmp_path: Path) -> None:
    """What failed on the cpu device is not fixed because the simulator lets it pass."""
    runs(verdict())
    runs(replace(verdict(Status.PASSED), device="simulator"))
    assert len(Store.open(tmp_path).failures()) == 1


def test_inputs_that_fail_keep_a_case_open_though_its_seed_makes_others(runs: Runs, tmp_path: Path) -> None:
    """After a generator has changed the stored inputs and the new ones are run as one case: failing wins."""
    runs(verdict())
    runs(verdict(label="stored_7"), verdict(Status.PASSED))
    assert len(Store.open(tmp_path).failures()) == 1
    runs(verdict(Status.PASSED, label="stored_7"), verdict(Status.PASSED))
    assert Store.open(tmp_path).failures() == []


def test_failures_are_selected(runs: Runs, tmp_path: Path) -> None:
    """By op, rule, time and seed; what failed last comes first."""
    runs(verdict(seed=1), verdict(seed=2, rule="memcheck"))
    later = runs.at + timedelta(seconds=30)
    runs(verdict(seed=3))
    store = Store.open(tmp_path)
    seeds = lambda **how: [failure.case.seed for failure in store.failures(**how)]  # noqa: E731
    assert seeds() == [3, 2, 1]
    assert seeds(rule="memcheck") == [2]
    assert seeds(since=later) == [3]
    assert seeds(seed=1) == [1]
    assert seeds(op="twice") == [3, 2, 1]
    assert seeds(op="thrice") == []


def test_where_a_spec_stands_makes_no_other_case() -> None:
    """A comment above a spec's inputs moves their lines, and its cases stay the same ones; another argument
    not."""
    one = case()
    moved = replace(one, values={"x": replace(one.values["x"], span=Span("specs/twice.yaml", 12))}, label="seed")
    assert recipe(moved) == recipe(one)
    made = Distribution("sorted", Distribution("from", FunctionRef("g.py", "g", Span("specs/twice.yaml", 9))))
    other = Distribution("sorted", Distribution("from", FunctionRef("g.py", "g", Span("specs/twice.yaml", 10))))
    assert recipe(replace(one, values={"x": made})) == recipe(replace(one, values={"x": other}))
    assert recipe(replace(one, values={"x": Distribution("uniform", (-1.0, 2.0))})) != recipe(one)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1]",
        '{"is":"Nothing"}',
        '{"is":"Case"}',
        '{"is":["Case"]}',
        "[" * 10_000,
        '{"is":"Status","name":3}',
    ],
)
def test_documents_of_others_are_refused(text: str) -> None:
    """Text that no store wrote is an error, never an object and never a crash."""
    with pytest.raises(DocumentRefused):
        loads(text, Case)


LAYOUT_SPEC = """
kcheck: 1
op: op
kernel: k.py:f
reference: r.py:f
dims: {{M: 1..9, N: [0, 3, 17]}}
dtypes: {{T: [float32, float16, bfloat16, complex64]}}
inputs:
  x: {{shape: [M, N], layouts: [{layout}]}}
  w: {{shape: [], dtype: int64}}
params: {{eps: {{dtype: float16, values: [0.1]}}}}
outputs: {{y: {{shape: [M, N], layouts: [{output}]}}, z: {{shape: [M, N], alias: x}}}}
launch: {{args: [x, w, y, eps], grid: [1], block: [8]}}
"""


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if LEAST_AXES[name] <= 2])
def test_arrays_come_back_to_the_byte(project, layout: str) -> None:
    """Guards, gaps, poison, strides and elements of every layout and dtype, through document and blobs."""
    text = LAYOUT_SPEC.format(layout=layout, output="contiguous" if layout == "broadcast" else layout)
    if layout == "broadcast":
        text = text.replace(", z: {shape: [M, N], alias: x}", "")
    kernel = "@cuda.jit\ndef f(x, w, y, eps):\n    pass\n"
    spec = project.spec(text, kernel, "def f(x, w, eps):\n    return x\n")
    for seed in range(12):
        arrays = materialize(spec, expand(spec, seed))
        document, blobs = pack(snapshot(arrays))
        back = restore(unpack(document, blobs.__getitem__))
        assert back.case == arrays.case
        assert back.aliases == arrays.aliases
        assert back.params == arrays.params
        assert {name: type(value) for name, value in back.params.items()} == {
            name: type(value) for name, value in arrays.params.items()
        }
        for name, allocation in arrays.allocations.items():
            again = back.allocations[name]
            assert np.array_equal(again.buffer, allocation.buffer), (seed, name)
            assert (again.strides, again.offset, again.shape) == (
                allocation.strides,
                allocation.offset,
                allocation.shape,
            )


def test_a_signalling_nan_keeps_its_bits() -> None:
    """Bits are copied as bytes: no conversion quietens a NaN."""
    taken = captured(case())
    values = np.array([0x7F800001] * 5, np.uint32).view(np.float32)
    x = replace(taken.snapshot.arrays[0], values=values)
    document, blobs = pack(replace(taken.snapshot, arrays=(x, *taken.snapshot.arrays[1:])))
    back = restore(unpack(document, blobs.__getitem__))
    assert (back.allocations["x"].view().view(np.uint32) == 0x7F800001).all()


@pytest.mark.parametrize(
    ("field", "value"),
    [("offset", -4), ("offset", 10_000), ("strides", (1 << 40,)), ("size", 1 << 50), ("guard", 300)],
)
def test_a_snapshot_that_reaches_out_of_its_memory_is_refused(field: str, value: object) -> None:
    """A file from elsewhere cannot make an array over memory that is not its own."""
    taken = captured(case()).snapshot
    bad = replace(taken.arrays[0], **{field: value})
    with pytest.raises(SnapshotRefused):
        restore(replace(taken, arrays=(bad, *taken.arrays[1:])))


def test_a_snapshot_is_exact_and_kept_once(runs: Runs, tmp_path: Path) -> None:
    """The same case failing twice, and two cases with the same array, hold one copy of it."""
    one, two = verdict(seed=1), verdict(seed=2)
    runs((one, captured(one.case)), (two, captured(two.case)))
    runs((one, captured(one.case)))
    store = Store.open(tmp_path)
    for failure in store.failures():
        taken = store.snapshot(failure)
        assert taken is not None
        assert np.array_equal(taken.arrays[0].values, np.ones(5, np.float32))
        assert taken.case == failure.case
    assert store._rows("SELECT (SELECT count(*) FROM snapshots), (SELECT count(*) FROM blobs)") == [(2, 1)]


def test_the_oldest_snapshots_make_room(runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond its limit the store drops the oldest inputs; their failures stay, by seed."""
    monkeypatch.setattr(retention, "SNAPSHOT_BYTES", 9_000)
    noise = np.random.default_rng(1)
    for seed in range(1, 5):
        one = verdict(seed=seed)
        taken = captured(one.case, elements=1000)
        x = replace(taken.snapshot.arrays[0], values=noise.standard_normal(1000).astype(np.float32))
        runs((one, replace(taken, snapshot=replace(taken.snapshot, arrays=(x, *taken.snapshot.arrays[1:])))))
    store = Store.open(tmp_path)
    kept = {failure.case.seed: store.snapshot(failure) is not None for failure in store.failures()}
    assert kept == {1: False, 2: False, 3: True, 4: True}


def test_old_runs_are_forgotten_and_open_failures_are_not(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest runs stay; what failed in a forgotten one and is open still can be shown and run again."""
    monkeypatch.setattr(retention.forget_old_runs, "__defaults__", (3,))
    runs(verdict(seed=1), verdict(seed=2))
    for _ in range(5):
        runs(verdict(Status.PASSED, seed=1))
    store = Store.open(tmp_path)
    assert [run.id for run in store.runs()] == [6, 5, 4]
    (failure,) = store.failures(states=("open", "fixed", "gone"))
    assert failure.case.seed == 2
    assert store.snapshot(failure) is not None
    assert store._rows("PRAGMA foreign_key_check") == []


def test_collecting_gives_space_back(runs: Runs, tmp_path: Path) -> None:
    """gc drops the inputs of what is fixed and makes the file smaller."""
    one = verdict(seed=1)
    taken = captured(one.case, elements=100_000)
    values = np.random.default_rng(1).standard_normal(100_000).astype(np.float32)
    x = replace(taken.snapshot.arrays[0], values=values)
    runs((one, replace(taken, snapshot=replace(taken.snapshot, arrays=(x, *taken.snapshot.arrays[1:])))))
    runs(verdict(Status.PASSED, seed=1))
    with Store.open(tmp_path) as store:
        gone, before, after = store.collect(Limits(snapshots=1 << 20))
    assert gone.snapshots == 1
    assert before - after > 300_000


def test_runs_are_deleted_by_age_and_the_newest_stays(runs: Runs, tmp_path: Path) -> None:
    """Those that started before a moment, whatever their number; open failures outlive them."""
    runs(verdict(seed=1))
    runs(verdict(Status.PASSED, seed=2))
    runs(verdict(Status.PASSED, seed=3))
    with Store.open(tmp_path, writing=True) as store:
        for run, day in ((1, "2026-01-01"), (2, "2026-02-01"), (3, "2026-03-01")):
            store._rows("UPDATE runs SET started = ? WHERE id = ?", f"{day}T12:00:00.000+00:00", run)
        gone, _, _ = store.collect(Limits(since="2026-01-15T00:00:00.000+00:00"))
        assert gone.runs == 1
        assert [run.id for run in store.runs()] == [3, 2]
        store.collect(Limits(since="2026-12-01T00:00:00.000+00:00"))
        assert [run.id for run in store.runs()] == [3]
        assert [failure.case.seed for failure in store.failures()] == [1]


def test_the_oldest_is_deleted_until_the_store_fits(runs: Runs, tmp_path: Path) -> None:
    """Runs first, then inputs; the newest run and the open failures stay, however small the limit."""
    inputs = np.random.default_rng(1).standard_normal(100_000).astype(np.float32)
    one = verdict(seed=1)
    taken = captured(one.case, elements=100_000)
    x = replace(taken.snapshot.arrays[0], values=inputs)
    runs((one, replace(taken, snapshot=replace(taken.snapshot, arrays=(x, *taken.snapshot.arrays[1:])))))
    for part in range(4):
        runs(*(verdict(Status.PASSED, seed=1000 * part + number) for number in range(2, 200)))
    with Store.open(tmp_path) as store:
        _, _, size = store.collect(Limits())
        gone, _, after = store.collect(Limits(size=size - 1))
        assert 1 <= gone.runs <= 2  # the first is smaller than a page
        assert gone.snapshots == 0
        assert after < size
        assert store.collect(Limits(size=1))[0].snapshots == 1
        assert [run.id for run in store.runs()] == [5]
        (failure,) = store.failures()
        assert store.snapshot(failure) is None


def test_a_list_of_failures_reads_no_verdict(runs: Runs, tmp_path: Path) -> None:
    """A damaged one is an error when it is asked for."""
    runs(verdict(seed=1), verdict(seed=2))
    with Store.open(tmp_path, writing=True) as store:
        store._rows("UPDATE failures SET verdict = '{' WHERE id = 1")
        found = store.failures()
        assert [failure.op for failure in found] == ["twice", "twice"]
        assert next(failure for failure in found if failure.id == 2).case.seed == 2
        with pytest.raises(StoreError, match="cannot be read"):
            print(next(failure for failure in found if failure.id == 1).case)


def test_what_a_search_finds_is_stored_as_well(runs: Runs, tmp_path: Path) -> None:
    """A case judged outside of a run can be kept, found by its seed, and settled."""
    one = verdict(seed=9, label="minimized")
    with Store.open(tmp_path, writing=True) as store:
        store.keep(captured(one.case), one, NOON)
        (failure,) = store.failures(seed=9)
        assert failure.case.label == "minimized"
        assert store.snapshot(failure) is not None
        store.settle(failure, "gone", NOON)
        assert store.failures() == []
        with pytest.raises(ValueError, match="only failures are kept"):
            store.keep(captured(one.case), verdict(Status.PASSED), NOON)
