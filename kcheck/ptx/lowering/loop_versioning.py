"""Loops whose indices are affine in the lane: a second version of such a loop, in which indices are scalars.

It is entered if all lanes are active and the necessary registers (:mod:`kcheck.ptx.lowering.affine_loops`) are
affine. Each iteration begins with the arithmetic on affine values, which has no effects; if the conditions on
these values do not hold, the lanes continue in the general loop, with the values from the start of the iteration.

::

    C: lanes wait at the loop → look: affine?  ──no──→ B: the general loop
                                 │ yes
                              affine: compute affine values; do lanes agree? ──no──→ back: vectors again → B
                                 │ yes            ▲
                              abreast: the other instructions, the branch ──→ after the loop: vectors again
"""

from __future__ import annotations

from collections.abc import Callable

from kcheck.ptx.analysis.cfg import BasicBlock
from kcheck.ptx.analysis.liveness import Liveness, writes
from kcheck.ptx.ir.builder import Value
from kcheck.ptx.ir.flow import LIKELY
from kcheck.ptx.lowering.affine import AffineLoop, AffineValue
from kcheck.ptx.lowering.affine_values import Evaluator
from kcheck.ptx.lowering.apply import apply
from kcheck.ptx.lowering.function import FunctionLowering
from kcheck.ptx.syntax.ast import Address, Instruction, Register
from kcheck.ptx.syntax.types import TYPES


class LoopVersion:
    """Emits the second version of a loop of one block.

    Args:
        header: the number of its block.
    """

    def __init__(
        self, fn: FunctionLowering, live: Liveness, loop: AffineLoop, header: int, block: BasicBlock
    ) -> None:
        self.fn = fn
        self.b = fn.b
        self.live = live
        self.loop = loop
        self.header = header
        self.block = block
        self.slots = {name: (f"%LF{header}.{k}", f"%LS{header}.{k}") for k, name in enumerate(loop.carried)}

    def write(self, waiting: Value, stop_flag: Callable[[], Value], leave: Callable[[Value], None]) -> None:
        """Emit the version. The code emitted next runs after the loop, with all lanes.

        Lanes whose registers are not affine go to ``B{header}``, the general loop.

        Args:
            waiting: the lanes that wait at the loop, as bits.
            stop_flag: emits a load of the flag that stops a launch.
            leave: emits what these lanes do if it is set, and ends its LLVM block.
        """
        b, fn, n = self.b, self.fn, self.header
        self._look(waiting)
        b.label(f"affine{n}")
        carried = {name: self._load(name) for name in self.loop.carried}
        fn.affine_values = dict(carried)
        evaluator = Evaluator(fn)
        made: dict[int, AffineValue] = {}
        for operation in self.block.body:
            if id(operation) in self.loop.accesses and isinstance(operation, Instruction):
                self._side_by_side(evaluator, operation)
            if id(operation) in self.loop.evaluated and isinstance(operation, Instruction):
                made[id(operation)] = evaluator.evaluate(operation)
                fn.affine_values[writes(operation)[0].name] = made[id(operation)]
        self._keep_steps(evaluator)
        agreed = b.const("i1", 1)
        for condition in evaluator.holds:
            agreed = b.land(agreed, condition)
        fn.affine_values = {}
        b.branch(agreed, f"abreast{n}", f"back{n}", LIKELY)
        b.label(f"back{n}")
        self._to_lanes(carried, n)
        b.jump(f"B{n}")
        b.label(f"abreast{n}")
        last = self._round(carried, made)
        self._end(last, waiting, stop_flag, leave)

    def _look(self, waiting: Value) -> None:
        """Branch to the affine version if all lanes are active and the carried registers are affine."""
        b, fn, n = self.b, self.fn, self.header
        b.branch(b.compare("eq", waiting, -1), f"look{n}", f"B{n}")
        b.label(f"look{n}")
        irregular: Value | None = None
        for name, kind in self.loop.carried.items():
            value = fn.load(name, kind)
            first = b.extract(value, 0)
            step = self.loop.steps[name]
            line = AffineValue(
                first, b.sub(b.extract(value, 1), first) if step is None else b.const(first.type, step)
            )
            for slot, part in zip(self.slots[name], (line.first, line.step), strict=True):
                fn.prologue.line(f"{slot} = alloca {part.type}")
                b.line(f"store {b.typed(part)}, ptr {slot}")
            differs = b.compare("ne", value, fn.lanes_of(line))
            irregular = differs if irregular is None else b.lor(irregular, differs)
        if irregular is None:
            b.jump(f"affine{n}")
        else:
            b.branch(b.any(irregular), f"B{n}", f"affine{n}")

    def _load(self, name: str) -> AffineValue:
        kind = TYPES[self.loop.carried[name]].llvm
        first, step = (self.b.value(f"load {kind}, ptr {slot}", kind) for slot in self.slots[name])
        known = self.loop.steps[name]
        return AffineValue(first, step if known is None else self.b.const(kind, known))

    def _keep_steps(self, evaluator: Evaluator) -> None:
        """Require that steps known at compile time are the same in the next iteration, if there is one."""
        b = self.b
        changed: Value | None = None
        for name, step in self.loop.steps.items():
            now = self.fn.affine_values[name].step
            if step is not None and now != b.const(now.type, step):
                other = b.compare("ne", now, step)
                changed = other if changed is None else b.lor(changed, other)
        if changed is not None:
            end = self.block.terminator
            assert end is not None
            assert end.guard is not None
            if end.guard.name in self.fn.affine_values:
                changed = b.land(changed, self._again())
            evaluator.holds.append(b.invert(changed))

    def _again(self) -> Value:
        """Whether the loop continues: the condition of the branch at its end."""
        end = self.block.terminator
        assert end is not None
        assert end.guard is not None
        condition = self.fn.load(end.guard.name, "pred")
        return condition if end.negated == (self.block.successors[0] != self.header) else self.b.invert(condition)

    def _side_by_side(self, evaluator: Evaluator, i: Instruction) -> None:
        """Require that the elements that an instruction accesses are contiguous."""
        operand = i.operands[1 if i.opcode == "ld" else 0]
        assert isinstance(operand, Address)
        assert isinstance(operand.base, Register)
        line = self.fn.affine_values[operand.base.name]
        if not line.uniform:
            evaluator.holds.append(self.b.compare("eq", line.step, self.loop.accesses[id(i)]))

    def _round(self, carried: dict[str, AffineValue], made: dict[int, AffineValue]) -> dict[str, AffineValue]:
        """The other instructions of an iteration; returns the affine values at its end."""
        fn = self.fn
        fn.begin_block(True)
        fn.active = Value("splat (i1 true)", "i1", fn.width)
        fn.blend = lambda register: False
        fn.affine_values = dict(carried)
        for observer in fn.observers:
            observer.begins(self.block.operations)
        for operation in self.block.body:
            target = next((r.name for r in writes(operation)), "")
            if id(operation) not in made or fn.is_scalar(target):
                apply(fn, operation)
            else:
                fn.affine_values[target] = made[id(operation)]
        return fn.affine_values

    def _end(
        self,
        last: dict[str, AffineValue],
        waiting: Value,
        stop_flag: Callable[[], Value],
        leave: Callable[[Value], None],
    ) -> None:
        b, fn, n = self.b, self.fn, self.header
        condition = self._again()
        end = self.block.terminator
        assert end is not None
        assert end.guard is not None
        for observer in fn.observers:
            observer.branches(end, end.guard)
        fn.affine_values = {}
        with b.when(condition):
            with b.when(stop_flag()):
                leave(waiting)
            for name, slots in self.slots.items():
                for slot, part in zip(slots, (last[name].first, last[name].step), strict=True):
                    b.line(f"store {b.typed(part)}, ptr {slot}")
            b.jump(f"affine{n}")
        on_from = next(s for s in self.block.successors if s != n)
        self._to_lanes(last, on_from)

    def _to_lanes(self, lines: dict[str, AffineValue], block: int) -> None:
        """Write affine values to the registers that change in the loop and are live at the start of a block."""
        fn = self.fn
        changed = {r.name: r.type for o in self.block.body for r in writes(o)}
        alive = set(self.live.names(block))
        for name, line in lines.items():
            if name in changed and name in alive:
                fn.store_slot(name, changed[name], fn.lanes_of(line))
