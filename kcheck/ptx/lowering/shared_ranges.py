"""The test whether a range of shared memory is inside the array that an access uses."""

from __future__ import annotations

from kcheck.ptx.abi import Worker
from kcheck.ptx.ir.builder import Value
from kcheck.ptx.lowering.function import FunctionLowering
from kcheck.ptx.syntax.ast import Instruction


def is_inside(fn: FunctionLowering, access: Instruction, low: Value, extent: int, size: int) -> Value:
    """Whether ``extent`` bytes from the address ``low`` on are inside the array, and ``low`` is a multiple of
    ``size``."""
    b = fn.b
    window, length = fn.field(Worker, Worker.shared), fn.shared_extent()
    array = fn.unit.array_of.get(id(access))
    if array is not None and array.size is not None:
        window, length = b.add(window, array.offset), b.const("i64", array.size)
    offset = b.sub(low, window)
    room = b.intrinsic("usub.sat", length, b.const("i64", extent - 1))
    is_aligned = b.compare("eq", b.land(offset, size - 1), 0)
    return b.land(b.compare("ult", offset, room), is_aligned)
