"""Reports an ``alloca`` of more memory than the stack has. The parser expands the rest of the instruction
(:mod:`kcheck.ptx.syntax.stack`)."""

from __future__ import annotations

from kcheck.ptx.abi import FaultKind
from kcheck.ptx.isa.effects import effect
from kcheck.ptx.isa.surroundings import Surroundings
from kcheck.ptx.runtime.faults import report_fault
from kcheck.ptx.syntax.ast import Instruction
from kcheck.ptx.syntax.types import TYPES


@effect("alloca")
def alloca(fn: Surroundings, i: Instruction) -> None:
    """``alloca size, free, address, start``: report more than ``free`` bytes, or an address below ``start``."""
    b = fn.b
    size, free, address, start = (b.splat(fn.read(i, operand, TYPES["u64"])) for operand in i.operands)
    too_much = b.lor(b.compare("ugt", size, free), b.compare("ult", address, start))
    bad = b.land(b.splat(fn.active), too_much)
    with b.when(b.any(bad)):
        lane = b.resize(b.flagged_intrinsic("cttz", b.mask_bits(bad), False), "i32")
        wanted = b.extract(size, lane) if fn.width > 1 else size
        report_fault(b, FaultKind.STACK_OVERFLOW, fn.unit.site(i, ""), address=wanted, size=1, lane=lane)
