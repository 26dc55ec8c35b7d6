"""Which threads need the values that they load, in code whose compiler replicates values between threads (Triton).

A tensor with fewer elements than a program has threads is loaded by all threads, several for each element. One of
them stores the result; in the others the store is predicated off, by a predicate that depends only on the thread's
index. The value that such a thread loaded is dead, unless something else needs it: a shuffle, a barrier's
reduction, an address, a store to shared memory, or a branch that decides more than the values of registers. A
dead value may be loaded before or after another warp changes the element in place. That is not a race: no result
depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from kcheck.dataclass import dataclass
from kcheck.ptx.analysis.cfg import build, postdominators
from kcheck.ptx.analysis.liveness import reads, writes
from kcheck.ptx.analysis.skips import control_dependence
from kcheck.ptx.isa.rows import ROWS
from kcheck.ptx.syntax.ast import Function, Instruction, Integer, Label, Operand, Operation, Register, Special
from kcheck.ptx.syntax.opcodes import ACCESSES, MOVES

THREADS = 1024
ALL = (1 << THREADS) - 1
"""Every thread of the largest block. Sets of threads are integers, one bit for each."""

_WARP = frozenset({"shfl", "vote", "match", "redux", "mma", "movmatrix"})
"""Opcodes whose result in a lane depends on the operands of the whole warp, and that do nothing else."""


_WORD = 0xFFFF_FFFF
_SIGN = 1 << 31
_ARITHMETIC: Mapping[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b & _WORD,
    "sub": lambda a, b: a - b & _WORD,
    "shl": lambda a, b: a << min(b, 32) & _WORD,
    "shr": lambda a, b: a >> min(b, 32),
}
_COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
_TYPES = ("b32", "u32", "s32")


@dataclass(frozen=True, slots=True)
class _Bits:
    """What is known about a 32-bit word: masks of the bits known to be 1, and known to be 0."""

    ones: int = 0
    zeros: int = 0

    @property
    def is_number(self) -> bool:
        return self.ones | self.zeros == _WORD

    def combine(self, opcode: str, other: _Bits) -> _Bits | None:
        """The result of an instruction; None if nothing is known about it."""
        if opcode == "and":
            return _Bits(self.ones & other.ones, self.zeros | other.zeros)
        if opcode == "or":  # LLVM compares several words with 0 at once
            return _Bits(self.ones | other.ones, self.zeros & other.zeros)
        if opcode == "xor":
            same = self.ones & other.ones | self.zeros & other.zeros
            return _Bits(self.ones & other.zeros | self.zeros & other.ones, same)
        if opcode in _ARITHMETIC and self.is_number and other.is_number:
            return _number(_ARITHMETIC[opcode](self.ones, other.ones))
        return None

    def compare(self, comparison: str, other: _Bits, flip: int) -> tuple[bool, bool]:
        """Whether a comparison may be true, and whether it may be false. ``flip``: the sign bit, if signed."""
        if self.is_number and other.is_number:
            holds = _COMPARISONS[comparison](self.ones ^ flip, other.ones ^ flip)
            return holds, not holds
        if comparison in ("eq", "ne") and (self.ones & other.zeros or self.zeros & other.ones):
            return comparison == "ne", comparison == "eq"
        return True, True


def _number(value: int) -> _Bits:
    return _Bits(value & _WORD, ~value & _WORD)


def needed_loads(kernel: Function, file: str) -> dict[int, int]:
    """By load (``id``), the threads that need its value; without the loads that every thread needs.

    Args:
        kernel: its blocks are one-dimensional.
        file: for messages.

    Raises:
        PtxError: a branch to a missing label, or loops nested too deeply.
    """
    threads = min(kernel.performance.get("reqntid", (THREADS,))[0], THREADS)
    operations = [s for s in kernel.body or () if not isinstance(s, Label)]
    return _Need(operations, threads, _choices(kernel, file)).loads()


def _choices(kernel: Function, file: str) -> dict[int, frozenset[str]]:
    """By branch (``id``), the registers that its blocks write, for branches that decide nothing else: their blocks
    only compute, and do not repeat."""
    cfg = build(kernel, file)
    depends = control_dependence(cfg, postdominators(cfg))
    found = {}
    for n in cfg.order:
        branch = cfg.blocks[n].terminator
        if branch is None or len(set(cfg.blocks[n].successors)) < 2:
            continue
        decided = _decided(n, depends)
        operations = [o for block in decided for o in cfg.blocks[block].operations]
        if n not in decided and all(_only_computes(o) for o in operations):
            found[id(branch)] = frozenset(r.name for o in operations for r in writes(o))
    return found


def _decided(branch: int, depends: Mapping[int, list[tuple[int, int]]]) -> set[int]:
    """The blocks that a block decides about, directly or through other branches."""
    decided: set[int] = set()
    more = {branch}
    while more:
        more = {n for n, edges in depends.items() if n not in decided and any(edge[0] in more for edge in edges)}
        decided |= more
    return decided


def _only_computes(operation: Operation) -> bool:
    if not isinstance(operation, Instruction) or operation.opcode in ACCESSES or operation.opcode in _WARP:
        return False
    return operation.opcode in ROWS or operation.opcode in MOVES or operation.opcode == "bra"


class _Predicates:
    """What a thread's index implies for predicates.

    Attributes:
        true, false: by register, the threads in which it may be true, and those in which it may be false; absent
            if nothing is known.
    """

    def __init__(self, operations: list[Operation], threads: int) -> None:
        self.true: dict[str, int] = {}
        self.false: dict[str, int] = {}
        self._words: dict[str, list[_Bits]] = {"tid.x": [_number(n) for n in range(threads)]}
        self._threads = threads
        counts: dict[str, int] = {}
        for operation in operations:
            for register in writes(operation):
                counts[register.name] = counts.get(register.name, 0) + 1
        for operation in operations:
            if isinstance(operation, Instruction) and operation.guard is None and operation.operands:
                target = operation.operands[0]
                if isinstance(target, Register) and counts.get(target.name) == 1:
                    self._note(operation, target.name)

    def active(self, operation: Operation) -> int:
        """The threads in which the guard of an operation may let it run."""
        if operation.guard is None:
            return ALL
        return (self.false if operation.negated else self.true).get(operation.guard.name, ALL)

    def _note(self, i: Instruction, name: str) -> None:
        kind = i.modifiers[-1] if i.modifiers else ""
        if kind == "pred":
            self._combine(i, name)
        elif i.opcode == "setp" and len(i.modifiers) == 2 and i.modifiers[0] in _COMPARISONS:
            self._compare(i, name, kind)
        elif kind in _TYPES and len(i.modifiers) == 1 and (i.opcode, kind) != ("shr", "s32"):
            words = self._operands(i)
            if i.opcode == "mov" and len(words) == 1:
                self._words[name] = words[0]
            elif len(words) == 2:
                found = [a.combine(i.opcode, b) for a, b in zip(*words, strict=True)]
                if all(known is not None for known in found):
                    self._words[name] = [known for known in found if known is not None]

    def _combine(self, i: Instruction, name: str) -> None:
        operands = [o for o in i.operands[1:] if isinstance(o, Register)]
        true = [self.true.get(o.name, ALL) for o in operands]
        false = [self.false.get(o.name, ALL) for o in operands]
        if i.opcode == "and" and len(operands) == 2:
            self.true[name], self.false[name] = true[0] & true[1], false[0] | false[1]
        elif i.opcode == "or" and len(operands) == 2:
            self.true[name], self.false[name] = true[0] | true[1], false[0] & false[1]
        elif i.opcode == "not" and len(operands) == 1:
            self.true[name], self.false[name] = false[0], true[0]

    def _compare(self, i: Instruction, name: str, kind: str) -> None:
        words = self._operands(i)
        if kind not in _TYPES or len(words) != 2:
            return
        flip = _SIGN if kind == "s32" else 0
        found = [a.compare(i.modifiers[0], b, flip) for a, b in zip(*words, strict=True)]
        # Threads beyond those of the block do not exist.
        self.true[name] = sum(1 << n for n, (may_be, _) in enumerate(found) if may_be)
        self.false[name] = sum(1 << n for n, (_, may_not_be) in enumerate(found) if may_not_be)

    def _operands(self, i: Instruction) -> list[list[_Bits]]:
        """What is known about the sources in each thread; empty if none depends on the thread's index."""
        sources = i.operands[1:]
        names = [o.name if isinstance(o, (Register, Special)) else "" for o in sources]
        if not any(name in self._words for name in names):
            return []
        return [
            self._words.get(name) or [_constant(o)] * self._threads for name, o in zip(names, sources, strict=True)
        ]


def _constant(operand: Operand) -> _Bits:
    return _number(operand.value) if isinstance(operand, Integer) else _Bits()


class _Need:
    """By register, the threads that need its value anywhere in the code.

    Args:
        choices: by branch, the registers whose values it decides.
    """

    def __init__(self, operations: list[Operation], threads: int, choices: Mapping[int, frozenset[str]]) -> None:
        self.operations = operations
        self.everyone = (1 << threads) - 1
        self.predicates = _Predicates(operations, threads)
        self.need: dict[str, int] = {}
        self.choices = choices
        self.writers: dict[str, list[Operation]] = {}
        for operation in operations:
            for name in self._decides(operation):
                self.writers.setdefault(name, []).append(operation)

    def loads(self) -> dict[int, int]:
        """As :func:`needed_loads`."""
        left = list(self.operations)
        while left:
            operation = left.pop()
            threads = self._sources(operation)
            for register in reads(operation):
                before = self.need.get(register.name, 0)
                if threads & ~before:
                    self.need[register.name] = before | threads
                    left.extend(self.writers.get(register.name, ()))
        found = {}
        for operation in self.operations:
            if isinstance(operation, Instruction) and operation.opcode == "ld":
                threads = self._results(operation) & self.everyone
                if threads != self.everyone:
                    found[id(operation)] = threads
        return found

    def _sources(self, operation: Operation) -> int:
        """The threads in which an operation needs what it reads."""
        active = self.predicates.active(operation)
        if not isinstance(operation, Instruction):
            return ALL
        if operation.opcode in ACCESSES:  # a valid address is needed even if the result is not
            return active
        if operation.opcode in _WARP:
            return _whole_warps(self._results(operation))
        if operation.opcode in ROWS or operation.opcode in MOVES:
            return self._results(operation) & active
        return self._results(operation) if id(operation) in self.choices else ALL

    def _decides(self, operation: Operation) -> Collection[str]:
        """The registers that an operation writes, or whose values it decides."""
        return self.choices.get(id(operation)) or [register.name for register in writes(operation)]

    def _results(self, operation: Operation) -> int:
        """The threads that need a result of an operation."""
        threads = 0
        for name in self._decides(operation):
            threads |= self.need.get(name, 0)
        return threads


def _whole_warps(threads: int) -> int:
    """Every lane of the warps of some threads."""
    warp = (1 << 32) - 1
    return sum(warp << n for n in range(0, THREADS, 32) if threads >> n & warp)
