"""Interior blocks: those whose threads all pass the guards of a kernel, and whose accesses are all in bounds.

Most indices are sums of multiples of the thread's indices in its block. The least and the greatest value of such
a sum in a block are at its corners. So a few scalars show, once for each block, which way all threads go at the
branches before the body of a kernel, and whether all elements that an instruction accesses are in one allocation.
Blocks for which both are known run a second version of the kernel, without guards and range checks; the others run
the general version. At the border of an array, some threads do not pass the guards. If these leave the kernel at
once, the second version runs the others (:mod:`kcheck.ptx.lowering.interior_box`).

If the second version touches memory only by such accesses, neighboring blocks along the axis of the vectors run as
one block, a *strip*: row by row, in the order of the array in memory.

This module finds what such a version requires; :mod:`kcheck.ptx.lowering.interior_values` generates the test
of a block, and :mod:`kcheck.ptx.lowering.interior_version` the code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from kcheck.dataclass import dataclass
from kcheck.ptx.analysis.cfg import BasicBlock, Cfg, is_collective
from kcheck.ptx.analysis.liveness import reads, writes
from kcheck.ptx.isa.access_form import form, is_of_elements
from kcheck.ptx.isa.effects import EFFECTS
from kcheck.ptx.lowering.affine_values import evaluates
from kcheck.ptx.lowering.function import FunctionLowering
from kcheck.ptx.syntax.ast import Address, Call, Instruction, Integer, Not, Operand, Operation, Register, Special
from kcheck.ptx.syntax.opcodes import MOVES, PLAIN_ACCESSES, PRODUCTS
from kcheck.ptx.syntax.types import TYPES

LARGEST = 250
"""Kernels with more instructions than this get no second version: it would take too long to compile."""

SHARE = 1 / 4
"""The share of a kernel's instructions that must be evaluated once per block, or be accesses that are checked once
per block, to make a second version worthwhile."""

SPECIALS = ("tid.", "ntid", "ctaid", "nctaid")
_SPACES = frozenset({"global", "const", "generic"})
_CUT = frozenset({"global", "const", "generic", "param", "nc", "ca", "cg", "cs", "cv", "weak", "unified"})

Axes = frozenset[str]
_NONE: Axes = frozenset()


@dataclass(frozen=True, slots=True)
class Interior:
    """The second version of a kernel.

    Attributes:
        cfg: the control flow graph without branches that go the same way for all threads of an interior block.
        decided: the guards of these branches, with the values that they must have, and whether threads in which a
            guard has the other value leave the kernel at once, without having accessed memory.
        chosen: by block that ends in such a branch, the index of the successor that all threads take.
        evaluated: the instructions whose results are known for a whole block, in order.
        skipped: those of them (by ``id``) that the version does not contain.
        accesses: loads and stores that are checked with the block.
        everywhere: blocks that all threads execute, once.
        joins: whether several blocks may run as one: then only these accesses touch memory.
    """

    cfg: Cfg
    decided: tuple[tuple[Register, bool, bool], ...]
    chosen: Mapping[int, int]
    evaluated: tuple[Instruction, ...]
    skipped: frozenset[int]
    accesses: tuple[Instruction, ...]
    everywhere: frozenset[int]
    joins: bool


def find(cfg: Cfg, fn: FunctionLowering, divergent: Callable[[str], bool]) -> Interior | None:
    """What a second version of a kernel requires; None if it would not be worthwhile.

    Args:
        divergent: whether the address of a symbol differs between lanes.
    """
    operations = [o for n in cfg.order for o in cfg.blocks[n].operations]
    if len(operations) > LARGEST or any(isinstance(o, Call) or is_collective(o) for o in operations):
        return None
    for joins in (True, False):
        search = _Search(cfg, fn, divergent, joins)
        search.walk()
        pruned = _pruned(cfg, search.chosen)
        found = None if pruned.loops else search.judge(pruned)
        if found is not None:
            return found
    return None


class _Search:
    """Follows a kernel from its entry through the guards that can be decided.

    Attributes:
        shapes: the axes of the block along which a register may vary.
        chosen: by block, the index of the successor that all threads must take.
    """

    def __init__(self, cfg: Cfg, fn: FunctionLowering, divergent: Callable[[str], bool], joins: bool) -> None:
        self.cfg = cfg
        self.fn = fn
        self.divergent = divergent
        self.joins = joins
        self.strip = f"ctaid.{fn.unit.axis}" if joins else ""
        self.shapes: dict[str, Axes] = {}
        self.made: dict[str, Instruction] = {}
        self.chosen: dict[int, int] = {}
        self.decided: list[tuple[Register, bool, bool]] = []
        self.path: list[int] = []
        counts: dict[str, int] = {}
        for n in cfg.order:
            for operation in cfg.blocks[n].operations:
                for register in writes(operation):
                    counts[register.name] = counts.get(register.name, 0) + 1
        self.once = {name for name, count in counts.items() if count == 1}

    def walk(self) -> None:
        """Evaluate instructions and decide guards, up to the first guard that cannot be decided."""
        headers = {loop.header for loop in self.cfg.loops}
        n, seen, is_harmless = self.cfg.order[0], set[str](), not self.fn.observers
        while n not in headers and n not in self.path:
            self.path.append(n)
            block = self.cfg.blocks[n]
            for operation in block.body:
                self._note(operation, seen)
                seen.update(r.name for r in reads(operation))
                is_harmless = is_harmless and not _has_effect(operation)
            if not block.successors:
                return
            end, k = block.terminator, 0
            if end is not None and (not isinstance(end, Instruction) or end.opcode != "bra"):
                return
            if end is not None and end.guard is not None:
                if len(block.successors) < 2 or end.guard.name not in self.shapes:
                    return
                seen.add(end.guard.name)
                k = self._busier(block)
                self.chosen[n] = k
                leaves = is_harmless and self.cfg.blocks[block.successors[1 - k]].only_leaves
                self.decided.append((end.guard, (k == 0) != end.negated, leaves))
            n = block.successors[k]

    def _busier(self, block: BasicBlock) -> int:
        """The index of the successor that leads to more instructions."""
        sizes = [_size(self.cfg, s) for s in block.successors[:2]]
        return 0 if sizes[0] > sizes[1] else 1

    def _note(self, operation: Operation, seen: set[str]) -> None:
        """Note along which axes the result of an instruction varies, if it can be evaluated for a block."""
        if not isinstance(operation, Instruction) or operation.guard is not None:
            return
        targets = writes(operation)
        if len(targets) != 1 or targets[0].name not in self.once or targets[0].name in seen:
            return
        axes = self._axes(operation)
        if axes is not None:
            self.shapes[targets[0].name] = axes
            self.made[targets[0].name] = operation

    def _axes(self, i: Instruction) -> Axes | None:
        if i.opcode == "ld" and "param" in i.modifiers:
            kind, operand = TYPES.get(i.modifiers[-1]), i.operands[1]
            is_known = isinstance(operand, Address) and not isinstance(operand.base, Register)
            target = i.operands[0]
            fits = isinstance(target, Register) and kind is not None and TYPES[target.type].bits == kind.bits
            return _NONE if is_known and fits and kind is not None and _is_integer(kind.name) else None
        if not evaluates(i, self.divergent, SPECIALS):
            return None
        sources = [self._source(operand) for operand in i.operands[1:]]
        known = [axes for axes in sources if axes is not None]
        if len(known) != len(sources):
            return None
        if not any(known) and "pred" not in i.modifiers and i.opcode not in ("setp", "selp"):
            return _NONE
        rule = _RULES.get(i.opcode)
        return None if rule is None else rule(self.fn, i, known)

    def _source(self, operand: Operand) -> Axes | None:
        if isinstance(operand, Not):
            return None
        if isinstance(operand, Register):
            return self.shapes.get(operand.name)
        if isinstance(operand, Special) and operand.name.startswith("tid."):
            return frozenset(operand.name[4:]) & frozenset("xyz")
        if isinstance(operand, Special) and operand.name == self.strip:
            return frozenset("b")
        return _NONE

    def judge(self, pruned: Cfg) -> Interior | None:
        """The version, if it is worth its time to compile."""
        operations = [o for n in pruned.order for o in pruned.blocks[n].operations]
        accesses = tuple(o for o in operations if isinstance(o, Instruction) and self._is_covered(o))
        if not accesses:
            return None
        names = {guard.name for guard, _, _ in self.decided} | {_base(i).name for i in accesses}
        needed: set[str] = set()
        while names:
            name = names.pop()
            needed.add(name)
            names |= {r.name for r in reads(self.made[name])} - needed
        body = (o for n in self.path for o in self.cfg.blocks[n].body if isinstance(o, Instruction))
        evaluated = tuple(
            i for i in body if any(r.name in needed and self.made.get(r.name) is i for r in writes(i))
        )
        skipped = self._skipped(operations, evaluated)
        if len(skipped) + len(accesses) < SHARE * len(operations):
            return None
        left = [o for o in operations if id(o) not in skipped]
        if self.joins and not all(self._is_alone(o) for o in left if o not in accesses):
            return None
        everywhere = frozenset(self.path)
        return Interior(
            pruned, tuple(self.decided), self.chosen, evaluated, skipped, accesses, everywhere, self.joins
        )

    def _is_alone(self, operation: Operation) -> bool:
        """Whether an operation neither affects other blocks nor depends on which block runs it."""
        if isinstance(operation, Call):
            return False
        own = f"tid.{self.fn.unit.axis}", self.strip, "laneid", "lanemask", "warpid"
        if any(isinstance(x, Special) and x.name.startswith(own) for x in operation.operands):
            return False
        if _has_effect(operation):
            return False
        if operation.opcode in EFFECTS:
            return True
        floats = operation.modifiers[-1:] in (("f32",), ("f64",))
        return operation.opcode not in ("trap", "brx", "div", "rem") or floats

    def _is_covered(self, operation: Instruction) -> bool:
        """Whether an access may be checked for a whole block."""
        if operation.opcode not in PLAIN_ACCESSES:
            return False
        f = form(self.fn, operation)
        if operation.guard is not None or not is_of_elements(f) or f.space not in _SPACES:
            return False
        if not _CUT.issuperset(operation.modifiers[:-1]):
            return False
        operand = operation.operands[1 if operation.opcode == "ld" else 0]
        base = operand.base if isinstance(operand, Address) else None
        if not isinstance(base, Register) or base.name not in self.shapes or base.name in self.fn.halves:
            return False
        return TYPES[base.type].bits == 64

    def _skipped(self, operations: Iterable[Operation], evaluated: Iterable[Instruction]) -> frozenset[int]:
        """The evaluated instructions that vectors do not need: all except predicates that are read."""
        skipped = {id(i): writes(i)[0] for i in evaluated}
        again = True
        while again:
            read = {r.name for o in operations if id(o) not in skipped for r in reads(o)}
            kept = [where for where, r in skipped.items() if r.type == "pred" and r.name in read]
            for where in kept:
                del skipped[where]
            again = bool(kept)
        return frozenset(skipped)


def address_of(i: Instruction) -> Address:
    """The address operand of a load or store."""
    operand = i.operands[1 if i.opcode == "ld" else 0]
    assert isinstance(operand, Address)
    return operand


def _base(i: Instruction) -> Register:
    base = address_of(i).base
    assert isinstance(base, Register)
    return base


def _has_effect(operation: Operation) -> bool:
    """Whether an operation does something other than compute a result from registers and parameters."""
    if isinstance(operation, Call):
        return True
    is_known = operation.opcode in MOVES or (operation.opcode == "ld" and "param" in operation.modifiers)
    return operation.opcode in EFFECTS and not is_known


def _is_integer(kind: str) -> bool:
    return TYPES[kind].kind in ("signed", "unsigned", "bits") and TYPES[kind].bits in (32, 64)


def _size(cfg: Cfg, start: int) -> int:
    """The number of operations that can be reached from a block, including its own."""
    seen, left = {start}, [start]
    while left:
        for s in cfg.blocks[left.pop()].successors:
            if s not in seen:
                seen.add(s)
                left.append(s)
    return sum(len(cfg.blocks[n].operations) for n in seen)


def _pruned(cfg: Cfg, chosen: Mapping[int, int]) -> Cfg:
    """The control flow graph with some branches decided, without the blocks that this makes unreachable."""
    blocks = list(cfg.blocks)
    for n, k in chosen.items():
        blocks[n] = replace(blocks[n], terminator=None, successors=(blocks[n].successors[k],))
    seen, left = {cfg.order[0]}, [cfg.order[0]]
    while left:
        for s in blocks[left.pop()].successors:
            if s not in seen:
                seen.add(s)
                left.append(s)
    order = tuple(n for n in cfg.order if n in seen)
    before = {n: tuple(p for p in cfg.predecessors[n] if p in seen and n in blocks[p].successors) for n in order}
    loops = tuple(loop for loop in cfg.loops if loop.blocks & seen)
    return Cfg(tuple(blocks), order, loops, before)


# --- along which axes results vary


def _joined(fn: FunctionLowering, i: Instruction, sources: list[Axes]) -> Axes | None:
    return frozenset().union(*sources)


def _multiplied(fn: FunctionLowering, i: Instruction, sources: list[Axes]) -> Axes | None:
    if i.modifiers[0] not in ("lo", "wide") or all(sources[:2]):
        return None
    return frozenset().union(*sources)


def _shifted_left(fn: FunctionLowering, i: Instruction, sources: list[Axes]) -> Axes | None:
    return None if sources[1] else sources[0]


def _shifted_right(fn: FunctionLowering, i: Instruction, sources: list[Axes]) -> Axes | None:
    """The remaining high bits may be the same for all threads."""
    known = fn.constant(i.operands[2])
    return _NONE if known is not None and 0 <= known < TYPES[i.modifiers[-1]].bits else None


def _masked(fn: FunctionLowering, i: Instruction, sources: list[Axes]) -> Axes | None:
    if i.modifiers[-1] == "pred":
        return _NONE
    mask = fn.constant(i.operands[2])
    bits = TYPES[i.modifiers[-1]].bits
    low = 0 if mask is None else -mask & ((1 << bits) - 1)
    return _NONE if low and not low & (low - 1) else None


def _either(fn: FunctionLowering, i: Instruction, sources: list[Axes]) -> Axes | None:
    return _NONE if i.modifiers[-1] == "pred" and i.opcode != "xor" else None


def _compared(fn: FunctionLowering, i: Instruction, sources: list[Axes]) -> Axes | None:
    is_plain = len(i.operands) == 3 and len(i.modifiers) == 2 and _is_integer(i.modifiers[1])
    return _NONE if is_plain else None


def _selected(fn: FunctionLowering, i: Instruction, sources: list[Axes]) -> Axes | None:
    return sources[0] | sources[1]


def _copied(fn: FunctionLowering, i: Instruction, sources: list[Axes]) -> Axes | None:
    return None if "pred" in i.modifiers else sources[0]


def _limited(fn: FunctionLowering, i: Instruction, sources: list[Axes]) -> Axes | None:
    is_plain = len(i.modifiers) == 1 and isinstance(i.operands[1], Register | Integer)
    return sources[0] | sources[1] if is_plain else None


_RULES: Mapping[str, Callable[[FunctionLowering, Instruction, list[Axes]], Axes | None]] = {
    **dict.fromkeys((*MOVES, "cvt"), _copied),
    **dict.fromkeys(("add", "sub", "neg"), _joined),
    **dict.fromkeys(PRODUCTS, _multiplied),
    "shl": _shifted_left,
    "shr": _shifted_right,
    "and": _masked,
    "or": _either,
    "not": _either,
    "setp": _compared,
    "selp": _selected,
    "min": _limited,
    "max": _limited,
}
"""Along which axes the result of an opcode varies; None: it cannot be evaluated. A predicate varies along no axis:
it is known for a whole block, or the block is not an interior one."""
