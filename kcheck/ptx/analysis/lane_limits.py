"""Comparisons of a thread's index with a uniform number, which hold up to some lane or from some lane on.

If an index is i in the first lane and increases by 1 from lane to lane, ``i < n`` holds in the first n - i lanes.
So a subtraction gives the lanes as bits, without a comparison in each lane. For an order, the index must not wrap
around between the lanes of a vector (:mod:`kcheck.ptx.analysis.ranges`); for equality, it may.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from kcheck.dataclass import dataclass
from kcheck.ptx.analysis import ranges
from kcheck.ptx.analysis.cfg import Cfg
from kcheck.ptx.analysis.liveness import writes
from kcheck.ptx.syntax.ast import Instruction, Integer, Operand, Register, Special
from kcheck.ptx.syntax.types import TYPES

_ORDERS = {
    **{condition: condition for condition in ("lt", "le", "gt", "ge", "eq", "ne")},
    "lo": "lt",
    "ls": "le",
    "hi": "gt",
    "hs": "ge",
}
_TURNED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}


@dataclass(frozen=True, slots=True)
class LaneLimit:
    """A comparison of an index, 1 more in each lane, with a number that is the same for all lanes.

    Attributes:
        condition: ``lt``, ``le``, ``gt``, ``ge``, ``eq`` or ``ne``, with the index on the left.
        signed: whether they are compared as signed numbers.
        turned: whether the index is the second source.
    """

    condition: str
    signed: bool
    turned: bool


def find(
    cfg: Cfg, strides: Mapping[str, int], uniform: Set[str], bounds: Mapping[str, ranges.Bounds], width: int
) -> Mapping[int, LaneLimit]:
    """The comparisons of this kind, by ``id``, except those whose result is known to be the same in all lanes.

    Args:
        strides: the stride between lanes of registers that have one.
        uniform: registers that are the same in all lanes.
        bounds: of registers, as signed numbers.
    """
    found = {}
    for n in cfg.order:
        for i in cfg.blocks[n].body:
            if isinstance(i, Instruction) and i.opcode == "setp" and i.guard is None:
                level = uniform | strides.keys()
                limit = None if any(r.name in level for r in writes(i)) else _limit(i, strides, uniform)
                if limit is not None and (limit.condition in ("eq", "ne") or _in_order(i, limit, bounds, width)):
                    found[id(i)] = limit
    return found


def _limit(i: Instruction, strides: Mapping[str, int], uniform: Set[str]) -> LaneLimit | None:
    kind = TYPES.get(i.modifiers[-1])
    if kind is None or kind.kind not in ("signed", "unsigned", "bits") or kind.bits not in (32, 64):
        return None
    condition = _ORDERS.get(i.modifiers[0])
    if condition is None:
        return None
    steps = [_step(operand, kind.bits, strides, uniform) for operand in i.operands[1:3]]
    if steps not in ([1, 0], [0, 1]):
        return None
    # With .lo, .ls, .hi and .hs numbers are unsigned, whatever the type is.
    signed = kind.kind == "signed" and i.modifiers[0] == condition
    return LaneLimit(_TURNED[condition] if steps == [0, 1] else condition, signed, steps == [0, 1])


def _step(operand: Operand, bits: int, strides: Mapping[str, int], uniform: Set[str]) -> int | None:
    """The stride of a source between lanes; None: it has none, or the source has a different size."""
    if isinstance(operand, Register):
        if TYPES[operand.type].bits != bits or TYPES[operand.type].kind in ("float", "pred", "packed"):
            return None
        return 0 if operand.name in uniform else strides.get(operand.name)
    if isinstance(operand, Special):
        return 0 if operand.name.startswith(("ntid", "ctaid", "nctaid")) else None
    return 0 if isinstance(operand, Integer) else None


def _in_order(i: Instruction, limit: LaneLimit, bounds: Mapping[str, ranges.Bounds], width: int) -> bool:
    """Whether the index grows from the first lane to the last as a number of the type that is compared."""
    index = i.operands[2 if limit.turned else 1]
    assert isinstance(index, Register)
    kind = TYPES[i.modifiers[-1]]
    low, high = bounds.get(index.name, ranges.bounds_of_type(kind.bits))
    return high + width <= ranges.bounds_of_type(kind.bits)[1] and (limit.signed or low >= 0)
