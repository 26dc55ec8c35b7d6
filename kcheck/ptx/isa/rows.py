"""What a row of the instruction table is, and how an instruction finds its row.

A row's syntax is written as the PTX ISA writes it: ``.lit`` is required, ``[.a|.b=key]`` optional,
``<.a|.b=key>`` a choice; ``{int}`` inside stands for a set of types. Its operands are ``name:type`` in order,
results first (names ``d`` and ``p``); ``T`` is the type that the syntax bound, and ``~`` allows a register wider
than the type. A row's ``emit`` maps source values to results; where the modifiers mean the same for many
instructions (``.ftz``, ``.sat``, rounding, packed and narrow types) they are composed around it, in
:mod:`kcheck.ptx.isa.modifiers`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from kcheck.dataclass import dataclass
from kcheck.ptx.ir.builder import Value
from kcheck.ptx.syntax.ast import Instruction
from kcheck.ptx.syntax.types import TYPES, PtxType

SETS: Mapping[str, str] = {
    "int": ".u16|.s16|.u32|.s32|.u64|.s64",
    "int8": ".u8|.s8|.u16|.s16|.u32|.s32|.u64|.s64",
    "bits": ".b16|.b32|.b64",
    "unsigned": ".u16|.u32|.u64",
    "rnd": ".rn|.rz|.rm|.rp",
    "half": ".f16|.bf16",
    "half2": ".f16x2|.bf16x2",
    "float": ".f32|.f64",
    "any": ".b8|.u8|.s8|.b16|.u16|.s16|.b32|.u32|.s32|.b64|.u64|.s64|.f16|.bf16|.f32|.f64",
    "compare": ".eq|.ne|.lt|.le|.gt|.ge|.lo|.ls|.hi|.hs|.equ|.neu|.ltu|.leu|.gtu|.geu|.num|.nan",
    "shfl": ".up|.down|.bfly|.idx",
}
"""Names for the sets of modifiers that many rows share."""


@dataclass(frozen=True, slots=True)
class Mods:
    """The modifiers of one instruction, as its row bound them."""

    bound: Mapping[str, str]

    def __contains__(self, key: str) -> bool:
        return key in self.bound

    def get(self, key: str) -> str:
        """The modifier bound to a key, ``""`` if it was left out."""
        return self.bound.get(key, "")

    def type(self, key: str = "T") -> PtxType:
        """The type bound to a key."""
        return TYPES[self.bound[key]]


@dataclass(frozen=True, slots=True)
class Slot:
    """One operand of a row.

    Attributes:
        type: a PTX type, or the key of one in the modifiers; ``wide`` is the integer with twice the bits.
        relaxed: the register may be wider.
        result: whether the instruction writes it.
    """

    name: str
    type: str
    relaxed: bool
    result: bool

    def resolve(self, mods: Mods) -> PtxType:
        """The operand's type in one instruction."""
        if self.type == "wide":
            narrow = mods.type()
            return TYPES[f"{narrow.name[0]}{narrow.bits * 2}"]
        if self.type in mods.bound:
            return TYPES[mods.bound[self.type]]
        return TYPES[self.type]


Emit = Callable[..., "Value | tuple[Value, ...]"]


@dataclass(frozen=True, slots=True)
class _Element:
    choices: frozenset[str]
    key: str
    required: bool


@dataclass(frozen=True, slots=True)
class Row:
    """One row: ``emit(builder, mods, *sources)`` gives the results."""

    opcode: str
    syntax: str
    elements: tuple[_Element, ...]
    slots: tuple[Slot, ...]
    emit: Emit

    def match(self, modifiers: tuple[str, ...]) -> Mods | None:
        """The bindings if the modifiers match this row's syntax; otherwise None."""
        bound: dict[str, str] = {}
        index = 0
        for element in self.elements:
            if index < len(modifiers) and modifiers[index] in element.choices:
                bound[element.key] = modifiers[index]
                index += 1
            elif element.required:
                return None
        return Mods(bound) if index == len(modifiers) else None

    def variants(self) -> Iterable[tuple[str, ...]]:
        """Every sequence of modifiers that the row matches, for tests."""
        found: list[tuple[str, ...]] = [()]
        for element in self.elements:
            choices: list[tuple[str, ...]] = [(c,) for c in sorted(element.choices)]
            if not element.required:
                choices.insert(0, ())
            found = [(*before, *choice) for before in found for choice in choices]
        return found


ROWS: dict[str, list[Row]] = {}
"""Rows by opcode, filled by the family modules on import (:mod:`kcheck.ptx.isa`)."""

_ELEMENT = re.compile(r"\[(?P<optional>[^]]+)\]|<(?P<choice>[^>]+)>|(?P<literal>\.\S+)")


def row(syntax: str, operands: str, emit: Emit) -> None:
    """Add a row: ``row("add <{int}=T>", "d a b", emit)``."""
    opcode, _, rest = syntax.partition(" ")
    elements = []
    for found in _ELEMENT.finditer(rest):
        text = found["optional"] or found["choice"] or found["literal"]
        text = re.sub(r"\{(\w+)\}", lambda m: SETS[m[1]], text)
        text, _, key = text.partition("=")
        choices = frozenset(c[1:] for c in text.split("|"))
        elements.append(_Element(choices, key or next(iter(choices)), found["optional"] is None))
    slots = []
    for word in operands.split():
        name, _, kind = word.partition(":")
        slots.append(Slot(name.rstrip("~"), kind or "T", "~" in name, name[0] in "dp"))
    ROWS.setdefault(opcode, []).append(Row(opcode, syntax, tuple(elements), tuple(slots), emit))


@lru_cache(maxsize=4096)
def find(opcode: str, modifiers: tuple[str, ...]) -> tuple[Row, Mods] | None:
    """The first row that matches an instruction's modifiers, which are bound; None if there is none."""
    for candidate in ROWS.get(opcode, ()):
        mods = candidate.match(modifiers)
        if mods is not None:
            return candidate, mods
    return None


def of(instruction: Instruction) -> tuple[Row, Mods] | None:
    """:func:`find` for an instruction."""
    return find(instruction.opcode, instruction.modifiers)


def by_operands(instruction: Instruction, first: Row, mods: Mods) -> tuple[Row, Mods]:
    """Of the rows that match an instruction, the one with as many operands; ``first`` if there is none."""
    wanted = len(instruction.operands)
    if len(first.slots) == wanted:
        return first, mods
    for candidate in ROWS[instruction.opcode]:
        if len(candidate.slots) == wanted:
            found = candidate.match(instruction.modifiers)
            if found is not None:
                return candidate, found
    return first, mods
