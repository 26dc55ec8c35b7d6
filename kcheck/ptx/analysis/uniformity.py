"""Which registers hold one value for all lanes that need them, and which writes must not affect inactive lanes.

Lanes diverge at a *divergent* branch: one whose predicate differs between lanes. Until they reconverge at its
immediate postdominator, lanes of one side wait while those of the other run. A write in block ``b`` harms a
waiting lane if that lane is at some block ``x`` where the register is live and got there without passing the
write. Then the register is not uniform, and the write is blended under the mask. If no lane can be harmed, the
write needs no mask.

The analysis relies on how the order of execution (:mod:`kcheck.ptx.lowering.warp`) keeps lanes together:

* lanes in a loop gather at its header before the next iteration, so lanes that diverge inside the loop reconverge
  when the iteration ends, if not before; lanes that left the loop wait outside;
* a loop that does not contain the branch is entered through its header by all lanes of one side at once, and its
  own divergent branches account for what happens inside.

Where this does not hold (loops with several entries; loops that may spin, in which lanes are suspended), every
live register is assumed to be divergent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kcheck.dataclass import dataclass
from kcheck.ptx.analysis.cfg import Cfg, postdominators
from kcheck.ptx.analysis.liveness import Liveness, reads, writes
from kcheck.ptx.isa.rows import ROWS
from kcheck.ptx.syntax.ast import Address, Call, Instruction, Operand, Operation, Register, Special, Symbol, Vector
from kcheck.ptx.syntax.opcodes import BARRIERS

_LANE_SPECIALS = ("tid", "laneid", "lanemask")
_LIMIT = 1500
"""In a function with more blocks, no register is assumed to be uniform, because the analysis is quadratic."""


@dataclass(frozen=True, slots=True)
class Uniformity:
    """The result.

    Attributes:
        uniform: registers that one scalar can hold.
        live_in_inactive_lanes: by block, the registers (as bits of ``Liveness.number``) whose writes there must be
            blended.
        accompanied: registers with companions (:meth:`kcheck.ptx.isa.events.Observer.companions`), which may
            differ between lanes: they get no stride.
    """

    uniform: frozenset[str]
    live_in_inactive_lanes: Mapping[int, int]
    accompanied: frozenset[str] = frozenset()


def analyze(
    cfg: Cfg, live: Liveness, divergent_symbols: Callable[[str], bool], suspended: frozenset[int], width: int
) -> Uniformity:
    """Uniform registers of a function, and the writes to blend.

    Args:
        divergent_symbols: whether the address of a symbol differs between lanes (local variables).
        suspended: blocks at whose start lanes may be suspended while others continue.
        width: with 1, no register is uniform, since every register is a scalar anyway, and no write is blended.
    """
    everything = (1 << len(live.number)) - 1
    if width == 1:
        return Uniformity(frozenset(), dict.fromkeys(cfg.order, 0))
    if len(cfg.order) > _LIMIT:
        return Uniformity(frozenset(), dict.fromkeys(cfg.order, everything))
    return _UniformityAnalysis(cfg, live, divergent_symbols, suspended).run()


class _UniformityAnalysis:
    def __init__(
        self, cfg: Cfg, live: Liveness, divergent_symbols: Callable[[str], bool], suspended: frozenset[int]
    ) -> None:
        self.cfg = cfg
        self.live = live
        self.divergent_symbols = divergent_symbols
        self.parent = postdominators(cfg)
        self.loops = [(loop.header, loop.blocks) for loop in cfg.loops]
        self.divergent = 0
        self.live_in_inactive_lanes = dict.fromkeys(cfg.order, 0)
        self.defined: dict[int, int] = dict.fromkeys(cfg.order, 0)
        self.crossing = 0
        for bits in live.live_in.values():
            self.crossing |= bits
        forced = 0
        for n in suspended:
            forced |= live.live_in[n]
        for loop in cfg.loops:
            if not loop.single_entry:
                for n in loop.blocks:
                    forced |= live.live_in[n]
                    for operation in cfg.blocks[n].operations:
                        for register in writes(operation):
                            forced |= 1 << live.number[register.name]
        self.forced = forced
        for n in cfg.order:
            for operation in cfg.blocks[n].operations:
                for register in writes(operation):
                    self.defined[n] |= 1 << live.number[register.name]

    def run(self) -> Uniformity:
        for n in self.cfg.order:
            self.live_in_inactive_lanes[n] |= self.forced & self.defined[n]
        pending_branches = [n for n in self.cfg.order if self._parts(n)]
        self._diverge(self.forced)
        split: set[int] = set()
        changed = True
        while changed:
            changed = self._propagate()
            for n in pending_branches:
                if n not in split and self._is_divergent_branch(n):
                    split.add(n)
                    self._part(n)
                    changed = True
        names = frozenset(name for name, k in self.live.number.items() if not self.divergent >> k & 1)
        return Uniformity(names, self.live_in_inactive_lanes)

    def _parts(self, n: int) -> bool:
        end = self.cfg.blocks[n].terminator
        return end is not None and (end.guard is not None or len(set(self.cfg.blocks[n].successors)) > 1)

    def _is_divergent_branch(self, n: int) -> bool:
        end = self.cfg.blocks[n].terminator
        return end is not None and any(self.divergent >> self.live.number[r.name] & 1 for r in reads(end))

    def _diverge(self, registers: int) -> bool:
        before = self.divergent
        self.divergent |= registers
        return self.divergent != before

    def _propagate(self) -> bool:
        """Mark registers that are computed from divergent ones; returns whether any were marked."""
        changed = False
        again = True
        while again:
            again = False
            for n in self.cfg.order:
                for operation in self.cfg.blocks[n].operations:
                    results = 0
                    for register in writes(operation):
                        results |= 1 << self.live.number[register.name]
                    if results & ~self.divergent and self._varies(operation):
                        self._diverge(results)
                        again = changed = True
        return changed

    def _varies(self, operation: Operation) -> bool:
        """Whether the results of an operation may differ between the lanes that execute it together."""
        if isinstance(operation, Call):
            return True
        opcode = operation.opcode
        if opcode in ("vote", "activemask", "redux"):
            # One result for all lanes that name each other: for the whole warp if the member mask is uniform.
            mask = operation.operands[-1]
            return operation.guard is not None or (
                opcode != "activemask"
                and isinstance(mask, Register)
                and bool(self.divergent >> self.live.number[mask.name] & 1)
            )
        if any(self.divergent >> self.live.number[r.name] & 1 for r in reads(operation)):
            return True
        if opcode in BARRIERS:
            return False
        if opcode not in ROWS and opcode not in ("mov", "cvta", "ld"):
            return True
        return any(self._operand_varies(o) for o in operation.operands[1:]) or (
            opcode == "ld" and self._from_call(operation)
        )

    def _operand_varies(self, operand: Operand) -> bool:
        if isinstance(operand, Special):
            return operand.name.startswith(_LANE_SPECIALS)
        if isinstance(operand, Symbol):
            return self.divergent_symbols(operand.name)
        if isinstance(operand, Address):
            return isinstance(operand.base, Symbol) and self.divergent_symbols(operand.base.name)
        if isinstance(operand, Vector):
            return any(self._operand_varies(e) for e in operand.elements)
        return False

    def _from_call(self, operation: Instruction) -> bool:
        """``ld.param`` of what a call returned, or of a function's own parameter."""
        if "param" not in operation.modifiers:
            return False
        address = operation.operands[1]
        return (
            isinstance(address, Address)
            and isinstance(address.base, Symbol)
            and self.divergent_symbols(address.base.name)
        )

    # --- lanes that diverge

    def _part(self, n: int) -> None:
        """A branch is divergent: find the writes that harm lanes that wait because of it."""
        successors = list(dict.fromkeys(self.cfg.blocks[n].successors))
        join = self._join(n, successors)
        region = self._reach(successors, join, frozenset())[0]
        # Loops around the branch that its lanes may leave one by one.
        around = [blocks for _, blocks in self.loops if n in blocks and join not in blocks]
        for b in region:
            candidates = self.defined[b] & self.crossing & ~self.live_in_inactive_lanes[b]
            if not candidates:
                continue
            harmed = 0
            shared = min((blocks for blocks in around if b in blocks), key=len, default=None)
            if shared is not None:
                # Lanes that left the loop wait outside while it continues.
                for x in region | ({join} - {-1}):
                    if x not in shared:
                        harmed |= self.live.live_in[x]
            # Within one iteration, lanes on one side wait for those on another.
            cut = frozenset(h for h, blocks in self.loops if n in blocks and b in blocks)
            gate, gated = self._gate(b, n)
            reached = [self._reach([s], join, cut)[0] for s in successors]
            for k, s in enumerate(successors):
                if any(b in other for m, other in enumerate(reached) if m != k):
                    inside, waiting = self._reach([s], join, cut, gate)
                    for x in inside | waiting:
                        if x != b and x not in gated:
                            harmed |= self.live.live_in[x]
            harmed &= candidates
            if harmed:
                self.live_in_inactive_lanes[b] |= harmed
                self._diverge(harmed)

    def _join(self, n: int, successors: list[int]) -> int:
        """Where the lanes that diverge at n reconverge: a postdominator that all reach in the same iteration."""
        join = self.parent[n]
        while join != -1:
            inside = self._reach(successors, join, frozenset())[0]
            if not any(h in inside and n in blocks and join in blocks for h, blocks in self.loops):
                break
            join = self.parent[join]
        return join

    def _reach(
        self, starts: list[int], join: int, cut: frozenset[int], avoid: int = -2
    ) -> tuple[set[int], set[int]]:
        """Blocks that lanes pass before the join, and those at which they wait: the join, and ``cut`` headers."""
        seen: set[int] = set()
        waiting: set[int] = set()
        stack = list(starts)
        while stack:
            x = stack.pop()
            if x == join or x in cut:
                waiting.add(x)
            elif x not in seen and x != avoid:
                seen.add(x)
                stack.extend(self.cfg.blocks[x].successors)
        return seen, waiting

    def _gate(self, b: int, n: int) -> tuple[int, frozenset[int]]:
        """The header and the blocks of the largest loop around ``b`` without the branch; ``b`` if there is
        none."""
        best: tuple[int, frozenset[int]] = (b, frozenset())
        for header, blocks in self.loops:
            if b in blocks and n not in blocks and len(blocks) > len(best[1]):
                best = (header, blocks)
        return best
