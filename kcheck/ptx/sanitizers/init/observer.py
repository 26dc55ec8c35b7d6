"""initcheck while a function is lowered: how each event changes the shadows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from kcheck.ptx.abi import FaultKind
from kcheck.ptx.analysis.liveness import registers
from kcheck.ptx.ir.builder import Value, integer_of, vector_type
from kcheck.ptx.ir.calls import call
from kcheck.ptx.isa.events import Access, AccessGroup, Arrange, Carrier, Companion, Observer, Update
from kcheck.ptx.isa.fragments import MatrixShape
from kcheck.ptx.isa.move import part_of
from kcheck.ptx.lowering.warp_emulation import WarpObserver, WarpView, has_source, posted_kind, sources
from kcheck.ptx.sanitizers.init import groups, warp
from kcheck.ptx.sanitizers.init.memory import UNWRITTEN, unwritten_ir
from kcheck.ptx.sanitizers.init.registers import Shadows, companion_registers
from kcheck.ptx.sanitizers.init.rows import row_shadows
from kcheck.ptx.syntax.ast import Instruction, Operand, Operation, Vector
from kcheck.ptx.syntax.types import PtxType

COLUMNS = 2
"""The values that a lane posts for a warp-level operation: the shadow of the first operand; and bits that say
whether it was computed, and which operands are undefined."""


class ShadowObserver(Shadows, Carrier, WarpObserver):
    """Keeps the shadows of a function's registers, and of values in memory and in arguments of calls."""

    columns = COLUMNS

    # --- registers

    def companions(self, register: str, kind: str) -> dict[str, str]:
        """The shadow, and for some registers a flag."""
        return companion_registers(self.found, register, kind)

    def computes(
        self, i: Instruction, operands: Sequence[Operand], values: Sequence[Value], targets: Sequence[Operand]
    ) -> None:
        """The shadows of a row's results."""
        row_shadows(self, i, operands, values, targets)

    def derives(self, i: Instruction, targets: Sequence[Operand], sources: Sequence[Operand]) -> None:
        """The default rule."""
        self.computed(i, targets, sources)

    def moves(self, i: Instruction, target: Operand, source: Operand, kind: PtxType) -> None:
        """Move the shadow with the bits."""
        b = self.fn.b
        whole = integer_of(kind.llvm)
        if isinstance(source, Vector):
            part = part_of(self.fn, i, source, kind)
            total: Value | None = None
            for n, element in enumerate(source.elements):
                bits = self.bits(element, part)
                if bits is not None:
                    placed = b.shift("shl", b.resize(bits, whole), n * part.bits)
                    total = placed if total is None else b.lor(total, placed)
            self.copied(i, target, total, source.elements)
        elif isinstance(target, Vector):
            part = part_of(self.fn, i, target, kind)
            found = self.bits(source, kind)
            for n, element in enumerate(target.elements):
                piece = None if found is None else b.resize(b.shift("lshr", found, n * part.bits), part.llvm)
                self.copied(i, element, piece, (source,))
        else:
            self.copied(i, target, self.bits(source, kind), (source,))

    # --- uses

    def branches(self, operation: Operation, condition: Operand) -> None:
        """A branch on an undefined value is an error."""
        self.used(operation, FaultKind.UNDEFINED_BRANCH, self.undefined(condition), condition)

    def addresses(self, i: Instruction, operand: Operand) -> None:
        """An access at an undefined address is an error."""
        for register in registers(operand):
            self.used(i, FaultKind.UNDEFINED_ADDRESS, self.undefined(register), register)

    def uses(self, i: Instruction, operand: Operand) -> None:
        """An undefined size or count is an error."""
        self.used(i, FaultKind.UNDEFINED_STORE, self.undefined(operand), operand)

    # --- memory

    def follows(self, i: Instruction) -> bool:
        """Whether an access may read uninitialized bits."""
        return id(i) not in self.defined

    def groups(self, load: Instruction) -> bool:
        """Loads of any type."""
        return True

    def accesses_group(self, group: AccessGroup) -> Value:
        """Whether all elements that the loads read are initialized."""
        fn = self.fn
        ranges = groups.spans(group, fn.width)
        function = groups.initialized_signature(ranges)
        if function.name not in fn.unit.definitions:
            fn.unit.definitions[function.name] = groups.initialized_ir(
                ranges, fn.unit.shared_bytes, fn.unit.declarations
            )
        return call(
            fn.b, function, launch=Value("%launch", "ptr"), worker=Value("%worker", "ptr"), a=group.address
        )

    def fetched(self, i: Instruction, access: Access, slot: str, lanes: int) -> Companion:
        """The shadow of a loaded value. Records the load in lanes where the value is undefined."""
        shadow = self.loaded(slot, access.kind.llvm, lanes)
        self.came(i, access, shadow)
        return Companion(shadow)

    def fetch(self, i: Instruction, access: Access, mask: Value) -> Companion:
        """The shadow of a value that is loaded under a mask; records the load likewise."""
        shadow = self.load(access.space, access.address, mask, access.kind.llvm, access.site)
        self.came(i, access, shadow)
        return Companion(shadow)

    def arrives(self, i: Instruction, target: Operand, companion: Companion | None, signed: bool) -> None:
        """Set the shadow of a register that was loaded."""
        flag = None if companion is None else companion.flag
        made = partial(self.fn.b.const, "i1", 0) if flag is None else lambda: flag
        self.write(i, target, None if companion is None else companion.value, made, signed)

    def updates(self, i: Instruction, update: Update) -> None:
        """An update of undefined memory, or with an undefined operand, is an error; an exchange only copies."""
        b, access, operands = self.fn.b, update.access, update.operands
        space, kind, address = access.space, access.kind, update.addresses
        after = before = b.const(integer_of(kind.llvm), 0)
        if self.follows(i):
            before = self.load(space, address, update.allowed, kind.llvm, access.site)
            self.came(i, Access(address, space, kind, access.site), before)
        if update.operation == "exch":
            after = self.stored(i, operands[0], Access(address, space, kind, access.site))
            self.copied(i, update.target, before, ())
        else:
            self.used(i, FaultKind.UNDEFINED_ATOMIC, self.undefined(*operands), *operands)
            self.copied(i, update.target, None, ())
            if not self.follows(i):
                return  # the memory stays initialized
            self._updates_undefined(i, before, update.allowed)
        self.store(space, address, after, update.allowed, access.site)

    def visits(self, i: Instruction, access: Access, allowed: Value) -> None:
        """An mbarrier object must be initialized."""
        self._updates_undefined(i, self.fetch(i, access, allowed).value, allowed)

    def _updates_undefined(self, i: Instruction, before: Value, allowed: Value) -> None:
        b = self.fn.b
        found = b.land(b.splat(allowed), b.compare("ne", before, 0))
        self.origins.tell(self.fn, i, FaultKind.UNDEFINED_ATOMIC, found, frozenset([id(i)]))

    def constant(self, kind: PtxType, is_defined: bool) -> Value:
        """The shadow of a constant value: no bit is undefined, or all bits are."""
        return self.fn.b.const(integer_of(kind.llvm), 0 if is_defined else -1)

    def allocates(self, address: Value, size: Value) -> None:
        """Mark memory from ``malloc`` as uninitialized."""
        b = self.fn.b
        call(b, UNWRITTEN, launch=Value("%launch", "ptr"), a=address, size=size)
        self.fn.unit.definitions[UNWRITTEN.name] = unwritten_ir(self.fn.unit.declarations)

    # --- calls

    def enters(self) -> None:
        """Mark the local variables of a called function as uninitialized when it starts."""
        fn, b = self.fn, self.fn.b
        local = fn.unit.local
        if not fn.local_bytes:
            return
        for lane in range(fn.width):
            at = b.add(Value("%frame", "i64"), local.offset + local.init + lane * local.stride)
            pointer = b.value(f"getelementptr i8, ptr %warp, i64 {at.text}", "ptr")
            filled = f"ptr {pointer.text}, i8 -1, i64 {fn.local_bytes}, i1 false"
            b.invoke("@llvm.memset.p0.i64", "void", filled)

    def passed(self, name: str, offset: int, kind: PtxType) -> Companion:
        """The shadow of a value in a ``.param`` array."""
        b, W, whole = self.fn.b, self.fn.width, integer_of(kind.llvm)
        bits, flags = self._passed_at(name, offset)
        shadow = b.value(f"load {vector_type(whole, W)}, ptr {bits.text}, align {kind.bytes}", whole, W)
        flag = b.value(f"load {vector_type('i8', W)}, ptr {flags.text}", "i8", W)
        return Companion(shadow, b.compare("ne", flag, 0))

    def passes(self, name: str, offset: int, kind: PtxType, source: Operand) -> None:
        """Store the shadow of an operand in a ``.param`` array; inactive lanes keep theirs."""
        fn, b = self.fn, self.fn.b
        shadow = self.bits(source, kind)
        made = b.cast("zext", self.made(source), "i8")
        pointers = self._passed_at(name, offset)
        for pointer, value in zip(pointers, (shadow or b.const(integer_of(kind.llvm), 0), made), strict=True):
            whole = vector_type(value.type, fn.width)
            size = max(value.bits // 8, 1)
            old = b.value(f"load {whole}, ptr {pointer.text}, align {size}", value.type, fn.width)
            new = b.select(fn.active, b.splat(value), old)
            b.line(f"store {b.typed(new)}, ptr {pointer.text}, align {size}")

    def _passed_at(self, name: str, offset: int) -> tuple[Value, Value]:
        """Pointers to the shadow of a value in a ``.param`` array, and to its flag, a byte for each lane."""
        fn, b = self.fn, self.fn.b
        array = fn.param_companion(name)
        flags = fn.param_bytes(name) + offset * fn.width
        return (
            b.value(f"getelementptr i8, ptr {array}, i64 {offset * fn.width}", "ptr"),
            b.value(f"getelementptr i8, ptr {array}, i64 {flags}", "ptr"),
        )

    def returns(self, name: str) -> None:
        """What the CUDA runtime returns is defined."""
        bits = self.fn.param_bytes(name)
        self.fn.b.line(f"store [{bits} x i8] zeroinitializer, ptr {self.fn.param_companion(name)}")

    # --- lanes of a warp

    def joins(self, i: Instruction, here: Value) -> None:
        """See :func:`.warp.join`."""
        warp.join(self, i, here)

    def shuffles(
        self, i: Instruction, move: Callable[[Value], Value], source: Value, exited: Value | None
    ) -> None:
        """See :func:`.warp.shuffle`."""
        if exited is not None:
            self.brought(i, source, exited)
        warp.shuffle(self, i, move, exited)

    def exchanges(self, i: Instruction, move: Callable[[Value], Value]) -> None:
        """See :func:`.warp.exchange`."""
        warp.exchange(self, i, move)

    def multiplies(
        self, i: Instruction, shape: MatrixShape, register: PtxType, operands: Sequence[Sequence[Operand]]
    ) -> None:
        """See :func:`.warp.multiply`."""
        warp.multiply(self, i, shape, register, operands)

    def multiplies_quads(self, i: Instruction, arrange: Arrange, operands: Sequence[Sequence[Operand]]) -> None:
        """See :func:`.warp.multiply_quads`."""
        warp.multiply_quads(self, i, arrange, operands)

    # --- a warp in several vectors

    def posts(self, instruction: Instruction) -> Sequence[Value]:
        """The columns described at ``COLUMNS``."""
        if not has_source(instruction):
            return ()
        b, first = self.fn.b, instruction.operands[1]
        shadow = None if isinstance(first, Vector) else self.bits(first, posted_kind(instruction, first))
        flags = b.cast("zext", self.made(first), "i64")
        for number, source in enumerate(sources(instruction), 1):
            undefined = self.undefined(source)
            if undefined is not None:
                flags = b.lor(flags, b.shift("shl", b.cast("zext", undefined, "i64"), number))
        return [b.const("i64", 0) if shadow is None else shadow, flags]

    def seen_by(self, view: WarpView, instruction: Instruction, column: int) -> Observer | None:
        """The observer of the warp, which reads the posted shadows."""
        return _PostedShadows(view, self, instruction, column) if has_source(instruction) else None


class _PostedShadows(ShadowObserver):
    """The shadows of the posted operands."""

    def __init__(self, view: WarpView, real: ShadowObserver, instruction: Instruction, column: int) -> None:
        self.view = self.fn = view
        self.found = real.found
        self.origins = real.origins
        self.defined = real.defined
        self.real = real
        self.numbers = {id(source): number for number, source in enumerate(sources(instruction), 1)}
        self.column = column

    def bits(self, operand: Operand, kind: PtxType) -> Value | None:
        """The posted shadow. ``operand`` must be the first operand."""
        if not self.has(operand):
            return None
        return self.fn.b.resize(self.view.posted(self.view.column(self.column)), integer_of(kind.llvm))

    def undefined(self, *operands: Operand) -> Value | None:
        """Whether any of the operands is undefined, as posted."""
        bits = 0
        for operand in operands:
            if self.has(operand):
                bits |= 1 << self.numbers[id(operand)]
        if not bits:
            return None
        b = self.fn.b
        flags = self.view.posted(self.view.column(self.column + 1))
        return b.compare("ne", b.land(flags, bits), 0)

    def brought(self, i: Instruction, source: Value, lanes: Value) -> None:
        """Record the event for the lanes of this vector."""
        self.real.brought(i, self.view.mine(self.fn.b.splat(source)), self.view.mine(lanes))

    def made(self, *operands: Operand) -> Value:
        """Whether the first operand was computed."""
        b = self.fn.b
        return b.compare("ne", b.land(self.view.posted(self.view.column(self.column + 1)), 1), 0)

    def write(
        self,
        operation: Operation,
        target: Operand,
        shadow: Value | None,
        made: Callable[[], Value],
        signed: bool = False,
    ) -> None:
        """Write the lanes of this vector."""
        if self.has(target):
            self.view.real.blend = None
            own = None if shadow is None else self.view.mine(shadow)
            self.real.write(operation, target, own, lambda: self.view.mine(made()), signed)
