"""Runs some blocks of a launch whose arrays do not fit in memory, each for a limited time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from kcheck.cpu.completion import Completion
from kcheck.cpu.job import Job
from kcheck.cpu.workers import Workspace
from kcheck.ptx.abi import FINISHED, STOP_REQUESTED, STOPPED

SAMPLE_SECONDS, BLOCK_SECONDS = 2.0, 0.25
"""How long the blocks of a sampled launch may take, together and each: one may walk a row of 2**31 elements."""
_LEAST_SECONDS = 0.01


def run_blocks(
    job: Job, workspace: Workspace, completion: Completion, blocks: Sequence[int], clock: Callable[[], float]
) -> None:
    """Run blocks one after another. One that takes too long is stopped and counted; a fault ends the launch."""

    def stop() -> None:
        job.launch.stop = STOP_REQUESTED

    left = SAMPLE_SECONDS
    for block in blocks:
        if completion.timed_out or completion.interrupted:
            break
        begun = clock()
        timer = threading.Timer(min(BLOCK_SECONDS, left), stop)
        timer.start()
        status = job.kernel.run(job.address, workspace.address, block, block + 1)
        timer.cancel()
        timer.join()  # it must not stop the next block
        left = max(left - (clock() - begun), _LEAST_SECONDS)
        if status == STOPPED and job.launch.stop == STOP_REQUESTED:
            completion.unfinished += 1
        elif status != FINISHED:
            completion.reach(status, workspace)
            break
        if job.launch.stop == STOP_REQUESTED:
            job.launch.stop = 0
