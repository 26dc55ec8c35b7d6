"""The structures that the code of a kernel and its scheduler share: suspended lanes, and the state of a block."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import field

from kcheck.alignment import align_up
from kcheck.dataclass import dataclass
from kcheck.ptx.abi import Block
from kcheck.ptx.ir.builder import Builder, Value
from kcheck.ptx.ir.function import Array, FunctionBuilder, Term
from kcheck.ptx.ir.records import Record
from kcheck.ptx.ir.signature import Definition, Signature
from kcheck.ptx.program import SchedulerVariant

WARP = 32

HEAD_BYTES = align_up(ctypes.sizeof(Block), 64)
"""The offset of the vectors' states in a block's state."""

KINDS = {"block": 0, "grid": 1, "spin": 2, "warp": 3}
"""What lanes may wait for at a suspension point, with its number in KIND_TABLE."""

KIND_TABLE, SITE_TABLE = "@kcheck.kinds", "@kcheck.places"
"""By suspension point: what lanes wait for there, and its site."""

PLAIN_TABLE = "@kcheck.plain"
"""By suspension point: whether the threads of a block wait there only for each other."""

STRICT_TABLE, ALIGNED_TABLE, MEETING_TABLE = "@kcheck.strict", "@kcheck.aligned", "@kcheck.meets"
"""By suspension point: whether all threads of a block must reach the same barrier; whether all threads of a
warp must reach it together; and the first of the points at which lanes may meet those at this one."""

ORDERS_TABLE = "@kcheck.orders"
"""By suspension point: whether it orders the memory accesses of the lanes of a warp that meet there."""


class SuspendedLanes(ctypes.Structure):
    """The lanes of one vector at one suspension point, as bits. The state of a vector begins with one record for
    each point."""

    _fields_ = [
        ("waiting", ctypes.c_uint32),
        ("released", ctypes.c_uint32),  # lanes that continue now
        ("barrier", ctypes.c_uint32),  # the number of the barrier that they wait for
        ("expected", ctypes.c_uint32),  # threads that it waits for; 0: all
        ("exited", ctypes.c_uint32),  # unused here
        ("skipped", ctypes.c_uint32),  # lanes that skipped this barrier of the block
    ]


class SuspendedCollective(ctypes.Structure):
    """The same record if the lanes wait for others of their warp."""

    _fields_ = [
        ("waiting", ctypes.c_uint32),
        ("released", ctypes.c_uint32),
        ("members", ctypes.c_uint32),  # the member mask of the instruction
        ("participants", ctypes.c_uint32),  # the lanes of the warp that participate; 0: not complete yet
        ("exited", ctypes.c_uint32),  # lanes that had exited when the last ones arrived
        ("skipped", ctypes.c_uint32),  # unused here
    ]


POINT_BYTES = ctypes.sizeof(SuspendedLanes)


class KernelShape(ctypes.Structure):
    """What the scheduler knows about a kernel: a constant in the kernel's module, named SHAPE."""

    _fields_ = [
        ("points", ctypes.c_uint64),  # number of suspension points
        ("vector_bytes", ctypes.c_uint64),  # of one vector's state
        ("posted", ctypes.c_uint64),  # where lanes that work together post operands in that state …
        ("taken", ctypes.c_uint64),  # … where the copy of these operands is …
        ("posted_bytes", ctypes.c_uint64),  # … and their size
        ("unwritten", ctypes.c_uint64),  # the part of the state to fill with ones when a block begins …
        ("unwritten_bytes", ctypes.c_uint64),  # … and its size
        ("axis", ctypes.c_uint64),  # index in AXES: along which axis the threads of a vector are neighbors
        ("reserved", ctypes.c_uint64),  # bytes at the start of shared memory that are 0 when a block begins
        ("joins", ctypes.c_uint64),  # whether INTERIOR can run several blocks
    ]


SHAPE = "@kcheck.shape"


@dataclass(frozen=True, slots=True)
class SchedulerModule:
    """The module of a scheduler that is being emitted.

    Attributes:
        variant: of the scheduler; ``declarations``: of its module, extended here.
    """

    variant: SchedulerVariant
    declarations: dict[str, str] = field(default_factory=dict)

    @property
    def width(self) -> int:
        """Lanes per vector."""
        return self.variant.width

    @property
    def vectors_of_warp(self) -> int:
        """The number of vectors in a warp."""
        return WARP // self.width

    def shape(self, f: FunctionBuilder) -> Record:
        """The record that describes the kernel."""
        self.declarations[SHAPE] = f"{SHAPE} = external constant i64"
        return Record(f, f.address_of(SHAPE), KernelShape)

    def table(self, f: FunctionBuilder, name: str) -> Array:
        """A table of the kernel by suspension point."""
        self.declarations[name] = f"{name} = external constant i32"
        return f.array(f.address_of(name), "i32")

    def run(self, f: FunctionBuilder, function: Signature, /, **arguments: Value | int) -> Term:
        """Call a function of the kernel's module."""
        self.declarations[function.name] = function.declaration
        return f.run(function, **arguments)


ABORTED, DONE, SEVERAL = -2, 0, -1
"""What a kernel's function returns: the launch was stopped; all lanes have exited; not all lanes are at the same
suspension point. Otherwise it returns the number of the point at which all lanes are, plus 1."""

VECTOR_BYTES = Signature("@kcheck.vector.bytes", "i64", {})
"""The size of a vector's state, for code that is emitted before it is known."""


def vector_bytes_ir(size: int) -> Definition:
    """The function VECTOR_BYTES, which is always inlined."""
    f = FunctionBuilder(VECTOR_BYTES, "alwaysinline")
    f.ret(size)
    return f.definition()


def kernel_signature(width: int) -> Signature:
    """The signature of the kernel's function.

    It takes the state, first thread and lanes of a vector; the suspension point to resume from, plus 1, or 0 to
    begin; and ``end``: it also runs all lanes of the following vectors, up to this thread. If ``end`` is 0, it
    runs only the one vector.
    """
    parameters = dict.fromkeys(("launch", "worker", "block", "state"), "ptr")
    parameters |= {"first": "i32", "lanes": f"i{width}", "stop": "i32", "end": "i32"}
    return Signature("@kcheck.warp", "i32", parameters)


INTERIOR = Signature(
    "@kcheck.interior",
    "i32",
    {**dict.fromkeys(("launch", "worker", "block", "state"), "ptr"), "end": "i32", "count": "i32"},
)
"""The kernel for interior blocks (:mod:`kcheck.ptx.lowering.interior`): it runs ``count`` of them, neighbors along
the axis from ``block`` on, with ``end`` threads each.

It returns how many threads of each block it has run: all, or for a single block those of its whole vectors; 0 if
not all blocks are interior blocks.
"""


def point_address(b: Builder, point: int) -> Value:
    """A pointer to the record of the lanes at a suspension point, in the state ``%warp`` of a vector."""
    return b.value(f"getelementptr i8, ptr %warp, i64 {point * POINT_BYTES}", "ptr")


def lanes_from(b: Builder, first: Value, threads: Value, width: int) -> Value:
    """The lanes, as bits, of the vector that begins at thread ``first`` of a block with this many threads."""
    left = b.sub(threads, first)
    is_whole = b.compare("uge", left, width)
    some = b.shift("shl", b.const("i64", 1), b.resize(b.land(left, width - 1), "i64"))
    element = f"i{width}"
    return b.select(is_whole, b.const(element, -1), b.resize(b.sub(some, 1), element))


def table_ir(name: str, numbers: Sequence[int]) -> str:
    """A table by suspension point, for the scheduler."""
    entries = ", ".join(f"i32 {number}" for number in numbers or (0,))
    return f"{name} = constant [{max(len(numbers), 1)} x i32] [{entries}]"


STATE = {"vectors": "ptr", "n": "i32"}
"""The parameters for :class:`BlockState`: the states of all vectors, and the number of threads."""


@dataclass(frozen=True, slots=True)
class BlockState:
    """The suspended lanes of a block, in a function that is being emitted."""

    code: FunctionBuilder
    scheduler: SchedulerModule

    @property
    def width(self) -> int:
        """Lanes per vector."""
        return self.scheduler.width

    @property
    def shape(self) -> Record:
        """The record that describes the kernel."""
        return self.scheduler.shape(self.code)

    @property
    def points(self) -> Term:
        """How many suspension points the kernel has."""
        return self.shape.load(KernelShape.points).to("i32")

    @property
    def threads(self) -> Term:
        """The number of threads in the block."""
        return self.code.argument("n")

    def vector(self, number: Term) -> Term:
        """The state of a vector."""
        return self.code.offset(
            self.code.argument("vectors"), number.to("i64") * self.shape.load(KernelShape.vector_bytes)
        )

    def lanes(self, vector: Value, point: Value | int) -> Record:
        """The lanes of a vector at a suspension point."""
        return Record(self.code, vector, SuspendedLanes)[point]

    def collective(self, vector: Value, point: Value | int) -> Record:
        """The lanes of a vector at a suspension point where they wait for others of their warp."""
        return Record(self.code, vector, SuspendedCollective)[point]

    def table(self, name: str) -> Array:
        """A table by suspension point."""
        return self.scheduler.table(self.code, name)

    @contextlib.contextmanager
    def each_vector(self) -> Iterator[Term]:
        """A loop over the numbers of the vectors."""
        with self.code.range((self.threads + (self.width - 1)) // self.width) as number:
            yield number

    @contextlib.contextmanager
    def each_point(self) -> Iterator[Term]:
        """A loop over the numbers of the suspension points."""
        with self.code.range(self.points) as point:
            yield point

    @contextlib.contextmanager
    def each_warp(self) -> Iterator[Term]:
        """A loop over the numbers of the warps."""
        with self.code.range((self.threads + (WARP - 1)) // WARP) as warp:
            yield warp

    @contextlib.contextmanager
    def each_vector_of(self, warp: Term) -> Iterator[tuple[Term, Term]]:
        """A loop over the vectors of a warp: the state of each, and the number of its first lane in the warp."""
        with self.code.range(self.scheduler.vectors_of_warp) as part:
            number = warp * self.scheduler.vectors_of_warp + part
            with self.code.if_(number * self.width < self.threads):
                yield self.vector(number), part * self.width
