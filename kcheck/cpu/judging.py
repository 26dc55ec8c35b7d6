"""How a launch ended, from what its code recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from kcheck.cpu.completion import Completion
from kcheck.cpu.faults import by_number, findings, grid_finding, still_running
from kcheck.cpu.launches import ENDINGS, Ending, KernelLaunch
from kcheck.cpu.memory import Memory
from kcheck.cpu.naming import LaunchGeometry, Naming, Windows
from kcheck.cpu.scheduler import Job
from kcheck.cpu.textures import Textures
from kcheck.model import Finding
from kcheck.ptx.abi import FAULTS, FaultKind, FaultRecord

FAULT_CAPACITY = 1024


class LaunchJudge:
    """Reports what was found in launches, and says how they ended.

    Args:
        tell: reports a finding of a launch.
        report: reports a finding as it is.

    Attributes:
        faults: where the code of a launch records its faults.
    """

    def __init__(
        self,
        memory: Memory,
        textures: Textures,
        tell: Callable[[KernelLaunch, Finding], None],
        report: Callable[[Finding], None],
    ) -> None:
        self._memory = memory
        self._textures = textures
        self._tell = tell
        self._report = report
        self.faults = (FaultRecord * FAULT_CAPACITY)()

    def faults_of(self, job: Job) -> list[FaultRecord]:
        """The faults that a launch recorded."""
        return self.faults[: min(job.launch.fault_count, FAULT_CAPACITY)]

    def judge(self, job: Job, completion: Completion, launch: KernelLaunch, *, in_order: bool) -> Ending:
        """Report findings; return how the launch ended.

        Args:
            in_order: whether blocks and threads ran in the order of their indices.
        """
        if not job.launch.fault_count and completion.is_plain and job.races is None:
            return Ending.FINISHED
        program = job.kernel.program
        naming = self.naming(job, completion, launch)
        faults = self.faults_of(job)
        if not in_order:
            faults.sort(key=by_number)
        for finding in findings(faults, program, self._memory, naming, job.launch.threads, self._textures):
            self._tell(launch, finding)
        if job.races is not None and completion.workspaces:
            grid, block = tuple(job.launch.grid_dim), tuple(job.launch.block_dim)
            for finding in job.races.findings(program, grid, block, naming, cooperative=launch.cooperative):
                self._tell(launch, finding)
        if (
            cut_off := self.cut_off(
                launch, completion, partial(still_running, faults, program, job.launch.grid_dim)
            )
        ) is not None:
            return cut_off
        if completion.grid is not None:
            told = grid_finding(completion.grid, program, naming, job.launch.grid_dim)
            if completion.reached_grid_barrier:
                message = "reached a grid barrier in a launch that is not cooperative"
                self._report(replace(told, message=message, fix="launch it cooperatively"))
                return Ending.TRAPPED
            self._tell(launch, told)
        for fault in faults:
            kind = FaultKind(fault.kind)
            if FAULTS[kind].stops:
                return ENDINGS.get(kind, Ending.ILLEGAL_ADDRESS)
        return Ending.FINISHED

    def cut_off(self, launch: KernelLaunch, completion: Completion, place: Callable[[], Finding]) -> Ending | None:
        """How a launch ended if it was stopped from outside, else None. ``place``: returns the timeout finding."""
        if completion.timed_out:
            self._tell(launch, place())
            return Ending.TIMED_OUT
        if completion.interrupted:
            return Ending.INTERRUPTED
        return None

    def naming(self, job: Job, completion: Completion, launch: KernelLaunch) -> Naming:
        """The names of a launch's arrays in findings."""
        windows = Windows(
            shared=[(workspace.context.shared, job.shared) for workspace in completion.workspaces],
            state=[(workspace.context.state, job.state) for workspace in completion.workspaces],
        )
        geometry = LaunchGeometry(launch.grid, launch.block, launch.shared)
        program, module = job.kernel.program, launch.module
        return Naming(program, module, self._memory, windows, launch.params, geometry, launch.arrays)
