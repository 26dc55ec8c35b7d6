"""Loops in which a lane may wait for what another thread does."""

from __future__ import annotations

from kcheck.ptx.ast import Call
from kcheck.ptx.cfg import Cfg, Operation

_STRONG = frozenset({"volatile", "acquire", "relaxed", "mmio"})


def may_spin(cfg: Cfg) -> frozenset[int]:
    """Headers of the loops in which a lane may wait for another: those with an atomic, a strong load, or a sleep.

    A loop without one cannot see what another thread writes: a compiler may read memory once, before it.
    """
    return frozenset(
        loop.header
        for loop in cfg.loops
        if any(waits(operation) for n in loop.blocks for operation in cfg.blocks[n].operations)
    )


def waits(operation: Operation) -> bool:
    """Whether a lane may wait for another by repeating this."""
    if isinstance(operation, Call):
        return False
    if operation.opcode in ("atom", "nanosleep"):
        return True
    return operation.opcode == "ld" and not _STRONG.isdisjoint(operation.modifiers)
