"""Scalars that describe a value in all threads of a strip of blocks, and arithmetic on them."""

from __future__ import annotations

from collections.abc import Callable

from kcheck.dataclass import dataclass
from kcheck.ptx.ir.builder import Builder, Value

Steps = tuple[Value | None, Value | None, Value | None, Value | None]
_LEVEL: Steps = (None, None, None, None)

ALONG = "xyzb"
"""What a value may vary along: the axes of a block, and the blocks of a strip."""


@dataclass(frozen=True, slots=True)
class BlockValue:
    """A linear function of the position: ``first`` in the first thread of the first block, plus one of ``steps``
    for each thread along x, y and z, and for each block of the strip.

    All are scalars of the same integer type; None stands for a step of 0.
    """

    first: Value
    steps: Steps = _LEVEL

    @property
    def is_uniform(self) -> bool:
        """Whether it is the same in all threads."""
        return self.steps == _LEVEL

    def mapped(self, change: Callable[[Value], Value]) -> BlockValue:
        """The result of a linear function, which is applied to each scalar."""
        x, y, z, b = (None if step is None else change(step) for step in self.steps)
        return BlockValue(change(self.first), (x, y, z, b))


def is_constant(value: Value) -> bool:
    """Whether an integer is a literal and not computed at run time."""
    return not value.text.startswith("%")


class Scalars:
    """Arithmetic on scalars that folds constants and computes each result once."""

    def __init__(self, b: Builder) -> None:
        self.b = b
        self._known: dict[tuple[str, ...], Value] = {}

    def is_new(self, what: str, value: Value) -> bool:
        """Whether ``what`` is required of a value for the first time."""
        before = len(self._known)
        self._known.setdefault((what, value.text), value)
        return len(self._known) > before

    def once(self, key: str, make: Callable[[], Value], *operands: Value) -> Value:
        """What ``make`` emits, which is emitted once for each key and operands."""
        where = (key, *(operand.text for operand in operands), *(operand.type for operand in operands))
        if where not in self._known:
            self._known[where] = make()
        return self._known[where]

    def add(self, x: Value, y: Value) -> Value:
        """The sum."""
        if x.text == "0" or y.text == "0":
            return y if x.text == "0" else x
        if is_constant(x) and is_constant(y):
            return self.b.const(x.type, int(x.text) + int(y.text))
        return self.once("add", lambda: self.b.add(x, y), x, y)

    def sub(self, x: Value, y: Value) -> Value:
        """The difference."""
        if y.text == "0":
            return x
        if is_constant(x) and is_constant(y):
            return self.b.const(x.type, int(x.text) - int(y.text))
        return self.once("sub", lambda: self.b.sub(x, y), x, y)

    def mul(self, x: Value, y: Value) -> Value:
        """The product."""
        if "1" in (x.text, y.text):
            return y if x.text == "1" else x
        if is_constant(x) and is_constant(y):
            return self.b.const(x.type, int(x.text) * int(y.text))
        return self.once("mul", lambda: self.b.mul(x, y), x, y)

    def resized(self, x: Value, kind: str, signed: bool = False) -> Value:
        """The integer as type ``kind``, truncated or extended."""
        if x.type == kind:
            return x
        if is_constant(x):
            number = int(x.text)
            return self.b.const(kind, number if signed else number & ((1 << x.bits) - 1))
        return self.once(f"{'s' if signed else 'z'}{kind}", lambda: self.b.resize(x, kind, signed), x)

    def least(self, x: Value) -> Value:
        """The number if it is negative, else 0."""
        return self.once("least", lambda: self.b.intrinsic("smin", x, self.b.const(x.type, 0)), x)

    def most(self, x: Value) -> Value:
        """The number if it is positive, else 0."""
        return self.once("most", lambda: self.b.intrinsic("smax", x, self.b.const(x.type, 0)), x)

    # --- values of blocks

    def _each(
        self, x: BlockValue, y: BlockValue, of: Callable[[Value | None, Value | None], Value | None]
    ) -> Steps:
        a, b, c, d = (of(s, t) for s, t in zip(x.steps, y.steps, strict=True))
        return a, b, c, d

    def sum(self, x: BlockValue, y: BlockValue) -> BlockValue:
        """The sum in each thread."""

        def step(s: Value | None, t: Value | None) -> Value | None:
            return t if s is None else s if t is None else self.add(s, t)

        return BlockValue(self.add(x.first, y.first), self._each(x, y, step))

    def difference(self, x: BlockValue, y: BlockValue) -> BlockValue:
        """The difference in each thread."""

        def step(s: Value | None, t: Value | None) -> Value | None:
            return s if t is None else self.sub(self.b.const(t.type, 0) if s is None else s, t)

        return BlockValue(self.sub(x.first, y.first), self._each(x, y, step))

    def multiple(self, x: BlockValue, by: Value) -> BlockValue:
        """The product with a number that is the same in all threads."""
        return x.mapped(lambda part: self.mul(part, by))

    def choice(self, condition: Value, x: BlockValue, y: BlockValue) -> BlockValue:
        """``x`` or ``y``, by a condition that is the same in all threads."""
        b = self.b

        def pick(s: Value | None, t: Value | None) -> Value | None:
            if (s is None and t is None) or s == t:
                return s
            kind = x.first.type
            return b.select(condition, *(b.const(kind, 0) if part is None else part for part in (s, t)))

        first = x.first if x.first == y.first else b.select(condition, x.first, y.first)
        return BlockValue(first, self._each(x, y, pick))
