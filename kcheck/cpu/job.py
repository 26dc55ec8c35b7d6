"""A launch, ready to run."""

from __future__ import annotations

import ctypes

from kcheck.cpu.kernel import Kernel
from kcheck.cpu.races import Races
from kcheck.cpu.workers import Workspace
from kcheck.dataclass import dataclass
from kcheck.ptx.abi import Launch


@dataclass(slots=True)
class Job:
    """A launch, ready to run.

    Attributes:
        kernel: better code of the same program may replace it; blocks that are running keep their code.
        launch: the launch structure, filled in.
        blocks: the number of blocks.
        shared, state: bytes that each block needs.
        keep: objects that ``launch`` points to, kept alive as long as a worker may run it.
        races: racecheck's state if the kernel has racecheck; its blocks then run on one thread.
    """

    kernel: Kernel
    launch: Launch
    blocks: int
    shared: int
    state: int
    keep: list[object]
    races: Races | None = None

    @property
    def address(self) -> int:
        """The address of ``launch``."""
        return ctypes.addressof(self.launch)

    def prepare(self, workspace: Workspace) -> None:
        """Reserve memory for a block of this launch."""
        program = self.kernel.program
        workspace.prepare(self.shared, self.state, len(program.sites))
        if program.fresh:
            workspace.prepare_origins(self.shared, self.launch.threads, len(program.sites))
