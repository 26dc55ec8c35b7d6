"""Functions that do a read-modify-write for each active lane; ``atom`` and ``red`` are lowered to calls of them.

Plain operations are enough in shared memory, because one OS thread runs a block. Elsewhere the machine's atomic
operations are used, unless the launch has only one worker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kcheck.dataclass import dataclass
from kcheck.ptx.abi import Launch, Worker
from kcheck.ptx.ir.builder import Builder, Value, vector_type
from kcheck.ptx.ir.flow import LIKELY
from kcheck.ptx.ir.function import Array, FunctionBuilder, Term
from kcheck.ptx.ir.lane_groups import lane_groups
from kcheck.ptx.ir.records import record
from kcheck.ptx.ir.signature import Definition, Signature
from kcheck.ptx.isa.floating import ROWS_ADD
from kcheck.ptx.isa.modifiers import flush
from kcheck.ptx.isa.rows import Mods
from kcheck.ptx.syntax.types import PtxType

Combine = Callable[[Builder, PtxType, Value, "tuple[Value, ...]"], Value]


def combination(operation: str) -> Combine:
    """A function that computes the new value in memory from the old value and the operands."""

    def new(b: Builder, kind: PtxType, old: Value, operands: tuple[Value, ...]) -> Value:
        x = operands[0]
        signed = kind.kind == "signed"
        if operation in ("and", "or", "xor"):
            return b.op(operation, old, x)
        if operation == "exch":
            return x
        if operation == "cas":
            return b.select(b.compare("eq", old, x), operands[1], old)
        if operation == "inc":
            return b.select(b.compare("uge", old, x), b.const("i32", 0), b.add(old, 1))
        if operation == "dec":
            wraps = b.lor(b.compare("eq", old, 0), b.compare("ugt", old, x))
            return b.select(wraps, x, b.sub(old, 1))
        if operation in ("min", "max"):
            return b.intrinsic(("s" if signed else "u") + operation, old, x)
        if kind.kind in ("float", "packed"):
            result = ROWS_ADD[kind.name](b, Mods({"T": kind.name}), old, x)
            assert isinstance(result, Value)
            if kind.name == "f64":
                return b.payload((old, x), result)
            return b.canonical(result) if kind.name == "f32" else result
        return b.add(old, x)

    return new


_NATIVE = {"and": "and", "or": "or", "xor": "xor", "exch": "xchg", "inc": "uinc_wrap", "dec": "udec_wrap"}


def _native(operation: str, kind: PtxType) -> str | None:
    """LLVM's equivalent atomicrmw operation, if there is one."""
    if operation in _NATIVE:
        return _NATIVE[operation]
    if kind.kind in ("signed", "unsigned"):
        if operation == "add":
            return "add"
        if operation in ("min", "max"):
            return operation if kind.kind == "signed" else "u" + operation
    return None


@dataclass(frozen=True, slots=True)
class Atomic:
    """What an instruction does to memory: an operation on elements of a type in a space."""

    operation: str
    kind: PtxType
    space: str


def signature(atomic: Atomic, width: int, operands: Sequence[Value], wanted: bool) -> Signature:
    """The signature of its function: addresses, the mask of the active lanes, operands, launch and worker.

    Args:
        width: lanes of the addresses and the mask.
        operands: scalars or vectors of ``width`` lanes.
        wanted: whether the function returns the old values.
    """
    kind = atomic.kind
    shapes = "".join("u" if x.lanes < width else "v" for x in operands)
    name = f"@kcheck.atom.{atomic.space}.{atomic.operation}.{kind.name}.{shapes}{'' if wanted else '.red'}"
    given = {f"x{n}": vector_type(kind.llvm, x.lanes) for n, x in enumerate(operands)}
    return Signature(
        name,
        vector_type(kind.llvm, width) if wanted else "void",
        {"a": vector_type("i64", width), "m": vector_type("i1", width), **given, "launch": "ptr", "worker": "ptr"},
    )


LEAST_PLAIN = {"f32": 2.0**-100, "f64": 0.0}
"""A sum of at least this magnitude needs neither flushing nor the canonical NaN. If it is an f32, the ulp of one
operand is at least 2^-124, so a subnormal operand, below 2^-126, is lost in rounding."""


GROUP = 4
"""How many lanes an iteration of the loop over all lanes handles (:mod:`kcheck.ptx.ir.lane_groups`)."""

_GROUP_FLOATS = 8
"""The same for sums of floats."""


class _OneLane:
    """Emits the operation of one lane in a function with the parameters ``launch`` and ``worker``.

    Args:
        static: bytes of static shared memory.
    """

    def __init__(self, f: FunctionBuilder, atomic: Atomic, static: int) -> None:
        self.f, self.atomic, self.static = f, atomic, static
        self.launch = record(f, "launch", Launch)

    def plain(self, address: Value, operands: Sequence[Value]) -> Term:
        """Load, combine, store; returns the old value."""
        f, kind = self.f, self.atomic.kind
        pointer = f.term(address).to("ptr")
        old = f.load(kind.llvm, pointer, kind.bytes)
        f.store(self._after(address, old, operands), pointer, kind.bytes)
        return old

    def locked(self, address: Value, operands: Sequence[Value]) -> Value:
        """Use the machine's atomic instruction if there is one, otherwise a compare-and-swap loop on the bits;
        returns the old value."""
        f, kind = self.f, self.atomic.kind
        pointer = f.term(address).to("ptr")
        native = _native(self.atomic.operation, kind)
        if native is not None:
            return f.read_modify_write(native, pointer, operands[0], kind.bytes)
        if self.atomic.operation == "cas":
            return f.compare_exchange(pointer, operands[0], operands[1], kind.bytes)[0]
        whole = f"i{kind.bits}"
        seen = f.variable(whole, f.load_monotonic(whole, pointer, kind.bytes))
        with f.loop():
            expected = seen.value
            before = f.bitcast(expected, kind.llvm)
            after = f.bitcast(self._after(address, before, operands), whole)
            found, won = f.compare_exchange(pointer, expected, after, kind.bytes)
            with f.if_(won):
                f.break_()
            seen.value = found
        return f.bitcast(seen.value, kind.llvm)

    def _after(self, address: Value, before: Value, operands: Sequence[Value]) -> Value:
        """The new value at an address. ``add.f32`` flushes subnormals, except in shared memory."""
        f, kind, space = self.f, self.atomic.kind, self.atomic.space
        combine = combination(self.atomic.operation)
        after = combine(f, kind, before, tuple(operands))
        if kind.name == "f32" and self.atomic.operation == "add" and space != "shared":
            flushed = flush(f, combine(f, kind, flush(f, before), tuple(flush(f, x) for x in operands)))
            after = flushed if space == "global" else f.select(self._in_shared(address), after, flushed)
        return after

    def _in_shared(self, address: Value) -> Term:
        """Whether a generic address is in the shared window."""
        f = self.f
        window = record(f, "worker", Worker).load(Worker.shared)
        dynamic = self.launch.load(Launch.dynamic_shared).to("i64")
        return f.term(address) - window < dynamic + self.static


class AtomicFunction:
    """Emits the function of a signature, for vectors of ``width`` lanes.

    If no other thread can interfere (in shared memory, or while the launch has one worker), all lanes are active
    and run in their usual order, one lane follows another without tests and locks; a histogram then takes a third
    of the time. In this case, floats are added with one ``fadd`` if the sum is at least :data:`LEAST_PLAIN`; a
    separate function adds the others.

    Args:
        static: bytes of static shared memory.
    """

    def __init__(self, f: FunctionBuilder, atomic: Atomic, width: int, static: int) -> None:
        self.f, self.atomic, self.width, self.one = f, atomic, width, _OneLane(f, atomic, static)
        names = f.signature.parameters
        self.operands = [f.argument(name) for name in names if name.startswith("x")]
        self.addresses, self.mask = f.argument("a"), f.argument("m")
        self.launch = record(f, "launch", Launch)
        self.wanted = f.signature.result != "void"
        self.results = f.array(Value(f.local(vector_type(atomic.kind.llvm, width)), "ptr"), atomic.kind.llvm)

    def definitions(self) -> list[Definition]:
        """The function, and the one that it calls, if any."""
        f, element = self.f, self.atomic.kind.llvm
        out = Value(self.results.pointer, "ptr")
        if self.wanted:
            f.store(Value("zeroinitializer", element, self.width), out)
        if self.width == 1:
            with f.if_(self.mask):
                self._lane(f.const("i32", 0))
        else:
            order = self.launch.load(Launch.lane_order)
            quiet = order.eq(0)
            if self.atomic.space != "shared":
                quiet = quiet & self.launch.load(Launch.workers).eq(1)
            with f.if_(quiet) as branch:
                self._quiet()
            with branch.else_(), f.range(self.width) as count:
                chosen = count ^ order
                with f.if_(f.extract(self.mask, chosen)):
                    self._lane(chosen)
        if self.wanted:
            f.ret(f.load(element, out, lanes=self.width))
        return [f.definition(), *self._rest()]

    @property
    def _adds_floats(self) -> bool:
        return self.width > 1 and self.atomic.operation == "add" and self.atomic.kind.name in LEAST_PLAIN

    @property
    def _one_signature(self) -> Signature:
        """The signature of the function for one lane, which :meth:`_rest` defines."""
        kind = self.atomic.kind.llvm
        given = {"a": "i64", "x0": kind, "launch": "ptr", "worker": "ptr"}
        return Signature(f"{self.f.signature.name}.one", "void", given)

    def _rest(self) -> list[Definition]:
        """The function for sums that one ``fadd`` does not compute correctly; empty for other operations."""
        if not self._adds_floats:
            return []
        one = FunctionBuilder(
            self._one_signature,
            "noinline",
            declarations=self.f.declarations,
            definitions=self.f.definitions,
            attributes="cold",
        )
        _OneLane(one, self.atomic, self.one.static).plain(one.argument("a"), [one.argument("x0")])
        return [one.definition()]

    def _quiet(self) -> None:
        """The operation in each active lane, in their usual order, while no other thread can interfere."""
        f = self.f
        bits = f.term(f.mask_bits(self.mask))
        group = min(_GROUP_FLOATS if self._adds_floats else GROUP, self.width)
        with (
            f.if_(bits.eq(-1), LIKELY) as whole,
            lane_groups(f, f.local, [self.addresses, *self.operands], group) as (first, lanes),
        ):
            for k, (address, *operands) in enumerate(lanes):
                self._alone(f.term(first) + k, address, operands)
        with whole.else_():
            spilled = [self._spilled(x) for x in (self.addresses, *self.operands)]
            with f.set_bits(bits.to("i32")) as lane:
                address, *operands = (x[lane] if isinstance(x, Array) else x for x in spilled)
                self._alone(lane, address, operands)

    def _spilled(self, value: Value) -> Value | Array:
        """The lanes of a vector, in memory: LLVM stores a vector for each lane that it extracts by a variable."""
        if value.lanes == 1:
            return value
        room = Value(self.f.local(vector_type(value.type, value.lanes), 64), "ptr")
        self.f.store(value, room, 64)
        return self.f.array(room, value.type)

    def _alone(self, lane: Term, address: Value, operands: Sequence[Value]) -> None:
        """The operation in one lane, while no other thread can interfere."""
        old = self._summed(address, operands[0]) if self._adds_floats else self.one.plain(address, operands)
        if self.wanted:
            self.results[lane] = old

    def _summed(self, address: Value, x: Value) -> Term:
        """Add a float to the one at an address; returns the old value."""
        f, kind = self.f, self.atomic.kind
        pointer = f.term(address).to("ptr")
        old = f.load(kind.llvm, pointer, kind.bytes)
        total = f.op("fadd", old, x)
        is_plain = f.compare("oge", f.intrinsic("fabs", total), LEAST_PLAIN[kind.name])
        with f.if_(is_plain, LIKELY) as plain:
            f.store(total, pointer, kind.bytes)
        with plain.else_():
            f.run(self._one_signature, a=address, x0=x, launch=self.launch.pointer, worker=f.argument("worker"))
        return old

    def _lane(self, lane: Value) -> None:
        """The operation in one lane, atomic where other threads may interfere."""
        address = self.f.extract(self.addresses, lane)
        operands = [self.f.extract(x, lane) for x in self.operands]
        old = (
            self.one.plain(address, operands)
            if self.atomic.space == "shared"
            else self.one.locked(address, operands)
        )
        if self.wanted:
            self.results[lane] = old
