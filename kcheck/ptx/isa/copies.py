"""``cp.async``: copies from global to shared memory that are complete only once their thread has waited for them.

Source: PTX ISA, "Data Movement and Conversion Instructions: cp.async, cp.async.commit_group, cp.async.wait_group",
"Parallel Synchronization and Communication Instructions: cp.async.mbarrier.arrive".
:mod:`kcheck.ptx.runtime.copies` keeps the copies that no wait has covered yet.
"""

from __future__ import annotations

from kcheck.dataclass import dataclass
from kcheck.ptx.abi import FaultKind
from kcheck.ptx.ir.builder import Value
from kcheck.ptx.ir.calls import call
from kcheck.ptx.ir.flow import UNLIKELY
from kcheck.ptx.isa import mbarrier
from kcheck.ptx.isa.effects import effect, ordered, without_policy
from kcheck.ptx.isa.events import Copy
from kcheck.ptx.isa.loadstore import admitted
from kcheck.ptx.isa.surroundings import Surroundings
from kcheck.ptx.runtime.copies import add_signature, parts_signature, wait_signature
from kcheck.ptx.runtime.copy_queue import CopyQueue
from kcheck.ptx.runtime.lookup import code_context
from kcheck.ptx.syntax.ast import Instruction, Integer, Operand, Register
from kcheck.ptx.syntax.types import TYPES

_EVERY_GROUP = 0x7FFFFFFF
_U32 = TYPES["u32"]
_SIZES = {"ca": (4, 8, 16), "cg": (16,)}


@dataclass(frozen=True, slots=True)
class CopyForm:
    """What a ``cp.async`` copies.

    Attributes:
        size: bytes to write.
        amount: the number of bytes to read, or a predicate that says to read none; None to read all.
    """

    size: int
    amount: Operand | None


def form(fn: Surroundings, i: Instruction) -> CopyForm:
    """The form that the modifiers and operands of a ``cp.async`` specify.

    Raises:
        PtxError: an unsupported form.
    """
    words = [m for m in i.modifiers[1:] if not m.startswith("L2::")]
    where = [w.removesuffix("::cta") for w in words]
    if len(where) != 3 or where[0] not in _SIZES or where[1:] != ["shared", "global"]:
        raise fn.fail(i, "not supported")
    operands = without_policy(i)
    if len(operands) not in (3, 4):
        raise fn.fail(i, f"expected 3 or 4 operands, found {len(operands)}")
    size = operands[2]
    if not isinstance(size, Integer) or size.value not in _SIZES[where[0]]:
        allowed = " or ".join(map(str, _SIZES[where[0]]))
        raise fn.fail(i, f"the size of the copy must be the constant {allowed}")
    return CopyForm(size.value, operands[3] if len(operands) == 4 else None)


@effect("cp")
def cp(fn: Surroundings, i: Instruction) -> None:
    """``cp.async`` and its groups: ``commit_group``, ``wait_group N``, ``wait_all``."""
    words = i.modifiers
    if words[:1] != ("async",) or fn.unit.copies is None:
        raise fn.fail(i, "not supported")
    if words == ("async", "commit_group"):
        ordered(fn, i, 0)
        _commit(fn, fn.unit.copies)
    elif words == ("async", "wait_group"):
        ordered(fn, i, 1)
        groups = i.operands[0]
        if not isinstance(groups, Integer):
            raise fn.fail(i, "the number of groups must be an integer constant")
        wait(fn, i, fn.b.sub(fn.unit.copies.committed(fn.b), groups.value))
    elif words == ("async", "wait_all"):
        ordered(fn, i, 0)
        wait(fn, i, fn.b.const("i32", _EVERY_GROUP))
    elif words[1:3] == ("mbarrier", "arrive"):
        _arrive(fn, i)
    else:
        _copy(fn, i, form(fn, i))


def wait(fn: Surroundings, i: Instruction, limit: Value) -> None:
    """Complete the active lanes' copies that are in groups with numbers below ``limit``, i32."""
    b = fn.b
    limit, mask = b.splat(limit), b.splat(fn.active)
    site = fn.unit.site(i, "")
    call(b, wait_signature(fn.width), limit=limit, mask=mask, **code_context(site))


def _arrive(fn: Surroundings, i: Instruction) -> None:
    """``cp.async.mbarrier.arrive{.noinc}``: an arrival when the thread's earlier copies are complete, which is
    now.

    Without ``.noinc``, the object first expects one more arrival, so this arrival has no effect.
    """
    if not {"noinc", "shared", "shared::cta", "b64"}.issuperset(i.modifiers[3:]):
        raise fn.fail(i, "not supported")
    ordered(fn, i, 1)
    wait(fn, i, fn.b.const("i32", _EVERY_GROUP))
    if "noinc" in i.modifiers:
        mbarrier.arrive(fn, i, i.operands[0], fn.b.const("i32", 1), drops=False)


def _commit(fn: Surroundings, queue: CopyQueue) -> None:
    """Make the copies since the last commit a group."""
    b = fn.b
    before = queue.committed(b)
    queue.commit(b, b.select(fn.active, b.add(before, 1), before))


def _copy(fn: Surroundings, i: Instruction, f: CopyForm) -> None:
    b = fn.b
    to = b.splat(fn.address(i, i.operands[0], "shared"))
    source = b.splat(fn.address(i, i.operands[1], "global"))
    amount = b.splat(_amount(fn, i, f))
    before = fn.active
    # A lane that reads nothing may have any source address; of a lane that reads a part, only that part is
    # checked.
    reads, writes = fn.unit.site(i, "global"), fn.unit.site(i, "shared")
    fn.active = admitted(fn, to, "shared", FaultKind.OUT_OF_BOUNDS_STORE, f.size, writes)
    if f.amount is None:
        fn.active = admitted(fn, source, "global", FaultKind.OUT_OF_BOUNDS_LOAD, f.size, reads)
    else:
        allowed = fn.active
        fn.active = b.land(allowed, b.compare("eq", amount, f.size))
        whole = admitted(fn, source, "global", FaultKind.OUT_OF_BOUNDS_LOAD, f.size, reads)
        none = b.land(allowed, b.compare("eq", amount, 0))
        rest = b.land(b.land(allowed, b.compare("ne", amount, 0)), b.compare("ne", amount, f.size))
        fn.active = b.lor(b.lor(whole, none), _admit_parts(fn, source, amount, rest, f.size, reads))
    copy = Copy(to, source, amount, f.size, reads, writes)
    for observer in fn.observers:
        observer.copies(i, copy)
    given = {"target": to, "source": source, "amount": amount, "mask": b.splat(fn.active)}
    call(b, add_signature(fn.width), **given, size=f.size, **code_context(writes))
    fn.active = before


def _amount(fn: Surroundings, i: Instruction, f: CopyForm) -> Value:
    """The bytes that each lane reads, i32."""
    b = fn.b
    if f.amount is None:
        return b.const("i32", f.size)
    for observer in fn.observers:
        observer.uses(i, f.amount)
    if isinstance(f.amount, Register) and f.amount.type == "pred":
        left_out = fn.read(i, f.amount, TYPES["pred"])
        return b.select(left_out, b.const("i32", 0), b.const("i32", f.size))
    return b.intrinsic("umin", fn.read(i, f.amount, _U32), b.const("i32", f.size))


def _admit_parts(fn: Surroundings, source: Value, amount: Value, lanes: Value, size: int, site: int) -> Value:
    """Of ``lanes``, which read only a part: those whose part is valid. Records a fault for each of the others."""
    b = fn.b
    slot = f"%{b.fresh('parts')}"
    fn.prologue.line(f"{slot} = alloca i32")
    bits = b.resize(b.mask_bits(b.splat(lanes)), "i32")
    b.line(f"store {b.typed(bits)}, ptr {slot}")
    with b.when(b.compare("ne", bits, 0), UNLIKELY):
        given = {"source": source, "amount": amount, "lanes": bits}
        valid = call(b, parts_signature(fn.width), **given, size=size, **code_context(site))
        b.line(f"store {b.typed(valid)}, ptr {slot}")
    allowed = b.value(f"load i32, ptr {slot}", "i32")
    return b.bits_mask(b.resize(allowed, "i1" if fn.width == 1 else f"i{fn.width}"), fn.width)
