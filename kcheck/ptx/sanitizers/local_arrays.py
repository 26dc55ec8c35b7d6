"""Checks accesses to local arrays against the array that they were computed from, in code with debug information.

The check of all code only knows the whole local memory of a thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from kcheck.ptx.abi import FaultKind
from kcheck.ptx.analysis.cfg import Cfg
from kcheck.ptx.analysis.local_arrays import variables_of_accesses
from kcheck.ptx.ir.builder import Value
from kcheck.ptx.isa.events import Access, Observer, Update
from kcheck.ptx.lowering.function import FunctionLowering
from kcheck.ptx.lowering.sanitizer import Sanitizer
from kcheck.ptx.runtime.faults import report_fault
from kcheck.ptx.sanitizers.origins import rarely
from kcheck.ptx.syntax.ast import Instruction, Symbol
from kcheck.ptx.syntax.dwarf import DebugVariable


class LocalArrayObserver(Observer):
    """Checks the accesses of one function."""

    def __init__(
        self, fn: FunctionLowering, known: Mapping[int, DebugVariable], found: dict[int, DebugVariable]
    ) -> None:
        self.fn = fn
        self._known = known
        self._found = found

    def accesses_row(
        self, i: Instruction, access: Access, step: Value | int, values: Sequence[Value] = ()
    ) -> None:
        """An access to adjacent elements; local memory has none in several lanes."""

    def accesses(self, i: Instruction, access: Access, values: Sequence[Value] = ()) -> None:
        """A load or a store."""
        self._check(i, access)

    def updates(self, i: Instruction, update: Update) -> None:
        """An atomic."""

    def _check(self, i: Instruction, access: Access) -> None:
        variable = self._known.get(id(i))
        if variable is None:
            return
        b, fn = self.fn.b, self.fn
        self._found[access.site] = variable
        size = access.kind.bytes * access.count
        start = b.splat(fn.address_of(i, Symbol(variable.frame, variable.offset)))
        distance = b.sub(b.splat(access.address), start)
        outside = b.compare("ugt", distance, max(variable.size - size, 0))
        lanes = b.land(b.splat(fn.active), outside)
        rarely(fn, b.any(lanes), partial(self._report, access.site, size, lanes, distance))

    def _report(self, site: int, size: int, lanes: Value, distance: Value) -> None:
        b = self.fn.b
        lane = b.const("i32", 0)
        if self.fn.width > 1:
            lane = b.resize(b.flagged_intrinsic("cttz", b.mask_bits(lanes), False), "i32")
        where = b.extract(b.splat(distance), lane)
        report_fault(b, FaultKind.LOCAL_BOUNDS, site, address=where, size=size, lane=lane)


class LocalArrays(Sanitizer):
    """Checks one kernel.

    Attributes:
        found: the variable of each access, by its site.
    """

    def __init__(self) -> None:
        self.found: dict[int, DebugVariable] = {}

    def observe(self, fn: FunctionLowering, cfg: Cfg) -> Observer | None:
        """Watch the functions that have local arrays."""
        known = variables_of_accesses(fn.unit.module, fn.function)
        return LocalArrayObserver(fn, known, self.found) if known else None
