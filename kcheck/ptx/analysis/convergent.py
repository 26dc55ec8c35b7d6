"""Kernels in which all threads of a block provably pass the same barriers in the same order.

A register is the *same in the block* if only pure instructions write it, from literals, parameters, the sizes and
the position of the block, and registers of this kind, and if no branch that may go different ways in different
threads decides whether they run. Its value then depends only on the path through branches on such registers, which
all threads share. (A register that is uniform in a vector may differ between vectors: two of them may load
different values from the same address.) If only such branches decide which barriers a thread reaches, and no
thread exits before one, all threads of a block meet at each barrier.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from kcheck.dataclass import dataclass
from kcheck.ptx.analysis import spill_sets
from kcheck.ptx.analysis.cfg import Cfg, is_collective, postdominators
from kcheck.ptx.analysis.liveness import reads, writes
from kcheck.ptx.analysis.skips import control_dependence
from kcheck.ptx.syntax.ast import (
    Address,
    Call,
    Instruction,
    Integer,
    Operand,
    Operation,
    Register,
    Special,
    Symbol,
    Vector,
)
from kcheck.ptx.syntax.opcodes import COPIES
from kcheck.ptx.syntax.types import TYPES

_SAME = ("ntid", "ctaid", "nctaid", "WARP_SZ")


@dataclass(frozen=True, slots=True)
class BlockUniformity:
    """What is the same for all threads of a block.

    Attributes:
        same: the registers that are.
        shared_path: the blocks that either all threads of a block execute, equally often, or none.
    """

    same: frozenset[str]
    shared_path: frozenset[int]


def analyze(cfg: Cfg, divergent_symbols: Callable[[str], bool]) -> BlockUniformity:
    """The registers that are the same in a block of threads, and the code that all its threads execute.

    Args:
        divergent_symbols: whether the address of a symbol differs between lanes (local variables).
    """

    def is_same(operand: Operand) -> bool:
        if isinstance(operand, Vector):
            return all(is_same(element) for element in operand.elements)
        if isinstance(operand, Symbol):
            return not divergent_symbols(operand.name)
        if isinstance(operand, Address):
            return is_same(operand.base)
        return not isinstance(operand, Special) or operand.name.startswith(_SAME)

    written: dict[str, list[tuple[int, Operation]]] = {}
    for n in cfg.order:
        for operation in cfg.blocks[n].operations:
            for register in writes(operation):
                written.setdefault(register.name, []).append((n, operation))
    same = {
        name
        for name, found in written.items()
        if all(
            isinstance(o, Instruction) and spill_sets.is_pure(o) and all(map(is_same, o.operands))
            for _, o in found
        )
    }
    decided_by = control_dependence(cfg, postdominators(cfg))
    while True:
        path = _shared_path(cfg, decided_by, same)
        kept = {
            name
            for name in same
            if all(n in path and _is_among(reads(operation), same) for n, operation in written[name])
        }
        if kept == same:
            return BlockUniformity(frozenset(same), path)
        same = kept


def _is_among(registers: Collection[Register], same: Collection[str]) -> bool:
    return all(register.name in same for register in registers)


def _shared_path(
    cfg: Cfg, decided_by: Mapping[int, list[tuple[int, int]]], same: Collection[str]
) -> frozenset[int]:
    """The blocks that no branch on another register than ``same`` decides about, directly or through others."""
    parting = set()
    for n in cfg.order:
        end = cfg.blocks[n].terminator
        if end is not None and not _is_among(reads(end), same):
            parting.add(n)
    path = set(cfg.order)
    again = True
    while again:
        again = False
        for n in cfg.order:
            if n in path and any(m in parting or m not in path for m, _ in decided_by[n]):
                path.discard(n)
                again = True
    return frozenset(path)


def meets_at_all(cfg: Cfg, barriers: Collection[int], known: BlockUniformity) -> bool:
    """Whether all threads of a block meet at each barrier.

    Args:
        barriers: numbers of the blocks that end in an unguarded one, where threads of the whole block wait.
    """
    if not known.shared_path.issuperset(barriers) or not all(loop.single_entry for loop in cfg.loops):
        return False
    before = _leading_to(cfg, barriers)
    for n in cfg.order:
        if any(isinstance(o, Call) or is_collective(o) for o in cfg.blocks[n].operations):
            return False  # a thread may exit in a call, or wait in the middle of its warp
        end = cfg.blocks[n].terminator
        # A guarded exit has one successor, so it is not a branch to the analysis of control dependence.
        is_exit = n in before and n not in barriers and len(set(cfg.blocks[n].successors)) < 2
        if is_exit and end is not None and not _is_among(reads(end), known.same):
            return False
    return True


def _leading_to(cfg: Cfg, blocks: Collection[int]) -> set[int]:
    """The blocks from which one of some blocks is reachable."""
    found = set(blocks)
    left = list(blocks)
    while left:
        for p in cfg.predecessors[left.pop()]:
            if p not in found:
                found.add(p)
                left.append(p)
    return found


# --- conditions that hold up to some thread

_LESS = frozenset({"lt", "le", "lo", "ls"})
_MORE = frozenset({"gt", "ge", "hi", "hs"})


def falling(cfg: Cfg, known: BlockUniformity, axis: str) -> Mapping[str, bool]:
    """The predicates that compare the index of a thread with a number that is the same in the block.

    Returns:
        By register, the value (true or false) that it has up to some thread of a one-dimensional block, and in no
        thread after it. Both values may be absent.
    """
    written: dict[str, list[tuple[int, Operation]]] = {}
    for n in cfg.order:
        for operation in cfg.blocks[n].operations:
            for register in writes(operation):
                written.setdefault(register.name, []).append((n, operation))
    once = {name: found[0] for name, found in written.items() if len(found) == 1}

    def is_index(operand: Operand) -> bool:
        if isinstance(operand, Special):
            return operand.name == f"tid.{axis}"
        if not isinstance(operand, Register) or operand.name not in once:
            return False
        n, i = once[operand.name]
        if n not in known.shared_path or not isinstance(i, Instruction) or not spill_sets.is_pure(i):
            return False
        kinds = [TYPES.get(m) for m in i.modifiers]
        wide = bool(kinds) and all(k is not None and k.kind in _INTEGERS and k.bits >= 32 for k in kinds)
        return i.opcode in COPIES and wide and is_index(i.operands[1])

    def is_same(operand: Operand) -> bool:
        if isinstance(operand, Special):
            return operand.name.startswith(_SAME)
        return isinstance(operand, Integer) or (isinstance(operand, Register) and operand.name in known.same)

    found: dict[str, bool] = {}
    for name, (n, i) in once.items():
        if n not in known.shared_path or not isinstance(i, Instruction) or not _is_comparison(i):
            continue
        condition, (x, y) = i.modifiers[0], i.operands[1:]
        if is_index(x) and is_same(y):
            number = y
        elif is_same(x) and is_index(y):
            number, condition = x, _TURNED.get(condition, condition)
        else:
            continue
        if condition in _LESS or condition in _MORE:
            found[name] = condition in _LESS
        elif condition in ("eq", "ne") and isinstance(number, Integer) and number.value == 0:
            found[name] = condition == "eq"
    return found


_INTEGERS = ("signed", "unsigned", "bits")
_TURNED = {
    "lt": "gt",
    "le": "ge",
    "gt": "lt",
    "ge": "le",
    "lo": "hi",
    "ls": "hs",
    "hi": "lo",
    "hs": "ls",
}


def _is_comparison(i: Instruction) -> bool:
    """Whether it compares two integers, and has one result."""
    if i.opcode != "setp" or i.guard is not None or len(i.modifiers) != 2 or len(i.operands) != 3:
        return False
    kind = TYPES.get(i.modifiers[1])
    return kind is not None and kind.kind in _INTEGERS and kind.bits in (32, 64) and len(writes(i)) == 1
