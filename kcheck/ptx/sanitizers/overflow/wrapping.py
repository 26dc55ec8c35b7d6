"""Finds, before a function is lowered, which 32-bit arithmetic and which conversions to 32 bits feed addresses.
Only these are checked for wrapping.

The search goes backward from the address of each access, through operations that preserve the meaning of a number:
sums, products, shifts to the left, signed shifts to the right, choices and widening. It stops at operations that
extract a part of a number (masks, remainders, unsigned shifts): wrapping is intended there, as in hashes and
random numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field

from kcheck.dataclass import dataclass
from kcheck.ptx.analysis.cfg import Cfg
from kcheck.ptx.analysis.liveness import writes
from kcheck.ptx.syntax.ast import Address, Instruction, Integer, Operand, Register
from kcheck.ptx.syntax.opcodes import MOVES, PRODUCTS, SUMS
from kcheck.ptx.syntax.types import TYPES

_COMBINES = frozenset({"add", "sub", "mad"})
_CHOICES = {"selp": 2, "min": 2, "max": 2}
_TAKES_APART = frozenset({"and", "shr", "div", "rem", "mul.hi", "bfe", "prmt", "xor", "lop3"})
_DEPTH = 8  # operations between a number and a part of it: a remainder by a constant takes five

SIGNED_USES = frozenset({"shr", "min", "max", "div", "rem", "setp", "set"})


@dataclass(frozen=True, slots=True)
class Wrapping:
    """What to watch in a function.

    Attributes:
        narrow: 32-bit registers that hold sums or products, or choices among them, on their way to an address.
        unsigned: those of them, and of their 32-bit sources, that no instruction treats as signed.
        wide: 64-bit registers computed from narrow ones, on their way to an address.
        sources: by wide register, the narrow operands (by id) that it may be computed from.
        arithmetic: by narrow register, the sums and products that its value comes from; for a conversion to 32
            bits, what computes the 64-bit number, because compilers put the conversion on the line of its use.
        truncations: by operand of :func:`truncated` (by id), what computes it.
        remainders: instructions (by id) that compute a part of a number, for which wrapping does not matter.
        halves: shifts (by id) that keep the lower half of a 64-bit number, which is then extended.
    """

    narrow: frozenset[str] = frozenset()
    unsigned: frozenset[str] = frozenset()
    wide: frozenset[str] = frozenset()
    sources: Mapping[str, frozenset[int | None]] = field(default_factory=dict)
    arithmetic: Mapping[str, tuple[Instruction, ...]] = field(default_factory=dict)
    truncations: Mapping[int, Instruction] = field(default_factory=dict)
    remainders: frozenset[int] = frozenset()
    halves: frozenset[int] = frozenset()


def is_arithmetic(i: Instruction, constants: Mapping[str, int]) -> bool:
    """Whether a 32-bit instruction is a sum, a product or a shift to the left, which may wrap."""
    if i.modifiers[-1:] not in (("s32",), ("u32",), ("b32",)) or len(i.modifiers) > 2:
        return False
    if i.opcode in SUMS:
        return len(i.modifiers) == 1
    if i.opcode in PRODUCTS:
        return i.modifiers[0] == "lo"
    return i.opcode == "shl" and literal(i.operands[2], constants) is not None


def literal(operand: Operand, constants: Mapping[str, int]) -> int | None:
    """The value of an operand if it is a literal or a register with one, as written; else None."""
    if isinstance(operand, Register):
        return constants.get(operand.name)
    return operand.value if isinstance(operand, Integer) else None


def passes(i: Instruction, constants: Mapping[str, int]) -> tuple[Operand, ...]:
    """The operands whose numbers an instruction passes on, unchanged or shifted; empty if it does not."""
    sources = i.operands[1:]
    if i.opcode in MOVES and isinstance(sources[0], Register):
        return sources[:1]
    if i.opcode in _CHOICES:
        return sources[: _CHOICES[i.opcode]]
    if i.opcode == "or" and literal(sources[1], constants) is not None:
        return sources[:1]  # as compilers write the sum of an even number and 1
    if i.opcode == "shr" and i.modifiers[0][0] == "s" and not _is_sign(i, constants):
        return sources[:1] if literal(sources[1], constants) is not None else ()
    return ()


_HALF = 32
_NARROWING = (("s32", "s64"), ("u32", "u64"), ("s32", "u64"), ("u32", "s64"))
_WIDENING = (("s64", "s32"), ("u64", "u32"), ("s64", "u32"), ("u64", "s32"))


def narrowed(i: Instruction) -> bool:
    """Whether an instruction converts a 64-bit number to 32 bits."""
    return i.opcode == "cvt" and i.modifiers in _NARROWING


def truncated(i: Instruction, halves: frozenset[int] = frozenset()) -> tuple[Operand, ...]:
    """The 64-bit operand of which an instruction keeps the lower 32 bits: ``int64(int32(i))`` in one step.

    Args:
        halves: :attr:`Wrapping.halves`.
    """
    if id(i) in halves:
        return i.operands[1:2]
    return i.operands[1:] if i.opcode == "cvt" and i.modifiers in _WIDENING and _is_wide(i.operands[1]) else ()


def _halves(instructions: list[Instruction], constants: Mapping[str, int]) -> frozenset[int]:
    """The shifts to the left by 32 bits (by id) whose result is only shifted back, with its sign: compilers write
    ``4 * int64(int32(i))`` as ``i << 32 >> 30``."""
    shifts: dict[str, int] = {}
    for i in instructions:
        is_shift = i.opcode == "shl" and i.modifiers == ("b64",) and literal(i.operands[2], constants) == _HALF
        if is_shift and isinstance(i.operands[0], Register):
            shifts[i.operands[0].name] = id(i)
    others: set[str] = set()
    for i in instructions:
        is_back = i.opcode == "shr" and i.modifiers == ("s64",) and _is_up_to(i.operands[2], constants)
        if not is_back:
            others.update(_registers(i.operands[1:]))
            bases = (operand.base for operand in i.operands if isinstance(operand, Address))
            others.update(base.name for base in bases if isinstance(base, Register))
    return frozenset(shift for name, shift in shifts.items() if name not in others)


def _is_up_to(operand: Operand, constants: Mapping[str, int]) -> bool:
    count = literal(operand, constants)
    return count is not None and 0 < count <= _HALF


def _is_wide(operand: Operand) -> bool:
    return isinstance(operand, Register) and TYPES[operand.type].bits == 64


def widened(i: Instruction) -> tuple[Operand, ...]:
    """The 32-bit operands that an instruction extends to 64 bits."""
    if i.opcode == "cvt" and i.modifiers in _WIDENING:
        return () if _is_wide(i.operands[1]) else i.operands[1:]
    if i.opcode in PRODUCTS and i.modifiers in (("wide", "s32"), ("wide", "u32")):
        return i.operands[1:3]
    return ()


def is_signed(i: Instruction) -> bool:
    """Whether the operands of :func:`widened` are sign-extended."""
    return i.modifiers[-1] == "s32"


def wide_sources(i: Instruction, constants: Mapping[str, int]) -> tuple[Operand, ...]:
    """The 64-bit operands that a 64-bit number is computed from."""
    if i.opcode == "mad" and i.modifiers[0] == "wide":
        return i.operands[3:]
    if truncated(i):
        return i.operands[1:]
    if i.modifiers[-1:] not in (("s64",), ("u64",), ("b64",)) and i.opcode != "cvta":
        return ()
    if (i.opcode in SUMS and len(i.modifiers) == 1) or (i.opcode in PRODUCTS and i.modifiers[0] == "lo"):
        return i.operands[1:]
    if i.opcode == "shl":
        return i.operands[1:2]
    return passes(i, constants)


def _is_sign(i: Instruction, constants: Mapping[str, int]) -> bool:
    return i.opcode == "shr" and literal(i.operands[2], constants) in (31, 63)


def _registers(operands: tuple[Operand, ...]) -> Iterator[str]:
    return (o.name for o in operands if isinstance(o, Register))


def analyze(cfg: Cfg, constants: Mapping[str, int]) -> Wrapping:
    """What to watch in a function; nothing if no 32-bit arithmetic feeds an address."""
    instructions = [o for n in cfg.order for o in cfg.blocks[n].operations if isinstance(o, Instruction)]
    made: dict[str, list[Instruction]] = {}
    for i in instructions:
        for register in writes(i):
            made.setdefault(register.name, []).append(i)
    remainders = frozenset(
        id(i) for i in instructions if i.opcode in _COMBINES and _is_remainder(i, made, constants)
    )
    wide = set(_addresses(instructions))
    narrow: set[str] = set()
    pending = list(wide)
    while pending:
        for i in made.get(pending.pop(), ()):
            if id(i) not in remainders:
                narrow.update(_registers(widened(i)))
                new = set(_registers(wide_sources(i, constants))) - wide
                wide |= new
                pending.extend(new)
    pending = list(narrow)
    while pending:
        for i in made.get(pending.pop(), ()):
            if id(i) not in remainders:
                new = set(_registers(_narrow_sources(i, constants))) - narrow
                narrow |= new
                pending.extend(new)
    unsigned = _unsigned(instructions, narrow, made, constants)
    return _watched(instructions, narrow, wide, unsigned, made, remainders, constants)


def _narrow_sources(i: Instruction, constants: Mapping[str, int]) -> tuple[Operand, ...]:
    """The 32-bit operands that a 32-bit number is computed from."""
    if is_arithmetic(i, constants):
        return i.operands[1:2] if i.opcode == "shl" else i.operands[1:]
    return passes(i, constants) if i.modifiers[-1:] in (("s32",), ("u32",), ("b32",)) else ()


def _addresses(instructions: list[Instruction]) -> Iterator[str]:
    for i in instructions:
        if i.opcode in ("ld", "ldu", "st", "atom", "red") and "param" not in i.modifiers:
            for operand in i.operands:
                base = operand.base if isinstance(operand, Address) else None
                if isinstance(base, Register) and TYPES[base.type].bits == 64:
                    yield base.name


def _watched(
    instructions: list[Instruction],
    narrow: set[str],
    wide: set[str],
    unsigned: frozenset[str],
    made: Mapping[str, list[Instruction]],
    remainders: frozenset[int],
    constants: Mapping[str, int],
) -> Wrapping:
    """Keep those of the registers on the way to an address whose value comes from arithmetic."""
    arithmetic: dict[str, tuple[Instruction, ...]] = {}
    for name in narrow:
        sums = tuple(
            _converted(i, made) if narrowed(i) else i
            for i in made.get(name, ())
            if id(i) not in remainders and (is_arithmetic(i, constants) or narrowed(i))
        )
        if sums:
            arithmetic[name] = sums
    sources: dict[str, frozenset[int | None]] = {}
    halves = _halves(instructions, constants)
    truncations = {id(o): _converted(i, made) for i in instructions for o in truncated(i, halves)}
    again = True
    while again:
        again = False
        for i in instructions:
            if id(i) in remainders:
                continue
            for register in writes(i):
                target = register.name
                if target in narrow:
                    found = tuple(
                        s for n in _registers(_narrow_sources(i, constants)) for s in arithmetic.get(n, ())
                    )
                    if found and target not in arithmetic:
                        arithmetic[target] = found
                        again = True
                elif target in wide:
                    keys: set[int | None] = set()
                    keys |= {id(o) for o in widened(i) if isinstance(o, Register) and o.name in arithmetic}
                    keys |= {id(o) for o in truncated(i, halves)}
                    for n in _registers(wide_sources(i, constants)):
                        keys |= sources.get(n, frozenset())
                    if not keys <= sources.get(target, frozenset()):
                        sources[target] = sources.get(target, frozenset()) | keys
                        again = True
    return Wrapping(
        frozenset(arithmetic), unsigned, frozenset(sources), sources, arithmetic, truncations, remainders, halves
    )


def _converted(i: Instruction, made: Mapping[str, list[Instruction]]) -> Instruction:
    """What computes the operand of a conversion; the conversion if that is a parameter of the function."""
    makers = [maker for name in _registers(i.operands[1:]) for maker in made.get(name, ())]
    return makers[-1] if makers else i


def _unsigned(
    instructions: list[Instruction],
    narrow: set[str],
    made: Mapping[str, list[Instruction]],
    constants: Mapping[str, int],
) -> frozenset[str]:
    """The narrow registers that are not used as signed numbers, directly or through the registers around them."""
    signed: set[str] = set()
    for i in instructions:
        if widened(i):
            if is_signed(i):
                signed.update(_registers(widened(i)))
        elif "s32" in i.modifiers and (i.opcode in SIGNED_USES or i.opcode == "cvt" or "hi" in i.modifiers):
            signed.update(_registers(i.operands[1:]))
            signed.update(register.name for register in writes(i))
    groups = [{name, *_registers(_narrow_sources(i, constants))} for name in narrow for i in made.get(name, ())]
    again = True
    while again:
        again = False
        for group in groups:
            if group & signed and not group <= signed:
                signed |= group
                again = True
    return frozenset(narrow - signed)


def _is_remainder(i: Instruction, made: Mapping[str, list[Instruction]], constants: Mapping[str, int]) -> bool:
    """Whether a number is combined with a number computed from a part of it, as in ``x - x / c * c``."""
    names = list(_registers(i.operands[1:]))
    return any(_from_parts(y, x, made, constants, _DEPTH, False, set()) for x in names for y in names if x != y)


def _from_parts(
    name: str,
    number: str,
    made: Mapping[str, list[Instruction]],
    constants: Mapping[str, int],
    depth: int,
    splits: bool,
    seen: set[tuple[str, bool]],
) -> bool:
    """Whether a register is computed from a part of a number (not only its sign)."""
    if depth == 0 or (name, splits) in seen:
        return False
    seen.add((name, splits))
    for i in made.get(name, ()):
        if _is_sign(i, constants):
            continue
        opcode = f"{i.opcode}.hi" if "hi" in i.modifiers else i.opcode
        parts = splits or opcode in _TAKES_APART
        for source in _registers(i.operands[1:]):
            if parts and source == number:
                return True
            if _from_parts(source, number, made, constants, depth - 1, parts, seen):
                return True
    return False
