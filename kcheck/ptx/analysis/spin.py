"""Loops in which a lane may wait for another thread."""

from __future__ import annotations

from kcheck.ptx.analysis.cfg import Cfg, Loop, is_barrier
from kcheck.ptx.analysis.liveness import reads, writes
from kcheck.ptx.analysis.lock_free import ends_unless_disturbed
from kcheck.ptx.syntax.ast import Call, Instruction, Operation
from kcheck.ptx.syntax.opcodes import LOADS, RETURNS

_STRONG = frozenset({"volatile", "acquire", "relaxed", "mmio"})
_UNCHANGING = frozenset({"param", "const", "nc"})


def may_spin(cfg: Cfg) -> frozenset[int]:
    """Headers of the loops in which a lane may wait for another: loops with an atomic, a strong load, a fence or a
    sleep, whose exit depends on values in memory.

    A loop without any of these cannot rely on another thread's writes: the compiler may load the value once,
    before the loop. A loop that counts its iterations, as in a histogram, ends whatever other threads do, and one
    that updates a word (:mod:`.lock_free`) ends if they do nothing.
    """
    return frozenset(loop.header for loop in cfg.loops if _may_wait(cfg, loop))


def polling_loads(cfg: Cfg) -> frozenset[int]:
    """The strong loads (by ``id``) of loops that only wait: they neither store nor meet a barrier of the block."""
    found: set[int] = set()
    for loop in cfg.loops:
        operations = [operation for n in loop.blocks for operation in cfg.blocks[n].operations]
        if any(is_barrier(o) or o.opcode in ("st", "red") for o in operations if not isinstance(o, Call)):
            continue
        if _may_wait(cfg, loop):
            found.update(id(o) for o in operations if not isinstance(o, Call) and o.opcode == "ld" and waits(o))
    return frozenset(found)


def _may_wait(cfg: Cfg, loop: Loop) -> bool:
    operations = [operation for n in loop.blocks for operation in cfg.blocks[n].operations]
    if not any(waits(operation) for operation in operations):
        return False
    if any(isinstance(o, Call) or o.opcode == "nanosleep" for o in operations):
        return True
    ends = {n: end for n in loop.blocks if (end := cfg.blocks[n].terminator) is not None}
    branches = {r.name for end in ends.values() for r in reads(end)}
    always = _every_round(cfg, loop)
    if ends_unless_disturbed(cfg, loop, always):
        return False
    deciding: set[str] = set()  # registers that decide what the loop does next
    for n, end in ends.items():
        leaves = isinstance(end, Instruction) and end.opcode in RETURNS
        if leaves or not loop.blocks.issuperset(cfg.blocks[n].successors):
            deciding |= {r.name for r in reads(end)} if n in always else branches
    before = -1
    while len(deciding) != before:
        before = len(deciding)
        for n in loop.blocks:
            for operation in cfg.blocks[n].operations:
                if deciding.isdisjoint(r.name for r in writes(operation)):
                    continue
                if _looks(operation):
                    return True
                deciding.update(r.name for r in reads(operation))
                if n not in always:  # a branch decides which value the register has
                    deciding |= branches
    return False


def _every_round(cfg: Cfg, loop: Loop) -> frozenset[int]:
    """The loop's blocks that run exactly once in each iteration that does not leave it."""
    within = {n for other in cfg.loops if other is not loop and other.header in loop.blocks for n in other.blocks}
    if not loop.single_entry or loop.header in within:
        return frozenset()
    return frozenset(n for n in loop.blocks - within if not _goes_round(cfg, loop, without=n))


def _goes_round(cfg: Cfg, loop: Loop, without: int) -> bool:
    """Whether a path inside the loop leads from the header back to it and avoids a block."""
    if without == loop.header:
        return False
    seen, left = {loop.header}, [loop.header]
    while left:
        for n in cfg.blocks[left.pop()].successors:
            if n == loop.header:
                return True
            if n in loop.blocks and n != without and n not in seen:
                seen.add(n)
                left.append(n)
    return False


def _looks(operation: Operation) -> bool:
    """Whether the results depend on memory or on which threads are active. A shuffle reads only registers."""
    if isinstance(operation, Call) or operation.opcode in LOADS:
        return isinstance(operation, Call) or _UNCHANGING.isdisjoint(operation.modifiers)
    return operation.opcode in ("atom", "activemask", "mbarrier")


def waits(operation: Operation) -> bool:
    """Whether a lane may wait for another by repeating this operation."""
    if isinstance(operation, Call):
        return False
    if operation.opcode in ("atom", "membar", "fence", "nanosleep"):
        return True
    if operation.opcode == "mbarrier":
        return operation.modifiers[:1] in (("test_wait",), ("try_wait",))
    return operation.opcode == "ld" and not _STRONG.isdisjoint(operation.modifiers)
