"""The lanes up to which an index is below a number, as bits: see :mod:`kcheck.ptx.analysis.lane_limits`."""

from __future__ import annotations

from kcheck.ptx.analysis.lane_limits import LaneLimit
from kcheck.ptx.ir.builder import Builder, Value


def compare(b: Builder, limit: LaneLimit, x: Value, y: Value) -> Value:
    """The mask of the lanes in which the comparison holds.

    Args:
        x: the first source, in the first lane; ``y``: the second source, likewise.
    """
    index, number = (y, x) if limit.turned else (x, y)
    if limit.condition in ("eq", "ne"):
        bits = _lane_of(b, index, number)
        holds = limit.condition == "eq"
    else:
        holds = limit.condition in ("lt", "le")
        bits = _below(b, index, number, limit.signed, limit.condition in ("le", "gt"))
    return b.bits_mask(bits if holds else b.invert(bits), b.width)


def _below(b: Builder, index: Value, number: Value, signed: bool, included: bool) -> Value:
    """The lanes whose index is less than a number, or with ``included`` at most that number."""
    sign = "s" if signed else "u"
    distance = b.sub(number, index)  # correct as an unsigned number wherever it is used
    some = b.compare(f"{sign}{'ge' if included else 'gt'}", number, index)
    count = b.intrinsic("umin", distance, b.const(distance.type, b.width - included))
    lanes = b.select(some, b.add(count, 1) if included else count, b.const(count.type, 0))
    return b.resize(b.invert(b.shift("shl", b.const("i64", -1), b.resize(lanes, "i64"))), f"i{b.width}")


def _lane_of(b: Builder, index: Value, number: Value) -> Value:
    """The lane whose index equals a number, if there is one."""
    distance = b.sub(number, index)
    inside = b.compare("ult", distance, b.width)
    count = b.select(inside, distance, b.const(distance.type, 0))
    bit = b.shift("shl", b.resize(inside, "i64"), b.resize(count, "i64"))
    return b.resize(bit, f"i{b.width}")
