"""Loops that update a word with compare-and-swap until no other thread came in between.

NVVM writes an atomic that the hardware lacks as such a loop: load the word, compute the new one, swap it in if the
word is still the same, and else repeat with the word that was found. The loop is lock-free: a round fails only if
another thread has changed the word since the round before. So no lane waits there for a thread that is suspended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from kcheck.dataclass import dataclass
from kcheck.ptx.analysis.cfg import Cfg, Loop
from kcheck.ptx.analysis.liveness import writes
from kcheck.ptx.syntax.ast import Address, Call, Instruction, Operand, Operation, Register
from kcheck.ptx.syntax.opcodes import EFFECTS
from kcheck.ptx.syntax.types import TYPES

Origin: TypeAlias = tuple[str, int]
"""Where bits come from: a register at the start of the round (its name, 0), or an operation (its ``id``)."""

_OTHER_EFFECTS = frozenset({"cp", "mbarrier", "stmatrix", "sust", "wmma"})


@dataclass(frozen=True, slots=True)
class _Round:
    """One iteration, as far as it is known.

    Attributes:
        operations: those that run exactly once, in their order.
        exits: by the ``id`` of a branch that may leave the loop: whether it leaves where its predicate holds, and
            whether it does where it does not.
        uncertain: registers that the iteration may write in some lanes only.
    """

    operations: Sequence[Operation]
    exits: Mapping[int, tuple[bool, bool]]
    uncertain: frozenset[str]


def ends_unless_disturbed(cfg: Cfg, loop: Loop, always: frozenset[int]) -> bool:
    """Whether a loop ends once its compare-and-swap finds the word that it found in the round before.

    Args:
        always: the blocks that run exactly once in each iteration that does not leave the loop.
    """
    everything = [o for n in loop.blocks for o in cfg.blocks[n].operations]
    effects = [o for o in everything if isinstance(o, Call) or o.opcode in EFFECTS | _OTHER_EFFECTS]
    if len(effects) != 1:  # what else the loop writes may be the same word
        return False
    (swap,) = effects
    changed = {r.name for o in everything for r in writes(o)}
    if not _is_swap(swap, changed):
        return False
    blocks = [n for n in cfg.order if n in always]
    operations = [o for n in blocks for o in cfg.blocks[n].operations]
    sometimes = [o for n in loop.blocks - always for o in cfg.blocks[n].operations]
    sometimes += [o for o in operations if o.guard is not None]
    exits = {id(cfg.blocks[n].terminator): _leaves(cfg, loop, n) for n in blocks}
    return _ends(_Round(operations, exits, frozenset(r.name for o in sometimes for r in writes(o))), swap)


def _is_swap(operation: Operation, changed: set[str]) -> bool:
    """Whether this is a compare-and-swap of a register, at the same address in each round."""
    if not isinstance(operation, Instruction) or "cas" not in operation.modifiers or operation.guard is not None:
        return False
    found, address, compared, _ = operation.operands
    same = isinstance(address, Address) and not (
        isinstance(address.base, Register) and address.base.name in changed
    )
    return same and isinstance(found, Register) and isinstance(compared, Register)


def _leaves(cfg: Cfg, loop: Loop, n: int) -> tuple[bool, bool]:
    """Whether a guarded branch at the end of a block leaves the loop: where it is taken, and where it is not."""
    block = cfg.blocks[n]
    end = block.terminator
    if not isinstance(end, Instruction) or end.opcode != "bra" or len(block.successors) != 2:
        return False, False
    taken, next_one = (s not in loop.blocks for s in block.successors)
    return (next_one, taken) if end.negated else (taken, next_one)


def _ends(round_: _Round, swap: Operation) -> bool:
    """Whether the round leaves the loop if the swap finds what it compared with, and passes what it found to the
    next round, to be compared with there."""
    origins: dict[str, Origin] = {}
    holds_if_equal: dict[str, bool] = {}  # predicates that tell whether the swap found what it compared with

    def origin(register: Operand) -> Origin | None:
        if not isinstance(register, Register) or register.name in round_.uncertain:
            return None
        return origins.get(register.name, (register.name, 0))

    compared: Origin | None = None
    ends = False
    for operation in round_.operations:
        assert isinstance(operation, Instruction)
        copied, holds = None, None
        if operation is swap:
            compared = origin(operation.operands[2])
        elif operation.guard is not None and operation.guard.name in holds_if_equal:
            if_holds, if_not = round_.exits.get(id(operation), (False, False))
            ends = ends or (if_holds if holds_if_equal[operation.guard.name] else if_not)
        elif _is_copy(operation):
            copied = origin(operation.operands[1])
        elif _tests_equality(operation, swap):
            sides = {origin(source) for source in operation.operands[1:]}
            holds = operation.modifiers[0] == "eq" if sides == {compared, ("", id(swap))} else None
        for register in writes(operation):
            holds_if_equal.pop(register.name, None)
            origins[register.name] = copied or ("", id(operation))
            if holds is not None:
                holds_if_equal[register.name] = holds
    if not ends or compared is None or compared[1]:
        return False
    return compared[0] not in round_.uncertain and origins.get(compared[0]) == ("", id(swap))


def _is_copy(operation: Instruction) -> bool:
    """Whether an instruction copies all bits of a register to another."""
    if operation.opcode != "mov" or operation.guard is not None:
        return False
    target, source = operation.operands
    if not isinstance(target, Register) or not isinstance(source, Register):
        return False
    return TYPES[target.type].bits == TYPES[source.type].bits


def _tests_equality(operation: Instruction, swap: Operation) -> bool:
    """Whether an instruction compares all bits of two registers as wide as the swapped word."""
    assert isinstance(swap, Instruction)
    if operation.opcode != "setp" or len(operation.modifiers) != 2 or operation.guard is not None:
        return False
    comparison, kind = operation.modifiers
    one_result = isinstance(operation.operands[0], Register)
    exact = comparison in ("eq", "ne") and TYPES[kind].kind in ("bits", "signed", "unsigned")
    return one_result and exact and TYPES[kind].bits == TYPES[swap.modifiers[-1]].bits
