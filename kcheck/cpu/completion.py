"""How the blocks of a launch ended."""

from __future__ import annotations

from dataclasses import field

from kcheck.cpu.waiting import GridWait
from kcheck.cpu.workers import Workspace
from kcheck.dataclass import dataclass
from kcheck.ptx.abi import GRID_BARRIER


@dataclass
class Completion:
    """How the blocks of a launch ended.

    Attributes:
        reached_grid_barrier: whether a block of a launch that is not cooperative stopped at a grid barrier.
        grid: blocks that reached different grid barriers, or a grid barrier that is not allowed; else None.
        timed_out, interrupted: whether it was stopped from outside.
        raised: an exception that a signal handler raised meanwhile.
        workspaces: those that were used.
        is_faster_alone: whether several threads were slower than one.
        unfinished: blocks of a sampled launch that were stopped because they took too long.
    """

    reached_grid_barrier: bool = False
    grid: GridWait | None = None
    timed_out: bool = False
    interrupted: bool = False
    raised: BaseException | None = None
    workspaces: list[Workspace] = field(default_factory=list)
    is_faster_alone: bool = False
    unfinished: int = 0

    def reach(self, status: int, workspace: Workspace) -> None:
        """Record how a range of blocks ended, in a launch without grid barriers."""
        if status == GRID_BARRIER:
            self.reached_grid_barrier = True
            self.grid = GridWait({workspace.context.grid_site: [0]}, 0)

    @property
    def is_plain(self) -> bool:
        """Whether every block simply ran to its end."""
        stopped = self.timed_out or self.interrupted
        return not (stopped or self.reached_grid_barrier or self.grid)
