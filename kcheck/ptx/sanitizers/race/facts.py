"""What racecheck knows about a kernel before it is lowered, which decides what the code must check."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from kcheck.dataclass import dataclass
from kcheck.ptx.runtime.copy_queue import is_copy
from kcheck.ptx.sanitizers.race.layout import ATOMIC, READ, STRONG_READ, WRITE
from kcheck.ptx.syntax.ast import Address, Call, Function, Instruction, Label, Register
from kcheck.ptx.syntax.opcodes import ACCESSES, ATOMICS, BARRIERS, FENCES, MEMORY, STRONG
from kcheck.ptx.syntax.types import TYPES

_SPACES = frozenset({"global", "shared", "local", "const", "param"})
CHECKED = ("global", "shared")


TEXELS = frozenset({"tex", "tld4", "suld", "sust"})
"""Opcodes that access textures and surfaces."""


@dataclass(frozen=True, slots=True)
class RaceFacts:
    """Facts about a kernel and the functions that it calls.

    Attributes:
        granule: by space, the bytes of the smallest access, at most 8. Spaces that are not accessed are missing.
        kinds: by space, the kinds of records that accesses leave (WRITE, ATOMIC, READ, STRONG_READ).
        warps: whether lanes of a warp synchronize.
        fences: whether there are fences, mbarriers, or accesses with ``.acquire`` or ``.release``.
        copies: whether there are asynchronous copies.
        narrow: whether an atomic, or a strong load or store, has the scope of the block.
    """

    granule: dict[str, int]
    kinds: dict[str, frozenset[int]]
    warps: bool
    fences: bool
    copies: bool = False
    narrow: bool = False

    def __hash__(self) -> int:
        return hash((*sorted(self.granule.items()), self.warps, self.fences, self.copies, self.narrow))

    def checks(self, space: str) -> bool:
        """Whether a race is possible in a space."""
        kinds = self.kinds.get(space, frozenset())
        return WRITE in kinds or (ATOMIC in kinds and (READ in kinds or (self.narrow and space == "global")))


def space_of(instruction: Instruction) -> str:
    """``global``, ``shared``, ``local``, ``const``, ``param`` or ``generic``, of a memory instruction."""
    for modifier in instruction.modifiers:
        name = modifier.partition("::")[0]
        if name in _SPACES:
            return name
    return "generic"


def kind_of(instruction: Instruction, strengths: Mapping[int, bool] = MappingProxyType({})) -> int:
    """The kind of record that an access leaves: WRITE, ATOMIC (also for a strong store), READ or STRONG_READ.

    Args:
        strengths: by access (``id``), whether it is strong where its modifiers are silent (:mod:`.weak`).
    """
    if instruction.opcode in ATOMICS:
        return ATOMIC
    if is_mbarrier(instruction):
        return _MBARRIER[next(m for m in instruction.modifiers if m in _MBARRIER)]
    if instruction.opcode == "sust":
        return WRITE
    if instruction.opcode == "wmma":
        return WRITE if "store" in instruction.modifiers else READ
    strong = strengths.get(id(instruction), is_strong(instruction))
    if instruction.opcode == "st":
        return ATOMIC if strong else WRITE
    return STRONG_READ if strong else READ


def is_strong(instruction: Instruction) -> bool:
    """Whether other threads may synchronize with an access (PTX ISA, "Strong operations")."""
    return not STRONG.isdisjoint(instruction.modifiers)


def is_narrow(instruction: Instruction) -> bool:
    """Whether an atomic, or a strong load or store, has the scope of its block."""
    return instruction.opcode in ACCESSES and "cta" in instruction.modifiers


def race_facts(functions: Iterable[Function], strengths: Mapping[int, bool] = MappingProxyType({})) -> RaceFacts:
    """The facts of a kernel and the functions it calls. ``strengths``: as in :func:`kind_of`."""
    granule: dict[str, int] = {}
    kinds: dict[str, set[int]] = {}
    warps = fences = copies = narrow = False
    for function in functions:
        for statement in function.body or ():
            if isinstance(statement, Label | Call):
                continue
            warps |= "sync" in statement.modifiers and _is_of_a_warp(statement)
            fences |= statement.opcode in FENCES or not {"acquire", "release", "acq_rel"}.isdisjoint(
                statement.modifiers
            )
            narrow |= is_narrow(statement)
            if is_copy(statement):  # a word at a time
                copies = True
                for place, kind in (("global", READ), ("shared", WRITE)):
                    granule[place] = min(granule.get(place, 8), 4)
                    kinds.setdefault(place, set()).add(kind)
                continue
            if is_mbarrier(statement):
                fences = True
                for place in CHECKED if space_of(statement) == "generic" else ("shared",):
                    granule[place] = min(granule.get(place, 8), 8)
                    kinds.setdefault(place, set()).add(kind_of(statement))
                continue
            if statement.opcode in TEXELS:  # a texture: the first byte of a texel; sust.p: any size
                any_size = statement.opcode in ("tex", "tld4") or statement.modifiers[:1] == ("p",)
                size = 1 if any_size else TYPES[statement.modifiers[-2]].bytes
                granule["global"] = min(granule.get("global", 8), size)
                kinds.setdefault("global", set()).add(kind_of(statement))
                continue
            matrix = statement.opcode == "wmma" and "mma" not in statement.modifiers
            if statement.opcode not in MEMORY and not matrix:
                continue
            space = space_of(statement)
            if space == "param" and _through_register(statement):
                space = "generic"
            of = TYPES.get(statement.modifiers[-1]) if statement.modifiers else None
            if matrix and of is None:  # elements of less than a byte are loaded in words
                of = TYPES["b32"]
            if statement.opcode == "ldmatrix":  # a row at a time, in words
                of = TYPES["b32"]
            if of is None or (space not in CHECKED and space != "generic"):
                continue
            for place in CHECKED if space == "generic" else (space,):
                granule[place] = min(granule.get(place, 8), max(of.bytes, 1))
                kinds.setdefault(place, set()).add(kind_of(statement, strengths))
                if "cas" in statement.modifiers:  # one that fails only reads
                    kinds[place].add(STRONG_READ)
    by_space = {space: frozenset(found) for space, found in kinds.items()}
    return RaceFacts(granule, by_space, warps, fences, copies, narrow)


_MBARRIER = {
    "init": WRITE,
    "inval": WRITE,
    "test_wait": STRONG_READ,
    "try_wait": STRONG_READ,
    "arrive": ATOMIC,
    "arrive_drop": ATOMIC,
}


def is_mbarrier(instruction: Instruction) -> bool:
    """Whether it accesses an mbarrier object."""
    return (
        "mbarrier" in (instruction.opcode, *instruction.modifiers) and "pending_count" not in instruction.modifiers
    )


def _is_of_a_warp(instruction: Instruction) -> bool:
    if instruction.opcode in BARRIERS:
        return "warp" in instruction.modifiers
    return instruction.opcode in ("shfl", "vote", "match", "redux", "elect")


def _through_register(instruction: Instruction) -> bool:
    return any(isinstance(o, Address) and isinstance(o.base, Register) for o in instruction.operands)
