"""Workers over one plan: the same events as one process, whatever the workers do. No processes are started here:
these workers take turns in this one, and end where a test says so."""

from __future__ import annotations

import random
import re
from collections import deque
from dataclasses import replace
from pathlib import Path

import pytest

from kcheck.device import HOST
from kcheck.errors import InternalError
from kcheck.model import CaseFinished, OpSpec, RunFinished, SpecFinished, SpecRefused, SpecStarted, Status
from kcheck.runner import Options, progress, run, run_with
from kcheck.runner.progress import FIRST
from kcheck.runner.remote import AHEAD, Died, Remote
from kcheck.runner.worker import Bench, CaseRan
from kcheck.specfile import load_spec

SPEC = """\
kcheck: 1
op: {op}
function: ops.py:{name}
reference: ops.py:reference
dims: {{N: 1..40}}
inputs: {{x: [N]}}
outputs: {{y: [N]}}
cases: {{count: {count}}}
"""
OPS = """
import numpy as np

from kcheck.alarm import TimedOut


def reference(x):
    return 2 * x


def right(x):
    return x + x


def tail(x):
    y = right(x)
    y[32:] = 0
    return y


def zeros(x):
    return np.zeros_like(x)


def endless(x):
    # Long rows take longer than the time limit, and short ones are wrong.
    if len(x) > {longest}:
        raise TimedOut("the function", 1.0)
    return right(x) + (len(x) < 3)
"""

OPS_LIMIT = re.compile(r"len\(x\) > (\d+)")


class TurnTaking:
    """Workers of this process: one of them says one thing, then another; which one is random.

    Args:
        deadly: how often a worker that runs a case ends before it says what came of it, by spec and case.
        broken: the kind of task that ends every worker.
    """

    def __init__(self, options, jobs, seed=0, deadly=(), broken="", replaced=True):
        self.name, self.description = HOST.name, HOST.description
        self._options, self._jobs = options, jobs
        self._random = random.Random(seed)
        self._deadly, self._broken, self._replaced = dict(deadly), broken, replaced
        self.ran = []

    def begin(self, specs):
        self._specs = specs
        self._benches = [self._bench() for _ in range(self._jobs)]
        self._tasks = [deque() for _ in range(self._jobs)]
        self._open = [None] * self._jobs
        return self._jobs

    def _bench(self):
        return Bench(self._specs, self._options, HOST)

    def send(self, worker, task):
        self._tasks[worker].append(task)

    def receive(self, *, wait, most=None):
        busy = self._busy()
        assert busy or not wait, "the run waits, and no worker has anything to do"
        if not wait:
            return []
        worker = self._random.choice(busy)
        if self._open[worker] is None:
            task = self._tasks[worker].popleft()
            if task.kind == self._broken:
                return self._end(worker)
            self._open[worker] = task, self._benches[worker].do(task)
        task, answers = self._open[worker]
        answer = next(answers, None)
        if answer is None:
            self._open[worker] = None
            return []
        if isinstance(answer, CaseRan):
            key = task.spec, answer.number
            if task.kind == "cases" and self._deadly.get(key, 0):
                self._deadly[key] -= 1
                return self._end(worker)
            self.ran.append(key)
        return [(worker, answer)]

    def _busy(self):
        return [n for n in range(self._jobs) if self._open[n] or self._tasks[n]]

    def _end(self, worker):
        self._tasks[worker].clear()
        self._open[worker], self._benches[worker] = None, self._bench()
        return [(worker, Died("SIGSEGV", self._replaced))]


@pytest.fixture
def specs(tmp_path):
    """A spec that passes, one that fails on long rows, one whose file raises, one that tests nothing."""
    (tmp_path / "kcheck.yaml").write_text("")
    (tmp_path / "ops.py").write_text(OPS.format(longest=40))
    (tmp_path / "raises.py").write_text("raise OSError\n\n\ndef missing(x):\n    return x\n")
    found = []
    for name, count in (("right", 12), ("tail", 14), ("missing", 3), ("zeros", 6)):
        path = tmp_path / f"{name}.yaml"
        path.write_text(SPEC.format(op=name, name=name, count=count))
        if name == "missing":
            path.write_text(path.read_text().replace("ops.py:missing", "raises.py:missing"))
        if name == "zeros":
            path.write_text(path.read_text().replace("ops.py:reference", "ops.py:zeros"))
        found.append(load_spec(path))
    return found


def timeless(event):
    """An event without its times."""
    if isinstance(event, CaseFinished):
        return replace(event, started=None, verdict=replace(event.verdict, seconds=0.0))
    times = {name: None for name in ("seconds", "started") if hasattr(event, name)}
    return replace(event, **times)


def remote(specs, options, jobs, **faults):
    """(events, workers) of a run by workers that take turns."""
    workers = TurnTaking(options, jobs, **faults)
    return list(run_with(Remote(workers), specs, options)), workers


@pytest.mark.parametrize(("jobs", "seed"), [(1, 1), (2, 2), (5, 3)])
@pytest.mark.parametrize("options", [Options(), Options(max_failures=3), Options(keyword="tail", strict=True)])
def test_events_equal_those_of_one_process(specs, jobs, seed, options):
    """But for times: order, notes, findings about the spec as a whole, cases that were not run."""
    alone = [timeless(event) for event in run(specs, options, HOST)]
    found, _ = remote(specs, options, jobs, seed=seed)
    assert [timeless(event) for event in found] == alone


@pytest.fixture(params=[0, 1, 8, 20, 35, 38])
def endless(request, tmp_path):
    """A spec whose rows that are longer than some limit do not end."""
    (tmp_path / "kcheck.yaml").write_text("")
    (tmp_path / "ops.py").write_text(OPS.format(longest=request.param))
    path = tmp_path / "endless.yaml"
    path.write_text(SPEC.format(op="endless", name="endless", count=24))
    return [load_spec(path)]


@pytest.mark.parametrize(("jobs", "seed"), [(1, 1), (2, 2), (5, 3), (5, 4)])
@pytest.mark.parametrize("options", [Options(), Options(max_failures=3)])
def test_the_same_cases_run_after_some_that_do_not_end(endless, jobs, seed, options):
    """However many workers there are; the report has them in the order of the plan."""
    alone = [timeless(event) for event in run(endless, options, HOST)]
    found, _ = remote(endless, options, jobs, seed=seed)
    assert [timeless(event) for event in found] == alone


def test_a_bug_in_a_small_case_is_found_though_large_ones_do_not_end(endless):
    """At most three cases take as long as the time limit."""
    found = [event for event in run(endless, Options(), HOST) if isinstance(event, CaseFinished)]
    longest = int(OPS_LIMIT.search((Path(endless[0].root) / "ops.py").read_text())[1])
    assert sum(event.verdict.timed_out for event in found) <= 3
    wrong = {event.verdict.case.dims["N"] for event in found if event.verdict.rule == "mismatch"}
    assert wrong == {1, 2} & set(range(longest + 1))


def test_cases_of_workers_that_die_run_again_after_some_that_do_not_end(endless):
    deadly = {(0, 1): 1, (0, 6): 1, (0, 11): 9}
    alone, _ = remote(endless, Options(), 1, deadly=deadly)
    found, _ = remote(endless, Options(), 3, deadly=deadly, seed=5)
    assert [timeless(event) for event in found if isinstance(event, CaseFinished)] == [
        timeless(event) for event in alone if isinstance(event, CaseFinished)
    ]


@pytest.mark.parametrize("deadly", [{}, {(0, 3): 1, (1, 9): 1}, {(0, 5): 9, (1, 2): 9}])
def test_few_results_wait_for_their_turn(specs, monkeypatch, deadly):
    """A client that is slower than its workers holds a bounded number, also if workers die; nothing is lost."""
    options = Options(count=60)
    expected, _ = remote(specs[:2], options, 3, deadly=deadly)
    monkeypatch.setattr(progress, "BACKLOG", 2)
    monkeypatch.setattr(progress, "MOST", 2)
    workers = TurnTaking(options, 3, deadly=deadly)
    executor = Remote(workers)
    found, held = [], []
    for event in run_with(executor, specs[:2], options):
        found.append(event)
        while any(workers._tasks) or any(workers._open):  # the workers run on while the event is written
            executor._pump(wait=True)
        held.append(max(len(one.results) for one in executor.progress))
    assert max(held) <= 2 * 3 + 2 * 3 * AHEAD + FIRST
    assert [timeless(event) for event in found] == [timeless(event) for event in expected]


def test_every_case_runs_once(specs):
    """Also when several workers share a spec."""
    _, workers = remote(specs, Options(), 3)
    assert sorted(workers.ran) == sorted({*workers.ran})
    assert len(workers.ran) == 12 + 14 + 6


@pytest.mark.parametrize(("jobs", "place"), [(1, (0, 0)), (1, (3, 5)), (2, (0, 3)), (2, (3, 4)), (4, (1, 13))])
def test_the_cases_of_a_worker_that_dies_run_again(specs, jobs, place):
    """Once: the events are those of a run in which nothing died, none lost and none twice."""
    alone = [timeless(event) for event in run(specs, Options(), HOST)]
    found, _ = remote(specs, Options(), jobs, deadly={place: 1})
    assert [timeless(event) for event in found] == alone


@pytest.mark.parametrize(("jobs", "number"), [(1, 0), (3, 5), (2, 11)])
def test_a_case_that_ends_two_workers_fails(specs, jobs, number):
    """The other cases of its spec have their verdicts."""
    found, _ = remote(specs[:1], Options(), jobs, deadly={(0, number): 9})
    cases = [event.verdict for event in found if isinstance(event, CaseFinished)]
    assert len(cases) == 12
    (wrong,) = [verdict for verdict in cases if verdict.status is not Status.PASSED]
    assert wrong is cases[number]
    assert (wrong.status, wrong.rule) == (Status.FAILED, "worker")
    assert "SIGSEGV" in wrong.findings[0].message


@pytest.mark.parametrize("jobs", [1, 2, 4])
def test_where_every_case_ends_a_worker_each_ends_two(specs, jobs):
    """As a reference that ends the process. A case whose verdict is known is not run again for what follows it."""
    found, workers = remote(specs[:1], Options(), jobs, deadly={(0, number): 99 for number in range(12)})
    verdicts = [event.verdict for event in found if isinstance(event, CaseFinished)]
    assert [verdict.rule for verdict in verdicts] == ["worker"] * 12
    assert sum(99 - left for left in workers._deadly.values()) == 2 * 12


@pytest.mark.parametrize("kind", ["prepare", "end"])
def test_a_spec_that_ends_two_workers_is_an_internal_error(specs, kind):
    """Told with the spec and what the workers did."""
    with pytest.raises(InternalError, match=rf"right\.yaml: two worker processes ended in '{kind}': SIGSEGV"):
        remote(specs, Options(), 2, broken=kind)


def test_workers_that_are_not_replaced_leave_their_cases_to_the_others(specs):
    """As when a machine of a cluster goes away."""
    alone = [timeless(event) for event in run(specs, Options(), HOST)]
    found, _ = remote(specs, Options(), 3, deadly={(0, 5): 1, (1, 7): 1}, replaced=False)
    assert [timeless(event) for event in found] == alone
    with pytest.raises(InternalError, match="all workers ended"):
        remote(specs, Options(), 1, deadly={(0, 5): 1}, replaced=False)


def test_ctrl_c_ends_the_spec_and_the_run_in_good_order(specs):
    """Thrown in while it waits for workers; what was not run is counted."""
    events = run_with(Remote(TurnTaking(Options(), 2)), specs, Options())
    found = []
    for event in events:
        found.append(event)
        if len([one for one in found if isinstance(one, CaseFinished)]) == 4:
            break
    found += [events.throw(KeyboardInterrupt()), *events]
    finished, over = found[-2:]
    assert isinstance(finished, SpecFinished)
    assert (finished.passed, finished.skipped) == (4, 8)
    assert isinstance(over, RunFinished)
    assert over.interrupted
    assert [path.rpartition("/")[2] for path in over.not_begun] == ["tail.yaml", "missing.yaml", "zeros.yaml"]


def test_a_refused_spec_has_its_place(specs):
    """It is told between the specs before and after it."""
    found, _ = remote(specs, Options(), 4)
    told = [event.path for event in found if isinstance(event, SpecStarted | SpecRefused)]
    assert [path.rpartition("/")[2] for path in told] == ["right.yaml", "tail.yaml", "missing.yaml", "zeros.yaml"]
    assert all(isinstance(spec, OpSpec) for spec in specs)
