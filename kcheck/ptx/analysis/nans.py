"""Where the bits of a NaN in a register are visible, and which instructions must make NaNs canonical.

Which NaN LLVM's arithmetic produces depends on the order of operands and on constant folding, hence on the number
of lanes and on the optimization level. Source of the required result: PTX ISA, "Floating Point Instructions".

In f32, the result is "an unspecified NaN": here the canonical one
(:meth:`kcheck.ptx.ir.builder.Builder.canonical`) wherever its bits are visible. Most results are only used by more
arithmetic, where they are not visible: such a value is made canonical once, where it is stored, and not earlier in
the loop. Instructions that only move bits keep them. A register that may also hold a loaded value is stored
unchanged: arithmetic that writes such a register makes its result canonical. ``neg`` and ``abs`` count as
arithmetic, because their NaN is unspecified, too: so the sign of a NaN never depends on the order of instructions.

In f64, payloads are kept: the result is the first operand that is a NaN, made quiet, or the canonical NaN if there
is no such operand. So the instruction itself tests every operand that may be a NaN. ``neg`` and ``abs`` change the
sign bit of a NaN.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

from kcheck.dataclass import dataclass
from kcheck.ptx.analysis.cfg import Cfg
from kcheck.ptx.analysis.liveness import has_result, registers, writes
from kcheck.ptx.isa import rows
from kcheck.ptx.isa.rows import Mods, Row
from kcheck.ptx.syntax.ast import Call, Float, Instruction, Integer, Operand, Operation, Pair, Register, Vector
from kcheck.ptx.syntax.opcodes import ATOMICS
from kcheck.ptx.syntax.types import TYPES, PtxType

_ARITHMETIC = frozenset(
    ["add", "sub", "mul", "fma", "mad", "div", "sqrt", "rcp", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh"]
)
_SIGNS = frozenset({"neg", "abs"})
_ARITHMETIC |= _SIGNS | {"cvt"}
_TYPES = frozenset({"f32", "f64"})
_BLIND = _ARITHMETIC | {"min", "max", "set", "setp", "testp"}
"""Opcodes whose results do not depend on which NaN an f32 or f64 source is."""

_DEFINED = frozenset({"add", "sub", "mul", "fma", "mad"})
"""Opcodes that never make a NaN from finite numbers: on overflow they give infinity."""

_MOVED = {"mov": slice(1, 2), "selp": slice(1, 3), "shfl": slice(1, 2)}
"""Opcodes that copy one of these operands to the first, bit for bit."""


@dataclass(frozen=True, slots=True)
class Nans:
    """What to make canonical.

    Attributes:
        made: registers in which any NaN comes from arithmetic.
        shown: operations (by ``id``) that reveal the bits of what they read: there, ``made`` must be canonical.
        written: instructions (by ``id``) whose result is made canonical.
        kept: instructions (by ``id``) whose NaN is the first NaN among these operands, as numbers of sources.
    """

    made: frozenset[str]
    shown: frozenset[int]
    written: frozenset[int]
    kept: Mapping[int, tuple[int, ...]]

    def shows(self, operation: Operation, register: str) -> bool:
        """Whether an operation that reads a register must find the canonical NaN in it."""
        return id(operation) in self.shown and register in self.made


def analyze(cfg: Cfg) -> Nans | None:
    """Analyze the reachable blocks, whatever the order of execution; None if there is nothing to do."""
    return _NanAnalysis(cfg).run()


class _NanAnalysis:
    def __init__(self, cfg: Cfg) -> None:
        self.arithmetic: dict[str, list[Instruction]] = {}
        self.bits: set[str] = set()
        self.finite: set[str] = set()
        self.others: set[str] = set()
        self.moves: list[tuple[Instruction, str, list[str]]] = []
        self.showing: list[tuple[Operation, list[str]]] = []
        self.always: list[Instruction] = []
        self.doubles: list[Instruction] = []
        for n in cfg.order:
            for operation in cfg.blocks[n].operations:
                self._take(operation)

    def run(self) -> Nans | None:
        if not self.arithmetic and not self.always and not self.doubles:
            return None
        finite = self.finite - self.others
        arithmetic = {
            name: [i for i in found if not _is_of_finite(i, finite)] for name, found in self.arithmetic.items()
        }
        opened = {name for name, found in arithmetic.items() if found}
        self._forward(opened)
        self._forward(self.bits)
        made = opened - self.bits
        seen = {name for _, names in self.showing for name in names}
        again = True
        while again:
            before = len(seen)
            for _, target, sources in self.moves:
                if target in seen:
                    seen.update(sources)
            again = len(seen) > before
        shown = {id(o) for o, names in self.showing if not made.isdisjoint(names)}
        shown |= {id(i) for i, target, names in self.moves if target in seen - made and not made.isdisjoint(names)}
        written = {id(i) for i in self.always}
        for name in opened & self.bits & seen:
            written |= {id(i) for i in arithmetic.get(name, ())}
        kept = {id(i): _open_sources(i, finite) for i in self.doubles if not _is_of_finite(i, finite)}
        return Nans(frozenset(made), frozenset(shown), frozenset(written), kept)

    def _forward(self, names: set[str]) -> None:
        """Add the registers to which those in ``names`` are copied."""
        again = True
        while again:
            before = len(names)
            for _, target, sources in self.moves:
                if target not in names and not names.isdisjoint(sources):
                    names.add(target)
            again = len(names) > before

    def _take(self, operation: Operation) -> None:
        """Classify an operation by the NaNs that it makes and the NaNs whose bits it reveals."""
        results = [r.name for r in writes(operation)]
        if isinstance(operation, Call):
            self.bits.update(results)
            self.others.update(results)
            return
        if self._move(operation):
            return
        found = rows.of(operation)
        if found is not None:
            found = rows.by_operands(operation, *found)
        shown = list(_shown(operation, found))
        if shown:
            self.showing.append((operation, shown))
        (self.finite if _is_finite(operation, found) else self.others).update(results)
        if found is None or (kind := found[0].slots[0].resolve(found[1])).name not in _TYPES:
            self.bits.update(results)
        elif kind.name == "f64" and _keeps(operation, found[1]):
            self.doubles.append(operation)
            self.bits.update(results)
        elif _is_open(operation, found[1], kind):
            for target in writes(operation):
                if kind.name == "f32" and TYPES[target.type].bits == kind.bits:
                    self.arithmetic.setdefault(target.name, []).append(operation)
                else:  # an f64 from an f32, whose payload is passed on, or a register of another type
                    self.always.append(operation)
                    self.bits.add(target.name)
        elif not _is_settled(operation, kind):
            self.bits.update(results)

    def _move(self, i: Instruction) -> bool:
        """Handle an instruction that copies; return whether it does."""
        part = _MOVED.get(i.opcode)
        if part is None or len(i.operands) < part.stop:
            return False
        target = i.operands[0].first if isinstance(i.operands[0], Pair) else i.operands[0]
        copied = i.operands[part]
        if not isinstance(target, Register) or any(isinstance(o, Vector) for o in copied):
            return False
        names = [o.name for o in copied if isinstance(o, Register)]
        self.moves.append((i, target.name, names))
        sizes = [_magnitude(o, TYPES[target.type].bits) for o in copied if not isinstance(o, Register)]
        if not all(size <= 0 for size in sizes):
            self.bits.add(target.name)
        (self.others if names or not all(size < 0 for size in sizes) else self.finite).add(target.name)
        shown = [r.name for o in i.operands[part.stop :] for r in registers(o)]
        if shown:
            self.showing.append((i, shown))
        return True


def _keeps(i: Instruction, mods: Mods) -> bool:
    """Whether an instruction with an f64 result passes on the payload of an operand."""
    if i.opcode == "cvt":
        return mods.type("A").name == "f64" and "sat" not in mods
    return i.opcode in _ARITHMETIC and i.opcode not in _SIGNS and "ftz" not in mods


def _open_sources(i: Instruction, finite: Set[str]) -> tuple[int, ...]:
    """The sources of an instruction that may be NaNs, each register once."""
    sources = i.operands[1:]
    found = {
        o.name if isinstance(o, Register) else str(n): n
        for n, o in reversed(tuple(enumerate(sources)))
        if (o.name not in finite if isinstance(o, Register) else _magnitude(o, 0) > 0)
    }
    return tuple(sorted(found.values()))


def _is_open(i: Instruction, mods: Mods, kind: PtxType) -> bool:
    """Whether the result may be a NaN of LLVM's choice."""
    if i.opcode not in _ARITHMETIC or "sat" in mods:
        return False
    if i.opcode == "cvt":
        return mods.type("A").kind == "float"
    return kind.name != "f64"  # rcp and rsqrt by the upper words have their own NaN; a sign is a bit


def _is_settled(i: Instruction, kind: PtxType) -> bool:
    """Whether the result is never a NaN other than the canonical one."""
    if i.opcode in ("min", "max"):
        return kind.name == "f32"
    return i.opcode in ("set", "cvt") or "sat" in i.modifiers


def _is_finite(i: Instruction, found: tuple[Row, Mods] | None) -> bool:
    """Whether the result is a finite f32 or f64 for any sources: with ``.sat``, or converted from an integer."""
    if found is None or found[0].slots[0].resolve(found[1]).name not in _TYPES:
        return False
    return "sat" in found[1] or (i.opcode == "cvt" and found[1].type("A").kind in ("signed", "unsigned"))


def _is_of_finite(i: Instruction, finite: Set[str]) -> bool:
    """Whether arithmetic on finite numbers alone gives no NaN; ``finite``: registers that hold nothing else."""
    return i.opcode in _DEFINED and all(
        o.name in finite if isinstance(o, Register) else _magnitude(o, 0) < 0 for o in i.operands[1:]
    )


def _magnitude(operand: Operand, bits: int) -> int:
    """How a literal in a register of this many bits compares, as f32 or f64, to infinity: above 0 it is a NaN."""
    if isinstance(operand, Integer):
        value = operand.value & ((1 << bits) - 1)
    elif isinstance(operand, Float):
        value, bits = operand.bits, operand.width
    else:
        return 1
    infinity = {32: 0x7F800000, 64: 0x7FF0000000000000}.get(bits)
    return 1 if infinity is None else (value & ((1 << (bits - 1)) - 1)) - infinity


def _shown(i: Instruction, found: tuple[Row, Mods] | None) -> Iterator[str]:
    """The registers whose bits an instruction reveals: all that it reads, unless it is known not to."""
    updates = i.opcode in ATOMICS and "add" in i.modifiers and i.modifiers[-1] in ("f32", "f64")
    for number in range(has_result(i), len(i.operands)):
        operand = i.operands[number]
        blind = updates and number == len(i.operands) - 1
        if found is not None and i.opcode in _BLIND and "xorsign" not in found[1] and number < len(found[0].slots):
            kind = found[0].slots[number].resolve(found[1])
            blind = kind.name in _TYPES and isinstance(operand, Register) and TYPES[operand.type].bits == kind.bits
        if not blind:
            yield from (r.name for r in registers(operand))
