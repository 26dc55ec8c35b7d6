"""Typed LLVM IR text, one instruction at a time, for any number of lanes.

A :class:`Value` is a scalar (``lanes`` 1, the same for every lane) or a vector of W lanes. Every operation
accepts both kinds in one call and broadcasts the scalars, so that a row of the instruction table is written once
and serves W = 1, W > 1 and warp-uniform values.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from kcheck.dataclass import dataclass
from kcheck.ptx.ir.signature import Definition
from kcheck.ptx.syntax.types import LLVM_BITS

_SUFFIX = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}
_INTEGER_OF = {"half": "i16", "bfloat": "i16", "float": "i32", "double": "i64"}
FLOATS = frozenset(_INTEGER_OF)
"""LLVM's types of floating-point numbers."""

_NAN = {"half": 0x7FFF, "float": 0x7FFFFFFF, "double": 0xFFF8000000000000}
"""A device's result of an invalid operation; the f64 one is in CUDA's math_constants.h."""


@dataclass(slots=True)
class Value:
    """An SSA value or a constant: its text, the LLVM type of an element, and how many lanes it has.

    Nothing changes one. It is not a frozen dataclass because these take twice the time to create.
    """

    text: str
    type: str
    lanes: int = 1

    def __hash__(self) -> int:
        return hash((self.text, self.type, self.lanes))

    @property
    def is_float(self) -> bool:
        """Whether the element type is one of LLVM's floating-point types."""
        return self.type in FLOATS

    @property
    def bits(self) -> int:
        """Bits of an element."""
        return LLVM_BITS[self.type]


def vector_type(element: str, lanes: int) -> str:
    """``float`` for one lane, ``<16 x float>`` for 16."""
    return element if lanes == 1 else f"<{lanes} x {element}>"


def integer_of(element: str) -> str:
    """The integer type with as many bits."""
    return _INTEGER_OF.get(element, element)


class Builder:
    """Collects the instructions of one LLVM function, and the declarations that the module needs for them.

    Args:
        width: lanes of a vector.
        declarations: shared by the functions of a module; filled here.
        definitions: outlined functions of the module by name, shared as well; filled by the callers.
        prefix: the prefix of value names, so that two builders can fill one function.
        references: names with @ of the functions and tables that the function refers to, shared by the builders
            that fill one function; filled here.
    """

    def __init__(
        self,
        width: int,
        declarations: dict[str, str] | None = None,
        definitions: dict[str, Definition] | None = None,
        prefix: str = "v",
        references: set[str] | None = None,
    ) -> None:
        self.width = width
        self.prefix = prefix
        self.lines: list[str] = []
        self.declarations = {} if declarations is None else declarations
        self.definitions = {} if definitions is None else definitions
        self.references = set() if references is None else references
        self._serial = 0

    # --- text

    def line(self, text: str) -> None:
        """An instruction without a result."""
        self.lines.append("  " + text)

    def label(self, name: str) -> None:
        """Begin a basic block."""
        self.lines.append(name + ":")

    def fresh(self, prefix: str = "L") -> str:
        """A name not yet used in this function."""
        self._serial += 1
        return f"{prefix}{self.prefix}{self._serial}"

    def value(self, text: str, element: str, lanes: int = 1) -> Value:
        """An instruction with a result."""
        self._serial += 1
        name = f"%{self.prefix}{self._serial}"
        self.lines.append(f"  {name} = {text}")
        return Value(name, element, lanes)

    def phi(self, element: str, incoming: Sequence[tuple[str, str]], name: str | None = None) -> Value:
        """A phi of (value, label) pairs, one for each predecessor. ``name``: with its %, if given."""
        text = f"phi {element} " + ", ".join(f"[{value}, %{label}]" for value, label in incoming)
        if name is None:
            return self.value(text, element)
        self.line(f"{name} = {text}")
        return Value(name, element)

    def type_of(self, value: Value) -> str:
        """The LLVM type of a value."""
        return vector_type(value.type, value.lanes)

    def typed(self, value: Value) -> str:
        """``<16 x float> %v3``."""
        return f"{vector_type(value.type, value.lanes)} {value.text}"

    # --- constants and shapes

    def const(self, element: str, value: int | float) -> Value:
        """A constant; integers wrap to the element's bits, floats are rounded to the element type.

        Raises:
            OverflowError: a float that the element type cannot hold.
        """
        if element in FLOATS:
            return self.float_bits(element, _encode(element, float(value)))
        if element == "i1":
            return Value("true" if value else "false", "i1")
        bits = LLVM_BITS[element]
        number = int(value) & ((1 << bits) - 1)
        if number >> (bits - 1):
            number -= 1 << bits
        return Value(str(number), element)

    def float_bits(self, element: str, bits: int) -> Value:
        """A floating-point constant from its bits, including the payload of a NaN."""
        if element == "half":
            return Value(f"0xH{bits:04X}", element)
        if element == "bfloat":
            return Value(f"0xR{bits:04X}", element)
        if element == "double":
            return Value(f"0x{bits:016X}", element)
        if bits & 0x7F800000 == 0x7F800000 and bits & 0x7FFFFF:
            return self.bitcast(self.const("i32", bits), "float")
        wide = struct.unpack("<Q", struct.pack("<d", struct.unpack("<f", struct.pack("<I", bits))[0]))[0]
        return Value(f"0x{wide:016X}", element)

    def splat(self, value: Value, lanes: int | None = None) -> Value:
        """A scalar in every lane; a vector unchanged."""
        lanes = self.width if lanes is None else lanes
        if value.lanes == lanes or lanes == 1:
            return value
        if not value.text.startswith("%"):
            return Value(f"splat ({value.type} {value.text})", value.type, lanes)
        kind = vector_type(value.type, lanes)
        one = self.value(f"insertelement {kind} poison, {value.type} {value.text}, i32 0", value.type, lanes)
        return self.value(
            f"shufflevector {kind} {one.text}, {kind} poison, <{lanes} x i32> zeroinitializer", value.type, lanes
        )

    def lanes_const(self, element: str, values: Sequence[int]) -> Value:
        """A vector of integer constants, one for each lane (a scalar for one)."""
        if len(values) == 1:
            return self.const(element, values[0])
        text = ", ".join(f"{element} {v}" for v in values)
        return Value(f"<{text}>", element, len(values))

    def match(self, *values: Value) -> tuple[Value, ...]:
        """The values, with scalars broadcast if any is a vector."""
        lanes = max(v.lanes for v in values)
        return tuple(self.splat(v, lanes) if v.lanes != lanes else v for v in values)

    def extract(self, value: Value, lane: int | Value) -> Value:
        """One lane, as a scalar."""
        if value.lanes == 1:
            return value
        where = f"i32 {lane}" if isinstance(lane, int) else f"{lane.type} {lane.text}"
        return self.value(f"extractelement {self.typed(value)}, {where}", value.type)

    def insert(self, vector: Value, value: Value, lane: int) -> Value:
        """The vector with another value in one lane."""
        text = f"insertelement {self.typed(vector)}, {self.typed(value)}, i32 {lane}"
        return self.value(text, vector.type, vector.lanes)

    def shuffle(self, x: Value, y: Value, places: Sequence[int]) -> Value:
        """A vector of elements of ``x`` (numbered from 0) and ``y`` (from ``x.lanes`` on)."""
        order = ", ".join(f"i32 {place}" for place in places)
        text = f"shufflevector {self.typed(x)}, {self.typed(y)}, <{len(places)} x i32> <{order}>"
        return self.value(text, x.type, len(places))

    # --- operations

    def op(self, name: str, x: Value, y: Value) -> Value:
        """A binary instruction (``add``, ``fmul``, ``lshr``) on two values of one element type."""
        x, y = self.match(x, y)
        assert x.type == y.type, (name, x, y)
        return self.value(f"{name} {self.typed(x)}, {y.text}", x.type, x.lanes)

    def add(self, x: Value, y: Value | int) -> Value:
        """Integer addition."""
        return self.op("add", x, self.const(x.type, y) if isinstance(y, int) else y)

    def sub(self, x: Value, y: Value | int) -> Value:
        """Integer subtraction."""
        return self.op("sub", x, self.const(x.type, y) if isinstance(y, int) else y)

    def mul(self, x: Value, y: Value | int) -> Value:
        """Integer multiplication, the low half."""
        return self.op("mul", x, self.const(x.type, y) if isinstance(y, int) else y)

    def land(self, x: Value, y: Value | int) -> Value:
        """Bitwise and."""
        return self.op("and", x, self.const(x.type, y) if isinstance(y, int) else y)

    def lor(self, x: Value, y: Value | int) -> Value:
        """Bitwise or."""
        return self.op("or", x, self.const(x.type, y) if isinstance(y, int) else y)

    def xor(self, x: Value, y: Value | int) -> Value:
        """Bitwise exclusive or."""
        return self.op("xor", x, self.const(x.type, y) if isinstance(y, int) else y)

    def invert(self, x: Value) -> Value:
        """Bitwise not."""
        return self.xor(x, -1)

    def shift(self, name: str, x: Value, count: int | Value) -> Value:
        """``shl``, ``lshr`` or ``ashr`` by a count below the width."""
        return self.op(name, x, self.const(x.type, count) if isinstance(count, int) else count)

    def fneg(self, x: Value) -> Value:
        """The value with its sign flipped, even if it is a NaN."""
        return self.value(f"fneg {self.typed(x)}", x.type, x.lanes)

    def canonical(self, x: Value) -> Value:
        """The value, or the canonical NaN if it is one. An i32 or i64 holds the bits of an f32 or f64."""
        kind = {"i32": "float", "i64": "double"}.get(x.type, x.type)
        number = self.bitcast(x, kind)
        chosen = self.select(self.compare("uno", number, number), self.float_bits(kind, _NAN[kind]), number)
        return self.bitcast(chosen, x.type)

    def payload(self, sources: Sequence[Value], result: Value) -> Value:
        """A result of f64; if it is a NaN, the first source that is a NaN, made quiet, or the canonical one."""
        chosen = self.float_bits("double", _NAN["double"])
        for source in reversed(sources):
            chosen = self.select(self.compare("uno", source, source), source, chosen)
        quiet = self.bitcast(self.lor(self.as_integer(chosen), 1 << 51), "double")
        return self.select(self.compare("uno", result, result), quiet, result)

    def compare(self, condition: str, x: Value, y: Value | int | float) -> Value:
        """``icmp`` or ``fcmp`` by the element type."""
        if not isinstance(y, Value):
            y = self.const(x.type, y)
        x, y = self.match(x, y)
        assert x.type == y.type, (condition, x, y)
        name = "fcmp" if x.is_float else "icmp"
        return self.value(f"{name} {condition} {self.typed(x)}, {y.text}", "i1", x.lanes)

    def select(self, condition: Value, x: Value, y: Value) -> Value:
        """x where the condition holds, else y."""
        condition, x, y = self.match(condition, x, y)
        return self.value(f"select {self.typed(condition)}, {self.typed(x)}, {self.typed(y)}", x.type, x.lanes)

    def cast(self, name: str, x: Value, element: str) -> Value:
        """A conversion (``zext``, ``trunc``, ``sitofp``, ``fptrunc`` …), unless the types are the same."""
        if x.type == element:
            return x
        return self.value(f"{name} {self.typed(x)} to {vector_type(element, x.lanes)}", element, x.lanes)

    def resize(self, x: Value, element: str, signed: bool = False) -> Value:
        """An integer truncated, sign-extended or zero-extended."""
        have, want = LLVM_BITS[x.type], LLVM_BITS[element]
        if have == want:
            return x
        return self.cast("trunc" if have > want else "sext" if signed else "zext", x, element)

    def bitcast(self, x: Value, element: str) -> Value:
        """The same bits as another type of the same size."""
        return self.cast("bitcast", x, element)

    def as_integer(self, x: Value) -> Value:
        """The bits of a float as an integer."""
        return self.bitcast(x, integer_of(x.type))

    def intrinsic(self, name: str, *arguments: Value, result: str | None = None) -> Value:
        """An LLVM intrinsic whose vector form is overloaded on the first argument (and the result)."""
        values = self.match(*arguments)
        lanes = values[0].lanes
        element = values[0].type if result is None else result
        kinds = [values[0].type] if result is None else [result, values[0].type]
        mangled = f"llvm.{name}" + "".join(f".{mangle(k, lanes)}" for k in kinds)
        return self.call(f"@{mangled}", element, lanes, *values)

    def flagged_intrinsic(self, name: str, x: Value, flag: bool) -> Value:
        """An intrinsic with a constant i1 after its argument: ``ctlz``, ``cttz``."""
        mangled = f"@llvm.{name}.{mangle(x.type, x.lanes)}"
        kind = self.type_of(x)
        self.declarations[mangled] = f"declare {kind} {mangled}({kind}, i1 immarg)"
        return self.invoke(mangled, kind, f"{self.typed(x)}, i1 {str(flag).lower()}", x.type, x.lanes)

    def call(self, function: str, element: str, lanes: int, *arguments: Value) -> Value:
        """A call of a function outside this module, declared by the types of the call."""
        result = vector_type(element, lanes)
        self.declare(function, result, *arguments)
        return self.invoke(function, result, ", ".join(map(self.typed, arguments)), element, lanes)

    def invoke(
        self, function: str, result: str, arguments: str, element: str = "", lanes: int = 1, attributes: str = ""
    ) -> Value:
        """A call of a function that the module defines or declares; it is added to the references.

        Args:
            function: its name with @.
            result: the LLVM type that it returns; ``element``, ``lanes``: of that value.
            arguments: with their types.
            attributes: LLVM's, of the call.

        Returns:
            The result, or a value of type void.
        """
        self.references.add(function)
        return self.invoke_at(function, result, arguments, element, lanes, attributes)

    def invoke_at(
        self, pointer: str, result: str, arguments: str, element: str = "", lanes: int = 1, attributes: str = ""
    ) -> Value:
        """A call of the function at an address; arguments as for :meth:`invoke`."""
        text = f"call {result} {pointer}({arguments})" + (f" {attributes}" if attributes else "")
        if result == "void":
            self.line(text)
            return Value("", "void")
        return self.value(text, element, lanes)

    def address_of(self, name: str) -> Value:
        """The address of a table of the module; it is added to the references."""
        self.references.add(name)
        return Value(name, "ptr")

    def declare(self, function: str, result: str, *arguments: Value) -> None:
        """Declare a function, unless this module defines it."""
        if function not in self.definitions:
            kinds = ", ".join(self.type_of(a) for a in arguments)
            self.declarations[function] = f"declare {result} {function}({kinds})"

    # --- masks

    def mask_bits(self, mask: Value) -> Value:
        """A vector of i1 as an integer of as many bits as it has lanes."""
        if mask.lanes == 1:
            return mask
        return self.value(f"bitcast {self.typed(mask)} to i{mask.lanes}", f"i{mask.lanes}")

    def bits_mask(self, bits: Value, lanes: int) -> Value:
        """The inverse of :meth:`mask_bits`: an integer as a vector of i1."""
        if lanes == 1:
            return bits
        return self.value(f"bitcast {bits.type} {bits.text} to <{lanes} x i1>", "i1", lanes)

    def any(self, mask: Value) -> Value:
        """Whether any lane of an i1 value is set, as a scalar i1."""
        if mask.lanes == 1:
            return mask
        bits = self.mask_bits(mask)
        return self.value(f"icmp ne {bits.type} {bits.text}, 0", "i1")


def mangle(element: str, lanes: int = 1) -> str:
    """A type as LLVM writes it in the names of intrinsics: ``f32``, ``v16f32``."""
    name = _SUFFIX.get(element, element)
    return name if lanes == 1 else f"v{lanes}{name}"


def _encode(element: str, value: float) -> int:
    code = {"half": ("<e", "<H"), "float": ("<f", "<I"), "double": ("<d", "<Q")}[element]
    encoded: int = struct.unpack(code[1], struct.pack(code[0], value))[0]
    return encoded
