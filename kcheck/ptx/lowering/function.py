"""One function being lowered: its operands, addresses, the arguments of calls, and masks.

Control flow is in :mod:`kcheck.ptx.lowering.warp`, registers are in :mod:`kcheck.ptx.lowering.registers`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping

from kcheck.errors import PtxError
from kcheck.ptx.abi import Launch, Worker
from kcheck.ptx.analysis.lane_limits import LaneLimit
from kcheck.ptx.analysis.nans import Nans
from kcheck.ptx.ir.builder import Builder, Value
from kcheck.ptx.ir.signature import Signature
from kcheck.ptx.isa.events import Carrier, Observer
from kcheck.ptx.isa.interleaved import InterleavedAccesses
from kcheck.ptx.isa.surroundings import AdmittedLanes, Rows
from kcheck.ptx.lowering import special
from kcheck.ptx.lowering.affine import AffineLoop
from kcheck.ptx.lowering.module import ModuleLowering
from kcheck.ptx.lowering.registers import Registers
from kcheck.ptx.lowering.streams import RowStreams, room
from kcheck.ptx.runtime.lookup import VECTOR
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


def function_signature(name: str, width: int, function: Function, *, carries: bool) -> Signature:
    """The LLVM signature of a function that is not a kernel.

    The arguments are the vector of the caller, the mask of the calling lanes, the offset of the function's local
    memory, and for each parameter and result the address of the lanes' values; with ``carries`` also the address
    of their companions. It returns the mask of the lanes that exited.
    """
    outside = range(len(function.params) + len(function.returns))
    parameters = {**VECTOR, "mask": f"i{width}", "frame": "i64"}
    for kind in ("param", "pshadow") if carries else ("param",):
        parameters |= {f"{kind}{i}": "ptr" for i in outside}
    return Signature(name, f"i{width}", parameters)


MOST_STRIDE = 1 << 20
"""The largest stride, in bytes, of an access that is checked by its first and its last lane."""


class FunctionLowering(Registers):
    """The state of lowering one function.

    Attributes:
        affine_loops: loops that get a second version with affine values, by header.
        streams: loads of lanes that may each read a row of an array.
        limits: comparisons of an index with a number that is the same in all lanes, by ``id``.
        covered: accesses (by ``id``) that were checked for the whole block.
        inside: loads from shared memory (by ``id``) that need no check, in any lane: they were tested before.
        interleaved: the accesses that are done as one range, while these are lowered.
        skipped: instructions (by ``id``) that are not lowered: their results are known for the whole block.
        all_on: whether it is known that all lanes execute the current instruction.
        lacks_lanes: whether covered accesses were checked for the active lanes only.
        inlining: an attribute of calls of vector accesses: ``noinline`` where a loop has a faster version.
        blend: whether writing a register must keep its old value in other lanes; None: it must.
        in_loop: whether the current instruction may run several times.
        exits: the lanes that exited the kernel in the call just lowered.
        left: emits code that computes the exited lanes; None where they are unknown: in a function that is not a
            kernel, and in a vector of fewer lanes than a warp.
        unread: registers that no instruction of the function reads.
        constants: registers that only one instruction writes, with a literal.
        observers: those of the sanitizers. ``carrier``: the one that keeps companions in memory.
        symbols: registers that only one instruction writes, with the address of a symbol.
        halves: by register with the address of a 32-bit word, of which an atomic updates 8 or 16 bits: the
            register with the address of these bits.
        nans: where it is visible which NaN a register holds; None: nowhere.
        rows: for an ``ldmatrix``, what the lanes loaded before; None: it must load them itself.
        param_offsets: of a kernel: the offset of each parameter.
        local_offsets: the offset of each local variable in the function's frame of ``local_bytes`` bytes.
    """

    def __init__(
        self, unit: ModuleLowering, function: Function, uniform: frozenset[str], param_offsets: dict[str, int]
    ) -> None:
        super().__init__(unit, uniform)
        self.function = function
        self.param_offsets = param_offsets
        self.affine_loops: Mapping[int, AffineLoop] = {}
        self.limits: Mapping[int, LaneLimit] = {}
        self.streams = RowStreams()
        self.covered: frozenset[int] = frozenset()
        self.inside: frozenset[int] = frozenset()
        self.skipped: frozenset[int] = frozenset()
        self.all_on = self.lacks_lanes = False
        self.inlining = ""
        self.rows: Rows | None = None
        self.interleaved: InterleavedAccesses | None = None
        self.in_loop = False
        self.blend: Callable[[str], bool] | None = None
        self.exits: Value | None = None
        self.left: Callable[[], Value] | None = None
        self.unread: frozenset[str] = frozenset()
        self.constants: Mapping[str, int] = {}
        self.observers: tuple[Observer, ...] = ()
        self.carrier: Carrier | None = None
        self.symbols: Mapping[str, Symbol] = {}
        self.halves: Mapping[str, Register] = {}
        self._sums: dict[str, tuple[int, Register]] = {}
        self.nans: Nans | None = None
        self.local_offsets: dict[str, int] = {}
        self.local_bytes = 0
        self._arrays: dict[str, str] = {}

    def watch(self, observers: Iterable[Observer]) -> None:
        """Let observers watch this function; at most one of them is a carrier."""
        self.observers = tuple(observers)
        self.carrier = next((observer for observer in self.observers if isinstance(observer, Carrier)), None)

    def stream(self, operation: Instruction) -> str | None:
        """A pointer to the stream that a load belongs to; None if it has no stream."""
        number = self.streams.loads.get(id(operation))
        return None if number is None or self.in_affine_loop else room(number)

    @property
    def in_affine_loop(self) -> bool:
        """Whether the current code is the version of a loop in which indices are scalars."""
        return bool(self.affine_values)

    def fail(self, operation: Instruction | Call, what: str) -> PtxError:
        """The error to raise for an instruction."""
        text = operation.mnemonic if isinstance(operation, Instruction) else "call"
        return self.unit.fail(operation.line, f"{text}: {what}")

    # --- operands

    def store(self, register: str, kind: str, value: Value, blend: bool) -> None:
        """Set a register, in the active lanes only if ``blend``."""
        for name in [name for name, (_, part) in self._sums.items() if register in (name, part.name)]:
            del self._sums[name]
        super().store(register, kind, value, blend)

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
            raise self.fail(operation, "the result must be a register")
        declared = TYPES[target.type]
        if declared.llvm != value.type:
            if (declared.kind == "pred") != (value.type == "i1"):
                raise self.fail(operation, f"{target.name} is .{declared.name}, but the result is .{kind.name}")
            if declared.bits == value.bits:
                value = b.bitcast(value, declared.llvm)
            elif declared.bits > value.bits and relaxed:
                wide = b.resize(b.as_integer(value), f"i{declared.bits}", kind.kind == "signed")
                value = b.bitcast(wide, declared.llvm)
            else:
                raise self.fail(operation, f"{target.name} is .{declared.name}, but the result is .{kind.name}")
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
                raise self.fail(operation, f"the address of {source.name} does not fit in .{kind.name}")
            return b.resize(value, kind.llvm)
        raise self.fail(operation, "this kind of operand is not allowed here")

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
                base = self.field(Worker, Worker.shared)
                return self.b.add(base, unit.shared[name] + symbol.offset)
            if name in unit.globals:
                table = self.field(Launch, Launch.globals, element="ptr")

                def make(p: Builder) -> Value:
                    pointer = p.value(f"getelementptr i64, ptr {table.text}, i64 {unit.globals[name]}", "ptr")
                    return p.value(f"load i64, ptr {pointer.text}, !invariant.load !1", "i64")

                base = self.cached(f"global {name}", make)
                return self.b.add(base, symbol.offset) if symbol.offset else base
        if name in self.param_offsets and self.function.is_entry:
            base = self.field(Launch, Launch.params)
            return self.b.add(base, self.param_offsets[name] + symbol.offset)
        if name in unit.functions:
            return self.b.const("i64", unit.function_address(name))
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

        A 32-bit register holds the low half of a shared or local address; the upper half is restored.
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
            elif value.type == "i32" and space == "local":
                value = self._near(self.local_address(0), value)
            elif value.type != "i64":
                value = b.resize(value, "i64")
        return b.add(value, operand.offset) if operand.offset else value

    def within_word(self, operand: Operand) -> Value | None:
        """The address of the 8 or 16 bits that an atomic on a 32-bit word updates; None for any other access."""
        base = operand.base if isinstance(operand, Address) and not operand.offset else None
        narrow = self.halves.get(base.name) if isinstance(base, Register) else None
        return None if narrow is None else self.load(narrow.name, narrow.type)

    def shared_address(self, low: Value) -> Value:
        """The host address in the shared window whose low half is an i32."""
        return self._near(self.field(Worker, Worker.shared), low)

    def _near(self, base: Value, low: Value) -> Value:
        """The address within 2 GB of ``base`` whose low half is an i32."""
        b = self.b
        distance = b.sub(low, b.resize(base, "i32"))
        return b.add(base, b.resize(distance, "i64", signed=True))

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
        """The offset of a shared address from the start of the window, i64, if the code computes it; else None.

        LLVM knows the range of such an offset better than that of the address.
        """
        base = operand.base if isinstance(operand, Address) else None
        if not isinstance(base, Register) or base.name not in self._sums:
            return None
        assert isinstance(operand, Address)
        start, part = self._sums[base.name]
        return self.b.add(self.load(part.name, part.type), start + operand.offset)

    def first_address(
        self, operation: Instruction, operand: Operand, space: str, size: int
    ) -> tuple[Value, int] | None:
        """The first lane's address, and the stride to the next lane in bytes, if that is the same for all lanes
        and a multiple of ``size``; else None."""
        base = operand.base if isinstance(operand, Address) else None
        if not isinstance(base, Register):
            return None
        if base.name in self.affine_values:  # checked when the iteration begins
            if self.affine_values[base.name].uniform:
                return None
            stride = size
        else:
            stride = self.strides.get(base.name, 0)
            if stride == 0 or stride % size or abs(stride) > MOST_STRIDE:
                return None
        self.first_lane = True
        address = self.address(operation, operand, space)
        self.first_lane = False
        return address, stride

    def admitted(self, operation: Instruction, operand: Operand) -> AdmittedLanes | None:
        """The addresses of an access that was checked for the whole block; None if it was not."""
        if id(operation) not in self.covered:
            return None
        assert isinstance(operand, Address)
        assert isinstance(operand.base, Register)
        line = self.line_of_block(operand.base.name)
        assert line is not None
        step = line.step if line.step.text.startswith("%") else int(line.step.text)
        first = self.b.add(line.first, operand.offset) if operand.offset else line.first
        return AdmittedLanes(first, step, self.all_on, self.lacks_lanes)

    # --- arguments of calls

    def param_bytes(self, name: str) -> int:
        """Bytes of a ``.param`` in all lanes."""
        outside = (v for v in (*self.function.params, *self.function.returns) if v.name == name)
        variable = self.function.variables.get(name) or next(outside)
        return (variable.count or 0) * TYPES[variable.type].bytes * self.width

    def param_array(self, name: str) -> str:
        """The memory of a function's or a call's ``.param``: each offset times W, for W lanes."""
        return self._array_of(name, "param", self.param_bytes(name), self.each)

    def param_companion(self, name: str) -> str:
        """The memory of the companions of a ``.param``: as many bytes, then as many for their flags."""
        return self._array_of(name, "pshadow", 2 * self.param_bytes(name), self.prologue)

    def _array_of(self, name: str, prefix: str, size: int, zeroing: Builder) -> str:
        """The function's own argument with this prefix, or zeroed memory for an argument of a call."""
        key = f"{prefix} {name}"
        if key not in self._arrays:
            outside = [v.name for v in (*self.function.params, *self.function.returns)]
            if name in outside:
                self._arrays[key] = f"%{prefix}{outside.index(name)}"
            else:
                pointer = f"%A{len(self._arrays)}"
                self.prologue.line(f"{pointer} = alloca [{size} x i8], align 64")
                zeroing.line(f"store [{size} x i8] zeroinitializer, ptr {pointer}")
                self._arrays[key] = pointer
        return self._arrays[key]

    # --- context

    def context(self, site: int) -> str:
        """The arguments that outlined functions take last."""
        return f"{', '.join(f'{kind} %{name}' for name, kind in VECTOR.items())}, i32 {site}"

    def access_context(self, site: int) -> str:
        """The arguments that checked accesses take last."""
        if self.unit.sites[site].space != "shared":
            return self.context(site)
        window, extent = self.field(Worker, Worker.shared), self.shared_extent()
        if site in self.unit.bounds:
            offset, size = self.unit.bounds[site]
            window, extent = self.b.add(window, offset), self.b.const("i64", size)
        return f"{self.context(site)}, {self.b.typed(window)}, {self.b.typed(extent)}"

    def shared_extent(self) -> Value:
        """The bytes of the shared window that an access may touch without a lookup: a constant, if the code has no
        dynamic shared memory."""
        static = self.unit.shared_bytes
        if not self.unit.dynamic_shared:
            return self.b.const("i64", static)
        dynamic = self.field(Launch, Launch.dynamic_shared)
        return self.cached("extent", lambda p: p.add(p.resize(dynamic, "i64"), static))
