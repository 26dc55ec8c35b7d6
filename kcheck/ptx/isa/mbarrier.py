"""``mbarrier``: barriers in shared memory that count arrivals, phase after phase, as sm_80 has them.

Source: PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier". The 64 bits of an object are
opaque; here they are the pending arrivals of the current phase, the expected arrivals of a phase, and the number
of the phase. The state that an arrival returns is the object as it was before. A thread that waits repeats
``test_wait`` in a loop, which suspends it (:mod:`kcheck.ptx.analysis.spin`).
"""

from __future__ import annotations

from kcheck.ptx.abi import FaultKind, Launch
from kcheck.ptx.ir.builder import Value, vector_type
from kcheck.ptx.ir.calls import call
from kcheck.ptx.ir.flow import UNLIKELY
from kcheck.ptx.ir.function import FunctionBuilder
from kcheck.ptx.ir.records import record
from kcheck.ptx.ir.signature import Definition, Signature
from kcheck.ptx.isa.access_form import AccessForm
from kcheck.ptx.isa.effects import effect
from kcheck.ptx.isa.events import Access
from kcheck.ptx.isa.loadstore import admitted, store_values, unchecked_load
from kcheck.ptx.isa.surroundings import Surroundings
from kcheck.ptx.runtime.faults import report_fault
from kcheck.ptx.runtime.lookup import CONTEXT, code_context
from kcheck.ptx.syntax.ast import Instruction, Operand
from kcheck.ptx.syntax.types import TYPES

_COUNT_BITS = 20
"""PTX ISA: a count is between 1 and 2**20 - 1."""

_COUNT = (1 << _COUNT_BITS) - 1
_EXPECTED, _PHASE = _COUNT_BITS, 2 * _COUNT_BITS
"""The lowest bit of the expected arrivals, and of the phase's number."""

_B64, _U32, _PRED = TYPES["b64"], TYPES["u32"], TYPES["pred"]
_HINTS = frozenset({"shared", "shared::cta", "b64", "release", "acquire", "cta", "noComplete", "parity"})


@effect("mbarrier")
def mbarrier(fn: Surroundings, i: Instruction) -> None:
    """``init``, ``inval``, ``arrive``, ``arrive_drop``, ``test_wait``, ``try_wait``, ``pending_count``."""
    what = i.modifiers[0] if i.modifiers else ""
    if what not in _HANDLERS or not _HINTS.issuperset(i.modifiers[1:]):
        raise fn.fail(i, "not supported")
    low, high = _OPERANDS[what]
    if not low <= len(i.operands) <= high:
        raise fn.fail(i, f"expected {low} operands, found {len(i.operands)}")
    _HANDLERS[what](fn, i)


def _init(fn: Surroundings, i: Instruction) -> None:
    b = fn.b
    count = b.resize(b.land(fn.read(i, i.operands[1], _U32), _COUNT), "i64")
    for observer in fn.observers:
        observer.uses(i, i.operands[1])
    _set(fn, i, b.lor(count, b.shift("shl", count, _EXPECTED)), True)


def _inval(fn: Surroundings, i: Instruction) -> None:
    """The memory may hold something else from here on, and is uninitialized."""
    _set(fn, i, fn.b.const("i64", 0), False)


def _set(fn: Surroundings, i: Instruction, word: Value, is_defined: bool) -> None:
    companions = [] if fn.carrier is None else [fn.carrier.constant(_B64, is_defined)]
    space = _space(i)
    store_values(fn, i, fn.address(i, i.operands[0], space), AccessForm(space, _B64, 1), [word], companions)


def _arrive(fn: Surroundings, i: Instruction) -> None:
    b = fn.b
    count = b.const("i32", 1)
    if len(i.operands) == 3:
        count = b.land(fn.read(i, i.operands[2], _U32), _COUNT)
        for observer in fn.observers:
            observer.uses(i, i.operands[2])
    before = arrive(fn, i, i.operands[1], count, i.modifiers[0] == "arrive_drop")
    for observer in fn.observers:
        observer.derives(i, i.operands[:1], ())
    fn.write(i, i.operands[0], _B64, before, False)


def arrive(fn: Surroundings, i: Instruction, operand: Operand, count: Value, drops: bool) -> Value:
    """Each active lane, one after another, arrives at the object at its address; returns the states before."""
    b = fn.b
    address, allowed, site = _reach(fn, i, operand)
    signature = _arrive_signature(drops, fn.width)
    fn.unit.definitions[signature.name] = _arrive_ir(drops, fn.width, fn.unit.declarations)
    given = {"a": address, "n": b.splat(count), "m": b.splat(allowed)}
    before = call(b, signature, **given, **code_context(site))
    for observer in fn.observers:
        observer.meets(i, address)
    return before


def _wait(fn: Surroundings, i: Instruction) -> None:
    """Whether a phase is complete: the one of a state, or the last one with a parity."""
    b = fn.b
    address, allowed, _ = _reach(fn, i, i.operands[1])
    word = unchecked_load(fn, b.splat(address), allowed, _B64)
    phase = b.shift("lshr", word, _PHASE)
    asked = i.operands[2]
    if "parity" in i.modifiers:
        parity = b.resize(fn.read(i, asked, _U32), "i64")
        done = b.compare("ne", b.land(b.xor(phase, parity), 1), 0)
    else:
        done = b.compare("ne", phase, b.shift("lshr", fn.read(i, asked, _B64), _PHASE))
    for observer in fn.observers:
        observer.branches(i, asked)
        observer.derives(i, i.operands[:1], ())
    before = fn.active
    fn.active = b.land(b.splat(before), done)  # only lanes that see the phase complete synchronize
    for observer in fn.observers:
        observer.meets(i, address)
    fn.active = before
    fn.write(i, i.operands[0], _PRED, done, False)


def _pending(fn: Surroundings, i: Instruction) -> None:
    b = fn.b
    state = fn.read(i, i.operands[1], _B64)
    for observer in fn.observers:
        observer.derives(i, i.operands[:1], i.operands[1:])
    fn.write(i, i.operands[0], _U32, b.resize(b.land(state, _COUNT), "i32"), False)


_HANDLERS = {
    "init": _init,
    "inval": _inval,
    "arrive": _arrive,
    "arrive_drop": _arrive,
    "test_wait": _wait,
    "try_wait": _wait,
    "pending_count": _pending,
}
_OPERANDS = {
    "init": (2, 2),
    "inval": (1, 1),
    "arrive": (2, 3),
    "arrive_drop": (2, 3),
    "test_wait": (3, 3),
    "try_wait": (3, 4),
    "pending_count": (2, 2),
}
"""By operation: the fewest and the most operands."""


def _space(i: Instruction) -> str:
    return "shared" if any(m.startswith("shared") for m in i.modifiers) else "generic"


def _reach(fn: Surroundings, i: Instruction, operand: Operand) -> tuple[Value, Value, int]:
    """The address of the object, checked, the lanes that may access it, and the site."""
    b, space = fn.b, _space(i)
    site = fn.unit.site(i, space)
    address = fn.address(i, operand, space)
    for observer in fn.observers:
        observer.accesses(i, Access(address, space, _B64, site))
    allowed = admitted(fn, address, space, FaultKind.OUT_OF_BOUNDS_ATOMIC, _B64.bytes, site)
    address = b.splat(address)
    for observer in fn.observers:
        observer.visits(i, Access(address, space, _B64, site), allowed)
    return address, allowed, site


def _arrive_signature(drops: bool, width: int) -> Signature:
    """The function in which lanes arrive, one after another in the launch's order; it returns the states
    before."""
    addresses, counts, mask = (vector_type(element, width) for element in ("i64", "i32", "i1"))
    name = f"@kcheck.mbarrier.arrive{'.drop' if drops else ''}"
    return Signature(name, addresses, {"a": addresses, "n": counts, "m": mask, **CONTEXT})


def _arrive_ir(drops: bool, width: int, declarations: dict[str, str]) -> Definition:
    """The definition of :func:`_arrive_signature`.

    The last pending arrival completes the phase and begins the next one. Arrivals that drop out are not expected
    in it. More arrivals than are pending are a fault, and complete the phase, too.
    """
    W = width
    f = FunctionBuilder(_arrive_signature(drops, W), "noinline", declarations=declarations)
    order = record(f, "launch", Launch).load(Launch.lane_order)
    room = Value(f.local(vector_type("i64", W)), "ptr")
    states = f.array(room, "i64")
    f.line(f"store {vector_type('i64', W)} {'zeroinitializer' if W > 1 else '0'}, ptr {room.text}")
    with f.range(W) as position:
        lane = position ^ order if W > 1 else position
        with f.if_(f.term(f.extract(f.argument("m"), lane))):
            pointer = f.term(f.extract(f.argument("a"), lane)).to("ptr")
            count = f.term(f.extract(f.argument("n"), lane)).to("i64")
            old = f.load("i64", pointer, 8)
            states[lane] = old
            expected = old >> _EXPECTED & _COUNT
            if drops:
                expected = f.saturating_sub(expected, count)
            pending = old & _COUNT
            with f.if_(count > pending, UNLIKELY):
                kind, size = FaultKind.MBARRIER_ARRIVALS, count.to("i32")
                report_fault(f, kind, f.argument("site"), address=pending, size=size, lane=lane)
            left = f.saturating_sub(pending, count)
            is_last = left.eq(0)
            phase = (old >> _PHASE) + is_last.to("i64")
            new = is_last.select(expected, left) | expected << _EXPECTED | phase << _PHASE
            f.store(new, pointer, 8)
    f.ret(f.load("i64", room, 0, W))
    return f.definition()
