"""How many threads run a launch: all, unless they are slower together than one alone."""

from __future__ import annotations

import math
import time
from types import SimpleNamespace
from typing import Any

import pytest

from kcheck.cpu.completion import Completion
from kcheck.cpu.scheduler import Job, Scheduler, TierUp
from kcheck.model import NATURAL
from kcheck.ptx.abi import FINISHED, Launch

BLOCKS = 200
ALONE = 0.0005
"""Seconds of a block on one thread."""


class Blocks:
    """A kernel whose blocks take ``together`` seconds each while several threads run it.

    Attributes:
        runs: how often each block ran, and on how many threads at that moment.
    """

    def __init__(self, together: float) -> None:
        self.together = together
        self.launch = Launch(threads=32)
        self.runs: list[tuple[int, int]] = []
        self.program: Any = SimpleNamespace(sites=(), fresh=False)

    def run(self, _launch: int, _worker: int, first: int, last: int) -> int:
        for block in range(first, last):
            workers = self.launch.workers
            self.runs.append((block, workers))
            time.sleep(ALONE if workers == 1 else self.together)
        return FINISHED

    def complete(self, with_all: bool | None = None) -> Completion:
        """Run every block on up to three threads."""
        kernel: Any = self
        job = Job(kernel, self.launch, BLOCKS, shared=0, state=64, keep=[])
        later = TierUp(math.inf, math.inf, lambda: kernel)
        return Scheduler(3, time.monotonic).run(job, None, NATURAL, later, with_all=with_all)


@pytest.mark.parametrize(("together", "is_faster_alone"), [(ALONE, False), (40 * ALONE, True)])
def test_threads_that_are_slower_together_leave_one(together: float, is_faster_alone: bool) -> None:
    """Each block runs once. The one that stays has no others to wait for."""
    blocks = Blocks(together)
    completion = blocks.complete()
    assert sorted(block for block, _ in blocks.runs) == list(range(BLOCKS))
    assert len(completion.workspaces) == 3
    assert completion.is_faster_alone is is_faster_alone
    last = [workers for _, workers in blocks.runs[-10:]]
    assert (last == [1] * 10) is is_faster_alone


@pytest.mark.parametrize(("with_all", "threads"), [(True, 3), (False, 1)])
def test_what_is_known_of_a_kernel_decides_at_the_start(with_all: bool, threads: int) -> None:
    blocks = Blocks(ALONE)
    assert len(blocks.complete(with_all).workspaces) == threads
    assert len(blocks.runs) == BLOCKS
