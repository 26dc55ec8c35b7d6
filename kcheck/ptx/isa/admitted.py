"""Loads and stores whose addresses were checked in advance for all threads of a block.

They check no address again. Loads ignore the mask of the active lanes, unless inactive lanes were not checked.
"""

from __future__ import annotations

from kcheck.ptx.ir.builder import Value
from kcheck.ptx.ir.flow import LIKELY
from kcheck.ptx.ir.masked import masked_gather, masked_load, masked_scatter, masked_store
from kcheck.ptx.isa.surroundings import AdmittedLanes, Surroundings
from kcheck.ptx.syntax.types import PtxType

_TIMES = (1, 2, 3, 4)
"""Strides, in elements, of loads without a gather: that of an array's last axis, and those of an array whose last
axis has the coordinates of a point or the colors of a pixel."""


def load(fn: Surroundings, lanes: AdmittedLanes, kind: PtxType) -> Value:
    """The element of each lane, or a scalar if all lanes access the same element. Inactive lanes that were checked
    load, too."""
    b, step = fn.b, lanes.step
    if step == 0:
        return _load(fn, lanes.first, kind, 1)
    if lanes.lacks_lanes:
        mask = b.splat(fn.active)
        if step == kind.bytes:
            return masked_load(b, kind.llvm, _pointer(fn, lanes.first), kind.bytes, mask)
        return masked_gather(b, kind.llvm, _addresses(fn, lanes), kind.bytes, mask)
    every = Value("splat (i1 true)", "i1", fn.width)
    if isinstance(step, int):
        times, rest = divmod(step, kind.bytes)
        if times in _TIMES and not rest:
            return _of_every(fn, lanes.first, kind, times)
        return masked_gather(b, kind.llvm, _addresses(fn, lanes), kind.bytes, every)
    slot = f"%{b.fresh('lanes')}"
    fn.prologue.line(f"{slot} = alloca <{fn.width} x {kind.llvm}>")

    def choose(times: tuple[int, ...]) -> None:
        if not times:
            found = masked_gather(b, kind.llvm, _addresses(fn, lanes), kind.bytes, every)
            b.line(f"store {b.typed(found)}, ptr {slot}")
            return
        with b.if_(b.compare("eq", step, times[0] * kind.bytes)) as near:
            b.line(f"store {b.typed(_of_every(fn, lanes.first, kind, times[0]))}, ptr {slot}")
        with near.else_():
            choose(times[1:])

    choose(_TIMES)
    return b.value(f"load <{fn.width} x {kind.llvm}>, ptr {slot}", kind.llvm, fn.width)


def store(fn: Surroundings, lanes: AdmittedLanes, value: Value, kind: PtxType) -> None:
    """Store the element of each active lane. If all lanes access the same address, the last active lane's
    remains."""
    b, step = fn.b, lanes.step
    if step == 0 and value.lanes == 1 and lanes.all_on:
        b.line(f"store {b.typed(value)}, ptr {_pointer(fn, lanes.first).text}, align {kind.bytes}")
        return
    value = b.splat(value)
    if step == kind.bytes:
        _store(fn, lanes, value, kind)
    elif isinstance(step, int):
        masked_scatter(b, value, _addresses(fn, lanes), kind.bytes, b.splat(fn.active))
    else:
        with b.if_(b.compare("eq", step, kind.bytes)) as side_by_side:
            _store(fn, lanes, value, kind)
        with side_by_side.else_():
            masked_scatter(b, value, _addresses(fn, lanes), kind.bytes, b.splat(fn.active))


def _pointer(fn: Surroundings, address: Value) -> Value:
    return fn.b.cast("inttoptr", address, "ptr")


def _load(fn: Surroundings, address: Value, kind: PtxType, count: int) -> Value:
    element = f"<{count} x {kind.llvm}>" if count > 1 else kind.llvm
    text = f"load {element}, ptr {_pointer(fn, address).text}, align {kind.bytes}"
    return fn.b.value(text, kind.llvm, count)


def _store(fn: Surroundings, lanes: AdmittedLanes, value: Value, kind: PtxType) -> None:
    b = fn.b
    pointer = _pointer(fn, lanes.first)
    text = f"store {b.typed(value)}, ptr {pointer.text}, align {kind.bytes}"
    if lanes.all_on:
        b.line(text)
        return
    mask = b.splat(fn.active)
    with b.if_(b.compare("eq", b.mask_bits(mask), -1), LIKELY) as whole:
        b.line(text)
    with whole.else_():
        masked_store(b, value, pointer, kind.bytes, mask)


def _of_every(fn: Surroundings, address: Value, kind: PtxType, times: int) -> Value:
    """Load the first of every one to four elements. Two loads and a shuffle are faster than a gather.

    The second load ends with the last lane's element, so it does not read beyond the array.
    """
    b, W = fn.b, fn.width
    if times == 1 or W == 1:
        return _load(fn, address, kind, W)
    span, part = (W - 1) * times + 1, W if times == 2 else 2 * W
    begin = span - part
    first, last = (_load(fn, b.add(address, n * kind.bytes), kind, part) for n in (0, begin))
    places = [lane * times for lane in range(W)]
    return b.shuffle(first, last, [n if n < part else part + n - begin for n in places])


def _addresses(fn: Surroundings, lanes: AdmittedLanes) -> Value:
    b = fn.b
    numbers = b.lanes_const("i64", range(fn.width))
    step = b.const("i64", lanes.step) if isinstance(lanes.step, int) else lanes.step
    return b.add(lanes.first, b.mul(step, numbers))
