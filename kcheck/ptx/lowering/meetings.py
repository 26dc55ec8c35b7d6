"""Lanes of a warp that reach a warp-level operation along different paths meet without the scheduler.

In a vector of a whole warp, lanes that arrive before others *wait*: their operands are kept, and nothing else is
saved, because writes in other blocks keep the registers of waiting lanes (:mod:`kcheck.ptx.analysis.uniformity`).
When the last lane of the member mask arrives, the operation is executed for all of them, and they continue where
their own instruction is. Only if the function ends while lanes wait (another vector must run first, or named lanes
never come) are their registers and operands saved; then the scheduler decides
(:mod:`kcheck.ptx.runtime.warp_rendezvous`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from kcheck.ptx.analysis.convergence import meeting
from kcheck.ptx.ir.builder import Value, vector_type
from kcheck.ptx.ir.calls import call
from kcheck.ptx.ir.function import FunctionBuilder
from kcheck.ptx.ir.records import store_field
from kcheck.ptx.ir.signature import Definition, Signature
from kcheck.ptx.lowering import warp_emulation
from kcheck.ptx.lowering.function import FunctionLowering
from kcheck.ptx.lowering.suspension import Suspender, SuspensionPoint, left, read_mask
from kcheck.ptx.lowering.warp_emulation import Place, WarpView
from kcheck.ptx.runtime.layout import WARP, SuspendedCollective, point_address
from kcheck.ptx.syntax.ast import Instruction
from kcheck.ptx.syntax.types import TYPES

MOST_POINTS = 32
"""With more warp-level operations, lanes that wait are suspended at once: code would grow with the square."""


_MASKS = -1
"""The column of the member masks."""

_READY = Signature("@kcheck.ready", "i32", {"masks": vector_type("i32", WARP), "waiting": "i32"})
"""Of the lanes that wait, those whose mask names only lanes that wait with the same mask."""


def _ready_ir(declarations: dict[str, str]) -> Definition:
    f = FunctionBuilder(_READY, "noinline", WARP, declarations)
    masks, waiting = f.argument("masks"), f.argument("waiting")
    rest, ready = f.variable("i32", waiting), f.variable("i32", 0)
    with f.loop():
        with f.if_(rest.value.eq(0)):
            f.break_()
        mask = f.term(f.extract(masks, f.trailing_zeros(rest.value)))
        same = f.term(f.mask_bits(masks.eq(f.splat(mask)))) & waiting
        rest.value &= ~same
        with f.if_((mask & ~same).eq(0)):
            ready.value |= same
    f.ret(ready.value)
    return f.definition()


class Meetings:
    """The warp-level operations of a kernel at which lanes may meet; none if vectors are narrower than a warp.

    Args:
        gone: the masks of the lanes that exited in this run of the function, by name.
    """

    def __init__(
        self, fn: FunctionLowering, points: Sequence[SuspensionPoint], suspender: Suspender, gone: Sequence[str]
    ) -> None:
        self.fn, self.b, self.points, self.suspender, self.gone = fn, fn.b, points, suspender, gone
        at_warps = [p for p in points if p.arrival.kind == "warp"]
        is_few = fn.width == WARP and len(at_warps) <= MOST_POINTS
        numbers = meeting([point.operation for point in points])
        self.groups: dict[int, list[SuspensionPoint]] = {}
        self.posted: dict[tuple[int, int], Value] = {}  # where what lanes post is kept: an alloca, and its type
        for point in at_warps if is_few else []:
            self.groups.setdefault(numbers[point.number], []).append(point)
        self.group_of = {p.number: g for g, group in self.groups.items() for p in group}
        self.agreed = {g for g, group in self.groups.items() if len({self._mask(p) for p in group}) == 1}
        self.agreed -= {g for g in self.agreed if self._mask(self.groups[g][0]) is None}
        if self.groups:
            for name in ("%ready", *(f"%x{number}" for number in self.group_of)):
                fn.prologue.line(f"{name} = alloca i32")  # always set before it is read
        for group in self.groups:
            self._variable(f"%all{group}", "i32", "0")

    def _mask(self, point: SuspensionPoint) -> int | None:
        """The member mask of a point if it is known, as a signed number; else None."""
        i = point.operation
        assert isinstance(i, Instruction)
        known = -1 if "aligned" in i.modifiers else self.fn.constant(i.operands[-1])
        return None if known is None else (known + (1 << 31)) % (1 << 32) - (1 << 31)

    def _variable(self, name: str, kind: str, first: str) -> None:
        """A variable with a value when the code of a vector begins."""
        self.fn.prologue.line(f"{name} = alloca {kind}")
        self.fn.each.line(f"store {kind} {first}, ptr {name}")

    def mask(self, group: int) -> int | None:
        """The member mask of a group, as a signed number; None if it is unknown or its points have several."""
        return self._mask(self.groups[group][0]) if group in self.agreed else None

    def has(self, point: SuspensionPoint) -> bool:
        """Whether lanes meet at a point."""
        return point.number in self.group_of

    def wait(self, point: SuspensionPoint, lanes: Value, named: Value) -> None:
        """Let lanes wait; if they were the last that are named, continue at ``meet`` and the group's number.

        Args:
            named: the union of their member masks.
        """
        b, fn = self.b, self.fn
        assert isinstance(point.operation, Instruction)
        before, fn.active = fn.active, b.bits_mask(lanes, fn.width)
        group = self.group_of[point.number]
        warp_emulation.post(fn, point.operation, partial(self._put, group))
        if group not in self.agreed:
            self._put(group, _MASKS, fn.read(point.operation, point.operation.operands[-1], TYPES["u32"]))
        fn.active = before
        waiting = f"%w{point.number}"
        b.line(f"store i32 {b.lor(read_mask(fn, waiting), lanes).text}, ptr {waiting}")
        b.line(f"store {b.typed(self._exited())}, ptr %x{point.number}")
        everyone = f"%all{group}"
        together = b.lor(read_mask(fn, everyone), lanes)
        b.line(f"store i32 {together.text}, ptr {everyone}")
        if group in self.agreed:
            is_ready, ready = b.compare("eq", b.land(named, b.invert(together)), 0), together
        else:
            fn.unit.definitions[_READY.name] = _ready_ir(fn.unit.declarations)
            ready = call(b, _READY, masks=self._posted(group, _MASKS, "i32"), waiting=together)
            is_ready = b.compare("ne", ready, 0)
        with b.when(is_ready):
            b.line(f"store {b.typed(ready)}, ptr %ready")
            b.jump(f"meet{group}")

    def _put(self, group: int, column: int, value: Value) -> None:
        """Keep what the active lanes post in a column of a group."""
        b, fn = self.b, self.fn
        kept = self.posted.get((group, column))
        if kept is None:
            own = column < fn.unit.posted_columns
            name = f"%g{group}.masks" if column == _MASKS else f"%g{group}.{column}"
            kept = self.posted[group, column] = Value(name, value.type if own else "i64", WARP)
            self._variable(kept.text, b.type_of(kept), "zeroinitializer")
        old = b.value(f"load {b.type_of(kept)}, ptr {kept.text}", kept.type, WARP)
        new = b.select(fn.active, b.splat(b.resize(value, kept.type)), old)
        b.line(f"store {b.typed(new)}, ptr {kept.text}")

    def _posted(self, group: int, column: int, element: str = "i64") -> Value:
        """What the lanes posted, as integers of a type."""
        kept = self.posted[group, column]
        value = self.b.value(f"load {self.b.type_of(kept)}, ptr {kept.text}", kept.type, WARP)
        return self.b.resize(value, element)

    def _exited(self) -> Value:
        """The lanes that exited since the function began or resumed."""
        found = self.b.const("i32", 0)
        for name in self.gone:
            found = self.b.lor(found, read_mask(self.fn, name))
        return found

    def write(
        self,
        position: Callable[[SuspensionPoint], int],
        send: Callable[[int, Value], None],
        check_stop: Callable[[Instruction, Value], None],
    ) -> None:
        """Emit the code that executes an operation for all lanes that wait for each other.

        Args:
            position: where a point's lanes continue, in the order of blocks.
            send: lets lanes execute a block.
            check_stop: leaves the launch at an instruction if it was stopped.
        """
        b, fn = self.b, self.fn
        for number, group in self.groups.items():
            b.label(f"meet{number}")
            ready = b.value("load i32, ptr %ready", "i32")
            first = group[0].operation
            assert isinstance(first, Instruction)
            check_stop(first, ready)
            left_over = b.land(read_mask(fn, f"%all{number}"), b.invert(ready))
            b.line(f"store {b.typed(left_over)}, ptr %all{number}")
            for point in group:
                assert isinstance(point.operation, Instruction)
                waiting = read_mask(fn, f"%w{point.number}")
                lanes = b.land(waiting, ready)
                with b.when(b.compare("ne", lanes, 0)):
                    b.line(f"store i32 {b.land(waiting, b.invert(ready)).text}, ptr %w{point.number}")
                    fn.active = b.bits_mask(lanes, fn.width)
                    self.execute(point, ready, partial(self._posted, number))
                    send(point.block, lanes)
            b.jump(f"C{min(map(position, group))}")

    def execute(
        self,
        point: SuspensionPoint,
        ready: Value,
        posted: Callable[[int], Value],
        keeps: Callable[[str], bool] | None = None,
    ) -> None:
        """Execute an operation and write its results in the active lanes.

        Args:
            ready: the lanes that take part, as bits.
            posted: the integers that the lanes posted, by number of the column.
            keeps: whether a register must keep its value in other lanes; None: it must.
        """
        assert isinstance(point.operation, Instruction)
        view = _MeetingView(self.fn, point.operation, self.suspender.state.place, posted)
        view.keeps = keeps
        view.execute(point.operation, ready)

    def _named(self, point: SuspensionPoint, lanes: Value) -> Value:
        """The union of the member masks of lanes that wait at a point."""
        b, fn, group = self.b, self.fn, self.group_of[point.number]
        if group in self.agreed:
            return b.const("i32", self._mask(point) or 0)
        masks = b.select(b.bits_mask(lanes, WARP), self._posted(group, _MASKS, "i32"), b.const("i32", 0))
        name = f"@llvm.vector.reduce.or.v{WARP}i32"
        fn.unit.declarations[name] = f"declare i32 {name}(<{WARP} x i32>)"
        return b.invoke(name, "i32", b.typed(masks), "i32")

    def save(self, point: SuspensionPoint) -> None:
        """When the function ends: save the registers of the lanes that wait, for the scheduler."""
        b, fn = self.b, self.fn
        lanes = read_mask(fn, f"%w{point.number}")
        with b.when(b.compare("ne", lanes, 0)):
            suspended = point_address(b, point.number).text
            named = self._named(point, lanes)
            store_field(b, SuspendedCollective, suspended, SuspendedCollective.members, named)
            exited = b.lor(left(fn, self.points, ()), b.value(f"load i32, ptr %x{point.number}", "i32"))
            store_field(b, SuspendedCollective, suspended, SuspendedCollective.exited, exited)
            self.suspender.save_registers(point, lanes)
            before, fn.active = fn.active, b.bits_mask(lanes, fn.width)
            group = self.group_of[point.number]
            for of_group, column in self.posted:
                if of_group == group and column != _MASKS:
                    value = self._posted(group, column)
                    warp_emulation.put_in_state(fn, self.suspender.state.place, column, value)
            fn.active = before


class _MeetingView(WarpView):
    """Reads what lanes posted from where :class:`Meetings` keeps it."""

    def __init__(
        self,
        real: FunctionLowering,
        instruction: Instruction,
        place: Place,
        kept: Callable[[int], Value],
    ) -> None:
        self._kept = kept
        super().__init__(real, instruction, place)
        self.left = real.left

    def posted(self, column: int) -> Value:
        """What each lane posted, as i64. ``column``: the offset of the column."""
        before, self.real.b.lines = self.real.b.lines, self.b.lines
        found = self._kept((column - self.taken) // (8 * WARP))
        self.real.b.lines = before
        return found
