"""The two sides of a branch with the same warp-level operations, run side by side.

If all lanes of a warp are at the branch, the code runs in the order in which lanes that meet would run it
(:mod:`.meetings`), but no lane has to wait: the masks of the two sides stay in registers, and nothing is tested on
the way. If lanes are missing, lanes wait as at any other warp-level operation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from kcheck.ptx.analysis.arms import MOST_OPERATIONS, Arms, Segments, paired_arms
from kcheck.ptx.analysis.cfg import Cfg, is_barrier
from kcheck.ptx.analysis.liveness import Liveness
from kcheck.ptx.analysis.skips import Skips
from kcheck.ptx.ir.builder import Value
from kcheck.ptx.lowering import warp_emulation
from kcheck.ptx.lowering.function import FunctionLowering
from kcheck.ptx.lowering.meetings import Meetings
from kcheck.ptx.lowering.suspension import SuspensionPoint
from kcheck.ptx.syntax.ast import Call, Instruction

EVERYONE = -1
"""The member mask of all lanes, as a signed number."""

Keeps = Callable[[str], bool]
"""Whether a register must keep its value in the lanes that do not execute the current code."""


class PairedArms:
    """The branches of a kernel whose sides may run side by side.

    Args:
        meetings: where lanes meet.
        skips: the edges at which lanes skip a barrier; the branches are others.
    """

    def __init__(self, fn: FunctionLowering, cfg: Cfg, live: Liveness, meetings: Meetings, skips: Skips) -> None:
        self.fn, self.b, self._cfg, self._live, self._meetings = fn, fn.b, cfg, live, meetings
        self._points = {id(point.operation): point for group in meetings.groups.values() for point in group}
        self._marked = {n for n, _ in (*skips.away, *skips.toward)}
        self._arms: Mapping[int, Arms] = {}
        if self._points and not fn.observers:
            found = paired_arms(cfg, lambda operation: id(operation) in self._points)
            self._arms = {n: arms for n, arms in found.items() if self._fits(n, arms)}

    def at(self, n: int) -> Arms | None:
        """The sides of the branch at the end of a block; None if they do not run side by side."""
        return self._arms.get(n)

    def continues(self, n: int, arms: Arms) -> bool:
        """Whether the code of the join may follow at once.

        Args:
            n: the block of the branch.
        """
        order, join = self._cfg.order, self._cfg.blocks[arms.join]
        end = join.terminator
        return (
            order.index(arms.join) > order.index(n)
            and self._is_plain(arms.join)
            and arms.join not in self._arms
            and id(end) not in self._points
            and not any(isinstance(o, Call) or is_barrier(o) for o in join.operations)
            and len(join.body) <= MOST_OPERATIONS
        )

    def _is_plain(self, n: int) -> bool:
        """Whether a block is neither the header of a loop nor begins a stream, and its lanes skip no barrier."""
        is_header = any(loop.header == n for loop in self._cfg.loops)
        return not is_header and n not in self.fn.streams.begins and n not in self._marked

    def _fits(self, n: int, arms: Arms) -> bool:
        """Whether the operations meet and name all lanes."""
        if n in self._marked or not all(map(self._is_plain, arms.blocks)):
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

    def write(self, arms: Arms, taken: Value, rest: Value, run: Callable[[int, Value, Keeps], None]) -> None:
        """Emit both sides. All lanes are then at the join.

        Args:
            taken: the lanes that take the branch, as bits; not empty.
            rest: the other lanes.
            run: emits the code of a block, without its end, for lanes.
        """
        lanes = (rest, taken) if arms.swapped else (taken, rest)
        sides = ((lanes[0], self._needed(arms, arms.second)), (lanes[1], self._needed(arms, arms.first)))
        ends = self._ends(arms)
        for k, segments in enumerate(zip(arms.first, arms.second, strict=True)):
            posted: dict[int, Value] = {}
            for side, (segment, (here, keeps)) in enumerate(zip(segments, sides, strict=True)):
                for n in segment:
                    run(n, here, keeps)
                if k < len(ends):  # before the other side overwrites what only this one needs
                    self._post(ends[k][side], here, posted)
            if k < len(ends):
                for point, (here, keeps) in zip(ends[k], sides, strict=True):
                    self.fn.active = self.b.bits_mask(here, self.fn.width)
                    everyone = self.b.const("i32", EVERYONE)
                    self._meetings.execute(point, everyone, posted.__getitem__, keeps)

    def _needed(self, arms: Arms, side: Segments) -> Keeps:
        """Whether the lanes of a side need the value that a register has there when the other side writes it."""
        blocks = [n for segment in side for n in segment]
        return frozenset(name for n in (*blocks, arms.join) for name in self._live.names(n)).__contains__

    def _post(self, point: SuspensionPoint, lanes: Value, posted: dict[int, Value]) -> None:
        """Read the operands of an operation in lanes."""
        assert isinstance(point.operation, Instruction)
        self.fn.active = self.b.bits_mask(lanes, self.fn.width)
        warp_emulation.post(self.fn, point.operation, partial(self._put, posted))

    def _put(self, posted: dict[int, Value], column: int, value: Value) -> None:
        """Keep what the active lanes post in a column."""
        b, value = self.b, self.b.splat(value)
        old = posted.get(column)
        posted[column] = value if old is None else b.select(self.fn.active, b.resize(value, old.type), old)
