"""The queue in which a vector keeps its asynchronous copies, from ``cp.async`` until the wait for them."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from kcheck.alignment import align_up
from kcheck.dataclass import dataclass
from kcheck.ptx.ir.builder import Builder, Value
from kcheck.ptx.ir.function import FunctionBuilder
from kcheck.ptx.ir.records import Record, load_lanes, store_lanes
from kcheck.ptx.syntax.ast import Instruction

_LEAST, _MOST = 64, 512
_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class CopyQueue:
    """The layout of a vector's queue: a head, then a ring buffer of ``capacity`` records.

    Attributes:
        offset: of the queue in the vector's state.
    """

    offset: int
    width: int
    capacity: int

    @property
    def head(self) -> type[ctypes.Structure]:
        """The fields of the head: ``oldest``, the number of the oldest record; ``count``, how many there are;
        ``groups``, how many groups each lane has committed."""
        return _head(self.width)

    @property
    def copy(self) -> type[ctypes.Structure]:
        """The fields of a record. For each lane: ``target`` and ``source``, the ``amount`` of bytes to read, and
        the ``group`` of the copy. For all lanes: the ``size`` to write in bytes, the ``lanes`` whose copy is not
        made yet, as bits, and the ``site``."""
        return _copy(self.width)

    @property
    def size(self) -> int:
        """Bytes of the queue."""
        return ctypes.sizeof(self.head) + self.capacity * ctypes.sizeof(self.copy)

    def head_of(self, f: FunctionBuilder) -> Record:
        """The head, in a function with a parameter ``warp``."""
        return Record(f, f.offset(f.argument("warp"), self.offset), self.head)

    def copy_of(self, f: FunctionBuilder, number: Value) -> Record:
        """The record with a number."""
        first = f.offset(f.argument("warp"), self.offset + ctypes.sizeof(self.head))
        return Record(f, first, self.copy)[f.term(number) & (self.capacity - 1)]

    def committed(self, b: Builder) -> Value:
        """How many groups each lane has committed, i32, in the code of a vector."""
        return load_lanes(b, self.head, self._head_address(b), self.head.groups)

    def commit(self, b: Builder, groups: Value) -> None:
        """Set how many groups each lane has committed."""
        store_lanes(b, self.head, self._head_address(b), self.head.groups, groups)

    def clear(self, b: Builder) -> None:
        """Empty the queue, when a vector begins."""
        b.line(f"store [{ctypes.sizeof(self.head)} x i8] zeroinitializer, ptr {self._head_address(b)}")

    def _head_address(self, b: Builder) -> str:
        return b.value(f"getelementptr i8, ptr %warp, i64 {self.offset}", "ptr").text


@functools.cache
def _head(width: int) -> type[ctypes.Structure]:
    numbers = ctypes.c_uint32 * width
    counts = [("oldest", ctypes.c_uint32), ("count", ctypes.c_uint32)]
    return _structure("QueueHead", [*_padded(counts), ("groups", numbers)])


@functools.cache
def _copy(width: int) -> type[ctypes.Structure]:
    addresses, numbers = ctypes.c_uint64 * width, ctypes.c_uint32 * width
    of_lanes = [("target", addresses), ("source", addresses), ("amount", numbers), ("group", numbers)]
    return _structure("QueuedCopy", [*of_lanes, *((name, ctypes.c_uint32) for name in ("size", "lanes", "site"))])


def _structure(name: str, fields: list[tuple[str, Any]]) -> type[ctypes.Structure]:
    """A structure whose size is padded to a multiple of the alignment."""
    return type(name, (ctypes.Structure,), {"_fields_": _padded(fields)})


def _padded(fields: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    size = ctypes.sizeof(type("Fields", (ctypes.Structure,), {"_fields_": fields}))
    unused = align_up(size, _ALIGNMENT) - size
    return [*fields, (f"unused{size}", ctypes.c_uint8 * unused)] if unused else fields


def capacity(copies: int) -> int:
    """Records for a pipeline of four stages in a kernel with this many copies in its code: a power of two."""
    return min(max(1 << (4 * copies - 1).bit_length(), _LEAST), _MOST)


def is_copy(instruction: Instruction) -> bool:
    """Whether an instruction begins an asynchronous copy."""
    return instruction.opcode == "cp" and "global" in instruction.modifiers
