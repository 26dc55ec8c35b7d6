"""Bounds of integer registers, derived from the bounds of a thread's indices in the grid.

Numba lets an index be negative: ``a[i]`` with a signed ``i`` is lowered to ``i + (i >> 63 & n)``. An index
computed from ``%ctaid``, ``%ntid`` and ``%tid`` cannot be negative. So the sign is the same for all lanes, and the
address of each lane follows from that of the first.

Bounds are those of the register read as a signed number. They hold in every lane, active or not. In a lane that
has not written a register, it is 0, so 0 is always within the bounds. A register whose bounds do not converge has
those of its type. Source of the limits: CUDA C++ Programming Guide, "Technical Specifications per Compute
Capability".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set

from kcheck.dataclass import dataclass
from kcheck.ptx.analysis.cfg import Cfg
from kcheck.ptx.analysis.liveness import writes
from kcheck.ptx.syntax.ast import Call, Instruction, Integer, Operand, Operation, Register, Special
from kcheck.ptx.syntax.types import TYPES

Bounds = tuple[int, int]
"""The least and the greatest value."""

_THREADS, _GRID_X, _GRID_YZ = 1024, (1 << 31) - 1, 65535
_SPECIALS: Mapping[str, Bounds] = {
    "tid.x": (0, _THREADS - 1),
    "tid.y": (0, _THREADS - 1),
    "tid.z": (0, _THREADS - 1),
    "ntid.x": (1, _THREADS),
    "ntid.y": (1, _THREADS),
    "ntid.z": (1, _THREADS),
    "ctaid.x": (0, _GRID_X - 1),
    "ctaid.y": (0, _GRID_YZ - 1),
    "ctaid.z": (0, _GRID_YZ - 1),
    "nctaid.x": (1, _GRID_X),
    "nctaid.y": (1, _GRID_YZ),
    "nctaid.z": (1, _GRID_YZ),
    "laneid": (0, 31),
}
_ROUNDS = 4
"""How many times all definitions are visited; registers that still change then get the bounds of their types."""


def bounds_of_type(bits: int) -> Bounds:
    """The bounds of signed numbers of a width in bits."""
    return -(1 << bits - 1), (1 << bits - 1) - 1


_WHOLE = bounds_of_type(64)


def analyze(cfg: Cfg) -> Mapping[str, Bounds]:
    """The bounds of each integer register of 32 or 64 bits that has tighter ones than its type."""
    definitions: list[_Definition] = []
    unknown: set[str] = set()
    for n in cfg.order:
        for operation in cfg.blocks[n].operations:
            for register in writes(operation):
                if _may_have_bounds(operation, register):
                    assert isinstance(operation, Instruction)
                    definitions.append(_definition(operation, register))
                else:
                    unknown.add(register.name)
    found = _forward(definitions, unknown)
    # Bounds may have been computed from earlier bounds of a register that is now unknown: if they no longer hold,
    # their register is unknown, too.
    pending = definitions
    while pending:
        more = {d.name for d in pending if d.name not in unknown and not d.stays_within(found, unknown)}
        unknown |= more
        pending = [d for d in definitions if not more.isdisjoint(d.registers)] if more else []
    return {name: bounds for name, bounds in found.items() if name not in unknown}


def _forward(definitions: Sequence[_Definition], unknown: set[str]) -> dict[str, Bounds]:
    """Bounds after a few rounds; the registers whose bounds still grow then are added to the unknown ones."""
    found: dict[str, Bounds] = {}
    changed: set[str] = set()
    for again in range(_ROUNDS):
        before, changed = changed, set()
        for d in definitions:
            if d.name in unknown or (again and before.isdisjoint(d.registers) and changed.isdisjoint(d.registers)):
                continue
            new = d.result(found, unknown)
            if new is None:  # its sources were not reached yet
                continue
            old = found.get(d.name, (0, 0))
            joined = min(old[0], new[0]), max(old[1], new[1])
            if found.get(d.name) != joined:
                found[d.name] = joined
                changed.add(d.name)
    unknown |= changed
    return found


@dataclass(frozen=True, slots=True)
class _Definition:
    """One instruction that writes a register.

    Attributes:
        name: of the register; ``whole``: the bounds of its type.
        sources: the bounds of each source, or the name of the register that it is.
        registers: the names of the registers among the sources.
    """

    name: str
    whole: Bounds
    opcode: str
    modifiers: tuple[str, ...]
    sources: tuple[Bounds | str, ...]
    registers: frozenset[str]

    def result(self, found: Mapping[str, Bounds], unknown: Set[str]) -> Bounds | None:
        """The bounds of the written value; None: those of a source are not known yet."""
        sources = []
        for source in self.sources:
            if isinstance(source, str):
                bounds = _WHOLE if source in unknown else found.get(source)
                if bounds is None:
                    return None
                source = bounds
            sources.append(source)
        result = _RULES[self.opcode](self.modifiers, sources)
        if result is None or result[0] < self.whole[0] or result[1] > self.whole[1]:
            return self.whole
        return result

    def stays_within(self, found: Mapping[str, Bounds], unknown: Set[str]) -> bool:
        """Whether the written value is within the bounds of its register."""
        result, bounds = self.result(found, unknown), found.get(self.name)
        return result is not None and bounds is not None and bounds[0] <= result[0] and result[1] <= bounds[1]


def _definition(i: Instruction, register: Register) -> _Definition:
    sources = tuple(_source(operand) for operand in i.operands[1:4])
    names = frozenset(source for source in sources if isinstance(source, str))
    return _Definition(
        register.name, bounds_of_type(TYPES[register.type].bits), i.opcode, i.modifiers, sources, names
    )


def _may_have_bounds(operation: Operation, register: Register) -> bool:
    if isinstance(operation, Call) or operation.opcode not in _RULES:
        return False
    kind = TYPES[register.type]
    if kind.kind in ("pred", "float", "packed") or kind.bits not in (32, 64):
        return False
    return len(writes(operation)) == 1 and isinstance(operation.operands[0], Register)


def _source(operand: Operand) -> Bounds | str:
    """The bounds of a source, or the register whose bounds it has."""
    if isinstance(operand, Integer):
        return operand.value, operand.value
    if isinstance(operand, Special):
        return _SPECIALS.get(operand.name, _WHOLE)
    if isinstance(operand, Register):
        kind = TYPES[operand.type]
        return operand.name if kind.kind != "pred" and kind.bits in (32, 64) else _WHOLE
    return _WHOLE


# --- what instructions do to bounds; None: nothing is known


def _fits(kind: str, *bounds: Bounds) -> bool:
    """Whether numbers within the bounds have the same value if they are read as this type."""
    if kind not in TYPES or TYPES[kind].kind not in ("signed", "unsigned", "bits"):
        return False
    bits = TYPES[kind].bits
    low, high = (0, (1 << bits - 1) - 1) if TYPES[kind].kind == "unsigned" else bounds_of_type(bits)
    return bits in (32, 64) and all(low <= b[0] and b[1] <= high for b in bounds)


def _exact(kind: str, sources: list[Bounds], result: Bounds) -> Bounds | None:
    """The result of arithmetic that does not wrap."""
    return result if _fits(kind, *sources, result) else None


def _moved(modifiers: tuple[str, ...], sources: list[Bounds]) -> Bounds | None:
    return sources[0] if len(modifiers) == 1 and _fits(modifiers[0], sources[0]) else None


def _converted(modifiers: tuple[str, ...], sources: list[Bounds]) -> Bounds | None:
    return sources[0] if len(modifiers) == 2 and all(_fits(m, sources[0]) for m in modifiers) else None


def _added(modifiers: tuple[str, ...], sources: list[Bounds]) -> Bounds | None:
    (a, b), (c, d) = sources
    return _exact(modifiers[0], sources, (a + c, b + d)) if len(modifiers) == 1 else None


def _subtracted(modifiers: tuple[str, ...], sources: list[Bounds]) -> Bounds | None:
    (a, b), (c, d) = sources
    if len(modifiers) != 1 or not _fits(modifiers[0], *sources):
        return None
    result = (a - d, b - c)
    return result if _fits(f"s{TYPES[modifiers[0]].bits}", result) else None


def _multiplied(modifiers: tuple[str, ...], sources: list[Bounds]) -> Bounds | None:
    """``mul`` and ``mad``, ``.lo`` or ``.wide``."""
    if len(modifiers) != 2 or modifiers[0] not in ("lo", "wide") or not _fits(modifiers[1], *sources[:2]):
        return None
    products = [x * y for x in sources[0] for y in sources[1]]
    low, high = min(products), max(products)
    wide = f"s{TYPES[modifiers[1]].bits * (2 if modifiers[0] == 'wide' else 1)}"
    if not _fits(wide, (low, high)):
        return None
    if len(sources) == 3:
        low, high = low + sources[2][0], high + sources[2][1]
        return (low, high) if _fits(wide, sources[2], (low, high)) else None
    return low, high


def _constant(bounds: Bounds, most: int) -> int | None:
    return bounds[0] if bounds[0] == bounds[1] and 0 <= bounds[0] < most else None


def _shifted_left(modifiers: tuple[str, ...], sources: list[Bounds]) -> Bounds | None:
    (low, high), count = sources[0], _constant(sources[1], 32)
    if count is None or len(modifiers) != 1 or low < 0:
        return None
    return _exact(modifiers[0], sources[:1], (low << count, high << count))


def _shifted_right(modifiers: tuple[str, ...], sources: list[Bounds]) -> Bounds | None:
    (low, high), count = sources[0], _constant(sources[1], 64)
    if count is None or len(modifiers) != 1 or not _fits(modifiers[0], sources[0]):
        return None
    if TYPES[modifiers[0]].kind != "signed" and low < 0:
        return None
    return low >> count, high >> count


def _masked(modifiers: tuple[str, ...], sources: list[Bounds]) -> Bounds | None:
    """``and``: at most the smallest source that is not negative."""
    highest = [high for low, high in sources if low >= 0]
    if not highest or len(modifiers) != 1 or not _fits(modifiers[0], (0, min(highest))):
        return None
    return 0, min(highest)


def _joined(modifiers: tuple[str, ...], sources: list[Bounds]) -> Bounds | None:
    """``or``: at least the larger source, and without bits that neither has."""
    (a, b), (c, d) = sources
    result = max(a, c), (1 << max(b.bit_length(), d.bit_length())) - 1
    return _exact(modifiers[0], sources, result) if min(a, c) >= 0 and len(modifiers) == 1 else None


def _smallest_or_largest(
    pick: Callable[..., int],
) -> Callable[[tuple[str, ...], list[Bounds]], Bounds | None]:
    def rule(modifiers: tuple[str, ...], sources: list[Bounds]) -> Bounds | None:
        lows, highs = zip(*sources, strict=True)  # of two or three
        return _exact(modifiers[0], sources, (pick(lows), pick(highs))) if len(modifiers) == 1 else None

    return rule


def _selected(modifiers: tuple[str, ...], sources: list[Bounds]) -> Bounds | None:
    (a, b), (c, d) = sources[:2]
    return _exact(modifiers[0], sources[:2], (min(a, c), max(b, d))) if len(modifiers) == 1 else None


_RULES: Mapping[str, Callable[[tuple[str, ...], list[Bounds]], Bounds | None]] = {
    "mov": _moved,
    "cvt": _converted,
    "add": _added,
    "sub": _subtracted,
    "mul": _multiplied,
    "mad": _multiplied,
    "shl": _shifted_left,
    "shr": _shifted_right,
    "and": _masked,
    "or": _joined,
    "min": _smallest_or_largest(min),
    "max": _smallest_or_largest(max),
    "selp": _selected,
}
