"""What a suspension point must save: of the live registers, those that cannot be recomputed or found more cheaply.

* A scalar that single, pure instructions compute from parameters, constants and special registers is recomputed.
* A register that no path has written since it was saved or restored is still in the state.

In a block scan of 128 threads and 15 barriers this leaves one register of nine to save at each barrier.
"""

from __future__ import annotations

from collections.abc import Mapping

from kcheck.ptx.analysis.cfg import Cfg
from kcheck.ptx.analysis.liveness import Liveness, reads, writes
from kcheck.ptx.syntax.ast import Address, Call, Instruction, Operand, Operation, Special, Symbol
from kcheck.ptx.syntax.opcodes import PURE

_FIXED = ("tid", "ntid", "ctaid", "nctaid", "laneid", "lanemask", "warpid", "nwarpid", "WARP_SZ")
LONGEST = 8
"""Instructions that may replace one load and one store."""


def rematerialized(
    cfg: Cfg, uniform: frozenset[str], longest: int = LONGEST
) -> Mapping[str, tuple[Operation, ...]]:
    """Scalars that can be recomputed anywhere in the function: the instructions for each, in order.

    Args:
        uniform: the registers that are scalars.
        longest: the most instructions for one.
    """
    definitions: dict[str, list[Operation]] = {}
    for n in cfg.order:
        for operation in cfg.blocks[n].operations:
            for register in writes(operation):
                definitions.setdefault(register.name, []).append(operation)
    found: dict[str, tuple[Operation, ...] | None] = {}

    def chain(name: str) -> tuple[Operation, ...] | None:
        if name not in found:
            found[name] = None  # a register that depends on itself
            found[name] = make(name)
        return found[name]

    def make(name: str) -> tuple[Operation, ...] | None:
        made = definitions.get(name, [])
        if name not in uniform or len(made) != 1 or not is_pure(made[0]):
            return None
        needed: dict[int, Operation] = {}
        for register in reads(made[0]):
            before = chain(register.name)
            if before is None:
                return None
            needed.update((id(operation), operation) for operation in before)
        needed[id(made[0])] = made[0]
        return tuple(needed.values()) if len(needed) <= longest else None

    return {name: made for name in definitions if (made := chain(name)) is not None}


def is_pure(operation: Operation) -> bool:
    """Whether an instruction gives the same result for the same operands, and does nothing else."""
    if isinstance(operation, Call) or operation.guard is not None or len(writes(operation)) != 1:
        return False
    if operation.opcode == "ld":
        address = operation.operands[1]
        return "param" in operation.modifiers and isinstance(address, Address) and isinstance(address.base, Symbol)
    return operation.opcode in PURE and all(_fixed(o) for o in operation.operands)


def _fixed(operand: Operand) -> bool:
    return not isinstance(operand, Special) or operand.name.partition(".")[0].startswith(_FIXED)


def unchanged(
    cfg: Cfg, live: Liveness, points: Mapping[int, tuple[str, ...]], sure: frozenset[int]
) -> Mapping[int, frozenset[str]]:
    """Registers whose slots in the state are up to date at the end of each block that ends in a barrier.

    On every path since a suspension point that saved or restored the register, no instruction wrote it.

    Args:
        points: by block that ends in a barrier: the registers that are in the state when its lanes continue.
        sure: the blocks at whose end lanes are always suspended.
    """
    everything = (1 << len(live.number)) - 1
    written: dict[int, int] = {}
    after: dict[int, int] = {}
    for n in cfg.order:
        bits = 0
        for operation in cfg.blocks[n].operations:
            for register in writes(operation):
                bits |= 1 << live.number[register.name]
        written[n] = bits
        barrier = cfg.blocks[n].terminator
        # Lanes for which the barrier's guard is false continue without having been saved.
        whole = n in sure and barrier is not None and barrier.guard is None
        saved = sum(1 << live.number[name] for name in points[n]) if whole else 0
        results = writes(barrier) if isinstance(barrier, Instruction) else []
        after[n] = saved & ~sum(1 << live.number[r.name] for r in results)
    clean = dict.fromkeys(cfg.order, everything)
    clean[cfg.order[0]] = 0
    again = True
    while again:
        again = False
        for n in cfg.order:
            into = clean[n]
            for p in cfg.predecessors[n]:
                into &= clean[p] & ~written[p] | after[p]
            if into != clean[n]:
                clean[n] = into
                again = True
    return {
        n: frozenset(name for name in names if (clean[n] & ~written[n]) >> live.number[name] & 1)
        for n, names in points.items()
    }
