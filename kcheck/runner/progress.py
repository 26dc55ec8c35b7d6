"""The progress of each spec while workers run its cases, and which cases run next. Pure: no processes.

A spec starts on one worker, which compiles its kernels and observes whether the spec tests anything. Its cases are
sent in chunks of about CHUNK seconds, so that idle workers can help. They may help only after the first cases have
shown that the spec tests something, because until then one worker must observe the cases in order.
"""

from __future__ import annotations

from collections import deque
from dataclasses import field
from itertools import chain

from kcheck.dataclass import dataclass
from kcheck.model.compiled import Launched
from kcheck.runner.turns import Turns
from kcheck.runner.work import Prepared, Ran
from kcheck.runner.worker import CaseRan, Crashed, Refusal, SpecEnded, Task

CHUNK = 0.25
"""How many seconds a worker should take for one chunk of cases."""

FIRST = 4
"""The number of cases in the first chunk of a spec."""

MOST = 64
"""The most cases in a chunk."""

BACKLOG = 128
"""If this many results of a spec for each worker wait for their turn, workers get no more cases of it."""

WORTH_HELP = 0.5
"""A second worker helps if at least this many seconds of work are left: it must load the spec and its kernels."""


@dataclass(slots=True)
class SpecProgress:
    """The progress of one spec.

    Attributes:
        place: its index in the run.
        owner: the worker that has it; None before it is begun, or if that worker died.
        begun: whether it was assigned to a worker.
        prepared: its plan, or why it cannot be run.
        results: the results that the run has not taken yet, by number of the case.
        settled: whether the spec is known to test something.
        dropped: whether its cases are no longer needed.
        slow: its cases are sent one at a time, because a worker died while it ran them.
        advice: the linter's advice on a spec of which only some cases ran.
        busy: seconds that workers have spent on it.
        turns: the order of its cases, and which ones have results.
    """

    place: int
    owner: int | None = None
    begun: bool = False
    prepared: Prepared | Refusal | Crashed | None = None
    results: dict[int, Ran] = field(default_factory=dict)
    ended: SpecEnded | Refusal | Crashed | None = None
    end_sent: bool = False
    advice: tuple[str, ...] | None = None
    settled: bool = False
    dropped: bool = False
    slow: bool = False
    busy: float = 0.0
    turns: Turns = field(default_factory=lambda: Turns(0))
    _todo: deque[range] = field(default_factory=deque)
    _later: list[int] = field(default_factory=list)  # unsent cases that do not run, as far as is known
    _seconds: float = 0.0
    _launched: dict[int, tuple[Launched, ...]] = field(default_factory=dict)
    _deaths: dict[tuple[str, int], int] = field(default_factory=dict)
    unfinished: dict[int, str] = field(default_factory=dict)  # cases that ended two workers, and how those ended
    _fatal: set[int] = field(default_factory=set)  # every case that ended two workers, also after its verdict

    def plan(self, prepared: Prepared) -> None:
        """Called when a worker has loaded the spec; may be called again for another worker."""
        if self.prepared is None:
            self.prepared = prepared
            self._todo.append(range(prepared.cases))
            self.turns = Turns(prepared.cases)

    @property
    def cases(self) -> int:
        """The number of planned cases; 0 if it is unknown."""
        return self.prepared.cases if isinstance(self.prepared, Prepared) else 0

    @property
    def is_complete(self) -> bool:
        """Whether every case has run."""
        return self.cases > 0 and len(self.turns.received) == self.cases

    @property
    def has_cases(self) -> bool:
        """Whether cases are left to send to workers."""
        return not self.dropped and bool(self._todo or self.unfinished)

    def is_ahead(self, workers: int) -> bool:
        """Whether many results wait for their turn, and all unsent cases come after the first of them."""
        if len(self.results) < BACKLOG * workers or not self._todo or self.unfinished or not self.turns.in_order:
            return False
        return min(part.start for part in self._todo) > min(self.results)

    @property
    def seconds_left(self) -> float:
        """How many seconds the unsent cases will take, if they take as long as the earlier ones."""
        return sum(map(len, self._todo)) * self._mean

    def take(self, answer: CaseRan) -> None:
        """Take the result of a case. A case that ran twice, because a worker died after it, counts once."""
        if answer.number in self.turns.received:
            return
        self.results[answer.number] = answer.ran
        self.settled |= answer.settled
        self._seconds += answer.ran.verdict.seconds
        if answer.launched:
            self._launched[answer.number] = answer.launched
        lost = bool(answer.ran.lost)
        self.turns.take(answer.number, answer.ran.smaller, lost=lost)
        if answer.ran.smaller is not None or lost:
            self._arrange()

    def skip(self, number: int) -> None:
        """Called when it is settled that a case does not count, even if it ran."""
        self._launched.pop(number, None)

    def next_cases(self, workers: int) -> Task | None:
        """The next cases to send to a worker; None if there are none."""
        if self.unfinished:
            number, why = self.unfinished.popitem()
            return Task("unfinished", self.place, number, number + 1, self.settled, why=why)
        if not self._todo or self.dropped:
            return None
        part = self._todo.popleft()
        size = self._size(len(part), workers)
        if len(part) > size:
            self._todo.appendleft(part[size:])
        return Task("cases", self.place, part.start, part[:size].stop, self.settled)

    def launched(self, before: int | None = None) -> tuple[Launched, ...]:
        """The kernels that cases have launched, in the order of the plan, each once. ``before``: only those of
        cases before this one."""
        found: dict[Launched, None] = {}
        for number in sorted(self._launched):
            if before is None or number < before:
                found.update(dict.fromkeys(self._launched[number]))
        return tuple(found)

    def orphan(self, task: Task, why: str) -> bool:
        """Called when a worker died during a task. The task's cases run again; a case that ends a second worker is
        an error.

        Returns:
            Whether the task cannot be done, because it ended two workers and does not run cases.
        """
        left = [number for number in range(task.start, task.stop) if number not in self.turns.received]
        first = left[0] if left else -1
        count = self._deaths[task.kind, first] = self._deaths.get((task.kind, first), 0) + 1
        if task.kind == "unfinished":
            self.unfinished[task.start] = task.why
        elif task.kind == "cases":
            self.slow = True
            if left and count > 1:
                self._fatal.add(first)
                self.unfinished[left.pop(0)] = why
            self._again(left)
        return count > 1 and task.kind not in ("cases", "forget")

    def requeue(self, task: Task) -> None:
        """Called when a worker ended a task before its last case, or died before it began it."""
        if task.kind == "unfinished":
            self.unfinished[task.start] = task.why
        elif task.kind == "cases":
            self._again([number for number in range(task.start, task.stop) if number not in self.turns.received])

    def disown(self) -> None:
        """Called when the owner died. If its observations are needed, another worker runs the cases again."""
        self.owner = None
        if self.ended is not None:
            return
        if not self.end_sent and not self.settled and self.cases and not self.dropped:
            self._todo.clear()
            self._later.clear()
            self._again([number for number in range(self.cases) if number not in self._fatal])
        self.end_sent = False

    def _again(self, numbers: list[int]) -> None:
        for number in reversed(numbers):
            if self._todo and self._todo[0].start == number + 1:
                self._todo[0] = range(number, self._todo[0].stop)
            else:
                self._todo.appendleft(range(number, number + 1))
        if not self.turns.in_order:
            self._arrange()

    def _arrange(self) -> None:
        """Arrange the unsent cases in the order in which they run."""
        unsent = sorted({*self._later, *chain.from_iterable(self._todo)}, key=self.turns.place)
        self._later = [number for number in unsent if self.turns.is_skipped(number)]
        self._todo.clear()
        for number in unsent[: len(unsent) - len(self._later)]:
            start = self._todo.pop().start if self._todo and self._todo[-1].stop == number else number
            self._todo.append(range(start, number + 1))

    @property
    def _mean(self) -> float:
        return self._seconds / max(1, len(self.turns.received))

    def _size(self, left: int, workers: int) -> int:
        if self.slow:
            return 1
        if not self.turns.received:
            return FIRST
        fair = max(1, left // (2 * workers)) if self.settled else left
        return max(1, min(MOST, fair, int(CHUNK / self._mean) if self._mean else MOST))
