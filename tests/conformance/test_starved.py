"""Time in which a process could have done something."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conformance.starved import Idleness

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")


def counted(program: str, seconds: float) -> tuple[float, float]:
    """What is counted for a program that runs for that long, and how long that was."""
    program = f"print(flush=True); {program}"
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    try:
        process.stdout.readline()  # it has started
        idleness, begun = Idleness(process.pid), time.monotonic()
        while time.monotonic() - begun < seconds:
            time.sleep(0.05)
            found = idleness.update()
        return found, time.monotonic() - begun
    finally:
        process.stdout.close()
        process.kill()
        process.wait()


def test_sleep_counts_in_full() -> None:
    """A test that waits for what never comes is stopped."""
    found, passed = counted("import time; time.sleep(60)", 2)
    assert found > 0.5 * passed


def test_a_process_that_shares_its_processor_is_given_as_much_more_time() -> None:
    """Busy processes on one processor: a part of the time counts. A session may have its own share of a processor,
    so each process has its own session."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    endless = [sys.executable, "-c", "while True: pass"]
    busy = [subprocess.Popen(endless, start_new_session=True) for _ in range(3)]
    try:
        found, passed = counted("exec('while True: pass')", 4)
    finally:
        os.sched_setaffinity(0, before)
        for process in busy:
            process.kill()
            process.wait()
    assert 0 < found < 0.6 * passed


def test_counting_begins_again() -> None:
    """When a test begins or ends."""
    idleness = Idleness(os.getsid(0))
    time.sleep(0.1)
    idleness.update()
    idleness.restart()
    assert idleness.seconds == 0
