"""Shadows of values that lanes of a warp exchange: shuffles, votes, matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from kcheck.ptx.ir.builder import Builder, Value, integer_of
from kcheck.ptx.isa.events import Arrange
from kcheck.ptx.isa.fragments import MatrixShape, column_sources, row_sources
from kcheck.ptx.isa.warp import shuffled
from kcheck.ptx.sanitizers.init.registers import Shadows
from kcheck.ptx.syntax.ast import Instruction, Operand, Pair, Register
from kcheck.ptx.syntax.types import TYPES, PtxType


def results(i: Instruction) -> tuple[Operand, ...]:
    """The registers that a warp-level instruction writes: ``d`` or ``d|p``."""
    target = i.operands[0]
    return (target.first, target.second) if isinstance(target, Pair) else (target,)


def shuffle(shadows: Shadows, i: Instruction, move: Callable[[Value], Value], lost: Value | None) -> None:
    """The shadow moves from lane to lane as its value does; a value read from an exited lane is undefined.

    Args:
        lost: the lanes that read an exited lane; None: no lane can.
    """
    b, targets = shadows.fn.b, results(i)
    shadow = shadows.bits(i.operands[1], TYPES["b32"])
    control = shadows.undefined(*i.operands[2:4])
    made = b.const("i1", 0)
    if shadow is not None:
        flags = b.cast("zext", b.splat(shadows.made(i.operands[1])), "i32")
        shadow = move(b.splat(shadow))
        made = b.compare("ne", move(flags), 0)
    if control is not None:
        undecided = b.cast("sext", b.splat(control), "i32")
        shadow = undecided if shadow is None else b.lor(shadow, undecided)
        made = b.lor(made, control)
    if lost is not None:
        undefined = b.cast("sext", lost, "i32")
        shadow = undefined if shadow is None else b.lor(shadow, undefined)
        made = b.lor(b.splat(made), lost)
    shadows.write(i, targets[0], shadow, lambda: made)
    for target in targets[1:]:
        shadows.write(i, target, control, partial(b.const, "i1", 1))


def join(shadows: Shadows, i: Instruction, here: Value) -> None:
    """The result of a vote, match or reduction is undefined if the operand of any participating lane is.

    Args:
        here: for each lane, the lanes that participate with it, as bits.
    """
    b, active = shadows.fn.b, shadows.fn.active
    undefined = shadows.undefined(i.operands[1])
    shared: Value | None = None
    if undefined is not None:
        lanes = b.mask_bits(b.land(b.splat(undefined), b.splat(active)))
        shared = b.compare("ne", b.land(here, lanes), 0)
    for each in results(i):
        if shadows.has(each):
            assert isinstance(each, Register)
            shadow = shared if shared is None or each.type == "pred" else b.cast("sext", shared, "i32")
            shadows.write(i, each, shadow, partial(b.const, "i1", 1))


def exchange(shadows: Shadows, i: Instruction, move: Callable[[Value], Value]) -> None:
    """``movmatrix``: the shadows of halves of registers move from lane to lane."""
    source = i.operands[1]
    if not isinstance(source, Register):
        return
    b = shadows.fn.b
    shadow = shadows.bits(source, TYPES["b32"])
    made = shadows.made(source)
    moved = None if shadow is None else move(b.splat(shadow))
    # A half of the result may come from either of two lanes: it was computed if either was.
    flags = move(b.cast("sext", b.splat(made), "i32"))
    shadows.write(i, i.operands[0], moved, partial(b.compare, "ne", flags, 0))


def multiply(
    shadows: Shadows, i: Instruction, shape: MatrixShape, register: PtxType, operands: Sequence[Sequence[Operand]]
) -> None:
    """An element of D is undefined if its row of A, its column of B or its element of C is."""
    b = shadows.fn.b

    def undefined(registers: Sequence[Operand]) -> Value | None:
        found = shadows.undefined(*registers)
        return None if found is None else b.resize(b.splat(found), "i32")

    d, a, right, c = operands
    halves = shape.halves
    rows = [
        _over_ranks(b, undefined(a[half::halves]), [row_sources(r) for r in range(4)]) for half in range(halves)
    ]
    found = undefined(right)
    columns = [_over_ranks(b, found, [column_sources(r, parity) for r in range(4)]) for parity in range(2)]
    each: list[Value | None] = []
    packs = len(c) < shape.results
    for n in range(shape.results):
        each.append(_either(b, rows[n // 2], columns[n % 2], undefined([c[n // 2 if packs else n]])))
    if len(d) < len(each):
        each = [_either(b, *pair) for pair in zip(each[::2], each[1::2], strict=True)]
    bits = integer_of(register.llvm)
    for target, one in zip(d, each, strict=True):
        shadow = None if one is None else b.cast("sext", b.compare("ne", one, 0), bits)
        shadows.write(i, target, shadow, partial(b.const, "i1", 1))


def multiply_quads(
    shadows: Shadows, i: Instruction, arrange: Arrange, operands: Sequence[Sequence[Operand]]
) -> None:
    """The same as :func:`multiply`, for the four products of ``mma.m8n8k4``."""
    b = shadows.fn.b

    def undefined(register: Operand) -> Value:
        found = shadows.undefined(register)
        return b.splat(b.const("i32", 0)) if found is None else b.resize(b.splat(found), "i32")

    d, a, right, c = operands
    flags = [[undefined(r) for r in registers] for registers in (a, right, c)]
    halves = [[flag for flag in each for _ in range(2)] for each in flags]
    if len(c) == _QUAD_RESULTS:
        halves[2] = flags[2]
    each = [_either(b, *x, *y, z) for x, y, z in arrange(b, *halves)]
    if len(d) < len(each):
        each = [_either(b, *pair) for pair in zip(each[::2], each[1::2], strict=True)]
    for target, one in zip(d, each, strict=True):
        shadow = None if one is None else b.cast("sext", b.compare("ne", one, 0), "i32")
        shadows.write(i, target, shadow, partial(b.const, "i1", 1))


_QUAD_RESULTS = 8
"""Elements of C and D in a lane; those of 16 bits are packed in pairs."""


def _over_ranks(b: Builder, found: Value | None, sources: Sequence[list[int]]) -> Value | None:
    """For each lane, whether any lane that it reads is undefined. ``sources``: the lanes that it reads."""
    if found is None:
        return None
    return _either(b, *(shuffled(b, found, lanes) for lanes in sources))


def _either(b: Builder, *values: Value | None) -> Value | None:
    result: Value | None = None
    for value in values:
        if value is not None:
            result = value if result is None else b.lor(result, value)
    return result
