"""A launch that takes too long with sanitizers runs without them, and the verdict says so."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.executor import Ending, Executor, KernelLaunch
from kcheck.cpu.memory import Memory
from kcheck.grading.channel import ByteChannel
from kcheck.grading.deviceprocess import DeviceProcess, Orders
from kcheck.grading.grader import Graded
from kcheck.grading.isolated import Family, Unchecked
from kcheck.grading.launchwire import LaunchWriter
from kcheck.grading.report import document, page, text
from kcheck.ptx.abi import Checks

_PTX = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry fill(.param .u64 y) { ret; }
.visible .entry other(.param .u64 y) { ret; }
"""
_ORDERS = Orders(("racecheck", "initcheck"), timeout=10.0)


class _Slow(Executor):
    """Launches of ``fill`` with several blocks take too long with sanitizers."""

    def launch(self, launch: KernelLaunch) -> Ending:
        """Nothing runs."""
        is_late = self.checks != Checks() and launch.entry == "fill" and launch.grid[0] > 1
        return Ending.TIMED_OUT if is_late else Ending.FINISHED


class _Processes:
    """A device process, as a thread, between a grader and a candidate."""

    def __init__(self, executor: Executor) -> None:
        pairs = [each for _ in range(2) for each in socket.socketpair()]
        grader, its_grader, self._candidate, its_candidate = self._channels = [ByteChannel(each) for each in pairs]
        served = DeviceProcess(executor, outputs_are_named=True)
        self._thread = threading.Thread(target=served.serve, args=(its_grader, its_candidate))
        self._thread.start()
        self._family = Family(0, self._candidate, grader)
        self._writer, self._module = LaunchWriter(executor), executor.load(_PTX)
        self._family.instruct(_ORDERS)

    def launch(self, entry: str, blocks: int) -> str:
        """How the launch ends."""
        launch = KernelLaunch(self._module, entry, bytes(8), (blocks, 1, 1), (32, 1, 1), 0, False)
        self._candidate.send(*self._writer.written(launch))
        ending: str = self._candidate.receive().fields["ending"]
        return ending

    def told(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """What ran without sanitizers since the last time."""
        return self._family.told(time.monotonic() + 10).unchecked

    def close(self) -> None:
        """End the thread."""
        self._family.close()
        self._thread.join()
        for channel in self._channels:
            channel.close()


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[_Processes]:
    given: Any = ObjectCache(tmp_path), time.monotonic, lambda _: None, lambda _: None
    made = _Processes(_Slow(Memory(1 << 28), 1, *given))
    yield made
    made.close()


def test_only_a_launch_that_is_too_slow_runs_without_sanitizers(processes: _Processes) -> None:
    assert processes.launch("fill", 4) == "timed out"
    assert processes.launch("fill", 4) == "finished"
    assert processes.launch("other", 4) == "finished"
    assert processes.told() == (("fill", _ORDERS.instrument),)
    assert processes.told() == ()


def test_a_smaller_launch_of_a_slow_kernel_has_them_again(processes: _Processes) -> None:
    processes.launch("fill", 4)
    processes.launch("fill", 1)
    assert processes.told() == ()
    processes.launch("fill", 8)
    assert processes.told() == (("fill", _ORDERS.instrument),)


_GRADED = Graded(
    "a.py", "correct", cases=34, passed=34, planned=34, unchecked=(Unchecked("fill", _ORDERS.instrument, 2, 5.0),)
)


def test_the_verdict_names_the_checks_the_kernel_and_the_reason() -> None:
    (_, note) = text(_GRADED)
    assert note.strip() == (
        "note: racecheck and initcheck did not check fill in 2 of 34 cases: it takes more than 5 s with them; "
        "raise --timeout"
    )
    assert text(replace(_GRADED, unchecked=()))[1:] == []


def test_json_and_html_have_it_too() -> None:
    (row,) = json.loads(json.dumps(document(_GRADED)))["unchecked"]
    assert row == {"kernel": "fill", "checks": ["racecheck", "initcheck"], "cases": 2, "limit": 5.0}
    assert "racecheck and initcheck did not check fill" in page("op", [_GRADED])
