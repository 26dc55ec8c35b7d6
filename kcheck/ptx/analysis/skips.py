"""Branches by which threads skip a barrier and continue, as opposed to branches by which they return before it.

A thread may exit before a barrier: the others do not wait for it (:mod:`kcheck.ptx.runtime.exited`). If a thread
skips the barrier and continues with the code after it, this is an error, even if it exits later. The control flow
shows which of the two a branch is: one that a barrier depends on is an early return if nothing with an effect
follows where its two sides meet again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from kcheck.dataclass import dataclass
from kcheck.ptx.analysis.cfg import Cfg, is_barrier, is_collective, postdominators
from kcheck.ptx.analysis.liveness import reads, writes
from kcheck.ptx.syntax.ast import Call, Operation
from kcheck.ptx.syntax.opcodes import EFFECTS, WARP_RESULTS

Edge = tuple[int, int]
"""A block and the position of one of its successors; PAST for lanes that a guarded barrier does not wait for."""

PAST = -1


@dataclass(frozen=True, slots=True)
class Skips:
    """The edges at which lanes decide whether they reach a barrier.

    Attributes:
        away: by edge, the barriers (as numbers of blocks) that lanes skip there.
        toward: by edge, the barriers that lanes may still reach.
    """

    away: Mapping[Edge, tuple[int, ...]]
    toward: Mapping[Edge, tuple[int, ...]]

    @property
    def skipped(self) -> frozenset[int]:
        """The barriers that lanes may skip."""
        return frozenset(barrier for barriers in self.away.values() for barrier in barriers)


def analyze(cfg: Cfg, barriers: Iterable[int], parts: Callable[[int], bool]) -> Skips:
    """The skips of some barriers.

    Args:
        barriers: numbers of the blocks that end in one.
        parts: whether the threads of a block may diverge at the end of a basic block.
    """
    barriers = tuple(barriers)
    away: dict[Edge, list[int]] = {}
    toward: dict[Edge, list[int]] = {}
    if barriers:
        parent = postdominators(cfg)
        decided_by = control_dependence(cfg, parent)
        inert = _inert(cfg)
        for barrier in barriers:
            end = cfg.blocks[barrier].terminator
            if end is not None and end.guard is not None and not inert.issuperset(cfg.blocks[barrier].successors):
                away[barrier, PAST] = [barrier]
            leads = _leads(barrier, decided_by)
            for n in {n for n, _ in leads}:
                meets = parent[n]
                if not parts(n) or meets == -1 or meets in inert:
                    continue
                for k in range(len(cfg.blocks[n].successors)):
                    table = toward if (n, k) in leads else away
                    table.setdefault((n, k), []).append(barrier)
    skipped = {barrier for barriers in away.values() for barrier in barriers}
    return Skips(
        {edge: tuple(found) for edge, found in away.items()},
        {edge: tuple(b for b in found if b in skipped) for edge, found in toward.items()},
    )


def parting(cfg: Cfg, uniform: Collection[str]) -> Callable[[int], bool]:
    """Returns a function that says whether the threads of a block may diverge at the end of a basic block.

    Args:
        uniform: the registers that are the same for all lanes of a warp. Those computed from a vote may differ
            between warps.
    """
    operations = [o for n in cfg.order for o in cfg.blocks[n].operations]
    differs = {
        r.name for o in operations if not isinstance(o, Call) and o.opcode in WARP_RESULTS for r in writes(o)
    }
    before = -1 if differs else 0
    while len(differs) != before:
        before = len(differs)
        for operation in operations:
            if any(r.name in differs for r in reads(operation)):
                differs.update(r.name for r in writes(operation))

    def parts(n: int) -> bool:
        end = cfg.blocks[n].terminator
        return end is not None and any(r.name not in uniform or r.name in differs for r in reads(end))

    return parts


def deciding(cfg: Cfg, barriers: Iterable[int]) -> frozenset[int]:
    """The blocks whose branches decide, directly or through other branches, whether threads reach barriers."""
    decided_by = control_dependence(cfg, postdominators(cfg))
    return frozenset(n for barrier in barriers for n, _ in _leads(barrier, decided_by))


def control_dependence(cfg: Cfg, parent: Mapping[int, int]) -> dict[int, list[Edge]]:
    """By block, the edges that it is control dependent on (Ferrante, Ottenstein, Warren 1987)."""
    found: dict[int, list[Edge]] = {n: [] for n in cfg.order}
    for n in cfg.order:
        successors = cfg.blocks[n].successors
        if len(set(successors)) < 2:
            continue
        for k, s in enumerate(successors):
            while s not in (parent[n], -1):
                found[s].append((n, k))
                s = parent[s]
    return found


def _leads(barrier: int, decided_by: Mapping[int, list[Edge]]) -> set[Edge]:
    """The edges that a block is control dependent on, directly or through other branches."""
    found: set[Edge] = set()
    left = [barrier]
    while left:
        for edge in decided_by[left.pop()]:
            if edge not in found:
                found.add(edge)
                left.append(edge[0])
    return found


def _inert(cfg: Cfg) -> set[int]:
    """The blocks from which no operation with an effect is reachable."""
    inert = set(cfg.order)
    left = [n for n in cfg.order if any(_has_effect(o) for o in cfg.blocks[n].operations)]
    while left:
        n = left.pop()
        if n in inert:
            inert.remove(n)
            left.extend(cfg.predecessors[n])
    return inert


def _has_effect(operation: Operation) -> bool:
    if isinstance(operation, Call):
        return True
    return operation.opcode in EFFECTS or is_barrier(operation) or is_collective(operation)
