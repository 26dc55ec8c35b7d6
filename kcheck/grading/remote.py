"""Launches of a candidate's process, which its device process runs.

A candidate can change everything in its own process, kcheck's code too. So that process runs no kernel. It has the
host code, and memory that both processes share at the same addresses; the sanitizers, the code of kernels and what
they find are in the other one, which the grader asks.
"""

from __future__ import annotations

import threading
from typing import Any

from kcheck.cpu.executor import Ending, Executor, KernelLaunch
from kcheck.cpu.memory import OutOfMemory
from kcheck.driver.machine import Machine
from kcheck.errors import PtxError
from kcheck.grading.channel import ByteChannel
from kcheck.grading.launchwire import LaunchWriter
from kcheck.grading.wire import read_facts, read_finding


class RemoteLaunches:
    """The candidate's end of the connection to its device process."""

    def __init__(self, executor: Executor, channel: ByteChannel) -> None:
        self._executor = executor
        self._channel = channel
        self._writer = LaunchWriter(executor)
        self._lock = threading.Lock()

    def staged(self) -> None:
        """Say that the arrays of a launch are on the device; the device process fills them."""
        with self._lock:
            self._channel.send(self._writer.staged())
            self._channel.receive()

    def launch(self, launch: KernelLaunch) -> Ending:
        """As :meth:`kcheck.cpu.executor.Executor.launch`."""
        executor = self._executor
        with self._lock:
            if executor.seen is not None:
                executor.seen.append(launch)
            try:
                self._channel.send(*self._writer.written(launch))
            except PtxError as fault:
                executor.report_compile_error(launch.entry, fault)
                return Ending.NOT_COMPILED
            except OutOfMemory:
                return Ending.OUT_OF_MEMORY
            fields = self._channel.receive().fields
            for finding in fields["findings"]:
                executor.report(read_finding(finding))
            executor.unfinished += fields["unfinished"]
            executor.facts |= read_facts(fields)
            executor.ending = Ending(fields["ending"])
            return executor.ending


def launch_elsewhere(machine: Machine, channel: ByteChannel) -> RemoteLaunches:
    """Let the process at the other end run the launches of this one."""
    executor: Any = machine.executor
    machine.shares_memory = True
    remote = RemoteLaunches(executor, channel)
    executor.launch = remote.launch
    executor.again = lambda *_: None  # it can run no launch in fewer steps
    return remote
