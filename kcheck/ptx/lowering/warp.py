"""The SIMD warp: a function's blocks under lane masks.

Every block has a mask of the lanes that are about to execute it. Blocks run in the order of
:mod:`kcheck.ptx.analysis.cfg`, where each loop is contiguous: an empty mask skips a block, and after the last
block of a loop its header runs again while lanes wait there. Each lane is in exactly one mask, so any control flow
is executed as written; the order only decides how well lanes stay together.

Where a warp has to wait (a barrier, or a loop that may spin on another lane's lock) the lanes there are suspended:
their live registers are saved in the vector's state, and the function returns when no other lane can continue. A
switch resumes it at that *suspension point*. A loop that may spin suspends its lanes after SPIN_LIMIT iterations,
so that lanes that left it (and other warps) can run, as independent thread scheduling requires.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from kcheck.ptx.analysis import skips, spin
from kcheck.ptx.analysis.arms import Arms
from kcheck.ptx.analysis.cfg import Loop
from kcheck.ptx.ir.builder import Builder, Value
from kcheck.ptx.ir.flow import LIKELY
from kcheck.ptx.ir.records import load_field, store_field
from kcheck.ptx.ir.signature import Definition
from kcheck.ptx.isa.effects import EFFECTS
from kcheck.ptx.lowering import access_groups, streams, vector_loop, warp_emulation
from kcheck.ptx.lowering.affine import AffineLoop
from kcheck.ptx.lowering.apply import apply
from kcheck.ptx.lowering.control_facts import ControlFacts
from kcheck.ptx.lowering.function import FunctionLowering, function_signature
from kcheck.ptx.lowering.loop_versioning import LoopVersion
from kcheck.ptx.lowering.meetings import Meetings
from kcheck.ptx.lowering.paired_arms import EVERYONE, Keeps, PairedArms
from kcheck.ptx.lowering.stopping import abort, check_stop, guard_stack, stop_flag, trap
from kcheck.ptx.lowering.suspension import (
    StateLayout,
    Suspender,
    SuspensionPoint,
    find_points,
    left,
    read_mask,
)
from kcheck.ptx.runtime.layout import ABORTED, POINT_BYTES, WARP, SuspendedLanes, kernel_signature, point_address
from kcheck.ptx.syntax.ast import Call, Instruction, Operation
from kcheck.ptx.syntax.types import TYPES

SPIN_LIMIT = 64
"""Iterations of a loop that may spin before its lanes are suspended."""


class WarpFunction:
    """Lowers one function; :meth:`definition` returns the result.

    Attributes:
        points: where lanes of a kernel are suspended.
        has_interior: whether a kernel has a second version (:mod:`.interior_version`) for interior blocks.
    """

    has_interior = False

    def __init__(self, fn: FunctionLowering, state: StateLayout, facts: ControlFacts) -> None:
        cfg = facts.cfg
        self.fn = fn
        self.b = fn.b
        self.cfg = cfg
        self.waits, self.keeps, self.spinning = facts.waits, facts.keeps, facts.spinning
        self.width = fn.width
        self.bits = f"i{fn.width}"
        self._loop_sites: dict[int, int] = {}
        self.points, types = find_points(fn, facts.live, cfg, facts.waits, facts.spinning)
        state.points = len(self.points)
        self.live = replace(facts.live, types={**facts.live.types, **types})
        ends = {id(cfg.blocks[n].terminator): n for n in cfg.order}
        self._barriers = {  # by basic block that ends in a barrier of the thread block: its suspension point
            ends[id(point.operation)]: point.number for point in self.points if point.arrival.kind == "block"
        }
        self.suspender = Suspender(fn, self.live.types, state)
        self.outcomes: list[tuple[str, str]] = []
        gone: list[str] = []
        if fn.function.is_entry and fn.width == WARP:
            leaving = [self._mask(n) for n in cfg.order if cfg.blocks[n].only_leaves]
            gone = ["%exited", *leaving]
            fn.left = partial(left, fn, self.points, gone)
        self.meetings = Meetings(fn, self.points, self.suspender, gone)
        self._skips = skips.analyze(cfg, self._barriers, facts.parts)
        self._arms = PairedArms(fn, cfg, self.live, self.meetings, self._skips)
        position = {n: k for k, n in enumerate(cfg.order)}
        self._loop_ends: dict[int, list[Loop]] = {}  # by position of the last block
        for loop in cfg.loops:
            self._loop_ends.setdefault(max(position[n] for n in loop.blocks), []).append(loop)
        for loops in self._loop_ends.values():
            loops.sort(key=lambda loop: -position[loop.header])

    # --- masks as memory

    def _mask(self, n: int) -> str:
        return f"%m{n}"

    def _read_mask(self, name: str) -> Value:
        return read_mask(self.fn, name)

    def _send(self, n: int, lanes: Value) -> None:
        """Let lanes execute a block when its turn comes."""
        old = self._read_mask(self._mask(n))
        both = self.b.op("or", old, lanes)
        self.b.line(f"store {self.bits} {both.text}, ptr {self._mask(n)}")

    # --- the function

    def definition(self, name: str) -> Definition:
        """Lower the function. ``name``: of a function that is not a kernel; a kernel's name is fixed."""
        b, fn, order = self.b, self.fn, self.cfg.order
        position = {n: k for k, n in enumerate(order)}
        for k, n in enumerate(order):
            self._block(k, n)
        b.label("fin")
        self._finish()
        self.meetings.write(lambda point: position[point.block], self._send, partial(check_stop, self.fn))
        b.label("abort")
        b.leave(b.const("i32", ABORTED) if fn.function.is_entry else Value("-1", self.bits))
        body = b.take()
        streams.allocate(fn.prologue, fn.each, fn.streams, self.width)
        self._enter()
        head, each = self._parts(b.take(), body)
        if not fn.function.is_entry:
            signature = function_signature(name, self.width, fn.function, carries=fn.carrier is not None)
            return Definition(signature, (*head, *each), frozenset(b.references), attributes=ATTRIBUTES)
        plain = [s.number for s in self.points if s.arrival.plain and not fn.unit.follows_barriers]
        passes = self._passes()
        loop = vector_loop.loop(self.width, each, self.outcomes, plain, b.references, self.has_interior, passes)
        signature, references = kernel_signature(self.width), frozenset(b.references)
        return Definition(signature, (*head, *loop), references, attributes=ATTRIBUTES, exported=True)

    def _parts(self, dispatch: list[str], body: list[str]) -> tuple[list[str], list[str]]:
        """The entry block, and the lines for one vector: initialization, ``dispatch``, ``body``."""
        fn = self.fn
        masks = [self._mask(n) for n in self.cfg.order]
        masks += [*(f"%w{point.number}" for point in self.points), "%exited"]
        counters = [f"%spins{header}" for header in sorted(self.spinning)]
        entry, zeros = Builder(self.width), Builder(self.width)
        entry.label("entry")
        for element, names in ((self.bits, masks), ("i32", counters)):
            for room in names:
                entry.line(f"{room} = alloca {element}")
                zeros.line(f"store {element} 0, ptr {room}")
        each = [*fn.each.lines, *dispatch, *body]
        return [*entry.lines, *fn.needed(fn.prologue.lines)], [*zeros.lines, *fn.needed(each)]

    def _enter(self) -> None:
        b = self.b
        first = self.cfg.order[0]
        if not self.fn.function.is_entry:
            guard_stack(self.fn)
            for observer in self.fn.observers:
                observer.enters()
            b.line(f"store {self.bits} %mask, ptr {self._mask(first)}")
            b.jump("C0")
            return
        resumed = [(s.number + 1, f"resume{s.number}") for s in self.points]
        b.switch(Value("%resume", "i32"), "begin", resumed)
        b.label("begin")
        self._begins()
        b.line(f"store {self.bits} %mask, ptr {self._mask(first)}")
        b.jump("C0")
        for point in self.points:
            b.label(f"resume{point.number}")
            self._resumes(point)
            b.line(f"store {self.bits} %mask, ptr {self._mask(point.block)}")
            b.jump(f"B{point.block}")

    def _passes(self) -> vector_loop.Passes | None:
        """How vectors pass values to the code after a barrier, if they all meet there."""
        return None

    def _begins(self) -> None:
        """Called where the lanes of a kernel begin."""
        for point in self.points:
            record = point_address(self.b, point.number).text
            self.b.line(f"store [{POINT_BYTES} x i8] zeroinitializer, ptr {record}")
        if self.fn.unit.copies is not None:
            self.fn.unit.copies.clear(self.b)

    def _resumes(self, point: SuspensionPoint) -> None:
        """Called where lanes continue after a suspension point."""
        b = self.b
        suspended = point_address(b, point.number).text
        waiting = load_field(b, SuspendedLanes, suspended, SuspendedLanes.waiting)
        others = b.land(waiting, b.invert(b.resize(Value("%mask", self.bits), "i32")))
        store_field(b, SuspendedLanes, suspended, SuspendedLanes.waiting, others)
        self.suspender.restore(point)
        if point.number in self._barriers.values():
            self._mark_skips(self._skips.skipped, Value("%mask", self.bits), False)

    def _runs(self, n: int) -> None:
        """Called where lanes execute a block."""

    def loop_site(self, header: int) -> int:
        """The site of a loop, for findings: where it tests whether to continue."""
        if header not in self._loop_sites:
            loop = next(loop for loop in self.cfg.loops if loop.header == header)
            inside = [o for n in (header, *sorted(loop.blocks)) for o in self.cfg.blocks[n].operations]
            ends = [self.cfg.blocks[n] for n in sorted(loop.blocks)]
            back = [e.terminator for e in ends if header in e.successors and e.terminator is not None]
            ordered = [*(o for o in inside if spin.waits(o)), *back, *inside]
            known = next((o for o in ordered if o.loc is not None), None)
            nowhere = Instruction(self.fn.function.line, "bra", (), ())
            self._loop_sites[header] = self.fn.unit.site(known or next(iter(ordered), nowhere), "")
        return self._loop_sites[header]

    def _announced(self, n: int) -> Sequence[Operation]:
        """The operations of a block, for observers."""
        return self.cfg.blocks[n].operations

    def _block(self, k: int, n: int) -> None:
        b, fn = self.b, self.fn
        block = self.cfg.blocks[n]
        b.label(f"C{k}")
        waiting = self._read_mask(self._mask(n))
        empty = b.compare("eq", waiting, 0)
        affine_loop = self.fn.affine_loops.get(n)
        for stream in fn.streams.begins.get(n, ()):
            streams.empty(b, stream, self.width)
        b.branch(empty, f"K{k}", f"{'B' if affine_loop is None else 'T'}{n}")
        if affine_loop is not None:
            self._affine_version(k, n, affine_loop, waiting)
        b.label(f"B{n}")
        self._runs(n)
        self.lanes = self._lanes(n)
        b.line(f"store {self.bits} 0, ptr {self._mask(n)}")
        self._begin_block(n, self.lanes, partial(self.keeps, n))
        fn.inlining = "noinline" if affine_loop is not None else ""
        for observer in fn.observers:
            observer.begins(self._announced(n))
        parts = [(block.body, None)] if affine_loop is not None else access_groups.parts(fn, block.body)
        for operations, lower_as_group in parts:
            if lower_as_group is None:
                self._apply(operations, k)
            else:
                lower_as_group()
        self._terminate(n)
        b.jump(f"K{k}")
        b.label(f"K{k}")
        for loop in self._loop_ends.get(k, ()):
            self._latch(loop)
        b.jump(f"C{k + 1}" if k + 1 < len(self.cfg.order) else "fin")

    def _apply(self, operations: Sequence[Operation], k: int) -> None:
        """Lower operations of the block at position ``k``."""
        fn = self.fn
        for operation in operations:
            if id(operation) not in fn.skipped:
                apply(fn, operation)
            if isinstance(operation, Call) and fn.exits is not None:
                self._drop(fn.exits, k)
                fn.exits = None

    def _begin_block(self, n: int, lanes: Value, keeps: Keeps) -> None:
        """Prepare for the code of a block that lanes execute."""
        fn = self.fn
        fn.begin_block(any(n in loop.blocks for loop in self.cfg.loops))
        fn.active = self.b.bits_mask(lanes, self.width)
        fn.blend = keeps

    def _run_block(self, n: int, lanes: Value, keeps: Keeps) -> None:
        """Emit the code of a block without calls, without its end."""
        self._begin_block(n, lanes, keeps)
        for operation in self.cfg.blocks[n].body:
            if id(operation) not in self.fn.skipped:
                apply(self.fn, operation)

    def _lanes(self, n: int) -> Value:
        """The lanes that execute a block, as bits."""
        return self._read_mask(self._mask(n))

    def _affine_version(self, k: int, n: int, loop: AffineLoop, waiting: Value) -> None:
        """Emit the version of a loop with affine values, before the general one."""
        self.b.label(f"T{n}")
        self._runs(n)
        self.fn.inlining = ""
        block = self.cfg.blocks[n]
        leave = partial(abort, self.fn, self.loop_site(n))
        LoopVersion(self.fn, self.live, loop, n, block).write(waiting, partial(stop_flag, self.b), leave)
        self.b.line(f"store {self.bits} 0, ptr {self._mask(n)}")
        self._send(next(s for s in block.successors if s != n), waiting)
        self.b.jump(f"K{k}")

    def _drop(self, exited: Value, k: int) -> None:
        """Remove lanes that exited inside a call; leave the block if none remains."""
        b = self.b
        old = self._read_mask("%exited")
        b.line(f"store {self.bits} {b.op('or', old, exited).text}, ptr %exited")
        self.lanes = b.op("and", self.lanes, b.invert(exited))
        with b.when(b.compare("eq", self.lanes, 0)):
            b.jump(f"K{k}")
        self.fn.active = b.bits_mask(self.lanes, self.width)

    def _latch(self, loop: Loop) -> None:
        b, header = self.b, loop.header
        lanes = self._read_mask(self._mask(header))
        with b.when(b.compare("ne", lanes, 0)):
            with b.when(stop_flag(b)):
                abort(self.fn, self.loop_site(header), lanes)
            point = next((p for p in self.points if p.operation is None and p.block == header), None)
            if point is None:
                b.jump(f"B{header}")
                return
            iterations = b.value(f"load i32, ptr %spins{header}", "i32")
            b.line(f"store i32 {b.add(iterations, 1).text}, ptr %spins{header}")
            with b.when(b.compare("ult", iterations, SPIN_LIMIT)):
                b.jump(f"B{header}")
            b.line(f"store {self.bits} 0, ptr {self._mask(header)}")
            self._suspend(point, lanes)

    # --- the ends of blocks

    def _terminate(self, n: int) -> None:
        b = self.b
        block = self.cfg.blocks[n]
        end = block.terminator
        if end is None:
            if block.successors:
                self._send(block.successors[0], self.lanes)
            return
        if self.waits(end):
            self._barrier(n, end)
            return
        taken, rest = self.lanes, None
        if end.guard is not None:
            taken, rest = self._split(end)
        assert isinstance(end, Instruction)
        if end.opcode == "bra":
            self._branch(n, taken, rest)
        elif end.opcode == "brx":
            self._indexed(n, block.successors, end)
        else:
            if end.opcode == "trap":
                trap(self.fn, end, taken)
            if end.opcode in ("exit", "trap") or self.fn.function.is_entry:
                old = self._read_mask("%exited")
                b.line(f"store {self.bits} {b.op('or', old, taken).text}, ptr %exited")
            if rest is not None and block.successors:
                self._send(block.successors[0], rest)

    def _branch(self, n: int, taken: Value, rest: Value | None) -> None:
        """Send lanes from the end of a block to its successors. ``rest``: those that do not branch."""
        b, targets = self.b, self.cfg.blocks[n].successors
        arms = self._arms.at(n)
        if arms is not None and rest is not None:
            everyone = b.compare("eq", self.lanes, EVERYONE)
            both = b.land(b.compare("ne", taken, 0), b.compare("ne", rest, 0))
            with b.when(b.land(everyone, both)):
                self._side_by_side(n, arms, taken, rest)
        self._choose(n, 0, targets[0], taken)
        if rest is not None and len(targets) > 1:
            self._choose(n, 1, targets[1], rest)

    def _side_by_side(self, n: int, arms: Arms, taken: Value, rest: Value) -> None:
        """Emit both sides of a branch for all lanes of a warp, and their join if it may follow at once."""
        self._arms.write(arms, taken, rest, self._run_block)
        before, self.lanes, last = self.lanes, self.b.const(self.bits, EVERYONE), n
        if self._arms.continues(n, arms):
            last = arms.join
            self._run_block(last, self.lanes, lambda name: False)
            self._terminate(last)
        else:
            self._send(arms.join, self.lanes)
        self.lanes = before
        self.b.jump(f"K{self.cfg.order.index(last)}")

    def _split(self, end: Operation) -> tuple[Value, Value]:
        """The lanes for which the guard holds, and the others."""
        b = self.b
        assert end.guard is not None
        for observer in self.fn.observers:
            observer.branches(end, end.guard)
        condition = self.fn.load(end.guard.name, "pred")
        if condition.lanes == self.width:
            bits = b.mask_bits(condition)
        else:
            bits = b.value(f"sext i1 {condition.text} to {self.bits}", self.bits)
        if end.negated:
            bits = b.invert(bits)
        taken = b.op("and", self.lanes, bits)
        return taken, b.op("xor", self.lanes, taken)

    def _choose(self, n: int, k: int, target: int, lanes: Value) -> None:
        """Send lanes from the end of a block to its successor number ``k``."""
        self._mark_skips(self._skips.away.get((n, k), ()), lanes, True)
        self._mark_skips(self._skips.toward.get((n, k), ()), lanes, False)
        self._send(target, lanes)

    def _mark_skips(self, barriers: Iterable[int], lanes: Value, skip: bool) -> None:
        """Note that lanes skip barriers, or that they do not."""
        b = self.b
        for barrier in barriers:
            suspended, mask = point_address(b, self._barriers[barrier]).text, b.resize(lanes, "i32")
            old = load_field(b, SuspendedLanes, suspended, SuspendedLanes.skipped)
            new = b.lor(old, mask) if skip else b.land(old, b.invert(mask))
            store_field(b, SuspendedLanes, suspended, SuspendedLanes.skipped, new)

    def _indexed(self, n: int, targets: tuple[int, ...], end: Instruction) -> None:
        """``brx.idx``; an index past the end is undefined, and those lanes take the last target."""
        b = self.b
        for observer in self.fn.observers:
            observer.branches(end, end.operands[0])
        index = b.splat(self.fn.read(end, end.operands[0], TYPES["u32"]))
        left = self.lanes
        for k, target in enumerate(targets):
            if k == len(targets) - 1:
                self._choose(n, k, target, left)
            else:
                here = b.op("and", left, b.mask_bits(b.compare("eq", index, k)))
                self._choose(n, k, target, here)
                left = b.op("xor", left, here)

    def _barrier(self, n: int, end: Operation) -> None:
        point = next(p for p in self.points if p.operation is end)
        lanes = self.lanes
        if end.guard is not None:
            lanes, rest = self._split(end)
            self._choose(n, skips.PAST, point.block, rest)
            self.lanes = lanes
        if point.arrival.kind == "warp" and self.width == WARP:
            self._unless_here(point, lanes)
        else:
            self._suspend(point, lanes)

    def _unless_here(self, point: SuspensionPoint, lanes: Value) -> None:
        """Execute a warp-level operation at once if all lanes in its member mask are here; else suspend them."""
        b, fn = self.b, self.fn
        end = point.operation
        assert isinstance(end, Instruction)
        before = fn.active
        fn.active = b.bits_mask(lanes, self.width)
        named = warp_emulation.members(fn, end)
        absent = b.land(named, b.invert(b.resize(lanes, "i32")))
        with b.if_(b.compare("eq", absent, 0), LIKELY) as all_here:
            EFFECTS[end.opcode](fn, end)
            fn.active = before
            self._send(point.block, lanes)
        with all_here.else_():
            if self.meetings.has(point):
                fn.active = before
                self.meetings.wait(point, lanes, named)
            else:
                self._suspend(point, lanes)

    # --- suspending lanes

    def _suspend(self, point: SuspensionPoint, lanes: Value) -> None:
        b = self.b
        self.suspender.save(point, lanes)
        # The usual case: every lane that entered the function is here. Checking all suspension points at the end
        # was three quarters of the time of a scan with 15 barriers.
        leave, stay = b.fresh("leave"), b.fresh("partly")
        everyone = b.compare("eq", lanes, Value("%mask", self.bits))
        b.branch(everyone, leave, stay)
        b.label(leave)
        self.suspender.report(point, lanes)
        self._outcome(b.const("i32", point.number + 1), leave)
        b.label(stay)
        mine = f"%w{point.number}"
        both = b.op("or", self._read_mask(mine), lanes)
        b.line(f"store {self.bits} {both.text}, ptr {mine}")

    def _finish(self) -> None:
        """Add the suspended lanes to the state, and record where they are."""
        b = self.b
        if not self.fn.function.is_entry:
            b.leave(self._read_mask("%exited"))
            return
        for point in self.points:
            if self.meetings.has(point):
                self.meetings.save(point)
        b.jump("outcome")
        b.label("outcome")
        code = b.const("i32", 0)
        for point in self.points:
            lanes = self._read_mask(f"%w{point.number}")
            self.suspender.report(point, lanes)
            here = b.compare("ne", lanes, 0)
            first = b.compare("eq", code, 0)
            number = b.select(first, b.const("i32", point.number + 1), b.const("i32", -1))
            # Lanes that do not wait at any point have exited: the scheduler must look at the records (SEVERAL).
            whole = b.compare("eq", lanes, Value("%mask", self.bits))
            number = b.select(whole, number, b.const("i32", -1))
            code = b.select(here, number, code)
        self._outcome(code, "outcome")

    def _outcome(self, code: Value, block: str) -> None:
        """End the vector's turn with an outcome. ``block``: the current LLVM block."""
        self.outcomes.append((code.text, block))
        self.b.jump("over")


ATTRIBUTES = 'alignstack(64) "min-legal-vector-width"="512" "prefer-vector-width"="512"'
