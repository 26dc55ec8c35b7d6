"""Runs cases in workers, and yields their results in the order of the plan. A :class:`Workers` connects to
them; this module and :mod:`kcheck.runner.progress` decide what each worker does next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol, Self, TypeAlias

from kcheck.dataclass import dataclass
from kcheck.errors import InternalError, SpecError
from kcheck.model import Fault, OpSpec
from kcheck.model.coverage import CodePoint
from kcheck.runner.deadline import Deadline
from kcheck.runner.progress import WORTH_HELP, SpecProgress
from kcheck.runner.turns import NotRun
from kcheck.runner.work import Prepared, Ran, Said
from kcheck.runner.worker import Advised, Answer, CaseRan, Crashed, Done, Refusal, SpecEnded, Task

AHEAD = 2
"""The most tasks that a worker has: one more than it is doing, so that it does not wait for the next one."""

HELD = 512 << 20
"""If results of this many bytes wait for their turn, only the spec whose turn it is continues."""

_NOT_JUDGED = "the checks of the spec as a whole were not run: the time budget was used up"

_VERDICT = 4096  # bytes, approximately, of a result without arrays


@dataclass(frozen=True, slots=True)
class Died:
    """A worker is gone; if ``replaced``, a new one has its number. ``why``: how it ended, such as ``SIGSEGV``."""

    why: str
    replaced: bool = True


@dataclass(frozen=True, slots=True)
class Joined:
    """A worker joined. It has the next number."""


Message: TypeAlias = "tuple[int, Answer | Died | Joined]"
"""The number of a worker, and its message."""


class Workers(Protocol):
    """Processes that do tasks.

    Attributes:
        name, description: those of their device; known after :meth:`begin`.
    """

    name: str
    description: str

    def begin(self, specs: Sequence[OpSpec]) -> int:
        """Start the workers; returns their number. They are numbered from 0.

        Raises:
            UserError: they cannot run the specs.
        """

    def send(self, worker: int, task: Task) -> None:
        """Give a worker one more task. If it is dead, :meth:`receive` returns Died."""

    def receive(self, *, wait: bool, most: float | None = None) -> list[Message]:
        """The messages of workers since the last call.

        Args:
            wait: wait until there is a message.
            most: seconds to wait; None for no limit.
        """


class Remote:
    """A :class:`kcheck.runner.work.CaseExecutor` that uses workers. ``deadline`` is that of the options."""

    def __init__(self, workers: Workers, deadline: Deadline | None = None) -> None:
        self._workers = workers
        self._deadline = deadline
        self._late = False  # no further case begins; changes only in _pump and reached
        self._any = False  # a case has run
        self.name = self.description = ""
        self._specs: Sequence[OpSpec] = ()
        self.progress: list[SpecProgress] = []
        self._tasks: list[deque[Task]] = []  # by worker, the current task first
        self._gone: set[int] = set()
        self._head = 0  # the spec whose turn it is
        self._held = 0
        self._points: dict[str, tuple[CodePoint, ...]] = {}  # by code
        self._sent: dict[tuple[int, str], tuple[CodePoint, ...]] = {}  # by worker and code, the newest
        self._no_more = False

    def begin(self, specs: Sequence[OpSpec]) -> None:
        """As :meth:`kcheck.runner.work.CaseExecutor.begin`."""
        self._specs = specs
        self.progress = [SpecProgress(place) for place in range(len(specs))]
        if specs:
            self._tasks = [deque() for _ in range(self._workers.begin(specs))]
        self.name, self.description = self._workers.name, self._workers.description

    def work(self, place: int) -> RemoteWork:
        """As :meth:`kcheck.runner.work.CaseExecutor.work`."""
        self._head = place
        return RemoteWork(self, self.progress[place], self._specs[place])

    def no_more_cases(self) -> None:
        """As :meth:`kcheck.runner.work.CaseExecutor.no_more_cases`."""
        self._no_more = True

    def reached(self, place: int) -> bool:
        """As :meth:`kcheck.runner.work.CaseExecutor.reached`."""
        self._late = True
        self.until(lambda: False)
        return bool(self.progress[place].results) or isinstance(self.progress[place].prepared, Refusal | Crashed)

    def until(self, is_true: Callable[[], object]) -> None:
        """Send tasks and take answers until ``is_true()``, or until no more answers come within the budget."""
        self._pump(wait=False)
        while not is_true() and not self._given_up:
            self._pump(wait=True)

    @property
    def _given_up(self) -> bool:
        """Whether the budget is used up and the workers are idle, or too slow to wait for."""
        if not self._late or self._deadline is None:
            return False
        return not any(self._tasks) or not self._deadline.patience

    def taken(self, ran: Ran) -> None:
        """Called when the run has taken a result."""
        self._held -= _size(ran)

    def dropped(self, progress: SpecProgress) -> None:
        """Called at the end of a spec: discard its results, and make the workers forget it."""
        progress.dropped = True
        for ran in progress.results.values():
            self.taken(ran)
        progress.results.clear()
        for worker in range(len(self._tasks)):
            if worker not in self._gone and progress.begun:
                self._give(worker, Task("forget", progress.place))

    def advised(self, progress: SpecProgress, before: int) -> tuple[str, ...]:
        """The linter's advice on a spec of which only some cases ran."""
        workers = [worker for worker in range(len(self._tasks)) if worker not in self._gone]
        owner = progress.owner if progress.owner is not None else workers[0]
        self._give(owner, Task("advice", progress.place, launched=progress.launched(before)))
        self.until(lambda: progress.advice is not None)
        return progress.advice or ()

    def _pump(self, *, wait: bool) -> None:
        self._hand_out()
        most = self._deadline.patience if self._deadline is not None and self._any else None
        for worker, answer in self._workers.receive(wait=wait, most=most):
            if isinstance(answer, Died):
                self._died(worker, answer)
            elif isinstance(answer, Joined):
                self._tasks.append(deque())
            elif isinstance(answer, Done):
                task = self._tasks[worker].popleft()
                self.progress[task.spec].busy += answer.seconds
                if task.kind == "cases":
                    self.progress[task.spec].requeue(task)
            elif self._tasks[worker]:
                self._answered(worker, self._tasks[worker][0], answer)
        self._late = self._late or (self._any and self._deadline is not None and self._deadline.passed)
        self._hand_out()

    def _answered(self, worker: int, task: Task, answer: Answer) -> None:
        progress = self.progress[task.spec]
        if isinstance(answer, CaseRan):
            self._any = True
            if progress.dropped:
                return
            before = len(progress.results)
            progress.take(replace(answer, ran=self._shared(worker, answer.ran)))
            if len(progress.results) > before:
                self._held += _size(answer.ran)
        elif isinstance(answer, Prepared):
            progress.plan(answer)
        elif isinstance(answer, SpecEnded):
            progress.ended = answer
        elif isinstance(answer, Advised):
            progress.advice = answer.advice
        elif isinstance(answer, Refusal | Crashed):
            self._broken(progress, task, answer)

    def _shared(self, worker: int, ran: Ran) -> Ran:
        """The result with its lists of points, shared with other cases. A worker sends each once in a task."""
        if not ran.reached:
            return ran
        reached = []
        for each in ran.reached:
            points = each.points
            if points:
                known = self._points.setdefault(each.code, points)
                points = self._sent[worker, each.code] = known if known == points else points
            else:
                points = self._sent.get((worker, each.code), ())
            reached.append(replace(each, points=points))
        return replace(ran, reached=tuple(reached))

    def _broken(self, progress: SpecProgress, task: Task, answer: Refusal | Crashed) -> None:
        """A task cannot be done. The error is reported when it is the spec's turn, after the specs before it."""
        if task.kind == "prepare" or progress.prepared is None:
            progress.prepared = answer
        else:
            progress.ended = answer
            progress.dropped = True
        progress.advice = ()

    def _died(self, worker: int, death: Died) -> None:
        tasks, self._tasks[worker] = self._tasks[worker], deque()
        if not death.replaced:
            self._gone.add(worker)
            if len(self._gone) == len(self._tasks):
                raise InternalError(f"all workers ended; the last one: {death.why}")
        for place, task in enumerate(tasks):
            progress = self.progress[task.spec]
            if place:
                progress.requeue(task)
            elif progress.orphan(task, death.why):
                message = (
                    f"{self._specs[task.spec].path}: two worker processes ended in '{task.kind}': {death.why}"
                )
                self._broken(progress, task, Crashed(message, True))
        for progress in self.progress:
            if progress.owner == worker:
                progress.disown()
                progress.begun = progress.prepared is not None
        for task in tasks:
            if task.kind == "advice" and self.progress[task.spec].advice is None:
                self._give(worker if death.replaced else self._living(), task)

    def _living(self) -> int:
        return next(worker for worker in range(len(self._tasks)) if worker not in self._gone)

    def _hand_out(self) -> None:
        for depth in range(AHEAD):
            for worker, tasks in enumerate(self._tasks):
                if worker not in self._gone and len(tasks) == depth:
                    task = self._next(worker, ahead=depth > 0)
                    if task is not None:
                        self._give(worker, task)

    def _give(self, worker: int, task: Task) -> None:
        self._tasks[worker].append(task)
        self._workers.send(worker, task)

    def _next(self, worker: int, *, ahead: bool) -> Task | None:
        """The next task of a worker. ``ahead``: it is still busy, so only cases of the specs that it
        owns are considered."""
        own = [one for one in self.progress if one.owner == worker and not one.dropped]
        for one in own:
            if self._may_run(one) and (task := one.next_cases(len(self._tasks))):
                return task
        if ahead:
            return None
        for one in own:
            if one.is_complete and not one.end_sent:
                one.end_sent = True
                return Task("end", one.place, settled=one.settled, launched=one.launched())
        return self._begun(worker) or self._help(worker)

    def _begun(self, worker: int) -> Task | None:
        """The first task of a spec that has no owner."""
        for one in self.progress:
            if one.owner is None and not one.dropped and one.begun and one.cases and one.ended is None:
                one.owner = worker  # its owner died
                return self._next(worker, ahead=False)
            if not one.begun and one.prepared is None and not self._late and self._has_room(one):
                one.owner, one.begun = worker, True
                return Task("prepare", one.place)
        return None

    def _help(self, worker: int) -> Task | None:
        """Cases of a spec that another worker owns."""
        left = [one for one in self.progress if one.settled and one.has_cases and self._may_run(one)]
        most = max(left, key=lambda one: one.seconds_left, default=None)
        if most is None or (most.seconds_left < WORTH_HELP and not most.unfinished and not most.slow):
            return None
        return most.next_cases(len(self._tasks))

    def _may_run(self, one: SpecProgress) -> bool:
        if self._no_more or self._late or one.is_ahead(len(self._tasks)):
            return False
        return self._has_room(one)

    def _has_room(self, one: SpecProgress) -> bool:
        return one.place == self._head or self._held < HELD


class RemoteWork:
    """A :class:`kcheck.runner.work.SpecWork` that uses workers."""

    def __init__(self, remote: Remote, progress: SpecProgress, spec: OpSpec) -> None:
        self._remote = remote
        self._progress = progress
        self._spec = spec
        self._taken = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._remote.dropped(self._progress)

    def prepare(self) -> Prepared | None:
        """As :meth:`kcheck.runner.work.SpecWork.prepare`."""
        self._remote.until(lambda: self._progress.prepared is not None)
        prepared = self._progress.prepared
        if prepared is None or isinstance(prepared, Prepared):
            return prepared
        raise self._error(prepared)

    def ran(self) -> Iterator[Ran | NotRun]:
        """As :meth:`kcheck.runner.work.SpecWork.ran`."""
        progress = self._progress
        for number in range(progress.cases):
            self._remote.until(partial(self._has, number))
            if progress.turns.is_skipped(number):
                progress.skip(number)
                yield NotRun.ENDLESS
                continue
            if number not in progress.results:
                if isinstance(progress.ended, Refusal | Crashed):
                    raise self._error(progress.ended)
                if progress.turns.in_order or not progress.results:
                    return  # the budget is used up
                yield NotRun.LATE
                continue
            ran = progress.results.pop(number)
            self._remote.taken(ran)
            self._taken = number + 1
            yield ran

    def _has(self, number: int) -> bool:
        return self._progress.turns.is_settled(number) or self._progress.ended is not None

    def vacuous(self) -> Said:
        """As :meth:`kcheck.runner.work.SpecWork.vacuous`."""
        return self._ended().vacuous

    @property
    def compiling(self) -> bool:
        """As :attr:`kcheck.runner.work.SpecWork.compiling`."""
        return self._spec.artifact is not None and self._progress.ended is None

    def artifact(self) -> Said:
        """As :meth:`kcheck.runner.work.SpecWork.artifact`."""
        return self._ended().artifact

    def advice(self) -> tuple[str, ...]:
        """As :meth:`kcheck.runner.work.SpecWork.advice`."""
        if self._progress.is_complete and self._taken == self._progress.cases:
            return self._ended().advice
        return self._remote.advised(self._progress, self._taken)

    def seconds(self, since: float) -> float:
        """As :meth:`kcheck.runner.work.SpecWork.seconds`: the workers' time; they may have begun early."""
        return self._progress.busy

    def _ended(self) -> SpecEnded:
        self._remote.until(lambda: self._progress.ended is not None)
        ended = self._progress.ended
        if ended is None:
            return SpecEnded(Said(notes=(_NOT_JUDGED,)), Said(), ())
        if isinstance(ended, SpecEnded):
            return ended
        assert ended is not None
        raise self._error(ended)

    def _error(self, answer: Refusal | Crashed) -> Exception:
        if isinstance(answer, Crashed):
            return answer.error()
        return SpecError([*answer.faults] or [Fault(self._spec.span, "cannot be run")])


def _size(ran: Ran) -> int:
    if ran.captured is None:
        return _VERDICT
    taken = ran.captured.snapshot
    inputs = sum(array.values.nbytes for array in taken.arrays if array.values is not None)
    return _VERDICT + inputs + sum(array.nbytes for array in ran.captured.outputs.values())
