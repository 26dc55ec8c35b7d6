"""A run with a time budget: no case begins after it, and what was not run is counted. The clocks here are fake."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from test_remote import OPS, SPEC, TurnTaking

from kcheck.device import HOST
from kcheck.model import CaseFinished, Event, OpSpec, RunFinished, SpecFinished, SpecStarted
from kcheck.runner import Options, run, run_with
from kcheck.runner.deadline import GRACE, Deadline
from kcheck.runner.remote import Remote
from kcheck.specfile import load_spec

CASES = 10


class Clock:
    """A second passes with every answer of a worker, or with every case of a run in one process."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class TimedWorkers(TurnTaking):
    """Workers that take a second for each answer; ``stuck``: the number of one that never answers a case."""

    def __init__(
        self, options: Options, jobs: int, clock: Clock, *, stuck: int | None = None, seed: int = 0
    ) -> None:
        super().__init__(options, jobs, seed)
        self._clock, self._stuck = clock, stuck

    def receive(self, *, wait: bool, most: float | None = None) -> list:
        """What they say; if nothing comes, the time that the run waits has passed."""
        if wait and not self._busy():
            assert most is not None, "the run would wait for ever"
            self._clock.now += most
            return []
        self._clock.now += wait
        return super().receive(wait=wait)

    def _busy(self) -> list[int]:
        return [n for n in super()._busy() if n != self._stuck or not self._has_cases(n)]

    def _has_cases(self, worker: int) -> bool:
        return any(task.kind == "cases" for task in self._tasks[worker])


@pytest.fixture
def specs(tmp_path: Path) -> list[OpSpec]:
    """Four specs of an array function that is right, ten cases each."""
    (tmp_path / "kcheck.yaml").write_text("")
    (tmp_path / "ops.py").write_text(OPS)
    found = []
    for op in ("a", "b", "c", "d"):
        path = tmp_path / f"{op}.yaml"
        path.write_text(SPEC.format(op=op, name="right", count=CASES))
        found.append(load_spec(path))
    return found


def in_one_process(specs: list[OpSpec], seconds: float) -> list[Event]:
    """The events of a run in which every case takes a second."""
    clock = Clock()

    def events() -> Iterator[Event]:
        options = Options(deadline=Deadline(seconds, seconds, clock), lint=False)
        for event in run(specs, options, HOST):
            clock.now += isinstance(event, CaseFinished)
            yield event

    return list(events())


def names(paths: tuple[str, ...]) -> str:
    return " ".join(Path(path).stem for path in paths)


@pytest.mark.parametrize(
    ("seconds", "ran", "skipped", "left"),
    [
        (1, [1], [9], "b c d"),
        (10, [10], [0], "b c d"),
        (13, [10, 3], [0, 7], "c d"),
        (39, [10, 10, 10, 9], [0, 0, 0, 1], ""),
    ],
)
def test_no_case_begins_after_the_budget(
    specs: list[OpSpec], seconds: float, ran: list[int], skipped: list[int], left: str
) -> None:
    """The spec that it ends in counts its other cases as not run; the specs after it are named."""
    found = in_one_process(specs, seconds)
    ended = [event for event in found if isinstance(event, SpecFinished)]
    assert [event.passed for event in ended] == ran
    assert [event.skipped for event in ended] == skipped
    over = found[-1]
    assert isinstance(over, RunFinished)
    assert (over.budget, over.interrupted, names(over.not_begun)) == (seconds, False, left)


def test_a_run_that_needs_less_says_nothing_of_a_budget(specs: list[OpSpec]) -> None:
    """All cases run; the last of them may end after the budget."""
    over = in_one_process(specs, 4 * CASES)[-1]
    assert isinstance(over, RunFinished)
    assert (over.budget, over.not_begun) == (None, ())


def test_a_budget_of_nothing_runs_one_case(specs: list[OpSpec]) -> None:
    """A machine that is slow to start still checks something."""
    found = in_one_process(specs, 1e-9)
    assert sum(isinstance(event, CaseFinished) for event in found) == 1


def with_workers(
    specs: list[OpSpec], jobs: int, seconds: float, seed: int = 0, stuck: int | None = None
) -> tuple[list[Event], TimedWorkers, Clock]:
    clock = Clock()
    options = Options(deadline=Deadline(seconds, seconds, clock), lint=False)
    workers = TimedWorkers(options, jobs, clock, stuck=stuck, seed=seed)
    return list(run_with(Remote(workers, options.deadline), specs, options)), workers, clock


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("jobs", [1, 2, 5])
@pytest.mark.parametrize("seconds", [1, 8, 23, 41])
def test_workers_begin_no_case_after_the_budget_either(
    specs: list[OpSpec], seconds: float, jobs: int, seed: int
) -> None:
    """Every result that came in time is reported, also of specs that a worker began ahead; the counts add up."""
    found, _, clock = with_workers(specs, jobs, seconds, seed)
    over = found[-1]
    assert isinstance(over, RunFinished)
    ended = [event for event in found if isinstance(event, SpecFinished)]
    assert len(ended) + len(over.not_begun) == len(specs)
    assert all(event.passed + event.skipped == CASES for event in ended)
    ran = sum(isinstance(event, CaseFinished) for event in found)
    assert ran >= 1
    assert (over.budget is None) == (ran == CASES * len(specs))
    assert clock.now <= seconds + GRACE + 4 * jobs  # what was handed out before


def test_a_worker_that_is_stuck_is_not_waited_for(specs: list[OpSpec]) -> None:
    """The run ends with the budget and the grace, and reports what the others did."""
    found, _, clock = with_workers(specs, 2, 30, stuck=1)
    over = found[-1]
    assert isinstance(over, RunFinished)
    assert over.budget == 30
    assert clock.now <= 30 + GRACE + 1
    begun = [event for event in found if isinstance(event, SpecStarted)]
    assert sum(isinstance(event, CaseFinished) for event in found) >= CASES
    assert len(begun) + len(over.not_begun) == len(specs)
