"""The shadows of the results of rows: exact for instructions that move bits or combine them bit by bit.

A bit that a shadow calls defined does not depend on an undefined bit of any operand. The reverse does not hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kcheck.ptx.ir.builder import Builder, Value, integer_of
from kcheck.ptx.isa import rows
from kcheck.ptx.isa.rows import Mods, Row
from kcheck.ptx.isa.video import PARALLEL
from kcheck.ptx.sanitizers.init.definedness import CHOICES, LOGIC, MOVES, is_copy, is_resize
from kcheck.ptx.sanitizers.init.registers import Shadows
from kcheck.ptx.syntax.ast import Instruction, Operand

_TABLES = {"and": 0b1000, "or": 0b1110, "xor": 0b0110}
"""Functions of two bits: bit 2x + y of the table is f(x, y)."""

_SIGN_TESTS = {("lt", 0), ("ge", 0), ("gt", -1), ("le", -1)}


def row_shadows(
    shadows: Shadows,
    i: Instruction,
    operands: Sequence[Operand],
    values: Sequence[Value],
    targets: Sequence[Operand],
) -> None:
    """Set the shadows of a row's results.

    Args:
        operands, values: the sources, in order.
    """
    if not any(shadows.has(target) for target in targets):
        return
    if not any(shadows.has(operand) for operand in operands):
        for target in targets:
            shadows.copied(i, target, None, ())
        return
    b = shadows.fn.b
    row, mods = _row(i)
    copies = is_copy(i, shadows.fn.constants)
    kind = row.slots[0].resolve(mods)
    signed = kind.kind == "signed"
    if i.opcode in MOVES or (i.opcode == "cvt" and is_resize(i)):
        data = MOVES.get(i.opcode, 1)
        given = [_bits(shadows, row, mods, operands, values, k) if k < data else v for k, v in enumerate(values)]
        moved = row.emit(b, mods, *given)
        assert isinstance(moved, Value)
        control = shadows.undefined(*operands[data:])
        if control is not None:
            moved = b.lor(moved, b.cast("sext", control, moved.type))
        if copies and control is None:
            shadows.copied(i, targets[0], moved, operands[:data], signed)
        else:
            shadows.write(i, targets[0], moved, partial(b.const, "i1", 1), signed)
    elif i.opcode in LOGIC:
        given = [_bits(shadows, row, mods, operands, values, k) for k in range(min(3, len(operands)))]
        shadow = logic(b, i.opcode, values, given)
        if copies:
            shadows.copied(i, targets[0], shadow, operands)
        elif copies is None:
            x, y = given
            meet = b.lor(b.land(x, b.lor(y, values[1])), b.land(y, values[0]))
            mixed = b.compare("ne", meet, 0)
            shadows.write(i, targets[0], shadow, lambda: b.lor(mixed, shadows.made(*operands)))
        else:
            shadows.write(i, targets[0], shadow, partial(b.const, "i1", 1))
    elif i.opcode in CHOICES:
        _choice(shadows, i, row, mods, operands, values, targets[0])
    elif i.opcode == "setp" and mods.type().kind != "packed":
        result = _test(shadows, row, mods, operands, values)
        for target in targets:
            shadows.write(i, target, result, lambda: b.const("i1", 1))
    elif i.opcode in PARALLEL and "add" not in i.modifiers:
        shadows.computed(i, targets, operands[:2])
    else:
        shadows.computed(i, targets, operands)


def _row(i: Instruction) -> tuple[Row, Mods]:
    found = rows.of(i)
    assert found is not None
    return rows.by_operands(i, *found)


def _bits(
    shadows: Shadows, row: Row, mods: Mods, operands: Sequence[Operand], values: Sequence[Value], k: int
) -> Value:
    """The shadow of a source, 0 where it is defined."""
    slot = [slot for slot in row.slots if not slot.result][k]
    found = shadows.bits(operands[k], slot.resolve(mods))
    return shadows.fn.b.const(integer_of(values[k].type), 0) if found is None else found


def logic(b: Builder, opcode: str, values: Sequence[Value], shadows: Sequence[Value]) -> Value:
    """The shadow of a bitwise function: set where the undefined bits can make the result 0 and can make it 1."""
    if opcode == "not":
        return shadows[0]
    count = 3 if opcode == "lop3" else 2
    table = int(values[3].text) & 0xFF if opcode == "lop3" else _TABLES[opcode]
    may = [(b.lor(b.invert(x), s), b.lor(x, s)) for x, s in zip(values[:count], shadows[:count], strict=True)]
    outcomes: list[Value | None] = [None, None]
    for term in range(1 << count):
        part = may[0][term >> (count - 1) & 1]
        for k in range(1, count):
            part = b.land(part, may[k][term >> (count - 1 - k) & 1])
        value = table >> term & 1
        before = outcomes[value]
        outcomes[value] = part if before is None else b.lor(before, part)
    zero, one = outcomes
    if zero is None or one is None:  # lop3 with a constant table
        return b.const(values[0].type, 0)
    return b.land(zero, one)


def _test(
    shadows: Shadows, row: Row, mods: Mods, operands: Sequence[Operand], values: Sequence[Value]
) -> Value | None:
    """Whether the result of a comparison, perhaps combined with a predicate, is undefined; None if it is defined.

    A false predicate decides ``and``, and a true one decides ``or``.
    """
    b = shadows.fn.b
    if mods.type().kind == "float":
        undefined = shadows.undefined(*operands[:2])
    else:
        left, right = (_bits(shadows, row, mods, operands, values, k) for k in (0, 1))
        undefined = compared(b, mods, values[:2], left, right)
    if len(operands) == 2:
        return undefined
    how, predicate = mods.get("bool"), values[2]
    if undefined is not None and how != "xor":
        undefined = b.land(undefined, predicate if how == "and" else b.invert(predicate))
    of_predicate = shadows.undefined(operands[2])
    if undefined is None or of_predicate is None:
        return of_predicate if undefined is None else undefined
    return b.lor(undefined, of_predicate)


def compared(b: Builder, mods: Mods, values: Sequence[Value], left: Value, right: Value) -> Value:
    """Whether the result of an integer comparison is undefined. Defined bits that differ decide equality; the sign
    bit alone decides some comparisons with 0."""
    x, y = values
    both = b.lor(left, right)
    undefined = b.compare("ne", both, 0)
    condition = mods.get("cmp")
    if condition in ("eq", "ne"):
        differ = b.land(b.xor(x, y), b.invert(both))
        return b.land(undefined, b.compare("eq", differ, 0))
    if mods.type().kind == "signed" and (condition, _literal(y)) in _SIGN_TESTS:
        return b.compare("slt", both, 0)
    return undefined


def _literal(value: Value) -> int | None:
    try:
        return int(value.text)
    except ValueError:
        return None


def _choice(
    shadows: Shadows,
    i: Instruction,
    row: Row,
    mods: Mods,
    operands: Sequence[Operand],
    values: Sequence[Value],
    target: Operand,
) -> None:
    b = shadows.fn.b
    x, y = (_bits(shadows, row, mods, operands, values, k) for k in (0, 1))
    undecided = shadows.undefined(operands[2])
    if undecided is not None and i.opcode == "slct" and not values[2].is_float:
        undecided = b.compare("slt", _bits(shadows, row, mods, operands, values, 2), 0)  # its sign decides

    def choose(first: Value, second: Value) -> Value:
        chosen = row.emit(b, mods, first, second, values[2])
        assert isinstance(chosen, Value)
        return chosen

    chosen = choose(x, y)
    if undecided is None:
        shadows.write(i, target, chosen, lambda: choose(shadows.made(operands[0]), shadows.made(operands[1])))
        return
    differ = b.xor(b.as_integer(values[0]), b.as_integer(values[1]))
    either = b.lor(b.lor(x, y), differ)
    shadow = b.select(undecided, either, chosen)
    shadows.write(i, target, shadow, lambda: b.lor(undecided, shadows.made(*operands[:2])))
