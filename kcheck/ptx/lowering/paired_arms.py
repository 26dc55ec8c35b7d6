"""The two sides of a branch with the same warp-level operations, run side by side.

If all lanes of a warp are at the branch, the code runs in the order in which lanes that meet would run it
(:mod:`.meetings`), but no lane has to wait: the masks of the two sides stay in registers, and nothing is tested on
the way. If lanes are missing, lanes wait as at any other warp-level operation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from kcheck.ptx.analysis.arms import Arms, paired_arms
from kcheck.ptx.analysis.cfg import Cfg
from kcheck.ptx.analysis.skips import Skips
from kcheck.ptx.ir.builder import Value
from kcheck.ptx.lowering import warp_emulation
from kcheck.ptx.lowering.function import FunctionLowering
from kcheck.ptx.lowering.meetings import Meetings
from kcheck.ptx.lowering.suspension import SuspensionPoint
from kcheck.ptx.syntax.ast import Instruction

EVERYONE = -1
"""The member mask of all lanes, as a signed number."""


class PairedArms:
    """The branches of a kernel whose sides may run side by side.

    Args:
        meetings: where lanes meet.
        skips: the edges at which lanes skip a barrier; the branches are others.
    """

    def __init__(self, fn: FunctionLowering, cfg: Cfg, meetings: Meetings, skips: Skips) -> None:
        self.fn, self.b, self._cfg, self._meetings = fn, fn.b, cfg, meetings
        self._points = {id(point.operation): point for group in meetings.groups.values() for point in group}
        marked = {n for n, _ in (*skips.away, *skips.toward)}
        self._arms: Mapping[int, Arms] = {}
        if self._points and not fn.observers:
            found = paired_arms(cfg, lambda operation: id(operation) in self._points)
            self._arms = {n: arms for n, arms in found.items() if self._fits(arms) and n not in marked}

    def at(self, n: int) -> Arms | None:
        """The sides of the branch at the end of a block; None if they do not run side by side."""
        return self._arms.get(n)

    def _fits(self, arms: Arms) -> bool:
        """Whether the operations meet and name all lanes."""
        if any(n in self.fn.streams.begins for n in arms.blocks):
            return False
        for one, two in self._ends(arms):
            group = self._meetings.group_of[one.number]
            if group != self._meetings.group_of[two.number] or self._meetings.mask(group) != EVERYONE:
                return False
        return True

    def _ends(self, arms: Arms) -> list[tuple[SuspensionPoint, SuspensionPoint]]:
        """The suspension points that meet."""
        ends = []
        for segments in zip(arms.first[:-1], arms.second[:-1], strict=True):
            one, two = (self._points[id(self._cfg.blocks[segment[-1]].terminator)] for segment in segments)
            ends.append((one, two))
        return ends

    def write(self, arms: Arms, taken: Value, rest: Value, run: Callable[[int, Value], None]) -> Value:
        """Emit both sides.

        Args:
            taken: the lanes that take the branch, as bits; not empty.
            rest: the other lanes.
            run: emits the code of a block, without its end, for lanes.

        Returns:
            The lanes that are then at the join.
        """
        b, fn = self.b, self.fn
        sides = (rest, taken) if arms.swapped else (taken, rest)
        ends = self._ends(arms)
        for k, segments in enumerate(zip(arms.first, arms.second, strict=True)):
            for segment, lanes in zip(segments, sides, strict=True):
                for n in segment:
                    run(n, lanes)
            if k < len(ends):
                self._meet(ends[k], sides)
        return b.const(taken.type, EVERYONE)

    def _meet(self, points: tuple[SuspensionPoint, SuspensionPoint], sides: tuple[Value, Value]) -> None:
        """Execute an operation for the lanes of both sides."""
        b, fn = self.b, self.fn
        posted: dict[int, Value] = {}
        for point, lanes in zip(points, sides, strict=True):
            assert isinstance(point.operation, Instruction)
            fn.active = b.bits_mask(lanes, fn.width)
            warp_emulation.post(fn, point.operation, partial(self._put, posted))
        for point, lanes in zip(points, sides, strict=True):
            assert isinstance(point.operation, Instruction)
            fn.active = b.bits_mask(lanes, fn.width)
            self._meetings.execute(point, b.const("i32", EVERYONE), posted.__getitem__)

    def _put(self, posted: dict[int, Value], column: int, value: Value) -> None:
        """Keep what the active lanes post in a column."""
        b, value = self.b, self.b.splat(value)
        old = posted.get(column)
        posted[column] = value if old is None else b.select(self.fn.active, b.resize(value, old.type), old)
