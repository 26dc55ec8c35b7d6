"""The threads of a strip of blocks that pass its guards, where those that do not pass leave the kernel at once.

Guards compare an index with a bound, so they cut a range out of each axis. At the border of an array a strip runs
these threads only: some of its rows, and in each row the vectors from the first thread to the last. The first and
the last vector may lack some lanes.
"""

from __future__ import annotations

from kcheck.ptx.abi import AXES, Launch
from kcheck.ptx.ir.builder import Builder, Value
from kcheck.ptx.lowering.block_values import BlockValue, Scalars
from kcheck.ptx.lowering.function import FunctionLowering

EDGES = 60
"""Kernels with more instructions than this in their second version run no vectors that lack lanes: the code for
these vectors would take too long to compile."""


class Box:
    """The ranges of a strip.

    Args:
        edges: whether vectors may lack lanes.

    Attributes:
        axis: the number of the axis of the vectors.
        ranges: by number of an axis with a guard, the first position and the one after the last, i64. Along the
            axis of the vectors, positions count through all blocks of the strip. Ranges may be empty.
    """

    def __init__(self, fn: FunctionLowering, s: Scalars, *, edges: bool) -> None:
        self.fn = fn
        self.s = s
        self.axis = AXES.index(fn.unit.axis)
        self.edges = edges
        self.ranges: dict[int, tuple[Value, Value]] = {}

    def leave_out(self, excess: BlockValue) -> bool:
        """Leave out the threads in which a value is positive.

        Args:
            excess: i64; neither it nor its negation overflows.

        Returns:
            False if these threads are not known to be at an end of one axis; then nothing is left out.
        """
        varies = {k for k, step in enumerate(excess.steps) if step is not None}
        k = min(varies, default=3)
        if k == 3 or varies - {k} - ({3} if k == self.axis else set()):
            return False
        step = excess.steps[k]
        assert step is not None
        if step.text not in ("1", "-1") or (k == self.axis and not self.edges):
            return False
        b, first, zero = self.s.b, excess.first, self.s.b.const("i64", 0)
        size = self.size(k)
        low, end = self.ranges.get(k, (zero, size))
        if step.text == "1":
            ends = b.intrinsic("smax", self.s.sub(b.const("i64", 1), first), zero)
            self.ranges[k] = low, b.intrinsic("smin", end, ends)
        else:
            begins = b.intrinsic("smin", first, size)
            self.ranges[k] = b.intrinsic("smax", low, begins), end
        return True

    def size(self, k: int) -> Value:
        """The number of positions along an axis, i64."""
        size = self.s.resized(self.fn.field(Launch, Launch.block_dim, k), "i64")
        return self.s.mul(size, self.s.resized(Value("%count", "i32"), "i64")) if k == self.axis else size

    def ends(self, k: int) -> tuple[Value, Value] | None:
        """The first and the last position along an axis, i64; None if no guard concerns it."""
        if k not in self.ranges:
            return None
        low, end = self.ranges[k]
        return low, self.s.sub(end, self.s.b.const("i64", 1))

    def has_row(self, row: Builder) -> Value | None:
        """Whether the current row of threads is in the box, i1; None if all rows are."""
        inside: Value | None = None
        for k, (low, end) in sorted(self.ranges.items()):
            if k == self.axis:
                continue
            place = row.resize(self.fn.index_of_row(AXES[k]), "i64")
            fits = row.land(row.compare("sge", place, low), row.compare("slt", place, end))
            inside = fits if inside is None else row.land(inside, fits)
        return inside
