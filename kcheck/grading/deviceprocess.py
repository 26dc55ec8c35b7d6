"""The device process of a candidate: it runs the candidate's launches, and reports to the grader what was found.

::

    grader ── what to check ──────> device process <── launches ── candidate's process
           <─ findings and facts ──                ── ending ──>

It is forked from the same process as the candidate's, before any code of the candidate has run. From the candidate
it gets PTX, parameters and the table of what is allocated, and checks them (:mod:`kcheck.grading.launchwire`).
"""

from __future__ import annotations

import math
import select
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from kcheck.cpu.executor import Ending, Executor
from kcheck.cpu.sanitizers import CHECKS, checks
from kcheck.dataclass import dataclass
from kcheck.device.places import one_line
from kcheck.device.staging import Staging
from kcheck.errors import PtxError
from kcheck.generator import Allocation
from kcheck.grading.channel import BadMessage, ByteChannel, OtherEndClosed, Received
from kcheck.grading.launchwire import LaunchReader, SentLaunch
from kcheck.grading.wire import write_facts
from kcheck.model import NATURAL, Finding, Schedule
from kcheck.model.launch_facts import NO_FACTS
from kcheck.ptx.syntax.symbols import kernel_name

_MOST_FINDINGS = 200


@dataclass(frozen=True, slots=True)
class Orders:
    """What the device process does with launches until it gets another one.

    Attributes:
        instrument: the sanitizers that all launches have.
        timeout: seconds for a launch. One with sanitizers gets half of it, so that it can run without.
        silent: launches do nothing.
        samples: some of the blocks of a launch may be run instead of all.
        arrays: those of the case, with their bytes. The device process fills them when they have memory, and sends
            what they contain in the end.
        schedule: the order of threads, except in launches of some blocks.
    """

    instrument: tuple[str, ...] = ()
    timeout: float | None = None
    silent: bool = False
    samples: bool = False
    arrays: tuple[Allocation, ...] = ()
    schedule: Schedule = NATURAL


def checked_seconds(timeout: float) -> float:
    """What of the time limit of a launch one with sanitizers may take, so that it can run without afterwards."""
    return timeout / 2


class DeviceProcess:
    """Runs the launches.

    Args:
        executor: of this process.
        outputs_are_named: all outputs have labels, so that other memory is scratch memory.
    """

    def __init__(self, executor: Executor, *, outputs_are_named: bool) -> None:
        self._executor = executor
        self._reader = LaunchReader(executor)
        self._staging = Staging(executor.memory, lambda: True)
        self._is_staged = False
        self._orders = Orders()
        self._found: list[Finding] = []
        self._facts = NO_FACTS
        self._forged = ""
        # By kernel, the fewest threads with which it is too slow if checked.
        self._slow: dict[tuple[str, str], int] = {}
        self._unchecked: dict[tuple[str, tuple[str, ...]], None] = {}  # kernels, and sanitizers they ran without
        executor.scratch.is_known = outputs_are_named

    def serve(self, grader: ByteChannel, candidate: ByteChannel) -> None:
        """Until the grader closes its end."""
        ends = {channel.fileno(): channel for channel in (grader, candidate)}
        poll = select.poll()
        for number in ends:
            poll.register(number, select.POLLIN)
        while True:
            for number, _ in poll.poll():
                try:
                    if ends[number] is grader:
                        self._obey(grader)
                    else:
                        self._answer(candidate)
                except OtherEndClosed:
                    if ends[number] is grader:
                        return
                    poll.unregister(number)
                except BadMessage as bad:
                    self._forged = str(bad)
                    poll.unregister(number)
                    candidate.close()

    def _obey(self, grader: ByteChannel) -> None:
        """Take a :class:`Orders`, or report what was found since the last time."""
        orders: Orders | None = grader.take()
        if orders is not None:
            self._orders, self._is_staged = orders, False
            return
        executor = self._executor
        found, self._found = self._found[:_MOST_FINDINGS], []
        facts, self._facts = self._facts, NO_FACTS
        executor.reached.take()
        unchecked, self._unchecked = list(self._unchecked), {}
        fields = {"kind": "found", "findings": [asdict(each) for each in found], "forged": self._forged}
        arrays = self._orders.arrays if self._is_staged else ()
        blobs = [self._staging.fetch(each).data for each in arrays]
        names = [each.name for each in arrays]
        grader.send({**fields, "unchecked": unchecked, "arrays": names, **write_facts(facts)}, blobs)

    def _answer(self, candidate: ByteChannel) -> None:
        received = candidate.receive()
        if received.fields.get("kind") == "staged":
            self._stage(received)
            candidate.send({"kind": "staged"})
            return
        before = len(self._found)
        self._executor.report = self._found.append
        self._executor.unfinished, self._executor.facts = 0, NO_FACTS
        ending = self._ran(received)
        facts = self._executor.facts
        self._facts |= facts
        new = [asdict(finding) for finding in self._found[before:]]
        answer = {"ending": ending.value, "findings": new, "unfinished": self._executor.unfinished}
        candidate.send({**answer, **write_facts(facts)})

    def _stage(self, received: Received) -> None:
        """Fill the arrays of the case, which have memory now."""
        try:
            self._reader.adopt(received.fields)
            for allocation in self._orders.arrays:
                self._staging.adopt(allocation)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError) as error:
            raise BadMessage(f"memory that kcheck's own code does not allocate: {one_line(error)}") from error
        self._is_staged = True

    def _ran(self, received: Received) -> Ending:
        try:
            sent = self._reader.read(received.fields, received.blobs)
        except PtxError as fault:
            self._executor.report_compile_error(_text(received.fields, "entry"), fault)
            return Ending.NOT_COMPILED
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError) as error:
            raise BadMessage(f"a launch that kcheck's own code does not send: {one_line(error)}") from error
        return Ending.FINISHED if self._orders.silent else self._launched(sent)

    def _launched(self, sent: SentLaunch) -> Ending:
        executor, orders = self._executor, self._orders
        is_sample = sent.schedule.order == "sample"
        if is_sample and not orders.samples:
            raise BadMessage("a launch of some blocks only")
        kernel = (sent.launch.module.text, sent.launch.entry)
        threads = math.prod((*sent.launch.grid, *sent.launch.block))
        is_slow = threads >= self._slow.get(kernel, math.inf)
        wanted = set(sent.wanted)
        if is_slow and orders.instrument:
            wanted.difference_update(orders.instrument)
            self._unchecked[kernel_name(sent.launch.entry), orders.instrument] = None
        elif not is_sample:
            wanted |= set(orders.instrument)
        executor.checks = checks(wanted)
        executor.schedule = sent.schedule if is_sample else orders.schedule
        is_checked = not wanted.isdisjoint(CHECKS)
        executor.limit = checked_seconds(orders.timeout) if orders.timeout and is_checked else orders.timeout
        ending = executor.launch(sent.launch)
        if ending is Ending.TIMED_OUT and is_checked:
            self._slow[kernel] = threads
        return ending


def _text(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    return value if isinstance(value, str) else ""
