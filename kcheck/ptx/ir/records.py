"""Records in memory that the host and the code share: ctypes Structures, read and written by their fields.

``launch.load(Launch.stop)`` is the only way to access a field: its offset and type come from the Structure.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

from kcheck.dataclass import dataclass
from kcheck.ptx.ir.builder import Builder, Value, vector_type
from kcheck.ptx.ir.function import Array, FunctionBuilder, Term


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a Structure: its offset in bytes, the LLVM type of an element, and the number of elements."""

    offset: int
    element: str
    count: int = 1

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return int(self.element[1:]) // 8


def field_of(struct: type[ctypes.Structure], descriptor: Any) -> Field:
    """The offset and type of a field of a Structure: ``field_of(Launch, Launch.stop)``.

    Raises:
        TypeError: a field of another Structure.
    """
    for name, kind, *_ in struct._fields_:
        if getattr(struct, name) is descriptor:
            element: Any = kind._type_ if issubclass(kind, ctypes.Array) else kind
            size = ctypes.sizeof(element)
            return Field(int(descriptor.offset), f"i{8 * size}", ctypes.sizeof(kind) // size)
    raise TypeError(f"{struct.__name__} does not have the field {descriptor}")


def field_address(
    b: Builder, struct: type[ctypes.Structure], pointer: str, descriptor: Any, index: Value | int = 0
) -> Value:
    """The address of a field of the record at ``pointer``, or of an element of it."""
    found = field_of(struct, descriptor)
    if isinstance(index, Value):
        start = b.value(f"getelementptr i8, ptr {pointer}, i64 {found.offset}", "ptr")
        return b.value(f"getelementptr {found.element}, ptr {start.text}, {b.typed(index)}", "ptr")
    offset = found.offset + index * found.size
    return b.value(f"getelementptr i8, ptr {pointer}, i64 {offset}", "ptr")


def load_field(
    b: Builder,
    struct: type[ctypes.Structure],
    pointer: str,
    descriptor: Any,
    index: Value | int = 0,
    *,
    element: str = "",
    hints: str = "",
) -> Value:
    """A field of the record at ``pointer``, or an element of it, in a function that is not a FunctionBuilder.

    Args:
        element: the type to load it as, if that is not an integer: ``ptr``.
        hints: LLVM's metadata.
    """
    address = field_address(b, struct, pointer, descriptor, index)
    element = element or field_of(struct, descriptor).element
    return b.value(f"load {element}, ptr {address.text}{hints}", element)


def store_field(
    b: Builder,
    struct: type[ctypes.Structure],
    pointer: str,
    descriptor: Any,
    value: Value,
    index: Value | int = 0,
) -> None:
    """Set a field of the record at ``pointer``, or an element of it, in a function that is not a
    FunctionBuilder."""
    address = field_address(b, struct, pointer, descriptor, index)
    b.line(f"store {b.typed(value)}, ptr {address.text}")


_ALIGNMENT = 64
"""Alignment in bytes of records whose fields are accessed as vectors."""


def load_lanes(b: Builder, struct: type[ctypes.Structure], pointer: str, descriptor: Any) -> Value:
    """All elements of a field as a vector; the record must be aligned to 64 bytes."""
    found = field_of(struct, descriptor)
    address = field_address(b, struct, pointer, descriptor)
    align = math.gcd(found.offset, _ALIGNMENT)
    kind = vector_type(found.element, found.count)
    return b.value(f"load {kind}, ptr {address.text}, align {align}", found.element, found.count)


def store_lanes(b: Builder, struct: type[ctypes.Structure], pointer: str, descriptor: Any, value: Value) -> None:
    """Set all elements of a field; the record must be aligned to 64 bytes."""
    align = math.gcd(field_of(struct, descriptor).offset, _ALIGNMENT)
    address = field_address(b, struct, pointer, descriptor)
    b.line(f"store {b.typed(value)}, ptr {address.text}, align {align}")


@dataclass(frozen=True, slots=True)
class Record:
    """The record of a Structure at an address, or the first of several."""

    code: FunctionBuilder
    pointer: Value
    struct: type[ctypes.Structure]

    def address(self, descriptor: Any, index: Value | int = 0) -> Term:
        """The address of a field, or of one of its elements."""
        found = field_of(self.struct, descriptor)
        start = self.code.offset(self.pointer, found.offset) if found.offset else self.code.term(self.pointer)
        return Array(self.code, start.text, found.element).at(index)

    def load(self, descriptor: Any, index: Value | int = 0, hints: str = "") -> Term:
        """A field, or one of its elements. ``hints``: LLVM's metadata."""
        element = field_of(self.struct, descriptor).element
        return self.code.value(f"load {element}, ptr {self.address(descriptor, index).text}{hints}", element)

    def store(self, descriptor: Any, value: Value | int, index: Value | int = 0) -> None:
        """Set a field, or one of its elements."""
        value = self.code.operand(value, field_of(self.struct, descriptor).element)
        self.code.store(value, self.address(descriptor, index))

    def add(self, descriptor: Any, value: Value | int, index: Value | int = 0) -> None:
        """Add to a field, or to one of its elements."""
        address = self.address(descriptor, index)
        old = self.code.load(field_of(self.struct, descriptor).element, address)
        self.code.store(old + value, address)

    def lanes(self, descriptor: Any) -> Term:
        """All elements of a field, as :func:`load_lanes`."""
        return self.code.term(load_lanes(self.code, self.struct, self.pointer.text, descriptor))

    def store_lanes(self, descriptor: Any, value: Value) -> None:
        """Set all elements of a field, as :func:`store_lanes`."""
        store_lanes(self.code, self.struct, self.pointer.text, descriptor, value)

    def fetch_add(self, descriptor: Any, value: Value | int) -> Term:
        """Add to a field atomically; returns its old value."""
        found = field_of(self.struct, descriptor)
        value = self.code.operand(value, found.element)
        return self.code.read_modify_write("add", self.address(descriptor), value, found.size, "monotonic")

    def load_shared(self, descriptor: Any) -> Term:
        """A field that another thread may set concurrently."""
        found = field_of(self.struct, descriptor)
        return self.code.load_monotonic(found.element, self.address(descriptor), found.size)

    def store_shared(self, descriptor: Any, value: Value | int) -> None:
        """Set a field that another thread may read concurrently."""
        found = field_of(self.struct, descriptor)
        value = self.code.operand(value, found.element)
        self.code.store_monotonic(value, self.address(descriptor), found.size)

    def pointer_at(self, descriptor: Any, index: Value | int = 0) -> Term:
        """A field that holds an address, or one of its elements."""
        return self.code.load("ptr", self.address(descriptor, index))

    def array(self, descriptor: Any, element: str, index: Value | int = 0) -> Array:
        """The elements at the address that a field holds, or one of its elements."""
        return Array(self.code, self.pointer_at(descriptor, index).text, element)

    def elements(self, descriptor: Any) -> Array:
        """The elements of a field that is an array."""
        return Array(self.code, self.address(descriptor).text, field_of(self.struct, descriptor).element)

    def records(self, descriptor: Any, struct: type[ctypes.Structure]) -> Record:
        """The records at the address that a field holds."""
        return Record(self.code, self.pointer_at(descriptor), struct)

    def pointer_is_null(self) -> Term:
        """Whether there is no record."""
        return self.code.term(self.pointer).eq(0)

    def __getitem__(self, index: Value | int) -> Record:
        """One of several records that follow each other."""
        size = ctypes.sizeof(self.struct)
        if isinstance(index, int):
            return Record(self.code, self.code.offset(self.pointer, index * size), self.struct)
        return Record(
            self.code, self.code.offset(self.pointer, self.code.term(index).to("i64") * size), self.struct
        )


def record(code: FunctionBuilder, name: str, struct: type[ctypes.Structure]) -> Record:
    """The record that a parameter points to."""
    return Record(code, code.argument(name), struct)


def constant(name: str, values: ctypes.Structure) -> str:
    """A record as a constant of a module; its fields have 64 bits."""
    fields = ", ".join(f"i64 {getattr(values, field[0])}" for field in values._fields_)
    return f"{name} = constant [{len(values._fields_)} x i64] [{fields}]"


def new_record(code: FunctionBuilder, struct: type[ctypes.Structure]) -> Record:
    """An uninitialized record on the stack."""
    room = code.local(f"[{ctypes.sizeof(struct)} x i8]", ctypes.alignment(struct))
    return Record(code, Term(code, room, "ptr"), struct)


def same(code: FunctionBuilder, found: Record, fields: Sequence[tuple[Any, Value | int]]) -> Term:
    """Whether all of these fields of a record hold these values."""
    (first, value), *rest = fields
    all_same = found.load(first).eq(value)
    for descriptor, value in rest:
        all_same = all_same & found.load(descriptor).eq(value)
    return all_same
