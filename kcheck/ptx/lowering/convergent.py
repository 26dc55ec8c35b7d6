"""Kernels whose threads provably all meet at each barrier (:mod:`kcheck.ptx.analysis.convergent`).

Then no thread can wait elsewhere, and a vector that reaches a barrier records nothing. What it keeps for the code
after the barrier costs less, too:

* Registers that are the same in the block stay in registers of the processor. All vectors of a pass over the block
  read the values from before it; what the last one computes is for the next pass.
* Each other register has one place in the state of the vector, and is saved when it was written. Longer
  computations on the index of the thread are done once, when the vector begins.

In ``if t < s`` between two barriers, most vectors of a reduction have nothing to do. If a lane of a vector is past
such a limit, the vectors after it are, too; if nothing else is to do there, the pass ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from kcheck.dataclass import dataclass
from kcheck.ptx.abi import AXES, Launch
from kcheck.ptx.analysis import convergent, spill_sets
from kcheck.ptx.analysis.cfg import Cfg, is_barrier
from kcheck.ptx.analysis.convergent import BlockUniformity
from kcheck.ptx.analysis.liveness import Liveness, writes
from kcheck.ptx.ir.builder import Value
from kcheck.ptx.isa.barrier import arrival
from kcheck.ptx.lowering.apply import apply
from kcheck.ptx.lowering.control_facts import ControlFacts
from kcheck.ptx.lowering.function import FunctionLowering
from kcheck.ptx.lowering.suspension import StateLayout, Suspender, SuspensionPoint
from kcheck.ptx.lowering.vector_loop import Carried, Passes
from kcheck.ptx.lowering.warp import WarpFunction
from kcheck.ptx.syntax.ast import Instruction, Operation
from kcheck.ptx.syntax.opcodes import EXITS
from kcheck.ptx.syntax.types import LLVM_BITS, TYPES

_LONGEST = 64
"""Instructions that are done once for each vector, to compute one register."""

BUSY = "%busy"
"""Whether the vectors after this one may have something to do in this pass."""


def find(
    fn: FunctionLowering, facts: ControlFacts, divergent_symbols: Callable[[str], bool]
) -> BlockUniformity | None:
    """What is the same for all threads of a block, if they provably all meet at each barrier; None if not, if the
    kernel has no barrier, or if a sanitizer observes it.

    Args:
        divergent_symbols: whether the address of a symbol differs between lanes (local variables).
    """
    if not fn.function.is_entry or fn.width == 1 or fn.observers or facts.spinning or fn.unit.follows_barriers:
        return None
    barriers = []
    for n in facts.cfg.order:
        end = facts.cfg.blocks[n].terminator
        if end is not None and facts.waits(end):
            if not is_barrier(end) or end.guard is not None or not arrival(fn, end).plain:
                return None
            barriers.append(n)
    if not barriers:
        return None
    known = convergent.analyze(facts.cfg, divergent_symbols)
    return known if convergent.meets_at_all(facts.cfg, barriers, known) else None


@dataclass(frozen=True, slots=True)
class _Saved:
    """How registers get past barriers.

    Attributes:
        points: with the registers in the state of a vector.
        once: the registers that are computed when a vector begins, and the instructions for that.
        carried: the registers that are the same in the block, by number of the point.
    """

    points: Sequence[SuspensionPoint]
    once: tuple[frozenset[str], Sequence[Operation]]
    carried: Mapping[int, tuple[str, ...]]


def _saved(
    fn: FunctionLowering, cfg: Cfg, live: Liveness, points: Sequence[SuspensionPoint], known: BlockUniformity
) -> _Saved:
    operations = [o for n in cfg.order for o in cfg.blocks[n].body]
    compared = {r.name for o in operations if id(o) in fn.limits for r in writes(o)}
    computable = spill_sets.rematerialized(cfg, fn.uniform | fn.strides.keys() | compared, _LONGEST)
    again = {name: chain for name, chain in computable.items() if len(chain) <= spill_sets.LONGEST}
    ends = {id(cfg.blocks[n].terminator): n for n in cfg.order}
    blocks = [ends[id(point.operation)] for point in points]
    alive = {n: live.names(point.block) for n, point in zip(blocks, points, strict=True)}
    shared = known.same & fn.uniform - computable.keys()
    own = {n: tuple(r for r in names if r not in computable and r not in shared) for n, names in alive.items()}
    kept = spill_sets.unchanged(cfg, live, own, frozenset(own))
    once = frozenset(r for names in alive.values() for r in names if r in computable and r not in again)
    found, carried = [], {}
    for n, point in zip(blocks, points, strict=True):
        made = tuple(r for r in alive[n] if r in once)
        chains = {id(o): o for r in alive[n] if r in again for o in again[r]}
        found.append(
            replace(
                point,
                live=(*own[n], *made),
                kept=kept[n] | frozenset(made),
                rematerialized=tuple(chains.values()),
            )
        )
        carried[point.number] = tuple(r for r in alive[n] if r in shared)
    first = {id(o): o for r in sorted(once) for o in computable[r]}
    return _Saved(found, (once, tuple(first.values())), carried)


class _Suspender(Suspender):
    """Suspends whole vectors, and resumes them.

    Args:
        carried: by number of a point, the registers that are the same in the block.
    """

    def __init__(
        self,
        fn: FunctionLowering,
        types: Mapping[str, str],
        state: StateLayout,
        carried: Mapping[int, Sequence[str]],
    ) -> None:
        super().__init__(fn, types, state)
        self._carried = carried
        names = dict.fromkeys(name for found in carried.values() for name in found)
        self._slots = {name: (f"%before{k}", f"%after{k}") for k, name in enumerate(names)}
        for name, slots in self._slots.items():
            fn.prologue.lines.extend(f"  {slot} = alloca {TYPES[types[name]].llvm}" for slot in slots)

    def carried(self) -> tuple[Carried, ...]:
        """All of these registers, each with a place in the state: call it when the layout of the rest is known."""
        kinds = {name: TYPES[self.types[name]].llvm for name in self._slots}
        return tuple(
            Carried(*slots, kinds[name], self._offset(name, kinds[name], 1)) for name, slots in self._slots.items()
        )

    def _offset(self, name: str, kind: str, lanes: int) -> int:
        return self.state.place(name, max(LLVM_BITS[kind] // 8, 1) * lanes, 8 if lanes == 1 else 64)

    def save(self, point: SuspensionPoint, lanes: Value) -> None:
        """Save what was written since the last barrier. ``lanes``: all of the vector."""
        b, fn = self.fn.b, self.fn
        for name in self._carried[point.number]:
            b.line(f"store {b.typed(fn.load_slot(name, self.types[name]))}, ptr {self._slots[name][1]}")
        for name in point.live:
            if name not in point.kept:
                self.put(name)

    def put(self, name: str) -> None:
        """Store a register in the state."""
        b, fn = self.fn.b, self.fn
        value = fn.load_slot(name, self.types[name])
        address = self._address(name, value)
        if value.type == "i1" and value.lanes > 1:
            value = b.mask_bits(value)
        align = ", align 64" if value.lanes > 1 else ""
        b.line(f"store {b.typed(value)}, ptr {address}{align}")

    def restore(self, point: SuspensionPoint) -> None:
        """Restore or recompute the registers of a vector that waited."""
        b, fn = self.fn.b, self.fn
        for name in self._carried[point.number]:
            kind = TYPES[self.types[name]].llvm
            value = b.value(f"load {kind}, ptr {self._slots[name][0]}", kind)
            fn.store_slot(name, self.types[name], value)
        super().restore(point)

    def _saved(self, point: SuspensionPoint, name: str, value: Value) -> str:
        return self._address(name, value)

    def _address(self, name: str, value: Value) -> str:
        offset = self._offset(name, value.type, value.lanes)
        return self.fn.b.value(f"getelementptr i8, ptr %warp, i64 {offset}", "ptr").text


class ConvergentKernel(WarpFunction):
    """Lowers such a kernel."""

    def __init__(
        self, fn: FunctionLowering, state: StateLayout, facts: ControlFacts, known: BlockUniformity
    ) -> None:
        super().__init__(fn, state, facts)
        saved = _saved(fn, self.cfg, self.live, self.points, known)
        self.points = list(saved.points)
        self._once = saved.once
        self._suspender = _Suspender(fn, self.live.types, state, saved.carried)
        self.suspender = self._suspender
        self._falling = convergent.falling(self.cfg, known, fn.unit.axis)
        own = {name for point in self.points for name in point.live} - saved.once[0]
        self._idle = frozenset(n for n in self.cfg.order if self._does_nothing(n, own, known))
        fn.prologue.line(f"{BUSY} = alloca i1")

    def _does_nothing(self, n: int, own: set[str], known: BlockUniformity) -> bool:
        """Whether a block computes nothing that a vector needs after the next barrier.

        Args:
            own: registers that are saved in the state of a vector.
        """
        block = self.cfg.blocks[n]
        if any(not spill_sets.is_pure(o) or any(r.name in own for r in writes(o)) for o in block.body):
            return False
        end = block.terminator
        if end is None or n in self._barriers:
            return True
        if not isinstance(end, Instruction) or end.opcode not in EXITS | {"bra"}:
            return False
        if end.guard is None or end.guard.name in known.same:
            return True
        return end.opcode == "bra" and len(set(block.successors)) == 2 and end.guard.name in self._falling

    def _passes(self) -> Passes:
        return Passes(self._suspender.carried(), BUSY)

    def _runs(self, n: int) -> None:
        if n not in self._idle:
            self.b.line(f"store i1 true, ptr {BUSY}")

    def _begins(self) -> None:
        b, fn = self.b, self.fn
        b.line(f"store i1 true, ptr {BUSY}")
        if self.fn.unit.copies is not None:
            self.fn.unit.copies.clear(b)
        fn.active = b.bits_mask(Value("%mask", self.bits), self.width)
        before, fn.blend = fn.blend, lambda name: False
        for operation in self._once[1]:
            apply(fn, operation)
        fn.blend = before
        for name in sorted(self._once[0]):
            self._suspender.put(name)

    def _resumes(self, point: SuspensionPoint) -> None:
        fn = self.fn
        axis = fn.field(Launch, Launch.block_dim, AXES.index(fn.unit.axis))
        threads = fn.field(Launch, Launch.threads)
        has_rows = fn.cached("has rows", lambda p: p.compare("ne", axis, threads))
        self.b.line(f"store {self.b.typed(has_rows)}, ptr {BUSY}")
        self.suspender.restore(point)

    def _choose(self, n: int, k: int, target: int, lanes: Value) -> None:
        b, end = self.b, self.cfg.blocks[n].terminator
        falls = self._falling.get(end.guard.name) if end is not None and end.guard is not None else None
        # Threads after this vector that get here are on this side only if all lanes of this vector are.
        if n in self._idle and end is not None and falls is not None and k == int(falls == end.negated):
            busy = b.lor(b.value(f"load i1, ptr {BUSY}", "i1"), b.compare("eq", lanes, self.lanes))
            b.line(f"store {b.typed(busy)}, ptr {BUSY}")
        super()._choose(n, k, target, lanes)

    def _suspend(self, point: SuspensionPoint, lanes: Value) -> None:
        leave = self.b.fresh("leave")
        self.suspender.save(point, lanes)
        self.b.jump(leave)
        self.b.label(leave)
        self._outcome(self.b.const("i32", point.number + 1), leave)

    def _finish(self) -> None:
        self._outcome(self.b.const("i32", 0), "fin")
