"""``atom`` and ``red``: read-modify-write, lane after lane in the order set by the launch.

Source: PTX ISA, "Parallel Synchronization and Communication Instructions: atom, red". In shared memory plain
operations are enough, since one OS thread runs a block; elsewhere they are atomic on the machine, whatever the
scope. ``atom.add.f32`` flushes subnormals in global memory and keeps them in shared memory, as the ISA says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kcheck.ptx.abi import FaultKind, Launch, Worker
from kcheck.ptx.ir.builder import Builder, Value, vector_type
from kcheck.ptx.ir.records import load_field
from kcheck.ptx.isa.effects import effect, without_policy
from kcheck.ptx.isa.events import Access, Update
from kcheck.ptx.isa.floating import ROWS_ADD
from kcheck.ptx.isa.modifiers import flush
from kcheck.ptx.isa.rows import Mods
from kcheck.ptx.isa.surroundings import Surroundings
from kcheck.ptx.syntax.ast import Instruction, Register, Sink
from kcheck.ptx.syntax.types import TYPES, PtxType

_SEMANTICS = frozenset({"relaxed", "acquire", "release", "acq_rel", "cta", "cluster", "gpu", "sys", "noftz"})
_SPACES = frozenset({"global", "shared"})

_TYPES: dict[str, frozenset[str]] = {
    "and": frozenset({"b32", "b64"}),
    "or": frozenset({"b32", "b64"}),
    "xor": frozenset({"b32", "b64"}),
    "exch": frozenset({"b32", "b64"}),
    "cas": frozenset({"b16", "b32", "b64"}),
    "inc": frozenset({"u32"}),
    "dec": frozenset({"u32"}),
    "add": frozenset({"u32", "s32", "u64", "s64", "f32", "f64", "f16", "bf16", "f16x2", "bf16x2"}),
    "min": frozenset({"u32", "s32", "u64", "s64"}),
    "max": frozenset({"u32", "s32", "u64", "s64"}),
}

Combine = Callable[[Builder, PtxType, Value, "tuple[Value, ...]"], Value]


def _combine(operation: str) -> Combine:
    """The new value in memory, from the old value and the operands."""

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
    """LLVM's atomicrmw operation, if one means the same."""
    if operation in _NATIVE:
        return _NATIVE[operation]
    if kind.kind in ("signed", "unsigned"):
        if operation == "add":
            return "add"
        if operation in ("min", "max"):
            return operation if kind.kind == "signed" else "u" + operation
    return None


@effect("atom", "red")
def atom(fn: Surroundings, i: Instruction) -> None:
    """``atom.sem.scope.space.op.type d, [a], b{, c}``; ``red`` without d."""
    space = "generic"
    words = []
    for modifier in i.modifiers:
        name = modifier.partition("::")[0]
        if name in _SPACES:
            space = name
        elif modifier not in _SEMANTICS and not modifier.startswith("L2"):
            words.append(modifier)
    if len(words) != 2 or words[1] not in _TYPES.get(words[0], ()):
        raise fn.fail(i, "not supported")
    operation, kind = words[0], TYPES[words[1]]
    operands = list(without_policy(i))
    target = operands.pop(0) if i.opcode == "atom" else Sink()
    wanted = 3 if operation == "cas" else 2
    if len(operands) != wanted:
        raise fn.fail(
            i, f"expected {wanted + (i.opcode == 'atom')} operands, found {len(operands) + (i.opcode == 'atom')}"
        )
    b, W = fn.b, fn.width
    where = fn.address(i, operands[0], space)
    address = b.splat(where)
    values = [fn.read(i, o, kind) for o in operands[1:]]
    site = fn.unit.site(i, space)
    access = Access(where, space, kind, site)
    for observer in fn.observers:
        observer.accesses(i, access)
    offset = fn.shared_offset(operands[0]) if space == "shared" and W > 1 else None
    within = fn.within_word(operands[0])
    narrow = within or offset
    checked = address if narrow is None else b.splat(narrow)
    size = kind.bytes if within is None else 1
    by_offset = within is None and offset is not None
    admit = fn.unit.admit(space, FaultKind.OUT_OF_BOUNDS_ATOMIC, size, by_offset=by_offset)
    mask = b.splat(fn.active)
    allowed = b.value(
        f"call {b.type_of(mask)} {admit}({b.typed(checked)}, {b.typed(mask)}, {fn.access_context(site)})",
        "i1",
        W,
    )
    update = Update(access, address, operation, allowed, target, operands[1:])
    for observer in fn.observers:
        observer.updates(i, update)
    # No lane reads the old value of most atomics that NVVM emits as ``atom``.
    wanted_back = isinstance(target, Register) and target.name not in fn.unread
    tells_outcome = operation == "cas" and any(observer.wants_outcome for observer in fn.observers)
    wanted_back |= tells_outcome
    shapes = "".join("u" if v.lanes < W else "v" for v in values)
    name = f"@kcheck.atom.{space}.{operation}.{kind.name}.{shapes}{'' if wanted_back else '.red'}"
    if name not in fn.unit.definitions:
        fn.unit.definitions[name] = _define(fn, name, Atomic(operation, kind, space), values, wanted_back)
    given = ", ".join(b.typed(v) for v in (address, allowed, *values))
    if not wanted_back:
        call = f"call void {name}({given}, ptr %launch, ptr %worker)"
        integer = kind.kind not in ("float", "packed")
        if W >= 4 and operation in _COMMUTING and integer and not (fn.unit.outlined or fn.inlining):
            _in_place(fn, Atomic(operation, kind, space), address, checked, allowed, values[0], call)
        else:
            b.line(call)
        for observer in fn.observers:
            observer.updated(i, update, None)
        return
    result = vector_type(kind.llvm, W)
    old = b.value(f"call {result} {name}({given}, ptr %launch, ptr %worker)", kind.llvm, W)
    succeeded = b.compare("eq", old, values[0]) if tells_outcome else None
    for observer in fn.observers:
        observer.updated(i, update, succeeded)
    fn.write(i, target, kind, old, False)


@dataclass(frozen=True, slots=True)
class Atomic:
    """What an instruction does to memory: an operation on elements of a type in a space."""

    operation: str
    kind: PtxType
    space: str


_COMMUTING = frozenset({"add", "and", "or", "xor", "min", "max"})
"""Integer operations whose order makes no difference if the old value is not read."""


def _in_place(
    fn: Surroundings, atomic: Atomic, address: Value, offset: Value, allowed: Value, value: Value, out_of_line: str
) -> None:
    """The operation lane by lane, without test, lock or call, if all lanes are on and no other thread runs.

    ``offset``: the offsets of the addresses in the shared window if known, otherwise the addresses again.
    ``out_of_line``: the call for other cases.
    """
    b, kind = fn.b, atomic.kind
    quiet = b.compare("eq", b.mask_bits(allowed), -1)
    if atomic.space != "shared":
        workers = load_field(b, Launch, "%launch", Launch.workers)
        quiet = b.land(quiet, b.compare("eq", workers, 1))
    alone, other, done = b.fresh("alone"), b.fresh("other"), b.fresh("done")
    b.line(f"br i1 {quiet.text}, label %{alone}, label %{other}, !prof !0")
    b.label(alone)
    base, bits = Value("null", "ptr"), 64
    if offset is not address:
        base = fn.field(Worker, Worker.shared, element="ptr")
        bits = 32 if fn.unit.dynamic_shared or fn.unit.shared_bytes > 1 << 16 else 16
    combine = _combine(atomic.operation)
    for where, x in zip(_pieces(b, b.resize(offset, f"i{bits}")), _lanes(b, value), strict=True):
        pointer = b.value(f"getelementptr i8, ptr {base.text}, i64 {where.text}", "ptr")
        old = b.value(f"load {kind.llvm}, ptr {pointer.text}, align {kind.bytes}", kind.llvm)
        b.line(f"store {b.typed(combine(b, kind, old, (x,)))}, ptr {pointer.text}, align {kind.bytes}")
    b.line(f"br label %{done}")
    b.label(other)
    b.line(out_of_line)
    b.line(f"br label %{done}")
    b.label(done)


def _lanes(b: Builder, value: Value) -> list[Value]:
    """The value in each lane."""
    return [value if value.lanes == 1 else b.extract(value, lane) for lane in range(b.width)]


def _pieces(b: Builder, offsets: Value) -> list[Value]:
    """The offset in each lane, i64: taken from the vector 64 bits at a time, since extracting a lane is slow."""
    each = 64 // offsets.bits
    whole = vector_type("i64", b.width // each)
    words = offsets if each == 1 else b.value(f"bitcast {b.typed(offsets)} to {whole}", "i64", b.width // each)
    found = []
    for n in range(b.width // each):
        word = b.extract(words, n)
        for k in range(each):
            part = b.shift("lshr", word, k * offsets.bits) if k else word
            found.append(b.land(part, (1 << offsets.bits) - 1) if each > 1 else part)
    return found


def _define(fn: Surroundings, name: str, atomic: Atomic, values: list[Value], wanted: bool) -> str:
    """A function that does the operation for each lane of a mask and returns the old values, if they are used.

    Where no other thread runs (in shared memory, and while a launch has one worker) and all lanes are on, the
    lanes follow one another without a test and without a lock: a histogram takes a third of the time.
    """
    W, kind = fn.width, atomic.kind
    element = kind.llvm
    V, A, M = vector_type(element, W), vector_type("i64", W), vector_type("i1", W)
    static = fn.unit.shared_bytes
    b = Builder(1, fn.unit.declarations, fn.unit.definitions)
    given = [Value(f"%x{n}", element, v.lanes) for n, v in enumerate(values)]
    params = "".join(f", {b.typed(x)}" for x in given)
    addresses, mask = Value("%a", "i64", W), Value("%m", "i1", W)
    end = f"ret {V} %r" if wanted else "ret void"
    if W == 1:
        if wanted:
            b.line(f"store {element} {_zero(element)}, ptr %out")
        b.line("br i1 %m, label %active, label %done")
        b.label("active")
        pointer = b.value("inttoptr i64 %a to ptr", "ptr")
        old = _one(b, atomic, static, pointer, addresses, tuple(given))
        if wanted:
            b.line(f"store {element} {old.text}, ptr %out")
        b.line("br label %done")
    else:
        if wanted:
            b.line(f"store {V} zeroinitializer, ptr %out")
        order = load_field(b, Launch, "%launch", Launch.lane_order)
        quiet = b.land(b.compare("eq", b.mask_bits(mask), -1), b.compare("eq", order, 0))
        if atomic.space != "shared":
            workers = load_field(b, Launch, "%launch", Launch.workers)
            quiet = b.land(quiet, b.compare("eq", workers, 1))
        b.line(f"br i1 {quiet.text}, label %alone, label %loop")
        b.label("alone")
        for lane in range(W):
            address = b.extract(addresses, lane)
            pointer = b.value(f"inttoptr i64 {address.text} to ptr", "ptr")
            old = b.value(f"load {element}, ptr {pointer.text}, align {kind.bytes}", element)
            new = _after(b, atomic, static, address, old, tuple(b.extract(x, lane) for x in given))
            b.line(f"store {b.typed(new)}, ptr {pointer.text}, align {kind.bytes}")
            if wanted:
                slot = b.value(f"getelementptr {element}, ptr %out, i32 {lane}", "ptr").text
                b.line(f"store {element} {old.text}, ptr {slot}")
        b.line("br label %done")
        b.label("loop")
        i = b.xor(b.value("load i32, ptr %count", "i32"), order)
        on = b.value(f"extractelement {M} %m, i32 {i.text}", "i1")
        b.line(f"br i1 {on.text}, label %active, label %next")
        b.label("active")
        address = b.extract(addresses, i)
        pointer = b.value(f"inttoptr i64 {address.text} to ptr", "ptr")
        old = _one(b, atomic, static, pointer, address, tuple(b.extract(x, i) for x in given))
        if wanted:
            slot = b.value(f"getelementptr {element}, ptr %out, i32 {i.text}", "ptr").text
            b.line(f"store {element} {old.text}, ptr {slot}")
        b.line("br label %next")
        b.label("next")
        k1 = b.add(b.value("load i32, ptr %count", "i32"), 1)
        b.line(f"store i32 {k1.text}, ptr %count")
        b.line(f"br i1 {b.compare('ult', k1, W).text}, label %loop, label %done")
    b.label("done")
    if wanted:
        b.line(f"%r = load {V}, ptr %out")
    b.line(end)
    result = V if wanted else "void"
    head = f"define internal {result} {name}({A} %a, {M} %m{params}, ptr %launch, ptr %worker) noinline {{"
    start = [f"  %out = alloca {V}", "  %count = alloca i32", "  store i32 0, ptr %count"]
    return "\n".join([head, *start, *b.lines, "}"])


def _zero(element: str) -> str:
    return "0.0" if element in ("half", "float", "double") else "0"


def _one(
    b: Builder,
    atomic: Atomic,
    static: int,
    pointer: Value,
    address: Value,
    operands: tuple[Value, ...],
) -> Value:
    """The operation at one address; returns the old value. ``static``: bytes of static shared memory."""
    kind = atomic.kind
    element, align = kind.llvm, kind.bytes
    if atomic.space == "shared":
        old = b.value(f"load {element}, ptr {pointer.text}, align {align}", element)
        new = _after(b, atomic, static, address, old, operands)
        b.line(f"store {b.typed(new)}, ptr {pointer.text}, align {align}")
        return old
    native = _native(atomic.operation, kind)
    if native is not None:
        text = f"atomicrmw {native} ptr {pointer.text}, {b.typed(operands[0])} acq_rel, align {align}"
        return b.value(text, element)
    if atomic.operation == "cas":
        expected, new = operands
        pair = b.value(_exchange(b, pointer, expected, new, align), "pair")
        return b.value(f"extractvalue {{ {element}, i1 }} {pair.text}, 0", element)
    # A loop of compare-and-swap on the bits.
    whole = f"i{kind.bits}"
    first = b.value(f"load atomic {whole}, ptr {pointer.text} monotonic, align {align}", whole)
    b.line(f"store {whole} {first.text}, ptr %seen")
    again, out = b.fresh("again"), b.fresh("out")
    b.line(f"br label %{again}")
    b.label(again)
    seen = b.value(f"load {whole}, ptr %seen", whole)
    before = b.bitcast(seen, element)
    after = _after(b, atomic, static, address, before, operands)
    pair = b.value(_exchange(b, pointer, seen, b.bitcast(after, whole), align), "pair")
    found = b.value(f"extractvalue {{ {whole}, i1 }} {pair.text}, 0", whole)
    b.line(f"store {whole} {found.text}, ptr %seen")
    won = b.value(f"extractvalue {{ {whole}, i1 }} {pair.text}, 1", "i1")
    b.line(f"br i1 {won.text}, label %{out}, label %{again}")
    b.label(out)
    b.lines.insert(0, f"  %seen = alloca {whole}")
    return before


def _after(
    b: Builder,
    atomic: Atomic,
    static: int,
    address: Value,
    before: Value,
    operands: tuple[Value, ...],
) -> Value:
    """The new value at an address."""
    kind, space = atomic.kind, atomic.space
    combine = _combine(atomic.operation)
    after = combine(b, kind, before, operands)
    if kind.name == "f32" and atomic.operation == "add" and space != "shared":
        flushed = flush(b, combine(b, kind, flush(b, before), tuple(flush(b, x) for x in operands)))
        after = flushed if space == "global" else b.select(_in_shared(b, address, static), after, flushed)
    return after


def _exchange(b: Builder, pointer: Value, expected: Value, new: Value, align: int) -> str:
    return f"cmpxchg ptr {pointer.text}, {b.typed(expected)}, {b.typed(new)} acq_rel acquire, align {align}"


def _in_shared(b: Builder, address: Value, static: int) -> Value:
    """Whether a generic address is in the shared window of ``static`` bytes and the dynamic ones."""
    base = load_field(b, Worker, "%worker", Worker.shared)
    dynamic = b.resize(load_field(b, Launch, "%launch", Launch.dynamic_shared), "i64")
    return b.compare("ult", b.sub(address, base), b.add(dynamic, static))
