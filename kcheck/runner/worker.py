"""The code of a worker process, on this machine or in a cluster: it receives tasks and sends answers."""

from __future__ import annotations

import contextlib
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, Protocol, TypeAlias

from kcheck.dataclass import dataclass
from kcheck.device import Device
from kcheck.errors import DeviceUnavailable, InternalError, KernelError, SpecError, UserError
from kcheck.interpreter import keep_freed_memory
from kcheck.model import Fault, Finding, OpSpec
from kcheck.model.compiled import Launched
from kcheck.model.coverage import CodePoint
from kcheck.model.verdict import WORKER
from kcheck.runner.budget import Budget
from kcheck.runner.options import Options
from kcheck.runner.select import parse
from kcheck.runner.work import LocalWork, Prepared, Ran, Said


@dataclass(frozen=True, slots=True)
class Task:
    """A request to a worker, about one spec.

    Attributes:
        kind: ``prepare``; ``cases`` from ``start`` to ``stop`` of the plan; ``unfinished``: the verdict on the
            case ``start``, which ended two workers; ``end``: judge the spec as a whole; ``advice``; ``forget`` it.
        spec: the index of the spec in the run.
        settled: whether the spec is known to test something.
        launched: the kernels that the cases launched, in all workers.
        why: how the workers ended.
    """

    kind: Literal["prepare", "cases", "unfinished", "end", "advice", "forget"]
    spec: int
    start: int = 0
    stop: int = 0
    settled: bool = False
    launched: tuple[Launched, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The spec cannot be run."""

    faults: tuple[Fault, ...]


@dataclass(frozen=True, eq=False, slots=True)
class CaseRan:
    """A case that was run.

    Attributes:
        number: its place in the plan.
        ran: its result. ``reached`` has no points for code whose points an earlier answer to the task has.
        launched: the kernels that it was the first to launch in its worker.
        settled: as in :class:`Task`.
    """

    number: int
    ran: Ran
    launched: tuple[Launched, ...]
    settled: bool


@dataclass(frozen=True, slots=True)
class SpecEnded:
    """Findings and notes about the spec as a whole."""

    vacuous: Said
    artifact: Said
    advice: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Advised:
    """Only the advice, for a spec of which only some cases ran."""

    advice: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Crashed:
    """An error that ends the run. ``is_internal``: it is an internal error; ``log``: the worker's traceback."""

    message: str
    is_internal: bool
    log: str = ""

    def error(self) -> InternalError | UserError:
        """The error to raise."""
        if not self.is_internal:
            return UserError(self.message)
        made = InternalError(self.message)
        made.add_note(self.log)
        return made


@dataclass(frozen=True, slots=True)
class Done:
    """The task is done. ``seconds``: how long it took."""

    seconds: float


Answer: TypeAlias = Prepared | Refusal | CaseRan | SpecEnded | Advised | Crashed | Done


class Bench:
    """Does tasks, one at a time. It keeps the plan of each spec that it has begun.

    Args:
        specs: the specs of the run, in order.
        device: the device of this worker.
    """

    def __init__(self, specs: Sequence[OpSpec], options: Options, device: Device) -> None:
        self._specs = specs
        self._options = options
        self._device = device
        self._budget = Budget()
        self._selects = parse(options.keyword) if options.keyword else None
        self._works: dict[int, LocalWork] = {}
        self._began: set[int] = set()  # specs for which this worker has started to compile
        self._told: dict[int, int] = {}  # by spec, how many of its launched kernels have been reported

    def do(self, task: Task) -> Iterator[Answer]:
        """The answers to a task; the last is :class:`Done`."""
        begun = time.monotonic()
        try:
            yield from self._answers(task)
        except SpecError as error:
            yield Refusal(error.faults)
        except KernelError as error:
            yield Refusal((error.fault,))
        except UserError as error:
            yield Crashed(str(error), False)
        except Exception as error:
            message = str(error) if isinstance(error, InternalError) else f"{type(error).__name__}: {error}"
            yield Crashed(message, True, traceback.format_exc())
        yield Done(time.monotonic() - begun)

    def _answers(self, task: Task) -> Iterator[Answer]:
        if task.kind == "forget":
            work = self._works.pop(task.spec, None)
            if work is not None:
                work.__exit__()
            return
        fresh = task.spec not in self._works
        if fresh:
            work = LocalWork(self._specs[task.spec], self._options, self._device, self._budget, self._selects)
            prepared = work.prepare()
            self._works[task.spec] = work
            if task.kind == "prepare":
                yield prepared
        work = self._works[task.spec]
        match task.kind:
            case "cases":
                yield from self._cases(task, work)
            case "unfinished":
                fix = "look for code that exits the process or runs out of memory"
                message = f"two worker processes ended while they ran this case: {task.why}"
                finding = Finding(WORKER, message, fix=fix, place=self._specs[task.spec].runs.span)
                yield CaseRan(task.start, work.unfinished(task.start, finding), (), task.settled)
            case "end":
                self._begin_artifact(task.spec, work)
                vacuous = Said() if task.settled else work.vacuous()
                artifact = work.artifact(task.launched)
                advice = work.advice(task.launched) if self._wants_advice else ()
                yield SpecEnded(vacuous, artifact, advice)
            case "advice":
                yield Advised(work.advice(task.launched))

    def _cases(self, task: Task, work: LocalWork) -> Iterator[Answer]:
        if task.start == 0:
            self._begin_artifact(task.spec, work)
        sent: dict[str, tuple[CodePoint, ...]] = {}
        for number in range(task.start, task.stop):
            if number > task.start and self._options.late:
                return  # the run does not need the others
            ran = work.run(number, observe=not task.settled)
            launched = work.launched
            new = launched[self._told.get(task.spec, 0) :]
            self._told[task.spec] = len(launched)
            yield CaseRan(number, _brief(ran, sent), new, task.settled or work.settled)
            if ran.smaller is not None or ran.lost:
                return  # others are next, or none

    def _begin_artifact(self, spec: int, work: LocalWork) -> None:
        if spec not in self._began:
            self._began.add(spec)
            work.begin_artifact()

    @property
    def _wants_advice(self) -> bool:
        return self._options.lint and self._options.is_whole


def _brief(ran: Ran, sent: dict[str, tuple[CodePoint, ...]]) -> Ran:
    """The result without the points of code that ``sent`` already has. Most of a result would be points."""
    if not any(sent.get(each.code) is each.points for each in ran.reached):
        sent.update((each.code, each.points) for each in ran.reached)
        return ran
    reached = []
    for each in ran.reached:
        reached.append(replace(each, points=()) if sent.get(each.code) is each.points else each)
        sent[each.code] = each.points
    return replace(ran, reached=tuple(reached))


class Channel(Protocol):
    """The worker's end of a connection. ``recv`` raises EOFError when the other end is gone."""

    def send(self, answer: Answer | DeviceUnavailable | tuple[str, str], /) -> None: ...

    def recv(self) -> Any: ...


def serve(channel: Channel, choose: Callable[[], Device], specs: Sequence[OpSpec], options: Options) -> None:
    """Run a worker: send the name and the description of its device, then receive tasks and send answers until the
    other end is gone. ``choose`` makes the device; if it raises DeviceUnavailable, only that error is sent."""
    keep_freed_memory()
    try:
        device = choose()
    except DeviceUnavailable as error:
        channel.send(error)
        return
    channel.send((device.name, device.description))
    bench = Bench(specs, options, device)
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            task: Task = channel.recv()
            for answer in bench.do(task):
                channel.send(answer)
            sys.stdout.flush()
            sys.stderr.flush()
