"""``atom`` and ``red``: read-modify-write, one lane after another in the order set by the launch.

Source: PTX ISA, "Parallel Synchronization and Communication Instructions: atom, red". Plain operations are enough
in shared memory, because one OS thread runs a block; elsewhere the machine's atomic operations are used, whatever
the scope (:mod:`kcheck.ptx.isa.atomic_function`). ``atom.add.f32`` flushes subnormals in global memory and keeps
them in shared memory, as the ISA says.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kcheck.ptx.abi import FaultKind, Launch, Worker
from kcheck.ptx.ir.builder import Value
from kcheck.ptx.ir.calls import call
from kcheck.ptx.ir.flow import LIKELY
from kcheck.ptx.ir.function import FunctionBuilder
from kcheck.ptx.ir.lane_groups import lane_groups
from kcheck.ptx.ir.records import load_field
from kcheck.ptx.isa.atomic_function import GROUP, Atomic, AtomicFunction, combination, signature
from kcheck.ptx.isa.effects import effect, without_policy
from kcheck.ptx.isa.events import Access, Update
from kcheck.ptx.isa.surroundings import Surroundings
from kcheck.ptx.syntax.ast import Instruction, Register, Sink
from kcheck.ptx.syntax.types import TYPES

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
    offset = offset if within is None else None
    size = kind.bytes if within is None else 1
    by_offset = offset is not None
    checked = address if within is None else b.splat(within)
    if offset is not None:
        checked = b.splat(b.sub(offset, fn.unit.array_start(site)))
    admit = fn.unit.admit(space, FaultKind.OUT_OF_BOUNDS_ATOMIC, size, by_offset=by_offset)
    mask = b.splat(fn.active)
    given = f"{b.typed(checked)}, {b.typed(mask)}, {fn.access_context(site)}"
    allowed = b.invoke(admit, b.type_of(mask), given, "i1", W)
    update = Update(access, address, operation, allowed, target, operands[1:])
    for observer in fn.observers:
        observer.updates(i, update)
    # For most atomics that NVVM emits as ``atom``, no lane reads the old value.
    wanted_back = isinstance(target, Register) and target.name not in fn.unread
    tells_outcome = operation == "cas" and any(observer.wants_outcome for observer in fn.observers)
    wanted_back |= tells_outcome
    atomic = Atomic(operation, kind, space)
    function = signature(atomic, W, values, wanted_back)
    if function.name not in fn.unit.definitions:
        f = FunctionBuilder(
            function, "noinline", declarations=fn.unit.declarations, definitions=fn.unit.definitions
        )
        made = AtomicFunction(f, atomic, W, fn.unit.shared_bytes).definitions()
        fn.unit.definitions.update({one.name: one for one in made})
    arguments = {"a": address, "m": allowed, **{f"x{n}": v for n, v in enumerate(values)}}
    out_of_line = partial(
        call, b, function, **arguments, launch=Value("%launch", "ptr"), worker=Value("%worker", "ptr")
    )
    if not wanted_back:
        integer = kind.kind not in ("float", "packed")
        if W >= 4 and operation in _COMMUTING and integer and not (fn.unit.outlined or fn.inlining):
            _in_place(fn, atomic, address, offset, allowed, values[0], out_of_line)
        else:
            out_of_line()
        for observer in fn.observers:
            observer.updated(i, update, None)
        return
    old = out_of_line()
    succeeded = b.compare("eq", old, values[0]) if tells_outcome else None
    for observer in fn.observers:
        observer.updated(i, update, succeeded)
    fn.write(i, target, kind, old, False)


_COMMUTING = frozenset({"add", "and", "or", "xor", "min", "max"})
"""Integer operations whose order makes no difference if the old value is not read."""


def _in_place(
    fn: Surroundings,
    atomic: Atomic,
    address: Value,
    offset: Value | None,
    allowed: Value,
    value: Value,
    out_of_line: Callable[[], Value],
) -> None:
    """Emit the operation lane by lane, without tests, locks or calls, for the case that all lanes are active and
    no other thread can interfere.

    Args:
        offset: the offsets of the addresses in the shared window if known.
        out_of_line: emits the call for the other cases.
    """
    b, kind = fn.b, atomic.kind
    quiet = b.compare("eq", b.mask_bits(allowed), -1)
    if atomic.space != "shared":
        workers = load_field(b, Launch, "%launch", Launch.workers)
        quiet = b.land(quiet, b.compare("eq", workers, 1))
    with b.if_(quiet, LIKELY) as alone:
        base = None if offset is None else fn.field(Worker, Worker.shared, element="ptr")
        places = address if offset is None else b.resize(b.splat(offset), "i32")
        combine = combination(atomic.operation)
        with lane_groups(b, partial(_allocate, fn), [places, value], GROUP) as (_, lanes):
            for where, x in lanes:
                place = b.resize(where, "i64")
                if base is None:
                    pointer = b.cast("inttoptr", place, "ptr")
                else:
                    pointer = b.value(f"getelementptr i8, ptr {base.text}, {b.typed(place)}", "ptr")
                old = b.value(f"load {kind.llvm}, ptr {pointer.text}, align {kind.bytes}", kind.llvm)
                b.line(f"store {b.typed(combine(b, kind, old, (x,)))}, ptr {pointer.text}, align {kind.bytes}")
    with alone.else_():
        out_of_line()


def _allocate(fn: Surroundings, kind: str) -> str:
    """Reserve stack memory for a value of an LLVM type; returns the name of the pointer."""
    room = f"%{fn.b.fresh('lanes')}"
    fn.prologue.line(f"{room} = alloca {kind}")
    return room
