"""``mbarrier``: barriers in shared memory that count arrivals, phase after phase, as sm_80 has them.

Source: PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier". The 64 bits of an object are
opaque; here they are the arrivals that its phase still waits for, those that each phase waits for, and the number
of the phase. The state that an arrival returns is the object as it was before. A thread that waits repeats
``test_wait`` in a loop, which suspends it (:mod:`kcheck.ptx.analysis.spin`).
"""

from __future__ import annotations

from kcheck.ptx.abi import FaultKind, Launch
from kcheck.ptx.ir.builder import Builder, Value, vector_type
from kcheck.ptx.isa.effects import effect
from kcheck.ptx.isa.events import Access
from kcheck.ptx.isa.loadstore import Form, admitted, store_values, unchecked_load
from kcheck.ptx.isa.surroundings import Surroundings
from kcheck.ptx.syntax.ast import Instruction, Operand
from kcheck.ptx.syntax.types import TYPES

_COUNT_BITS = 20
"""PTX ISA: a count is between 1 and 2**20 - 1."""

_COUNT = (1 << _COUNT_BITS) - 1
_EXPECTED, _PHASE = _COUNT_BITS, 2 * _COUNT_BITS
"""The lowest bits of the arrivals that a phase waits for, and of the phase's number."""

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
    store_values(fn, i, fn.address(i, i.operands[0], space), Form(space, _B64, 1), [word], companions)


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
    """Arrive at the object at an address in each active lane, one after another; returns what each lane found."""
    b, W = fn.b, fn.width
    address, allowed = _reach(fn, i, operand)
    name = "@kcheck.mbarrier." + ("drop" if drops else "arrive")
    fn.unit.definitions[name] = _arrive_ir(name, drops, W, fn.unit.declarations)
    given = ", ".join(b.typed(b.splat(v)) for v in (address, count, allowed))
    before = b.value(f"call {vector_type('i64', W)} {name}({given}, ptr %launch)", "i64", W)
    for observer in fn.observers:
        observer.meets(i, address)
    return before


def _wait(fn: Surroundings, i: Instruction) -> None:
    """Whether the phase is complete: the one of a state, or the last one of a parity."""
    b = fn.b
    address, allowed = _reach(fn, i, i.operands[1])
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
    fn.active = b.land(b.splat(before), done)  # only who sees the phase complete knows what the others did
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
"""The fewest and the most operands."""


def _space(i: Instruction) -> str:
    return "shared" if any(m.startswith("shared") for m in i.modifiers) else "generic"


def _reach(fn: Surroundings, i: Instruction, operand: Operand) -> tuple[Value, Value]:
    """The address of the object, checked, and the lanes that may access it."""
    b, space = fn.b, _space(i)
    site = fn.unit.site(i, space)
    address = fn.address(i, operand, space)
    for observer in fn.observers:
        observer.accesses(i, Access(address, space, _B64, site))
    allowed = admitted(fn, address, space, FaultKind.OUT_OF_BOUNDS_ATOMIC, _B64.bytes, site)
    address = b.splat(address)
    for observer in fn.observers:
        observer.visits(i, Access(address, space, _B64, site), allowed)
    return address, allowed


def _arrive_ir(name: str, drops: bool, width: int, declarations: dict[str, str]) -> str:
    """``old arrive(addresses, counts, mask, launch)``, lane by lane in the order of the launch.

    The arrival that the phase waits for last begins the next phase. One that drops out is not expected in it.
    """
    W = width
    b = Builder(1, declarations, prefix="a")
    A, N, M = vector_type("i64", W), vector_type("i32", W), vector_type("i1", W)
    b.line(f"%out = alloca {A}")
    b.line("%turn = alloca i32")
    b.line(f"store {A} zeroinitializer, ptr %out")
    b.line("store i32 0, ptr %turn")
    at = b.value(f"getelementptr i8, ptr %launch, i64 {Launch.lane_order.offset}", "ptr")
    order = b.value(f"load i32, ptr {at.text}", "i32")
    b.line("br label %loop")
    b.label("loop")
    turn = b.value("load i32, ptr %turn", "i32")
    lane = b.xor(turn, order) if W > 1 else b.const("i32", 0)
    on = b.extract(Value("%m", "i1", W), lane)
    b.line(f"br i1 {on.text}, label %active, label %next")
    b.label("active")
    address = b.extract(Value("%a", "i64", W), lane)
    count = b.resize(b.extract(Value("%n", "i32", W), lane), "i64")
    pointer = b.value(f"inttoptr i64 {address.text} to ptr", "ptr").text
    old = b.value(f"load i64, ptr {pointer}, align 8", "i64")
    slot = b.value(f"getelementptr i64, ptr %out, {b.typed(lane)}", "ptr").text
    b.line(f"store i64 {old.text}, ptr {slot}")
    pending = b.land(old, _COUNT)
    expected = b.land(b.shift("lshr", old, _EXPECTED), _COUNT)
    if drops:
        expected = b.intrinsic("usub.sat", expected, count)
    left = b.intrinsic("usub.sat", pending, count)
    last = b.compare("eq", left, 0)
    phase = b.add(b.shift("lshr", old, _PHASE), b.resize(last, "i64"))
    new = b.lor(b.select(last, expected, left), b.shift("shl", expected, _EXPECTED))
    new = b.lor(new, b.shift("shl", phase, _PHASE))
    b.line(f"store i64 {new.text}, ptr {pointer}, align 8")
    b.line("br label %next")
    b.label("next")
    after = b.add(turn, 1)
    b.line(f"store i32 {after.text}, ptr %turn")
    b.line(f"br i1 {b.compare('ult', after, W).text}, label %loop, label %done")
    b.label("done")
    result = b.value(f"load {A}, ptr %out", "i64", W)
    b.line(f"ret {b.typed(result)}")
    head = f"define internal {A} {name}({A} %a, {N} %n, {M} %m, ptr %launch) noinline {{"
    return "\n".join([head, *b.lines, "}"])
