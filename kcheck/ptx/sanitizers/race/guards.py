"""Finds plain loads that only decide whether to try an atomic on the same word.

``if x > best[0]: cuda.atomic.max(best, 0, x)``: the loaded value cannot change the result, only avoid an atomic
that would have no effect. A load counts only if its value is not used elsewhere:

* registers computed from it decide branches, and nothing else reads them;
* the code that such a branch decides on, up to its postdominator, consists of loads, arithmetic whose results are
  dead at the postdominator, and atomics on the same word (the same register, set once, offset and width).

PTX as LLVM emits it sets a register once; a load whose registers are set more often does not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kcheck.dataclass import dataclass
from kcheck.ptx.analysis.cfg import Cfg, build, postdominators
from kcheck.ptx.analysis.liveness import Liveness, analyze, reads, writes
from kcheck.ptx.isa.rows import ROWS
from kcheck.ptx.sanitizers.race.facts import kind_of
from kcheck.ptx.sanitizers.race.layout import READ
from kcheck.ptx.syntax.ast import Address, Call, Function, Instruction, Operation, Register, Symbol
from kcheck.ptx.syntax.opcodes import ATOMICS, EXITS
from kcheck.ptx.syntax.types import TYPES

_PURE = frozenset({"mov", "cvta", "ld", "bra"})


def testing_loads(functions: Iterable[Function], file: str) -> frozenset[int]:
    """The loads of some functions, by ``id``, that only decide whether an atomic on the same word is tried."""
    found: set[int] = set()
    for function in functions:
        body = [s for s in function.body or () if isinstance(s, Instruction)]
        if any(s.opcode in ATOMICS for s in body) and any(_is_candidate(s) for s in body):
            found |= _GuardAnalysis(build(function, file)).run()
    return frozenset(found)


def _is_candidate(operation: Operation) -> bool:
    if isinstance(operation, Call) or operation.opcode != "ld" or operation.guard is not None:
        return False
    if kind_of(operation) != READ or "param" in operation.modifiers or "const" in operation.modifiers:
        return False
    return isinstance(operation.operands[0], Register)


@dataclass(frozen=True, slots=True)
class _Word:
    """The memory that an access uses: register or variable, offset and bytes."""

    base: str
    offset: int
    size: int


class _GuardAnalysis:
    def __init__(self, cfg: Cfg) -> None:
        self.cfg = cfg
        self.parent = postdominators(cfg)
        self.live: Liveness = analyze(cfg)
        self.writers: dict[str, list[Operation]] = {}
        self.readers: dict[str, list[tuple[int, Operation]]] = {}
        for n in cfg.order:
            for operation in cfg.blocks[n].operations:
                for register in writes(operation):
                    self.writers.setdefault(register.name, []).append(operation)
                for register in reads(operation):
                    self.readers.setdefault(register.name, []).append((n, operation))
        self.dominators = _dominators(cfg)

    def run(self) -> set[int]:
        """The loads, by ``id``."""
        return {
            id(operation)
            for n in self.cfg.order
            for operation in self.cfg.blocks[n].operations
            if _is_candidate(operation) and isinstance(operation, Instruction) and self._only_tests(n, operation)
        }

    def _word(self, operation: Instruction) -> _Word | None:
        """The word that an access uses; None if it is unknown."""
        address = next((o for o in operation.operands if isinstance(o, Address)), None)
        kind = TYPES.get(operation.modifiers[-1]) if operation.modifiers else None
        if address is None or kind is None:
            return None
        base, offset = address.base, address.offset
        if isinstance(base, Register):
            setters = self.writers.get(base.name, [])
            if len(setters) > 1:
                return None
            known = setters[0] if setters else None
            if isinstance(known, Instruction) and known.opcode == "mov" and isinstance(known.operands[1], Symbol):
                base = known.operands[1]
        if isinstance(base, Symbol):
            return _Word(base.name, offset + base.offset, kind.bytes)
        return _Word(base.name, offset, kind.bytes) if isinstance(base, Register) else None

    def _only_tests(self, block: int, load: Instruction) -> bool:
        word = self._word(load)
        target = load.operands[0]
        if word is None or not isinstance(target, Register):
            return False
        left, seen, branches = [target.name], {target.name}, set[int]()
        while left:
            name = left.pop()
            if len(self.writers[name]) != 1:
                return False
            for n, operation in self.readers.get(name, ()):
                if not self._follows(block, n, load, operation):
                    return False
                if isinstance(operation, Call):
                    return False
                if operation is self.cfg.blocks[n].terminator and operation.opcode == "bra":
                    branches.add(n)
                elif self._is_guarded_atomic(operation, name, word):
                    continue
                elif operation.opcode in ROWS or operation.opcode == "mov":
                    new = {r.name for r in writes(operation)} - seen
                    seen |= new
                    left.extend(new)
                else:
                    return False
        users = ((name, operation) for name in seen for _, operation in self.readers.get(name, ()))
        is_guard = any(self._is_guarded_atomic(operation, name, word) for name, operation in users)
        return (is_guard or bool(branches)) and all(self._decides_atomics(n, word) for n in branches)

    def _follows(self, block: int, n: int, load: Instruction, operation: Operation) -> bool:
        """Whether the load dominates an operation."""
        if n != block:
            return block in self.dominators[n]
        inside = self.cfg.blocks[block].operations
        return _index(inside, load) < _index(inside, operation)

    def _decides_atomics(self, branch: int, word: _Word) -> bool:
        """Whether a branch only decides if atomics on a word are executed."""
        meets = self.parent[branch]
        region: set[int] = set()
        left = list(self.cfg.blocks[branch].successors)
        while left:
            n = left.pop()
            if n != meets and n not in region:
                if n == branch:  # a loop: its next iteration depends on the branch
                    return False
                region.add(n)
                left.extend(self.cfg.blocks[n].successors)
        if meets == -1 and not region:
            return False
        set_here, has_atomic = 0, False
        for n in region:
            for operation in self.cfg.blocks[n].operations:
                if isinstance(operation, Call):
                    return False
                if operation.opcode in ATOMICS:
                    if self._word(operation) != word:
                        return False
                    has_atomic = True
                elif not _is_pure(operation):
                    return False
                for register in writes(operation):
                    set_here |= 1 << self.live.number[register.name]
        alive = self.live.live_in[meets] if meets != -1 else 0
        return has_atomic and not set_here & alive

    def _is_guarded_atomic(self, operation: Operation, name: str, word: _Word) -> bool:
        """Whether an operation is an atomic on a word without a result that only uses a register as its guard."""
        if isinstance(operation, Call) or operation.opcode != "red" or operation.guard is None:
            return False
        operands = [r.name for o in operation.operands for r in _registers(o)]
        return operation.guard.name == name and name not in operands and self._word(operation) == word


def _registers(operand: object) -> Iterable[Register]:
    if isinstance(operand, Register):
        yield operand
    elif isinstance(operand, Address) and isinstance(operand.base, Register):
        yield operand.base


def _is_pure(operation: Instruction) -> bool:
    if operation.opcode in EXITS:
        return True
    return operation.opcode in ROWS or operation.opcode in _PURE


def _index(operations: Iterable[Operation], wanted: Operation) -> int:
    return next(k for k, operation in enumerate(operations) if operation is wanted)


def _dominators(cfg: Cfg) -> Mapping[int, frozenset[int]]:
    """The dominators of each block, including itself."""
    everything = frozenset(cfg.order)
    found = dict.fromkeys(cfg.order, everything)
    found[cfg.order[0]] = frozenset({cfg.order[0]})
    again = True
    while again:
        again = False
        for n in cfg.order[1:]:
            before = cfg.predecessors[n]
            new = frozenset.intersection(*(found[p] for p in before)) | {n} if before else frozenset({n})
            if new != found[n]:
                found[n], again = new, True
    return found
