"""Finds kernels whose lanes are better run one after another: a thread per row of a sparse matrix, for example.

Two things make a vector slow, and both are visible in the code. The number of iterations of a loop comes from
memory, so it differs from lane to lane, and a vector runs as often as its longest lane. And an address comes from
what the same loop loaded, so that no two lanes access neighbors, and every load is a gather.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from kcheck.ptx.analysis.cfg import Cfg, Loop
from kcheck.ptx.analysis.liveness import reads, writes
from kcheck.ptx.syntax.ast import Call, Instruction, Operation, Special
from kcheck.ptx.syntax.opcodes import ATOMICS, BARRIERS, COLLECTIVE, LOADS

_COSTLY = frozenset({"div", "rem", "sqrt", "rsqrt", "rcp", "sin", "cos", "ex2", "lg2", "tanh"})
"""Operations that a vector speeds up most. A loop with one of them stays a vector's."""

_THREAD = ("tid", "laneid")


def is_ragged(cfg: Cfg) -> bool:
    """Whether the lanes of a kernel should run one after another.

    It has a loop without costly operations. How often the loop runs depends on numbers that each lane loaded
    before it; and a load in it has an address that depends on another load in it, and on the thread only through
    loads.
    Kernels with barriers, warp-level operations, atomics and calls are not considered.
    """
    everything = [o for block in cfg.order for o in cfg.blocks[block].operations]
    if not cfg.loops or any(map(cooperates, everything)):
        return False
    own = _closure(everything, [r.name for o in everything if _names_thread(o) for r in writes(o)], loads=False)
    by_lane = [o for o in everything if _is_load(o) and any(r.name in own for r in reads(o))]
    loaded = _closure(everything, [r.name for o in by_lane for r in writes(o)], loads=True)
    return any(_is_ragged(cfg, loop, own, loaded) for loop in cfg.loops)


def _is_ragged(cfg: Cfg, loop: Loop, own: Set[str], loaded: Set[str]) -> bool:
    """Whether one loop is.

    Args:
        own: registers that depend on the thread other than through a load.
        loaded: registers that depend on what a lane loaded.
    """
    inside = [o for block in loop.blocks for o in cfg.blocks[block].operations]
    if any(isinstance(o, Instruction) and o.opcode in _COSTLY for o in inside):
        return False
    loads = [o for o in inside if _is_load(o)]
    from_here = _closure(inside, [r.name for o in loads for r in writes(o)], loads=True)
    ends = [cfg.blocks[block] for block in loop.blocks if not loop.blocks.issuperset(cfg.blocks[block].successors)]
    guards = [end.terminator.guard for end in ends if end.terminator is not None]
    if not any(g is not None and g.name in loaded and g.name not in from_here for g in guards):
        return False
    addresses = [r.name for o in loads for r in reads(o)]
    return any(name in from_here and name in loaded and name not in own for name in addresses)


def _closure(operations: Sequence[Operation], names: Iterable[str], *, loads: bool) -> Set[str]:
    """These registers, and those computed from them; ``loads``: also what is loaded from addresses among them."""
    found, size = set(names), -1
    while size != len(found):
        size = len(found)
        for operation in operations:
            if (loads or not _is_load(operation)) and any(r.name in found for r in reads(operation)):
                found.update(r.name for r in writes(operation))
    return found


def _is_load(operation: Operation) -> bool:
    return isinstance(operation, Instruction) and operation.opcode in LOADS and "param" not in operation.modifiers


def _names_thread(operation: Operation) -> bool:
    return isinstance(operation, Instruction) and any(
        isinstance(operand, Special) and operand.name.startswith(_THREAD) for operand in operation.operands
    )


def cooperates(operation: Operation) -> bool:
    """Whether it is about other threads, or calls a function."""
    return isinstance(operation, Call) or operation.opcode in ATOMICS | BARRIERS | COLLECTIVE
