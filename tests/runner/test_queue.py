"""What failed before is run first, once, as it was."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kcheck.device import choose
from kcheck.generator import HELD, expand, materialize, plan, recall, restore, snapshot
from kcheck.model import CaseFinished, Distribution, SpecFinished, SpecStarted, Status
from kcheck.runner import KnownFailure, Options, Recalled, ReplayResult, reproduce, run
from kcheck.runner.execute import execute
from kcheck.runner.queue import makes, queue
from kcheck.store import bits

SPEC = """
kcheck: 1
op: twice
kernel: k.py:twice
reference: r.py:twice
dims: {N: 1..40}
inputs: {x: [N]}
outputs: {y: [N]}
launch: {args: [x, y, N], grid: ["ceildiv(N, 32)"], block: [32]}
cases: {count: 5, seed: 3}
examples: [{dims: {N: 33}}]
"""
KERNEL = "@cuda.jit\ndef twice(x, y, n):\n    i = cuda.grid(1)\n    if i < n:\n        y[i] = 2 * x[i]\n"
REFERENCE = "def twice(x):\n    return 2 * x\n"


def taken(spec, case):
    return snapshot(materialize(spec, case))


def test_a_planned_case_is_moved_and_keeps_its_label(project):
    """Cases that failed come first in the order of the plan; the count stays."""
    spec = project.spec(SPEC, KERNEL, REFERENCE)
    planned = plan(spec, count=5, master=3)
    failed = [Recalled(planned[4], None), Recalled(planned[2], taken(spec, planned[2]))]
    queued = queue(spec, planned, failed)
    labels = [case.label for case in planned]
    assert [one.case.label for one in queued] == [labels[n] for n in (2, 4, 0, 1, 3, 5)]
    assert all(one.snapshot is None for one in queued)


def test_what_is_not_planned_is_added_once(project):
    """Another run's failure comes first of all, under a label of its own that says so."""
    spec = project.spec(SPEC, KERNEL, REFERENCE)
    planned = plan(spec, count=5, master=3)
    other = expand(spec, 99)
    queued = queue(spec, planned, [Recalled(other, None), Recalled(other, None)])
    assert [one.case.label for one in queued] == ["stored_99", *(case.label for case in planned)]
    assert queued[0].case.seed == 99


def test_inputs_that_no_seed_makes_any_more_are_run_as_they_were(project):
    """Where a generator has changed, the planned case stays and the stored arrays are run beside it."""
    spec = project.spec(SPEC, KERNEL, REFERENCE)
    planned = plan(spec, count=5, master=3)
    held = taken(spec, planned[1])
    assert makes(spec, planned[1], held)
    old = replace(held, arrays=(replace(held.arrays[0], values=held.arrays[0].values + 1), *held.arrays[1:]))
    assert not makes(spec, planned[1], old)
    queued = queue(spec, planned, [Recalled(planned[1], old)])
    assert len(queued) == len(planned) + 1
    arrays = queued[0].arrays()
    assert (arrays.allocations["x"].view() == old.arrays[0].values).all()
    assert arrays.case.label == f"stored_{planned[1].seed}"


def test_a_run_counts_what_it_runs(project):
    """Counts, ids and replay lines of a run with stored failures are those of the cases that it ran."""
    spec = project.spec(SPEC, KERNEL, REFERENCE)
    other = expand(spec, 99)
    recalled = {(spec.root, spec.path): (Recalled(other, taken(spec, other)),)}
    events = list(run([spec], Options(recalled=recalled), choose("simulator")))
    (started,) = (event for event in events if isinstance(event, SpecStarted))
    (finished,) = (event for event in events if isinstance(event, SpecFinished))
    cases = [event for event in events if isinstance(event, CaseFinished)]
    assert started.cases == finished.passed == len(cases) == 7
    assert len({event.verdict.case.id for event in cases}) == 7
    assert cases[0].replay == "kcheck reproduce 99 --op twice"
    assert all(event.verdict.status is Status.PASSED for event in cases)
    assert finished.recalled == 1


def test_a_replay_runs_what_was_asked_for_alone(project):
    """-k and --case-seed pick cases out: nothing is put before them."""
    spec = project.spec(SPEC, KERNEL, REFERENCE)
    recalled = {(spec.root, spec.path): (Recalled(expand(spec, 99), None),)}
    for options in (Options(recalled=recalled, case_seed=5), Options(recalled=recalled, keyword="example_0")):
        events = list(run([spec], options, choose("simulator")))
        assert sum(isinstance(event, CaseFinished) for event in events) == 1


def test_a_case_of_given_values_is_judged_recalled_and_run_again(project):
    """What a search builds out of explicit values fails alike from its snapshot, and is nothing without it."""
    spec = project.spec(SPEC, KERNEL.replace("2 *", "3 *"), REFERENCE)
    drawn = expand(spec, 99)
    case = replace(drawn, label="minimized", values={"x": Distribution(HELD)})
    given = np.zeros(case.dims["N"], np.float32)
    given[0] = 1
    device = choose("simulator")
    done = execute(spec, case, device, timeout=20.0, arrays=materialize(spec, case, {"x": given}))
    assert done.verdict.rule == "mismatch"
    assert done.outcome.outputs["y"][0] == 3
    held = snapshot(done.arrays)
    assert (restore(held).allocations["x"].view() == given).all()
    assert recall(spec, case) == case
    (first, *_) = queue(spec, plan(spec, count=5, master=3), [Recalled(case, held)])
    assert (first.arrays().allocations["x"].view() == given).all()
    known = KnownFailure(case, "mismatch", bits(done.outcome.outputs), held)
    again = reproduce(spec, known, device, timeout=20.0)
    assert (again.result, again.other_bits, again.notes) == (ReplayResult.FAILS, (), ())
    assert reproduce(spec, replace(known, snapshot=None), device, timeout=20.0).result is ReplayResult.GONE
    with pytest.raises(ValueError, match=r"x is float32 \(\d+,\), not float64"):
        materialize(spec, case, {"x": given.astype(np.float64)})
