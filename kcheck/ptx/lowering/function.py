"""One function being lowered: its registers, operands and masks.

Control flow is in :mod:`kcheck.ptx.lowering.warp`. Registers are allocas (LLVM's SROA makes SSA values of them),
of a vector of W lanes or, where the uniformity analysis found all lanes equal, of one scalar. An instruction
writes under the mask of the lanes that execute it; there is no blend with the old value if the register cannot be
live in another lane.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping

from kcheck.errors import PtxError
from kcheck.ptx.abi import Launch, Worker
from kcheck.ptx.analysis.nans import Nans
from kcheck.ptx.ir.builder import Builder, Value, vector_type
from kcheck.ptx.isa.events import Carrier, Observer
from kcheck.ptx.isa.surroundings import Rows
from kcheck.ptx.lowering import special
from kcheck.ptx.lowering.affine import AffineLoop, AffineValue
from kcheck.ptx.lowering.module import FUNCTION_IDS, ModuleLowering
from kcheck.ptx.syntax.ast import (
    Address,
    Call,
    Float,
    Function,
    Instruction,
    Integer,
    Not,
    Operand,
    Register,
    Sink,
    Special,
    Symbol,
)
from kcheck.ptx.syntax.types import TYPES, PtxType

CONTEXT = "ptr %launch, ptr %worker, ptr %block, ptr %warp, i32 %t0"
"""The first parameters of every lowered function; outlined accesses take ``i32 %site`` as well."""


class FunctionLowering:
    """The state of lowering one function.

    Attributes:
        b: where instructions go.
        prologue: the function's entry block, for values that are needed anywhere.
        each: what runs after it for each vector of a turn, for values that depend on the vector.
        uniform: registers that are one scalar.
        strides: registers also held as one scalar, the first lane's, with the step to each next lane.
        lines: registers that are two scalars for now, in an iteration of a loop
            (:mod:`kcheck.ptx.lowering.loop_versioning`).
        line_loops: loops that get a version for lanes in a line, by header.
        inlining: the end of calls of vector accesses: `` noinline`` where a loop has a faster version.
        first_lane: whether operands are read as the value of the first lane: the result has a stride.
        active: the lanes that execute the current instruction, an i1 value.
        blend: whether writing a register must keep its old value in other lanes; None: it must.
        in_loop: whether the current instruction may run several times.
        guard: the guard of the current instruction, if it is the same for all lanes.
        exits: the lanes that exited the kernel in the call just lowered.
        left: writes instructions for the exited lanes; None where they are unknown: in a function, and where a
            vector is less than the warp, so that lanes run one after another.
        unread: registers that no instruction of the function reads.
        constants: registers that only one instruction writes, with a literal.
        observers: what watches the function: sanitizers. ``carrier``: the one with companions in memory.
        symbols: registers that only one instruction writes, with the address of a symbol.
        nans: where it is visible which NaN a register holds; None: nowhere.
        rows: for an ``ldmatrix``, what the lanes loaded before; None: it must load them itself.
        param_offsets: of a kernel: the offset of each parameter.
        local_offsets: the offset of each local variable in the function's fn, of ``local_bytes`` bytes.
    """

    def __init__(
        self, unit: ModuleLowering, function: Function, uniform: frozenset[str], param_offsets: dict[str, int]
    ) -> None:
        self.unit = unit
        self.function = function
        self.width = unit.width
        self.b = Builder(unit.width, unit.declarations, unit.definitions)
        self.prologue = Builder(unit.width, unit.declarations, unit.definitions, prefix="p")
        self.each = Builder(unit.width, unit.declarations, unit.definitions, prefix="e")
        self.uniform = uniform
        self.param_offsets = param_offsets
        self.strides: Mapping[str, int] = {}
        self.lines: dict[str, AffineValue] = {}
        self.line_loops: Mapping[int, AffineLoop] = {}
        self.inlining = ""
        self.rows: Rows | None = None
        self.first_lane = False
        self.in_loop = False
        self.active = Value("true", "i1")
        self.blend: Callable[[str], bool] | None = None
        self.exits: Value | None = None
        self.left: Callable[[], Value] | None = None
        self.guard: Value | None = None
        self.unread: frozenset[str] = frozenset()
        self.constants: Mapping[str, int] = {}
        self.observers: tuple[Observer, ...] = ()
        self.carrier: Carrier | None = None
        self.symbols: Mapping[str, Symbol] = {}
        self._sums: dict[str, tuple[int, Register]] = {}
        self.nans: Nans | None = None
        self.local_offsets: dict[str, int] = {}
        self.local_bytes = 0
        self._arrays: dict[str, str] = {}
        self._slots: dict[str, str] = {}
        self._cached: dict[str, Value] = {}

    def watch(self, observers: Iterable[Observer]) -> None:
        """Let observers watch this function; at most one of them is a carrier."""
        self.observers = tuple(observers)
        self.carrier = next((observer for observer in self.observers if isinstance(observer, Carrier)), None)

    @property
    def in_affine_loop(self) -> bool:
        """Whether this is the version of a loop in which indices are scalars."""
        return bool(self.lines)

    def fail(self, operation: Instruction | Call, what: str) -> PtxError:
        """The error to raise for an instruction."""
        text = operation.mnemonic if isinstance(operation, Instruction) else "call"
        return self.unit.fail(operation.line, f"{text}: {what}")

    # --- values needed anywhere

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

    def field(self, struct_name: str, offset: int, element: str) -> Value:
        """A field of ``launch``, ``worker`` or ``block``, read once at entry."""

        def make(p: Builder) -> Value:
            pointer = p.value(f"getelementptr i8, ptr %{struct_name}, i64 {offset}", "ptr")
            return p.value(f"load {element}, ptr {pointer.text}, !invariant.load !1", element)

        return self.cached(f"{struct_name}+{offset}:{element}", make)

    def lane_numbers(self) -> Value:
        """0, 1, … W-1."""
        return self.b.lanes_const("i32", range(self.width))

    # --- registers

    def slot(self, register: str, kind: str) -> str:
        """The alloca of a register."""
        if register not in self._slots:
            name = f"%R{len(self._slots)}"
            element = vector_type(TYPES[kind].llvm, 1 if self.is_scalar(register) else self.width)
            self.prologue.lines.append(f"  {name} = alloca {element}")
            self.each.lines.append(f"  store {element} {_zero(element)}, ptr {name}")
            self._slots[register] = name
        return self._slots[register]

    def is_scalar(self, register: str) -> bool:
        """Whether one scalar holds a register for all lanes."""
        return register in self.uniform or register in self.strides

    def load(self, register: str, kind: str) -> Value:
        """The value of a register, of its declared type."""
        line = self.lines.get(register)
        if line is not None:
            return line.first if self.first_lane or line.uniform else self.lanes_of(line)
        value = self.load_slot(register, kind)
        stride = self.strides.get(register, 0)
        if stride == 0 or self.first_lane:
            return value
        return self.b.add(value, self.b.lanes_const(value.type, [n * stride for n in range(self.width)]))

    def lanes_of(self, line: AffineValue) -> Value:
        """The value of a line in each lane."""
        b = self.b
        if line.uniform:
            return b.splat(line.first)
        return b.add(line.first, b.mul(line.step, b.lanes_const(line.step.type, range(self.width))))

    def load_slot(self, register: str, kind: str) -> Value:
        """What a register holds: its value, or its first lane's if it has a stride."""
        lanes = 1 if self.is_scalar(register) else self.width
        element = TYPES[kind].llvm
        slot = self.slot(register, kind)
        return self.b.value(f"load {vector_type(element, lanes)}, ptr {slot}", element, lanes)

    def store(self, register: str, kind: str, value: Value, blend: bool) -> None:
        """Set a register, in the active lanes only if ``blend``."""
        b = self.b
        for name in [name for name, (_, part) in self._sums.items() if register in (name, part.name)]:
            del self._sums[name]
        if not self.is_scalar(register):
            value = b.splat(value)
            if blend:
                value = b.select(self.active, value, self.load(register, kind))
        else:
            value = b.extract(value, self.first_active()) if value.lanes > 1 else value
            if self.guard is not None:
                value = b.select(self.guard, value, self.load(register, kind))
        b.line(f"store {b.typed(value)}, ptr {self.slot(register, kind)}")

    def write(
        self, operation: Instruction | Call, target: Operand, kind: PtxType, value: Value, relaxed: bool
    ) -> None:
        """Write a result of type ``kind`` to a register operand, or discard it.

        Raises:
            PtxError: the operand is not a register, or has another size.
        """
        b = self.b
        if isinstance(target, Sink):
            return
        if not isinstance(target, Register):
            raise self.fail(operation, "the result goes to a register")
        declared = TYPES[target.type]
        if declared.llvm != value.type:
            if (declared.kind == "pred") != (value.type == "i1"):
                raise self.fail(operation, f"{target.name} is .{declared.name}, the result .{kind.name}")
            if declared.bits == value.bits:
                value = b.bitcast(value, declared.llvm)
            elif declared.bits > value.bits and relaxed:
                wide = b.resize(b.as_integer(value), f"i{declared.bits}", kind.kind == "signed")
                value = b.bitcast(wide, declared.llvm)
            else:
                raise self.fail(operation, f"{target.name} is .{declared.name}, the result .{kind.name}")
        blend = operation.guard is not None or self.blend is None or self.blend(target.name)
        self.store(target.name, target.type, value, blend)
        for observer in self.observers:
            observer.written(operation, target.name, value, blend)

    def constant(self, source: Operand) -> int | None:
        """The value of an integer operand if it is a known constant."""
        if isinstance(source, Register):
            return self.constants.get(source.name)
        return source.value if isinstance(source, Integer) else None

    def read(self, operation: Instruction | Call, source: Operand, kind: PtxType, relaxed: bool = False) -> Value:
        """The value of a source operand as type ``kind``.

        Raises:
            PtxError: an operand that such an instruction cannot have, or a register of a different size.
        """
        b = self.b
        if isinstance(source, Register):
            return self._convert(operation, source, self._seen(operation, source), kind, relaxed)
        if isinstance(source, Not):
            if kind.kind != "pred":
                raise self.fail(operation, "'!' is only allowed before a predicate")
            return b.invert(self.load(source.register.name, "pred"))
        if isinstance(source, Integer):
            if kind.kind == "float":
                if kind.bits == 16:
                    return b.bitcast(b.const("i16", source.value), kind.llvm)
                return b.const(kind.llvm, float(source.value))
            return b.const(kind.llvm, source.value)
        if isinstance(source, Float):
            return self._float(operation, source, kind)
        if isinstance(source, Special):
            value = special.read(self, operation, source.name)
            if kind.kind in ("float", "pred", "packed"):
                raise self.fail(operation, f"%{source.name} is an integer")
            return b.resize(value, kind.llvm)
        if isinstance(source, Symbol):
            value = self.address_of(operation, source)
            if kind.bits not in (32, 64) or kind.kind in ("float", "packed"):
                raise self.fail(operation, f"the address of {source.name} does not fit .{kind.name}")
            return b.resize(value, kind.llvm)
        raise self.fail(operation, "expected an operand of another kind")

    def _seen(self, operation: Instruction | Call, source: Register) -> Value:
        """The value of a register, for an operation that may reveal which NaN it is."""
        value = self.load(source.name, source.type)
        return self.b.canonical(value) if self.nans and self.nans.shows(operation, source.name) else value

    def _convert(
        self, operation: Instruction | Call, source: Register, value: Value, kind: PtxType, relaxed: bool
    ) -> Value:
        b = self.b
        declared = TYPES[source.type]
        if declared.llvm == kind.llvm:
            return value
        if (declared.kind == "pred") != (kind.kind == "pred"):
            raise self.fail(operation, f"{source.name} is .{declared.name}, but .{kind.name} is read")
        if declared.bits == kind.bits:
            return b.bitcast(value, kind.llvm)
        if declared.bits > kind.bits and relaxed:
            return b.bitcast(b.resize(b.as_integer(value), f"i{kind.bits}"), kind.llvm)
        raise self.fail(operation, f"{source.name} is .{declared.name}, but .{kind.name} is read")

    def _float(self, operation: Instruction | Call, source: Float, kind: PtxType) -> Value:
        b = self.b
        if kind.bits == source.width and kind.kind in ("float", "bits", "unsigned", "signed", "packed"):
            if kind.kind == "float":
                return b.float_bits(kind.llvm, source.bits)
            return b.const(kind.llvm, source.bits)
        if kind.name == "f32" and source.width == 64:
            number = struct.unpack("<d", source.bits.to_bytes(8, "little"))[0]
            try:
                return b.const("float", number)
            except OverflowError:
                pass
        if kind.name == "f64" and source.width == 32:
            number = struct.unpack("<f", source.bits.to_bytes(4, "little"))[0]
            return b.const("double", number)
        raise self.fail(operation, f"a floating-point literal of {source.width} bits for .{kind.name}")

    # --- addresses

    def address_of(self, operation: Instruction | Call, symbol: Symbol) -> Value:
        """The host address of a variable, parameter or function, as i64."""
        name, unit = symbol.name, self.unit
        if name in self.local_offsets:
            return self.local_address(self.local_offsets[name] + symbol.offset)
        if name in self.function.variables or name in unit.module.variables:
            variable = self.function.variables.get(name) or unit.module.variables[name]
            if variable.space == "shared":
                base = self.field("worker", Worker.shared.offset, "i64")
                return self.b.add(base, unit.shared[name] + symbol.offset)
            if name in unit.globals:
                table = self.field("launch", Launch.globals.offset, "ptr")

                def make(p: Builder) -> Value:
                    pointer = p.value(f"getelementptr i64, ptr {table.text}, i64 {unit.globals[name]}", "ptr")
                    return p.value(f"load i64, ptr {pointer.text}, !invariant.load !1", "i64")

                base = self.cached(f"global {name}", make)
                return self.b.add(base, symbol.offset) if symbol.offset else base
        if name in self.param_offsets and self.function.is_entry:
            base = self.field("launch", Launch.params.offset, "i64")
            return self.b.add(base, self.param_offsets[name] + symbol.offset)
        if name in unit.functions:
            return self.b.const("i64", FUNCTION_IDS + 16 * unit.functions[name])
        raise self.fail(operation, f"{name} has no address here")

    def local_address(self, offset: int) -> Value:
        """The address of a byte of local memory, in each lane."""
        layout = self.unit.local

        def make(p: Builder) -> Value:
            base = p.value("ptrtoint ptr %warp to i64", "i64")
            lanes = p.lanes_const("i64", [layout.offset + i * layout.stride for i in range(self.width)])
            if not self.function.is_entry:
                base = p.add(base, Value("%frame", "i64"))
            return p.add(base, lanes)

        base = self.cached_for_each("local", make)
        return self.b.add(base, offset) if offset else base

    def address(self, operation: Instruction, operand: Operand, space: str) -> Value:
        """The host address that an address operand names, as i64.

        A 32-bit register holds the low half of a shared address; the window's upper half is restored.
        """
        if not isinstance(operand, Address):
            raise self.fail(operation, "expected an address in brackets")
        for observer in self.observers:
            observer.addresses(operation, operand)
        b = self.b
        base = operand.base
        if isinstance(base, Symbol):
            value = self.address_of(operation, base)
        elif isinstance(base, Integer):
            value = b.const("i64", base.value)
        else:
            value = self._seen(operation, base)
            if value.is_float or value.type == "i1" or value.bits < 32:
                raise self.fail(operation, f"{base.name} is not an address")
            if value.type == "i32" and space == "shared":
                value = self.shared_address(value)
            elif value.type != "i64":
                value = b.resize(value, "i64")
        return b.add(value, operand.offset) if operand.offset else value

    def shared_address(self, low: Value) -> Value:
        """The host address in the shared window whose low half is an i32."""
        b = self.b
        window = self.field("worker", Worker.shared.offset, "i64")
        distance = b.sub(low, b.resize(window, "i32"))
        return b.add(window, b.resize(distance, "i64", signed=True))

    def begin_block(self, in_loop: bool) -> None:
        """Forget what is known from earlier instructions."""
        self._sums.clear()
        self.in_loop = in_loop

    def note_sum(self, i: Instruction) -> None:
        """Remember a sum of an address in shared memory and a register, until either changes."""
        if i.opcode != "add" or len(i.operands) != 3 or i.guard is not None:
            return
        target, *parts = i.operands
        for base, other in (parts, parts[::-1]):
            if isinstance(target, Register) and isinstance(base, Register) and isinstance(other, Register):
                if other.name == target.name:  # the added register was overwritten
                    continue
                symbol = self.symbols.get(base.name)
                if symbol is not None and symbol.name in self.unit.shared and other.type.endswith("64"):
                    self._sums[target.name] = (self.unit.shared[symbol.name] + symbol.offset, other)

    def shared_offset(self, operand: Operand) -> Value | None:
        """The offset of a shared address from the start of the window, i64, where the code computes it.

        LLVM knows the range of such an offset better than that of the address.
        """
        base = operand.base if isinstance(operand, Address) else None
        if not isinstance(base, Register) or base.name not in self._sums:
            return None
        assert isinstance(operand, Address)
        start, part = self._sums[base.name]
        return self.b.add(self.load(part.name, part.type), start + operand.offset)

    def first_address(self, operation: Instruction, operand: Operand, space: str, size: int) -> Value | None:
        """The first lane's address, if each next lane's is ``size`` bytes on: elements side by side."""
        base = operand.base if isinstance(operand, Address) else None
        if not isinstance(base, Register):
            return None
        if base.name in self.lines:  # checked when the iteration begins
            if self.lines[base.name].uniform:
                return None
        elif self.strides.get(base.name) != size:
            return None
        self.first_lane = True
        address = self.address(operation, operand, space)
        self.first_lane = False
        return address

    # --- arguments of calls

    def param_bytes(self, name: str) -> int:
        """Bytes of a ``.param`` in all lanes."""
        outside = (v for v in (*self.function.params, *self.function.returns) if v.name == name)
        variable = self.function.variables.get(name) or next(outside)
        return (variable.count or 0) * TYPES[variable.type].bytes * self.width

    def param_array(self, name: str) -> str:
        """The memory of a function's or a call's ``.param``: each offset times W, for W lanes."""
        if name not in self._arrays:
            outside = [v.name for v in (*self.function.params, *self.function.returns)]
            if name in outside:
                self._arrays[name] = f"%param{outside.index(name)}"
            else:
                variable = self.function.variables[name]
                size = (variable.count or 0) * TYPES[variable.type].bytes * self.width
                pointer = f"%A{len(self._arrays)}"
                self.prologue.line(f"{pointer} = alloca [{size} x i8], align 64")
                self.each.line(f"store [{size} x i8] zeroinitializer, ptr {pointer}")
                self._arrays[name] = pointer
        return self._arrays[name]

    def param_companion(self, name: str) -> str:
        """The same for companions: as many bytes, then as many for their flags."""
        key = name + "!"
        if key not in self._arrays:
            outside = [v.name for v in (*self.function.params, *self.function.returns)]
            if name in outside:
                self._arrays[key] = f"%pshadow{outside.index(name)}"
            else:
                size = 2 * self.param_bytes(name)
                pointer = f"%AS{len(self._arrays)}"
                self.prologue.line(f"{pointer} = alloca [{size} x i8], align 64")
                self.prologue.line(f"store [{size} x i8] zeroinitializer, ptr {pointer}")
                self._arrays[key] = pointer
        return self._arrays[key]

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

    def context(self, site: int) -> str:
        """The arguments that outlined functions take last."""
        return f"{CONTEXT}, i32 {site}"

    def access_context(self, site: int) -> str:
        """The arguments that checked accesses take last."""
        if self.unit.sites[site].space != "shared":
            return self.context(site)
        window = self.field("worker", Worker.shared.offset, "i64")
        return f"{self.context(site)}, {self.b.typed(window)}, {self.b.typed(self.shared_extent())}"

    def shared_extent(self) -> Value:
        """How many bytes of the shared window an access may touch without a look-up: the static bytes, which are
        known here, if the code names no others."""
        static = self.unit.shared_bytes
        if not self.unit.dynamic_shared:
            return self.b.const("i64", static)
        dynamic = self.field("launch", Launch.dynamic_shared.offset, "i32")
        return self.cached("extent", lambda p: p.add(p.resize(dynamic, "i64"), static))


def _zero(element: str) -> str:
    return (
        "zeroinitializer" if element.startswith("<") else "0.0" if element in ("half", "float", "double") else "0"
    )
