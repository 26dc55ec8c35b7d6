"""Loads and stores of a range with elements of all lanes, which LLVM calls interleaved accesses.

Lane ``i`` has the elements ``factor * i + offset``, for each of some offsets below ``factor``. A load reads the
range, and shuffles give each offset its vector. A store spreads the vectors over the range, and writes only the
lanes' elements. Nothing is checked.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kcheck.dataclass import dataclass
from kcheck.ptx.ir.builder import Value, mangle, vector_type
from kcheck.ptx.ir.calls import group
from kcheck.ptx.ir.function import FunctionBuilder
from kcheck.ptx.ir.masked import masked_store
from kcheck.ptx.ir.signature import Definition, Signature
from kcheck.ptx.syntax.types import LLVM_BITS

_REGISTER = 64
"""Bytes of the largest vector registers."""


@dataclass(frozen=True, slots=True)
class ElementRange:
    """The shape of a range.

    Attributes:
        element: the LLVM type of an element, of 4 or 8 bytes.
        width: lanes of a vector.
        factor: the elements from each lane's first to the next lane's: 2, 4 or 8, and at most ``width``.
        beyond: the highest offset. Behind that element of the last lane, the range ends.
    """

    element: str
    width: int
    factor: int
    beyond: int

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return LLVM_BITS[self.element] // 8

    @property
    def part(self) -> int:
        """Elements that are loaded or stored at once, and lanes whose elements are shuffled together."""
        return min(self.width, _REGISTER // self.size)

    def values(self, offsets: Collection[int]) -> list[Value]:
        """Placeholders for the vectors of some offsets."""
        return [Value(f"%at{offset}", self.element, self.width) for offset in offsets]

    def name(self, what: str, offsets: Collection[int]) -> str:
        """The name of a function for this shape."""
        of = ".".join(map(str, offsets))
        return f"@kcheck.{what}.{self.width}{mangle(self.element)}.{self.factor}.{self.beyond}.{of}"


def load_ir(shape: ElementRange, offsets: Sequence[int], declarations: dict[str, str]) -> Definition:
    """The function that loads the elements at some offsets, in order: a group of vectors."""
    result = group(shape.values(offsets))
    signature = Signature(shape.name("gather", offsets), result, {"low": "i64"})
    f = FunctionBuilder(signature, "alwaysinline", shape.width, declarations)
    n, lanes = shape.factor, shape.part
    last = (shape.width - 1) * n + shape.beyond - lanes + 1
    found: dict[int, list[Value]] = {offset: [] for offset in offsets}
    for begin in range(0, shape.width * n, lanes * n):
        starts = [min(begin + k * lanes, last) for k in range(n)]
        parts = [_part(f, shape, start) for start in starts]
        for pair in (offsets[k : k + 2] for k in range(0, len(offsets), 2)):
            for offset, value in _deinterleaved(f, shape, parts, starts, begin, pair).items():
                found[offset].append(value)
    f.ret_group([_joined(f, values) for values in found.values()])
    return f.definition()


def store_ir(shape: ElementRange, offsets: Sequence[int], declarations: dict[str, str]) -> Definition:
    """The function that stores the elements at some offsets, in order."""
    values = shape.values(offsets)
    given = {"low": "i64", **{value.text[1:]: vector_type(shape.element, shape.width) for value in values}}
    f = FunctionBuilder(Signature(shape.name("spread", offsets), "void", given), "alwaysinline", 1, declarations)
    n, lanes = shape.factor, shape.part
    for begin in range(0, shape.width * n, lanes):
        places = range(begin, begin + lanes)
        spread = _spread(f, values, [place // n for place in places], [place % n for place in places], offsets)
        pointer = _pointer(f, shape, begin)
        if len(offsets) == n:
            f.store(spread, pointer, shape.size)
        else:
            on = f.lanes_const("i1", [int(place % n in offsets) for place in places])
            masked_store(f, spread, pointer, shape.size, on)
    return f.definition()


def _spread(
    f: FunctionBuilder, values: Sequence[Value], lanes: Sequence[int], at: Sequence[int], offsets: Sequence[int]
) -> Value:
    """Elements of some lanes, each from the value that is stored at its offset, or from any other.

    Args:
        values: of all lanes, one for each of ``offsets``.
        at: the offsets that the elements have.
    """
    first, second = values[0], values[min(1, len(values) - 1)]
    width, count = first.lanes, len(lanes)
    in_second = [len(values) > 1 and offset == offsets[1] for offset in at]
    found = f.shuffle(
        first, second, [lane + width * chosen for lane, chosen in zip(lanes, in_second, strict=True)]
    )
    for offset, value in zip(offsets[2:], values[2:], strict=True):
        other = f.shuffle(value, value, lanes)
        found = f.shuffle(found, other, [k + count * (at[k] == offset) for k in range(count)])
    return found


def _deinterleaved(
    f: FunctionBuilder,
    shape: ElementRange,
    parts: Sequence[Value],
    starts: Sequence[int],
    begin: int,
    offsets: Collection[int],
) -> dict[int, Value]:
    """The elements at one or two offsets from the parts of a range.

    Args:
        starts: the number of each part's first element.
        begin: the number of the range's first element.
    """
    n, lanes = shape.factor, shape.part
    items: list[tuple[Value, dict[int, list[int]]]] = []
    for k, (part, start) in enumerate(zip(parts, starts, strict=True)):
        first = begin + k * lanes - start
        items.append((part, {o: [first + lane * n + o for lane in range(lanes // n)] for o in offsets}))
    while len(items) > 2:
        merged = []
        for (x, of_x), (y, of_y) in zip(items[::2], items[1::2], strict=True):
            places = [at for o in offsets for at in (*of_x[o], *(x.lanes + at for at in of_y[o]))]
            count = len(places) // len(offsets)
            where = {o: list(range(k * count, (k + 1) * count)) for k, o in enumerate(offsets)}
            merged.append((f.shuffle(x, y, places), where))
        items = merged
    (x, of_x), (y, of_y) = items
    return {o: f.shuffle(x, y, [*of_x[o], *(x.lanes + at for at in of_y[o])]) for o in offsets}


def _part(f: FunctionBuilder, shape: ElementRange, start: int) -> Value:
    return f.load(shape.element, _pointer(f, shape, start), shape.size, shape.part)


def _pointer(f: FunctionBuilder, shape: ElementRange, start: int) -> Value:
    return f.offset(f.argument("low").to("ptr"), start * shape.size)


def _joined(f: FunctionBuilder, parts: list[Value]) -> Value:
    """The parts, one after another."""
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [f.shuffle(x, y, range(2 * x.lanes)) for x, y in pairs]
    return parts[0]
