"""Loads and stores whose addresses were checked in advance for all threads of a block.

They check no address again. Loads ignore the mask of the active lanes, unless inactive lanes were not checked.
"""

from __future__ import annotations

from kcheck.ptx.ir.builder import Value
from kcheck.ptx.ir.flow import LIKELY
from kcheck.ptx.ir.masked import masked_gather, masked_load, masked_scatter, masked_store
from kcheck.ptx.isa.surroundings import AdmittedLanes, Surroundings
from kcheck.ptx.syntax.types import PtxType

_SHUFFLED = 4
"""The smallest element, in bytes, that processors permute between lanes with one instruction."""


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
    if step == kind.bytes:
        return _load(fn, lanes.first, kind, fn.width)
    if step == 2 * kind.bytes and kind.bytes >= _SHUFFLED:
        return _every_other(fn, lanes.first, kind)
    every = Value("splat (i1 true)", "i1", fn.width)
    if isinstance(step, int):
        return masked_gather(b, kind.llvm, _addresses(fn, lanes), kind.bytes, every)
    slot = f"%{b.fresh('lanes')}"
    fn.prologue.line(f"{slot} = alloca <{fn.width} x {kind.llvm}>")
    with b.if_(b.compare("eq", step, kind.bytes)) as side_by_side:
        b.line(f"store {b.typed(_load(fn, lanes.first, kind, fn.width))}, ptr {slot}")
    with side_by_side.else_():
        found = masked_gather(b, kind.llvm, _addresses(fn, lanes), kind.bytes, every)
        b.line(f"store {b.typed(found)}, ptr {slot}")
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


def _every_other(fn: Surroundings, address: Value, kind: PtxType) -> Value:
    """Load every other element with two loads and a shuffle, which is faster than a gather.

    The second load ends with the last lane's element, so it does not read beyond the array.
    """
    b, W = fn.b, fn.width
    first, last = (_load(fn, b.add(address, n * kind.bytes), kind, W) for n in (0, W - 1))
    return b.shuffle(first, last, [2 * lane if 2 * lane < W else 2 * lane + 1 for lane in range(W)])


def _addresses(fn: Surroundings, lanes: AdmittedLanes) -> Value:
    b = fn.b
    numbers = b.lanes_const("i64", range(fn.width))
    step = b.const("i64", lanes.step) if isinstance(lanes.step, int) else lanes.step
    return b.add(lanes.first, b.mul(step, numbers))
