"""The registers of a function that is being lowered, and values that are computed once.

Registers are allocas (LLVM's SROA turns them into SSA values), of a vector of W lanes or, where the uniformity
analysis found all lanes equal, of one scalar. An instruction writes under the mask of the lanes that execute it;
there is no blend with the old value if the register cannot be live in another lane.

A read gets the value that was written if the code before it determines that. Most registers are only read that
way: nothing loads from their allocas, so these and the stores to them are left out in the end
(:meth:`Registers.needed`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from kcheck.ptx.ir.builder import Builder, Value, vector_type
from kcheck.ptx.ir.flow import FlowBuilder
from kcheck.ptx.ir.records import load_field
from kcheck.ptx.lowering import special
from kcheck.ptx.lowering.affine import AffineValue
from kcheck.ptx.lowering.affine import uniform as uniform_value
from kcheck.ptx.lowering.block_values import BlockValue, Steps
from kcheck.ptx.lowering.module import ModuleLowering
from kcheck.ptx.syntax.types import TYPES


class SlotLine(str):
    """A line about the alloca of a register, which is needed only if something loads from the alloca."""

    slot: str
    __slots__ = ("slot",)

    def __new__(cls, slot: str, text: str) -> SlotLine:
        """The line. ``slot``: the alloca."""
        line = str.__new__(cls, text)
        line.slot = slot
        return line


class Registers:
    """The registers of one function.

    Attributes:
        b: the builder of the current code.
        prologue: the function's entry block, for values that are needed anywhere.
        each: the code after it that runs once for each vector, for values that depend on the vector.
        uniform: registers that are one scalar.
        all_ones: integer registers that begin with all bits set; all others begin with 0.
        strides: registers that are one scalar too, the first lane's value, with the step to the next lane.
        affine_values: registers that are two scalars during an iteration of a loop
            (:mod:`kcheck.ptx.lowering.loop_versioning`).
        block_values: registers that are known for a whole block (:mod:`kcheck.ptx.lowering.interior_version`).
        used_steps: the steps of the block values that were read.
        row: the code that runs once for each row of threads of such a block, along its axis.
        first_lane: whether operands are read as the first lane's value, because the result has a stride.
        active: the lanes that execute the current instruction, an i1 value.
        guard: the guard of the current instruction, if it is the same for all lanes.
    """

    def __init__(self, unit: ModuleLowering, uniform: frozenset[str]) -> None:
        self.unit = unit
        self.width = unit.width
        self.b = FlowBuilder(unit.width, unit.declarations, unit.definitions)
        self.prologue = Builder(unit.width, unit.declarations, unit.definitions, "p", self.b.references)
        self.each = Builder(unit.width, unit.declarations, unit.definitions, "e", self.b.references)
        self.uniform = uniform
        self.all_ones: frozenset[str] = frozenset()
        self.strides: Mapping[str, int] = {}
        self.affine_values: dict[str, AffineValue] = {}
        self.block_values: Mapping[str, BlockValue] = {}
        self.used_steps: set[Steps] = set()
        self.row = Builder(unit.width, unit.declarations, unit.definitions, "r", self.b.references)
        self.first_lane = False
        self.active = Value("true", "i1")
        self.guard: Value | None = None
        self._slots: dict[str, str] = {}
        self._loaded: set[str] = set()
        self._cached: dict[str, Value] = {}

    # --- values that are computed once

    def cached(self, key: str, make: Callable[[Builder], Value]) -> Value:
        """A value computed once, in the entry block: it is the same for all vectors."""
        if key not in self._cached:
            self._cached[key] = make(self.prologue)
        return self._cached[key]

    def cached_for_each(self, key: str, make: Callable[[Builder], Value]) -> Value:
        """A value computed once for each vector."""
        if key not in self._cached:
            self._cached[key] = make(self.each)
        return self._cached[key]

    def field(self, record: type[ctypes.Structure], descriptor: Any, index: int = 0, element: str = "") -> Value:
        """A field of Launch, Worker or Block, or an element of it, read once at entry. ``element``: the type to
        load it as, if that is not an integer."""

        def make(p: Builder) -> Value:
            pointer = f"%{record.__name__.lower()}"
            hints = ", !invariant.load !1"
            return load_field(p, record, pointer, descriptor, index, element=element, hints=hints)

        return self.cached(f"{record.__name__}+{descriptor.offset}[{index}]:{element}", make)

    def lane_numbers(self) -> Value:
        """0, 1, … W-1."""
        return self.b.lanes_const("i32", range(self.width))

    # --- registers

    def _slot(self, register: str, kind: str) -> str:
        """The alloca of a register."""
        if register not in self._slots:
            name = f"%R{len(self._slots)}"
            element = vector_type(TYPES[kind].llvm, 1 if self.is_scalar(register) else self.width)
            self.prologue.lines.append(SlotLine(name, f"  {name} = alloca {element}"))
            first = _ones(element) if register in self.all_ones else _zero(element)
            self.each.lines.append(SlotLine(name, f"  store {element} {first}, ptr {name}"))
            self._slots[register] = name
        return self._slots[register]

    def needed(self, lines: Iterable[str]) -> list[str]:
        """The lines without those about allocas that nothing loads from, once all code has been emitted."""
        loaded = self._loaded
        return [line for line in lines if type(line) is not SlotLine or line.slot in loaded]

    def is_scalar(self, register: str) -> bool:
        """Whether one scalar holds a register for all lanes."""
        return register in self.uniform or register in self.strides

    def load(self, register: str, kind: str) -> Value:
        """The value of a register, of its declared type."""
        line = self.affine_values.get(register) or self.line_of_block(register)
        if line is not None:
            return line.first if self.first_lane or line.uniform else self.lanes_of(line)
        value = self.load_slot(register, kind)
        stride = self.strides.get(register, 0)
        if stride == 0 or self.first_lane:
            return value
        return self.b.add(value, self.b.lanes_const(value.type, [n * stride for n in range(self.width)]))

    def line_of_block(self, register: str) -> AffineValue | None:
        """A register in the current vector, from its value for the whole block; None if that is unknown."""
        value = self.block_values.get(register)
        if value is None:
            return None
        self.used_steps.add(value.steps)
        if value.is_uniform:
            return uniform_value(value.first)
        kind, axis = value.first.type, "xyz".index(self.unit.axis)
        first = self.cached_for_row(f"{register} in row", lambda p: self._in_row(p, value))
        step = value.steps[axis]
        if step is None:
            return uniform_value(first)
        place = self.b.resize(Value("%place", "i32"), kind)
        first = self.b.add(first, place if step.text == "1" else self.b.mul(place, step))
        if register in self.strides:
            return AffineValue(first, self.b.const(kind, self.strides[register]))
        return uniform_value(first) if register in self.uniform else AffineValue(first, step)

    def _in_row(self, p: Builder, value: BlockValue) -> Value:
        """The value in the first thread of the current row of the block."""
        first, kind = value.first, value.first.type
        for axis, step in zip("xyz", value.steps, strict=False):
            if axis != self.unit.axis and step is not None:
                key = f"{axis} {kind} {step.text}"
                first = p.add(first, self.cached_for_row(key, partial(self._along_row, axis=axis, step=step)))
        return first

    def _along_row(self, p: Builder, *, axis: str, step: Value) -> Value:
        return p.mul(p.resize(self.index_of_row(axis), step.type), step)

    def index_of_row(self, axis: str) -> Value:
        """The index of the current row of threads along an axis other than its own, i32."""
        return self.cached_for_row(axis, lambda p: special.thread_index(p, axis, 1, "%from"))

    def cached_for_row(self, key: str, make: Callable[[Builder], Value]) -> Value:
        """A value computed once for each row of threads, in a version for interior blocks."""
        key = f"row {key}"
        if key not in self._cached:
            self._cached[key] = make(self.row)
        return self._cached[key]

    def lanes_of(self, line: AffineValue) -> Value:
        """An affine value as a vector of W lanes."""
        b = self.b
        if line.uniform:
            return b.splat(line.first)
        return b.add(line.first, b.mul(line.step, b.lanes_const(line.step.type, range(self.width))))

    def load_slot(self, register: str, kind: str) -> Value:
        """The value in a register's alloca: of all lanes, or of the first lane if it has a stride."""
        b = self.b
        known = b.known.get(register)
        if known is None:
            lanes = 1 if self.is_scalar(register) else self.width
            element = TYPES[kind].llvm
            slot = self._slot(register, kind)
            self._loaded.add(slot)
            known = b.value(f"load {vector_type(element, lanes)}, ptr {slot}", element, lanes)
            b.known.learn(register, known)
        return known

    def store_slot(self, register: str, kind: str, value: Value) -> None:
        """Set the register's alloca. ``value``: as :meth:`load_slot` returns it."""
        b, slot = self.b, self._slot(register, kind)
        assert b.is_open
        b.lines.append(SlotLine(slot, f"  store {b.typed(value)}, ptr {slot}"))
        if value.text.startswith("%"):
            b.known.learn(register, value)
        else:  # what is lowered must not depend on whether a constant is known
            b.known.forget(register)

    def store(self, register: str, kind: str, value: Value, blend: bool) -> None:
        """Set a register, in the active lanes only if ``blend``."""
        b = self.b
        if not self.is_scalar(register):
            value = b.splat(value)
            if blend:
                value = b.select(self.active, value, self.load(register, kind))
        else:
            value = b.extract(value, self.first_active()) if value.lanes > 1 else value
            if self.guard is not None:
                value = b.select(self.guard, value, self.load(register, kind))
        self.store_slot(register, kind, value)

    # --- masks

    def active_bits(self) -> Value:
        """The active lanes as an integer of W bits."""
        return self.b.mask_bits(self.b.splat(self.active))

    def first_active(self) -> Value:
        """The number of the first active lane, as i32 (0 if there is none)."""
        if self.width == 1:
            return self.b.const("i32", 0)
        bits = self.active_bits()
        count = self.b.flagged_intrinsic("cttz", bits, False)
        return self.b.land(self.b.resize(count, "i32"), self.width - 1)


def _ones(element: str) -> str:
    """All bits set, as a constant of an integer or of a vector of integers."""
    if not element.startswith("<"):
        return "-1"
    lanes, _, integer = element.strip("<>").partition(" x ")
    return f"<{', '.join([f'{integer} -1'] * int(lanes))}>"


def _zero(element: str) -> str:
    return (
        "zeroinitializer" if element.startswith("<") else "0.0" if element in ("half", "float", "double") else "0"
    )
