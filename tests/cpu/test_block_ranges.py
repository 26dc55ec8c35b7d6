"""How many blocks a thread takes at once: taking them costs several microseconds of Python."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from kcheck.cpu.scheduler import Job, Scheduler, TierUp
from kcheck.model import NATURAL
from kcheck.ptx.abi import FINISHED, Launch


class Timed:
    """A kernel whose blocks take some seconds of a clock that only they advance.

    Attributes:
        taken: the ranges of blocks that ran, half open, in order.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.now = 0.0
        self.taken: list[tuple[int, int]] = []
        self.program: Any = SimpleNamespace(sites=(), fresh=False)

    def run(self, _launch: int, _worker: int, first: int, last: int) -> int:
        self.taken.append((first, last))
        self.now += self.seconds * (last - first)
        return FINISHED

    def complete(self, blocks: int) -> list[int]:
        """Run every block on the only thread; the sizes of the ranges."""
        kernel: Any = self
        job = Job(kernel, Launch(threads=32), blocks, shared=0, state=64, keep=[])
        later = TierUp(math.inf, math.inf, lambda: kernel)
        Scheduler(1, lambda: self.now).run(job, None, NATURAL, later)
        assert [block for first, last in self.taken for block in range(first, last)] == list(range(blocks))
        return [last - first for first, last in self.taken]


@pytest.mark.parametrize("blocks", [100, 4096, 65536])
def test_a_short_launch_takes_few_ranges(blocks: int) -> None:
    """A launch of a millisecond."""
    assert len(Timed(1e-3 / blocks).complete(blocks)) <= 6


def test_long_blocks_are_taken_an_eighth_of_the_rest_at_a_time() -> None:
    """So better code, which arrives between two ranges, runs most of the blocks."""
    sizes = Timed(0.1).complete(64)
    left = 64
    for size in sizes:
        assert size == max(1, left // 8)
        left -= size


def test_blocks_that_get_slower_are_taken_in_smaller_ranges() -> None:
    """What a range should hold is measured again with each."""
    kernel = Timed(1e-6)
    run = kernel.run

    def slower(launch: int, worker: int, first: int, last: int) -> int:
        kernel.seconds = 1e-6 if first < 1000 else 1e-2
        return run(launch, worker, first, last)

    kernel.run = slower  # type: ignore[method-assign]
    sizes = kernel.complete(4096)
    late = [last - first for first, last in kernel.taken if first >= 2000]
    assert sizes[0] == 512
    assert all(last - first <= max(1, (4096 - first) // 8) for first, last in kernel.taken if first >= 2000)
    assert len(late) > 10


def test_a_launch_that_cannot_start_raises() -> None:
    """An error on the thread that prepares memory for blocks does not leave the launch waiting."""
    timed = Timed(1e-3)
    timed.program = None
    with pytest.raises(AttributeError, match="sites"):
        timed.complete(8)
