"""Loops in which a lane may wait for what another thread does."""

from __future__ import annotations

from kcheck.ptx.ast import Call, Register
from kcheck.ptx.cfg import Cfg, Loop, Operation
from kcheck.ptx.liveness import reads, writes

_STRONG = frozenset({"volatile", "acquire", "relaxed", "mmio"})
_UNCHANGING = frozenset({"param", "const", "nc"})


def may_spin(cfg: Cfg) -> frozenset[int]:
    """Headers of the loops in which a lane may wait for another: those with an atomic, a strong load, a fence or a
    sleep, that go on or not by what they find in memory.

    A loop without one cannot see what another thread writes: a compiler may read memory once, before it. One that
    counts its rounds, as a histogram does, ends whatever others do.
    """
    return frozenset(loop.header for loop in cfg.loops if _may_wait(cfg, loop))


def _may_wait(cfg: Cfg, loop: Loop) -> bool:
    operations = [operation for n in loop.blocks for operation in cfg.blocks[n].operations]
    if not any(waits(operation) for operation in operations):
        return False
    if any(isinstance(o, Call) or o.opcode == "nanosleep" for o in operations):
        return True
    found: set[str] = set()  # registers that hold what was in memory, or what was computed from it
    before = -1
    while len(found) != before:
        before = len(found)
        for operation in operations:
            if _looks(operation) or not found.isdisjoint(r.name for r in reads(operation)):
                found.update(r.name for r in writes(operation))
    ends = [cfg.blocks[n].terminator for n in loop.blocks]
    decided_by: list[Register] = [r for end in ends if end is not None for r in reads(end)]
    return not found.isdisjoint(r.name for r in decided_by)


def _looks(operation: Operation) -> bool:
    """Whether the results are what is in memory, or comes from other lanes."""
    if isinstance(operation, Call) or operation.opcode in ("ld", "ldu"):
        return isinstance(operation, Call) or _UNCHANGING.isdisjoint(operation.modifiers)
    return operation.opcode in ("atom", "shfl", "vote", "match", "activemask", "redux", "elect", "bar", "barrier")


def waits(operation: Operation) -> bool:
    """Whether a lane may wait for another by repeating this."""
    if isinstance(operation, Call):
        return False
    if operation.opcode in ("atom", "membar", "fence", "nanosleep"):
        return True
    return operation.opcode == "ld" and not _STRONG.isdisjoint(operation.modifiers)
