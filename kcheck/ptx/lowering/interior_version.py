"""The version of a kernel for interior blocks (:mod:`kcheck.ptx.lowering.interior`).

::

    kcheck.warp ──→ kcheck.interior: is this an interior block? ──no──→ its vectors, general code
                        │ yes
                    all whole vectors, without guards and range checks ──→ the other threads, general code

It is lowered like the kernel, from a control flow graph without the decided branches. Instructions whose results
are known for the block are not lowered: a register that other instructions read is computed from its value in the
first thread of the block and from the position of the vector.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from kcheck.ptx.abi import AXES, Launch
from kcheck.ptx.analysis.cfg import Cfg
from kcheck.ptx.ir.builder import Value
from kcheck.ptx.ir.flow import FlowBuilder
from kcheck.ptx.ir.signature import Definition
from kcheck.ptx.lowering import vector_loop
from kcheck.ptx.lowering.control_facts import ControlFacts
from kcheck.ptx.lowering.function import FunctionLowering
from kcheck.ptx.lowering.interior import Interior
from kcheck.ptx.lowering.interior_box import EDGES
from kcheck.ptx.lowering.interior_values import BlockEvaluator
from kcheck.ptx.lowering.suspension import StateLayout
from kcheck.ptx.lowering.warp import ATTRIBUTES, WarpFunction
from kcheck.ptx.runtime.layout import INTERIOR
from kcheck.ptx.syntax.ast import Instruction, Operation

_LABEL = re.compile(r"[\w.]+:")
_NAME = re.compile(r"%([\w.]+)")


def renamed(lines: Sequence[str], suffix: str) -> list[str]:
    """The lines with other labels, so that a function can contain both."""
    labels = {line.partition(":")[0] for line in lines if _LABEL.match(line)}

    def changed(line: str) -> str:
        if _LABEL.match(line):
            return f"{line.partition(':')[0]}.{suffix}:"
        new = _NAME.sub(lambda name: f"{name[0]}.{suffix}" if name[1] in labels else name[0], line)
        return line if new == line else new  # the object may be one that Registers.needed knows

    return [changed(line) for line in lines]


def no_interior() -> Definition:
    """INTERIOR for a kernel without such a version: it runs no threads."""
    b = FlowBuilder(1)
    b.leave(b.const("i32", 0))
    return Definition(INTERIOR, tuple(b.lines), frozenset(), exported=True)


class InteriorVersion(WarpFunction):
    """Lowers a kernel for interior blocks; its ``definition`` is that of INTERIOR.

    Args:
        whole: the control flow graph of the general version.
        site_of: the site of an access in the general version, whose record has the allocation.
    """

    def __init__(
        self,
        fn: FunctionLowering,
        facts: ControlFacts,
        interior: Interior,
        whole: Cfg,
        site_of: Callable[[Instruction], int],
    ) -> None:
        super().__init__(fn, StateLayout(0), facts)
        self.interior = interior
        self.whole = whole
        self.site_of = site_of
        fn.covered = frozenset(id(i) for i in interior.accesses)
        fn.skipped = interior.skipped

    def definition(self, name: str) -> Definition:
        """The definition of INTERIOR, whatever ``name`` is."""
        b, fn, interior = self.b, self.fn, self.interior
        fn.unit.repeats = True
        size = sum(len(self.cfg.blocks[n].operations) for n in self.cfg.order) - len(interior.skipped)
        evaluator = BlockEvaluator(fn, interior.joins, edges=size <= EDGES)
        for operation in interior.evaluated:
            evaluator.evaluate(operation)
        for guard, wanted, leaves in interior.decided:
            evaluator.decide(guard.name, wanted, leaves)
        evaluator.admit(interior.accesses, self.site_of)
        test = b.take()
        fn.block_values = evaluator.values
        whole = self._vector(interior.everywhere, Value("-1", self.bits))
        limits = evaluator.box.ranges.get(evaluator.box.axis)
        part = None if limits is None else renamed(self._vector(frozenset(), Value("%edge", self.bits)), "edge")
        has_row = evaluator.box.has_row(fn.row)
        found = self._found(evaluator)
        test += b.take()
        head, begin = self._parts([], [])
        fn.unit.repeats = False
        rows = vector_loop.StripRows(fn.row.lines, has_row, limits)
        vector = vector_loop.VectorCode(begin, fn.needed(whole), None if part is None else fn.needed(part))
        lines = vector_loop.interior_loop(self.width, test, found, rows, vector, b.references)
        references = frozenset(b.references)
        return Definition(INTERIOR, (*head, *lines), references, attributes=ATTRIBUTES, exported=True)

    def _vector(self, everywhere: frozenset[int], lanes: Value) -> list[str]:
        """The lines for a vector.

        Args:
            everywhere: the blocks that all lanes execute.
            lanes: the lanes that execute the first block, as bits.
        """
        b, fn = self.b, self.fn
        b.line(f"store {b.typed(lanes)}, ptr {self._mask(self.cfg.order[0])}")
        b.jump("C0")
        for k, n in enumerate(self.cfg.order):
            fn.all_on = n in everywhere
            fn.lacks_lanes = not everywhere
            self._block(k, n)
        b.label("fin")
        b.jump("over")
        return b.take()

    def _found(self, evaluator: BlockEvaluator) -> tuple[Value, Value]:
        """Whether these are interior blocks, and the number of threads in a row of a block."""
        b, fn = self.b, self.fn
        axis = AXES.index(fn.unit.axis)
        row = fn.field(Launch, Launch.block_dim, axis)
        if self.interior.joins:
            for steps in sorted(fn.used_steps, key=str):
                evaluator.join(steps[axis], steps[3], row)
        is_interior = b.const("i1", 1)
        for condition in evaluator.holds:
            is_interior = b.land(is_interior, condition)
        return is_interior, row

    def _announced(self, n: int) -> Sequence[Operation]:
        return self.whole.blocks[n].operations

    def _terminate(self, n: int) -> None:
        end, way = self.whole.blocks[n].terminator, self.interior.chosen.get(n)
        if end is not None and way is not None:
            for observer in self.fn.observers:
                observer.goes(end, way)
        super()._terminate(n)

    def _lanes(self, n: int) -> Value:
        return Value("-1", self.bits) if self.fn.all_on else super()._lanes(n)
