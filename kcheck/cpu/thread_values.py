"""Computes addresses as functions of the thread's indices, to find whether threads store to different bytes.

With the parameters of a launch, most addresses are sums of multiples of the thread's and the block's indices:
``base + 4 * (64 * blockIdx.x + threadIdx.x)``. Threads whose sums differ by at least the size of an access touch
different bytes. The guards of an access limit the indices: ``if j < n`` keeps it in a row of n elements.

Arithmetic is modulo 2^32 or 2^64. Comparisons and widening have a known result only if no thread's value wraps
around.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from kcheck.dataclass import dataclass
from kcheck.model import Index3
from kcheck.ptx.program import GlobalAccess, MemoryUse, ValueNode
from kcheck.ptx.syntax.types import TYPES, PtxType

Linear: TypeAlias = tuple[int, int, int, int, int, int, int]
"""A constant, and the factors of threadIdx.x, .y, .z and blockIdx.x, .y, .z."""

Value: TypeAlias = "Linear | bool | None"
"""A number, or a predicate that is the same for all threads; None: unknown."""

Range: TypeAlias = tuple[int, int]
"""The least and the greatest value; empty if the least is the larger one."""

_ZERO: Linear = (0, 0, 0, 0, 0, 0, 0)
_NEGATED = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


@dataclass(frozen=True, slots=True)
class IndexRanges:
    """The ranges of the indices of the threads that make an access: of threads and of blocks along x, y and z
    (``single``), and of the threads of the whole grid along each axis (``whole``)."""

    single: tuple[Range, ...]
    whole: tuple[Range, ...]

    def hull(self, other: IndexRanges) -> IndexRanges:
        """Ranges that include both."""

        def both(x: Sequence[Range], y: Sequence[Range]) -> tuple[Range, ...]:
            return tuple((min(a[0], b[0]), max(a[1], b[1])) for a, b in zip(x, y, strict=True))

        return IndexRanges(both(self.single, other.single), both(self.whole, other.whole))


class ThreadValues:
    """The values of a kernel's nodes in one launch.

    Args:
        params: the bytes of the parameters.
    """

    def __init__(self, use: MemoryUse, params: bytes, grid: Index3, block: Index3) -> None:
        self._use = use
        self._params = params
        self._sizes = (*block, *grid)
        self._known: dict[int, Value] = {}

    def stores_apart(self, accesses: Iterable[GlobalAccess]) -> bool:
        """Whether no two threads touch the same byte in these accesses."""
        factors: set[Sequence[int]] = set()
        low, high, ranges = 0, 0, None
        for n, access in enumerate(accesses):
            address = self.node(access.address) if access.address >= 0 else None
            if not isinstance(address, tuple):
                return False
            begin = address[0] + access.offset
            low, high = (
                (begin, begin + access.size) if not n else (min(low, begin), max(high, begin + access.size))
            )
            factors.add(address[1:])
            here = self.ranges(access.guards)
            ranges = here if ranges is None else ranges.hull(here)
        if ranges is None:
            return True
        return len(factors) == 1 and self._is_apart(next(iter(factors)), high - low, ranges)

    def _is_apart(self, factors: Sequence[int], extent: int, ranges: IndexRanges) -> bool:
        """Whether threads are at least ``extent`` bytes apart."""
        ways: list[list[list[tuple[int, Range]]]] = []
        for k in range(3):
            thread, block = factors[k], factors[k + 3]
            ways.append([[(thread, ranges.single[k]), (block, ranges.single[k + 3])]])
            if block == thread * self._sizes[k]:
                ways[-1].append([(thread, ranges.whole[k])])
        return any(
            _are_apart([term for way in chosen for term in way], extent) for chosen in itertools.product(*ways)
        )

    # --- values

    def node(self, number: int) -> Value:
        """The value of a node."""
        if number not in self._known:
            self._known[number] = self._evaluated(self._use.values[number])
        return self._known[number]

    def _source(self, source: int | str) -> Value:
        if isinstance(source, int):
            return self.node(source)
        if source.startswith("="):
            return (int(source[1:]), 0, 0, 0, 0, 0, 0)
        name, _, axis = source.partition(".")
        k = "xyz".find(axis)
        if k < 0 or len(axis) != 1:
            return None
        if name in ("ntid", "nctaid"):
            return (self._sizes[k + (3 if name == "nctaid" else 0)], 0, 0, 0, 0, 0, 0)
        place = 1 + k + (3 if name == "ctaid" else 0)
        return _linear(int(n == place) for n in range(7))

    def _evaluated(self, node: ValueNode) -> Value:
        kind = TYPES.get(node.modifiers[-1])
        if kind is None:
            return None
        if node.opcode == "param":
            at = int(str(node.sources[0])[1:])
            whole = self._params[at : at + kind.bytes]
            return (int.from_bytes(whole, "little", signed=kind.kind == "signed"), 0, 0, 0, 0, 0, 0)
        sources = [self._source(source) for source in node.sources]
        if node.opcode == "setp" or kind.kind == "pred":
            return self._predicate(node, kind, sources)
        if node.opcode == "selp":
            return self._selected(sources)
        if kind.kind not in ("signed", "unsigned", "bits") or not all(isinstance(s, tuple) for s in sources):
            return None
        numbers = [s for s in sources if isinstance(s, tuple)]
        rule = _RULES.get(node.opcode)
        return None if rule is None else rule(self, node, kind, numbers)

    def span(self, x: Linear) -> Range:
        """The least and the greatest value in any thread of the launch."""
        low = high = x[0]
        for factor, size in zip(x[1:], self._sizes, strict=True):
            away = factor * (size - 1)
            low, high = (low, high + away) if away > 0 else (low + away, high)
        return low, high

    def within(self, x: Linear, kind: PtxType) -> Linear | None:
        """A number read as a type; None if it may wrap around in some thread."""
        if not any(x[1:]):
            value = x[0] & (1 << kind.bits) - 1
            if kind.kind == "signed" and value >> (kind.bits - 1):
                value -= 1 << kind.bits
            return (value, 0, 0, 0, 0, 0, 0)
        low, high = self.span(x)
        signed = kind.kind == "signed"
        least, most = (-(1 << kind.bits - 1), 1 << kind.bits - 1) if signed else (0, 1 << kind.bits)
        return x if least <= low and high < most else None

    # --- predicates

    def _compared(self, node: ValueNode) -> tuple[str, Linear] | None:
        """The relation of a comparison, and a difference to compare with 0 instead; None if unknown."""
        if node.opcode != "setp" or len(node.modifiers) != 2 or len(node.sources) != 2:
            return None
        name, kind = node.modifiers[0], TYPES[node.modifiers[1]]
        if kind.kind not in ("signed", "unsigned", "bits"):
            return None
        if name in _UNSIGNED:
            name, kind = _UNSIGNED[name], TYPES[f"u{kind.bits}"]
        x, y = (self._source(source) for source in node.sources)
        if name not in _NEGATED or not isinstance(x, tuple) or not isinstance(y, tuple):
            return None
        a, b = self.within(x, kind), self.within(y, kind)
        if a is None or b is None:
            return None
        return name, _linear(p - q for p, q in zip(a, b, strict=True))

    def _predicate(self, node: ValueNode, kind: PtxType, sources: Sequence[Value]) -> bool | None:
        if node.opcode == "setp":
            found = self._compared(node)
            return None if found is None else _decided(found[0], self.span(found[1]))
        known = [s for s in sources if isinstance(s, bool)]
        if node.opcode == "not" and len(known) == 1:
            return not known[0]
        if node.opcode == "and" and (False in known or len(known) == 2):
            return all(known)
        if node.opcode == "or" and (True in known or len(known) == 2):
            return any(known)
        return None

    def _selected(self, sources: Sequence[Value]) -> Value:
        x, y, condition = sources
        if isinstance(condition, bool):
            return x if condition else y
        return x if x == y else None

    def ranges(self, guards: Iterable[tuple[int, bool]]) -> IndexRanges:
        """The ranges of the indices for which guards hold."""
        single = [(0, size - 1) for size in self._sizes]
        whole = [(0, self._sizes[k] * self._sizes[k + 3] - 1) for k in range(3)]
        left = list(guards)
        while left:
            number, wanted = left.pop()
            node = self._use.values[number]
            if node.opcode == ("and" if wanted else "or") and "pred" in node.modifiers:
                left += [(source, wanted) for source in node.sources if isinstance(source, int)]
            elif node.opcode == "not":
                left += [(source, not wanted) for source in node.sources if isinstance(source, int)]
            elif (found := self._compared(node)) is not None:
                name, x = found
                self._limit(name if wanted else _NEGATED[name], x, single, whole)
        return IndexRanges(tuple(single), tuple(whole))

    def _limit(self, name: str, x: Linear, single: list[Range], whole: list[Range]) -> None:
        """Limit the ranges to indices for which ``x`` has this relation to 0, if ``x`` depends on one axis."""
        for k in range(3):
            thread, block = x[1 + k], x[4 + k]
            others = [factor for n, factor in enumerate(x[1:]) if n % 3 != k]
            if any(others) or not (thread or block):
                continue
            if not block:
                single[k] = _limited(single[k], name, x[0], thread)
            elif not thread:
                single[k + 3] = _limited(single[k + 3], name, x[0], block)
            elif block == thread * self._sizes[k]:
                whole[k] = _limited(whole[k], name, x[0], thread)


def _linear(parts: Iterable[int]) -> Linear:
    a, b, c, d, e, f, g = parts
    return a, b, c, d, e, f, g


def _centered(x: Iterable[int], bits: int) -> Linear:
    """Numbers that are the same modulo 2^bits, in the range of signed integers."""
    half = 1 << (bits - 1)
    return _linear(((part + half) & (2 * half - 1)) - half for part in x)


def _decided(name: str, span: Range) -> bool | None:
    """Whether a number in a range has a relation to 0; None if this depends on the number."""
    low, high = span
    match name:
        case "lt" | "ge":
            is_less = True if high < 0 else False if low >= 0 else None
            return is_less if name == "lt" or is_less is None else not is_less
        case "le" | "gt":
            is_more = True if low > 0 else False if high <= 0 else None
            return is_more if name == "gt" or is_more is None else not is_more
    is_equal = True if low == high == 0 else False if low > 0 or high < 0 else None
    return is_equal if name == "eq" or is_equal is None else not is_equal


def _limited(before: Range, name: str, constant: int, factor: int) -> Range:
    """The part of a range of indices in which ``constant + factor * index`` has a relation to 0."""
    low, high = before
    if name in ("lt", "gt"):  # integers differ by at least 1
        constant, name = (constant + 1, "le") if name == "lt" else (constant - 1, "ge")
    if name == "eq":
        once = _limited(before, "le", constant, factor)
        return _limited(once, "ge", constant, factor)
    if name == "ne":
        return before
    is_upper = (name == "le") == (factor > 0)
    if is_upper:  # index <= -constant / factor
        return low, min(high, -constant // factor)
    return max(low, -(constant // factor)), high


def _are_apart(terms: Sequence[tuple[int, Range]], extent: int) -> bool:
    """Whether sums of multiples of indices differ by at least ``extent`` if any index differs."""
    counted = [(abs(factor), high - low + 1) for factor, (low, high) in terms]
    if any(count <= 0 for _, count in counted):
        return True  # no thread is left
    reach = extent
    for factor, count in sorted(counted):
        if count == 1:
            continue
        if factor < reach:
            return False
        reach += factor * (count - 1)
    return reach < 1 << 62


# --- the results of instructions

_Rule: TypeAlias = "Callable[[ThreadValues, ValueNode, PtxType, Sequence[Linear]], Linear | None]"


def _summed(values: ThreadValues, node: ValueNode, kind: PtxType, x: Sequence[Linear]) -> Linear | None:
    sign = -1 if node.opcode == "sub" else 1
    return _centered((p + sign * q for p, q in zip(x[0], x[1], strict=True)), kind.bits)


def _opposite(values: ThreadValues, node: ValueNode, kind: PtxType, x: Sequence[Linear]) -> Linear | None:
    return _centered((-part for part in x[0]), kind.bits)


def _multiplied(values: ThreadValues, node: ValueNode, kind: PtxType, x: Sequence[Linear]) -> Linear | None:
    part, bits = node.modifiers[0], kind.bits
    a: Linear | None = x[0]
    b: Linear | None = x[1]
    if part == "wide":
        a, b, bits = values.within(x[0], kind), values.within(x[1], kind), 2 * bits
    if part not in ("lo", "wide") or a is None or b is None or (any(a[1:]) and any(b[1:])):
        return None
    factor, other = (a[0], b) if not any(a[1:]) else (b[0], a)
    product = _centered((factor * number for number in other), bits)
    if node.opcode == "mad":
        return _centered((p + q for p, q in zip(product, x[2], strict=True)), bits)
    return product


def _shifted(values: ThreadValues, node: ValueNode, kind: PtxType, x: Sequence[Linear]) -> Linear | None:
    count = x[1][0]
    if any(x[1][1:]) or not 0 <= count < kind.bits:
        return None
    if node.opcode == "shl":
        return _centered((part << count for part in x[0]), kind.bits)
    known = values.within(x[0], kind)
    if known is None:
        return None
    low, high = values.span(known)
    return (low >> count, 0, 0, 0, 0, 0, 0) if low >> count == high >> count else None


def _combined(values: ThreadValues, node: ValueNode, kind: PtxType, x: Sequence[Linear]) -> Linear | None:
    """``and`` and ``or``: of uniform numbers; with 0; of numbers whose set bits do not overlap."""
    if not any((*x[0][1:], *x[1][1:])):
        both = x[0][0] & x[1][0] if node.opcode == "and" else x[0][0] | x[1][0]
        return _centered((both, 0, 0, 0, 0, 0, 0), kind.bits)
    if node.opcode == "and":
        return _ZERO if _ZERO in x else None
    for a, b in (x, x[::-1]):
        low, high = values.span(b)
        unit = 1 << max(high, 0).bit_length()
        if low >= 0 and all(part % unit == 0 for part in a):
            return _centered((p + q for p, q in zip(a, b, strict=True)), kind.bits)
    return None


def _converted(values: ThreadValues, node: ValueNode, kind: PtxType, x: Sequence[Linear]) -> Linear | None:
    if len(node.modifiers) != 2:
        return None
    target, source = (TYPES[name] for name in node.modifiers)
    if source.kind not in ("signed", "unsigned") or target.kind not in ("signed", "unsigned"):
        return None
    if target.bits <= source.bits:
        return _centered(x[0], target.bits) if target.bits >= 32 else None
    return values.within(_centered(x[0], source.bits), source)


def _chosen(values: ThreadValues, node: ValueNode, kind: PtxType, x: Sequence[Linear]) -> Linear | None:
    """``min`` and ``max``."""
    if len(node.modifiers) != 1:
        return None
    a, b = values.within(x[0], kind), values.within(x[1], kind)
    if a is None or b is None:
        return None
    is_first = _decided("le", values.span(_linear(p - q for p, q in zip(a, b, strict=True))))
    if is_first is None:
        return None
    return a if is_first == (node.opcode == "min") else b


_RULES: Mapping[str, _Rule] = {
    "add": _summed,
    "sub": _summed,
    "neg": _opposite,
    "mul": _multiplied,
    "mad": _multiplied,
    "shl": _shifted,
    "shr": _shifted,
    "and": _combined,
    "or": _combined,
    "cvt": _converted,
    "min": _chosen,
    "max": _chosen,
}
