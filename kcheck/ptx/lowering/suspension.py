"""Suspension points: where lanes of a vector wait, and which of their registers the vector's state saves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial

from kcheck.alignment import align_up
from kcheck.dataclass import dataclass
from kcheck.ptx.analysis import spill_sets
from kcheck.ptx.analysis.cfg import Cfg, is_collective
from kcheck.ptx.analysis.liveness import Liveness, writes
from kcheck.ptx.ir.builder import Value, vector_type
from kcheck.ptx.ir.calls import call
from kcheck.ptx.ir.function import FunctionBuilder
from kcheck.ptx.ir.records import load_field, record, store_field
from kcheck.ptx.ir.signature import Definition, Signature
from kcheck.ptx.isa.barrier import Arrival, arrival, finish_reduction
from kcheck.ptx.lowering import warp_emulation
from kcheck.ptx.lowering.apply import apply
from kcheck.ptx.lowering.function import FunctionLowering
from kcheck.ptx.runtime.layout import POINT_BYTES, WARP, SuspendedCollective, SuspendedLanes, point_address
from kcheck.ptx.syntax.ast import Instruction, Operation
from kcheck.ptx.syntax.types import LLVM_BITS, TYPES


@dataclass(frozen=True, slots=True)
class SuspensionPoint:
    """A place where lanes are suspended.

    Attributes:
        number: from 0; the parameter ``resume`` is one more.
        block: the block in which they resume.
        operation: the barrier, or None for a loop that may spin.
        arrival: what the lanes wait for.
        live: registers to save, by name.
        kept: those of them that are already in the state.
        rematerialized: instructions that compute other registers again when lanes resume.
    """

    number: int
    block: int
    operation: Operation | None
    arrival: Arrival
    live: tuple[str, ...]
    kept: frozenset[str] = frozenset()
    rematerialized: tuple[Operation, ...] = ()


@dataclass(slots=True)
class StateLayout:
    """The bytes of a vector's state: suspended lanes by point, then saved registers, then local memory."""

    points: int
    offsets: dict[str, int] = field(default_factory=dict)
    size: int = 0

    def place(self, key: str, size: int, align: int) -> int:
        """The offset of a saved register, assigned on first use."""
        if key not in self.offsets:
            at = align_up(max(self.size, align_up(self.points * POINT_BYTES, 64)), align)
            self.offsets[key] = at
            self.size = at + size
        return self.offsets[key]


def read_mask(fn: FunctionLowering, name: str) -> Value:
    """A mask in memory, as an integer of as many bits as there are lanes."""
    return fn.b.value(f"load i{fn.width}, ptr {name}", f"i{fn.width}")


_WAITING = Signature("@kcheck.waiting", "i32", {"warp": "ptr", "points": "i32"})
"""The lanes of a vector that wait at any of its suspension points. A function, because each shuffle calls it if a
lane is missing: in a large kernel, shuffles times points would be a large part of the code."""


def _waiting() -> Definition:
    f = FunctionBuilder(_WAITING, "noinline", attributes="cold")
    points = record(f, "warp", SuspendedLanes)
    found, point = f.variable("i32", 0), f.variable("i32", 0)
    with f.loop():
        with f.if_(point.value >= f.argument("points")):
            f.break_()
        found.value = found.value | points[point.value].load(SuspendedLanes.waiting)
        point.value = point.value + 1
    f.ret(found.value)
    return f.definition()


def left(fn: FunctionLowering, points: Sequence[SuspensionPoint], masks: Sequence[str]) -> Value:
    """The lanes of a warp that exited: those that neither run now nor wait at a point, and those in ``masks``."""
    b = fn.b
    there = Value("%mask", "i32")
    if points:
        if _WAITING.name not in fn.unit.definitions:
            fn.unit.definitions[_WAITING.name] = _waiting()
        there = b.lor(there, call(b, _WAITING, warp=Value("%warp", "ptr"), points=len(points)))
    gone = b.invert(there)
    for name in masks:
        gone = b.lor(gone, read_mask(fn, name))
    return gone


def find_points(
    fn: FunctionLowering,
    live: Liveness,
    cfg: Cfg,
    waits: Callable[[Operation], bool],
    spinning: frozenset[int],
) -> tuple[list[SuspensionPoint], dict[str, str]]:
    """The suspension points of a kernel, and the types of the companions that they save; none in other functions.

    Args:
        waits: whether lanes may have to wait at an operation.
        spinning: headers of the loops that may spin.
    """
    if not fn.function.is_entry:
        return [], {}
    rematerialized = spill_sets.rematerialized(cfg, fn.uniform | fn.strides.keys())
    saved: dict[int, tuple[str, ...]] = {}
    again: dict[int, tuple[Operation, ...]] = {}
    for n in cfg.order:
        end = cfg.blocks[n].terminator
        if end is not None and waits(end):
            results = {r.name for r in writes(end)}
            after = [r for r in live.names(cfg.blocks[n].successors[0]) if r not in results or end.guard]
            saved[n] = tuple(r for r in after if r not in rematerialized)
            chains = {id(o): o for r in after if r in rematerialized for o in rematerialized[r]}
            again[n] = tuple(chains.values())
    sure = frozenset(n for n in saved if not (fn.width == WARP and _is_collective(cfg, n)))
    kept = spill_sets.unchanged(cfg, live, saved, sure)
    points: list[SuspensionPoint] = []
    for n, names in saved.items():
        end, after_wait = cfg.blocks[n].terminator, cfg.blocks[n].successors[0]
        assert end is not None
        wanted = Arrival("warp") if _is_collective(cfg, n) else arrival(fn, end)
        points.append(SuspensionPoint(len(points), after_wait, end, wanted, names, kept[n], again[n]))
    for header in sorted(spinning):
        points.append(SuspensionPoint(len(points), header, None, Arrival("spin"), tuple(live.names(header))))
    return _with_companions(fn, live, points)


def _is_collective(cfg: Cfg, n: int) -> bool:
    end = cfg.blocks[n].terminator
    return end is not None and is_collective(end)


def _with_companions(
    fn: FunctionLowering, live: Liveness, points: Sequence[SuspensionPoint]
) -> tuple[list[SuspensionPoint], dict[str, str]]:
    """The points with the companions of the registers that they save, and the types of the companions. A register
    and its companions are always written together."""
    found: list[SuspensionPoint] = []
    types: dict[str, str] = {}
    for point in points:
        more = {name: _companions(fn, name, live.types[name]) for name in point.live}
        of_point = {new: kind for companions in more.values() for new, kind in companions.items()}
        kept = {new for name in point.kept for new in more[name]}
        found.append(replace(point, live=(*point.live, *of_point), kept=point.kept | kept))
        types |= of_point
    return found, types


def _companions(fn: FunctionLowering, name: str, kind: str) -> dict[str, str]:
    """The companions of a register, with their types."""
    found: dict[str, str] = {}
    for observer in fn.observers:
        found.update(observer.companions(name, kind))
    return found


class Suspender:
    """Suspends lanes of a kernel, and resumes them.

    Args:
        types: of the registers.
        state: where they are saved.
    """

    def __init__(self, fn: FunctionLowering, types: Mapping[str, str], state: StateLayout) -> None:
        self.fn = fn
        self.types = types
        self.state = state
        self.width = fn.width

    def save(self, point: SuspensionPoint, lanes: Value) -> None:
        """Save the live registers of waiting lanes; announce the lanes to the barrier, or post their operands."""
        b, fn = self.fn.b, self.fn
        before = fn.active
        fn.active = b.bits_mask(lanes, self.width)
        if point.operation is not None:
            if point.arrival.kind == "warp":
                self._post(point, point.operation)
            else:
                point.arrival.announce(fn, point.operation, lanes, point.number)
        fn.active = before
        self.save_registers(point, lanes)

    def save_registers(self, point: SuspensionPoint, lanes: Value) -> None:
        """Save the live registers of lanes."""
        b, fn = self.fn.b, self.fn
        before, fn.active = fn.active, self.fn.b.bits_mask(lanes, self.width)
        for name in point.live:
            kind = self.types[name]
            if name in point.kept and (self.width == 1 or not fn.is_scalar(name)):
                continue
            value = fn.load_slot(name, kind)
            pointer = self._saved(point, name, value)
            if value.lanes == 1 and self.width > 1:
                b.line(f"store {b.typed(value)}, ptr {pointer}")
            elif value.type == "i1" and self.width > 1:
                bits = b.mask_bits(value)
                kept = b.op("and", read_mask(fn, pointer), b.invert(lanes))
                b.line(f"store i{self.width} {b.op('or', kept, b.op('and', bits, lanes)).text}, ptr {pointer}")
            elif self.width == 1:
                b.line(f"store {b.typed(value)}, ptr {pointer}")
            else:
                kind_text = b.type_of(value)
                stored = b.value(f"load {kind_text}, ptr {pointer}, align 64", value.type, value.lanes)
                value = b.select(fn.active, value, stored)
                b.line(f"store {b.typed(value)}, ptr {pointer}, align 64")
        fn.active = before

    def restore(self, point: SuspensionPoint) -> None:
        """Resume lanes that waited: restore or recompute their registers, and read the result of the operation."""
        b, fn = self.fn.b, self.fn
        for name in point.live:
            kind = self.types[name]
            lanes = 1 if fn.is_scalar(name) else self.width
            element = TYPES[kind].llvm
            shape = Value("", element, lanes)
            pointer = self._saved(point, name, shape)
            if element == "i1" and lanes > 1:
                value = b.bits_mask(read_mask(fn, pointer), self.width)
            else:
                align = 64 if lanes > 1 else max(LLVM_BITS[element] // 8, 1)
                value = b.value(
                    f"load {vector_type(element, lanes)}, ptr {pointer}, align {align}", element, lanes
                )
            fn.store_slot(name, kind, value)
        fn.active = b.bits_mask(Value("%mask", f"i{self.width}"), self.width)
        before, fn.blend = fn.blend, lambda name: False
        for operation in point.rematerialized:
            apply(fn, operation)
        fn.blend = before
        if point.arrival.kind == "warp":
            assert isinstance(point.operation, Instruction)
            warp_emulation.finish(fn, point.operation, self.state.place, point.number)
        elif isinstance(point.operation, Instruction) and "red" in point.operation.modifiers:
            finish_reduction(fn, point.operation, point.number)

    def report(self, point: SuspensionPoint, lanes: Value) -> None:
        """Add lanes to those that wait at a point, in the vector's state."""
        b = self.fn.b
        suspended = point_address(b, point.number)
        old = load_field(b, SuspendedLanes, suspended.text, SuspendedLanes.waiting)
        new = b.lor(old, b.resize(lanes, "i32"))
        store_field(b, SuspendedLanes, suspended.text, SuspendedLanes.waiting, new)

    def _post(self, point: SuspensionPoint, operation: Operation) -> None:
        """Store what the other vectors of the warp need: the operands, the member mask and the exited lanes."""
        b = self.fn.b
        assert isinstance(operation, Instruction)
        named = warp_emulation.members(self.fn, operation)
        suspended = point_address(b, point.number)
        store_field(b, SuspendedCollective, suspended.text, SuspendedCollective.members, named)
        if self.fn.left is not None:
            exited = self.fn.left()
            store_field(b, SuspendedCollective, suspended.text, SuspendedCollective.exited, exited)
        put = partial(warp_emulation.put_in_state, self.fn, self.state.place)
        warp_emulation.post(self.fn, operation, put)

    def _saved(self, point: SuspensionPoint, name: str, value: Value) -> str:
        """The address of a saved register: the same at all points for a vector, one at each point for a scalar."""
        scalar = value.lanes == 1 and self.width > 1
        size = max(LLVM_BITS[value.type] // 8, 1) * (1 if scalar else self.width)
        key = f"{name}@{point.number}" if scalar else name
        offset = self.state.place(key, size, 8 if scalar else 64)
        return self.fn.b.value(f"getelementptr i8, ptr %warp, i64 {offset}", "ptr").text
