"""Operations of the lanes of one warp: votes, matches, shuffles, ``redux``.

Source: PTX ISA, "Warp-level instructions". Written for a vector that holds the whole warp (W = 32). A member mask
that names lanes which do not execute the instruction is a finding; the instruction then works on those that do. It
is a warning if they have exited or never existed: the instructions wait for "all non-exited threads" of the mask
(so does ``__syncwarp``, CUDA C++ Programming Guide). What a shuffle reads from a missing lane is undefined.
"""

from __future__ import annotations

from functools import partial

from kcheck.ptx.abi import FaultKind
from kcheck.ptx.ir.builder import Builder, Value, vector_type
from kcheck.ptx.isa.effects import effect, ordered
from kcheck.ptx.isa.missing_lanes import absent, report, report_sources
from kcheck.ptx.isa.surroundings import Surroundings
from kcheck.ptx.program import UNNAMED_LANE
from kcheck.ptx.syntax.ast import Instruction, Operand, Pair
from kcheck.ptx.syntax.opcodes import BARRIERS
from kcheck.ptx.syntax.types import TYPES

UNDEFINED = -1
"""What a lane reads from one that has exited or that its mask does not name: NaN in every float type, or -1."""

_WHOLE_WARP = (-1, 0xFFFFFFFF)
_U32 = TYPES["u32"]
_PRED = TYPES["pred"]


def whole_warp(fn: Surroundings, i: Instruction) -> None:
    """Reject a vector that holds only part of a warp.

    Raises:
        PtxError: the width is below 32; lower the kernel with 32.
    """
    if fn.width != 32:
        raise fn.fail(i, f"lanes of a warp work together here: it cannot be lowered with a width of {fn.width}")


def check_mask(fn: Surroundings, i: Instruction, operand: Operand, source: Value | None = None) -> Value:
    """Report lanes that a member mask names but that do not execute the instruction, and lanes that execute it but
    that their own mask does not name (PTX ISA: both undefined); returns the mask of each lane, as i32.

    Lanes may have different masks: each set of lanes that name each other is a separate group.

    Args:
        source: the lane that each lane reads, i32; None if lanes do not read each other.
    """
    return _checked(fn, i, operand, source)[0]


def _checked(fn: Surroundings, i: Instruction, operand: Operand, source: Value | None) -> tuple[Value, Value]:
    """The mask of each lane, and, as bits, the lanes that read an exited lane."""
    b = fn.b
    members = fn.read(i, operand, _U32)
    missing = b.land(members, b.invert(fn.active_bits()))
    if members.lanes > 1:
        missing = _reduce(fn, "or", b.select(fn.active, missing, b.const("i32", 0)))
    site = fn.unit.site(i, "")
    if source is None:
        reads = b.const("i32", 0)
        report(fn, site, missing, partial(absent, fn, missing))
    else:
        reads = report_sources(fn, site, missing, source)
    if fn.constant(operand) not in _WHOLE_WARP:
        named = members
        if members.lanes > 1:
            own = b.land(b.shift("lshr", members, fn.lane_numbers()), 1)
            named = b.mask_bits(b.compare("ne", own, 0))
        unnamed = b.land(fn.active_bits(), b.invert(named))
        report(fn, site, unnamed, lambda: (b.const("i32", int(FaultKind.WARP_MASK_SELF)), unnamed))
    for observer in fn.observers:
        observer.synchronizes(members, orders=i.opcode in BARRIERS)
    return members, reads


@effect("vote")
def vote(fn: Surroundings, i: Instruction) -> None:
    """``vote.sync.all/any/uni.pred p, {!}a, mask`` and ``vote.sync.ballot.b32 d, {!}a, mask``."""
    whole_warp(fn, i)
    words = [m for m in i.modifiers if m != "sync"]
    if "sync" in i.modifiers:
        ordered(fn, i, 3)
        members = check_mask(fn, i, i.operands[2])
    else:
        ordered(fn, i, 2)
        members = fn.b.const("i32", -1)
    b = fn.b
    here = b.land(fn.active_bits(), members)
    for observer in fn.observers:
        observer.joins(i, here)
    true = b.land(b.mask_bits(b.splat(fn.read(i, i.operands[1], _PRED))), here)
    if words == ["ballot", "b32"]:
        fn.write(i, i.operands[0], _U32, true, False)
        return
    results = {
        "all": b.compare("eq", true, here),
        "any": b.compare("ne", true, 0),
        "uni": b.lor(b.compare("eq", true, here), b.compare("eq", true, 0)),
    }
    if len(words) != 2 or words[0] not in results or words[1] != "pred":
        raise fn.fail(i, "not supported")
    fn.write(i, i.operands[0], _PRED, results[words[0]], False)


@effect("activemask")
def activemask(fn: Surroundings, i: Instruction) -> None:
    """The lanes that execute this together."""
    whole_warp(fn, i)
    ordered(fn, i, 1)
    fn.write(i, i.operands[0], _U32, fn.active_bits(), False)


@effect("elect")
def elect(fn: Surroundings, i: Instruction) -> None:
    """``elect.sync d|p, mask``: the first lane of the mask is elected."""
    whole_warp(fn, i)
    ordered(fn, i, 2)
    b = fn.b
    members = check_mask(fn, i, i.operands[1])
    leader = b.resize(b.flagged_intrinsic("cttz", b.land(members, fn.active_bits()), False), "i32")
    target = i.operands[0]
    if not isinstance(target, Pair):
        raise fn.fail(i, "expected d|p")
    for observer in fn.observers:
        observer.derives(i, (target.first, target.second), i.operands[1:])
    fn.write(i, target.first, _U32, leader, False)
    fn.write(i, target.second, _PRED, b.compare("eq", fn.lane_numbers(), leader), False)


@effect("shfl")
def shfl(fn: Surroundings, i: Instruction) -> None:
    """``shfl.sync.mode.b32 d|p, a, b, c, mask``: PTX ISA, shfl.sync, its pseudocode."""
    whole_warp(fn, i)
    mode = i.modifiers[-2] if len(i.modifiers) >= 2 else ""
    if i.modifiers[-1:] != ("b32",) or mode not in ("up", "down", "bfly", "idx"):
        raise fn.fail(i, "not supported")
    ordered(fn, i, 5 if "sync" in i.modifiers else 4)
    b = fn.b
    value = b.splat(fn.read(i, i.operands[1], TYPES["b32"]))
    known = fn.constant(i.operands[2]), fn.constant(i.operands[3])
    if known[0] is not None and known[1] is not None:
        # This is the case in tree reductions. A shuffle takes one or two instructions; permute() takes thirty.
        sources, valid = _fixed_sources(fn, mode, known[0], known[1])
        move = partial(shuffled, b, sources=sources)
        source = b.lanes_const("i32", sources)
    else:
        source, valid = _source(b, mode, fn.lane_numbers(), *(fn.read(i, o, _U32) for o in i.operands[2:4]))
        move = partial(permute, fn, source=source)
    result, lost = move(value), None
    if "sync" in i.modifiers:
        members, exited = _checked(fn, i, i.operands[4], source)
        lost = b.bits_mask(exited, 32)
        if fn.constant(i.operands[4]) not in _WHOLE_WARP:
            named = b.land(b.shift("lshr", members, b.land(source, 31)), 1)
            unnamed = b.land(b.splat(b.compare("eq", named, 0)), b.splat(fn.active))
            lost = b.lor(lost, unnamed)
            source = b.select(unnamed, b.lor(source, UNNAMED_LANE), source)
        result = b.select(lost, b.const("i32", UNDEFINED), result)
    target = i.operands[0]
    targets: tuple[Operand, ...] = (target.first, target.second) if isinstance(target, Pair) else (target,)
    for observer in fn.observers:
        observer.shuffles(i, move, source, lost)
    fn.write(i, targets[0], TYPES["b32"], result, False)
    if len(targets) > 1:
        fn.write(i, targets[1], _PRED, valid, False)


def _source(b: Builder, mode: str, lane: Value, offset: Value, control: Value) -> tuple[Value, Value]:
    """The lane that each lane reads, and whether it is within the segment."""
    offset = b.land(offset, 31)
    segment = b.land(b.shift("lshr", control, 8), 31)
    clamp = b.land(control, 31)
    low = b.land(lane, segment)
    outside = b.xor(segment, 31)
    limit = b.lor(low, b.land(clamp, outside))
    if mode == "up":
        source = b.sub(lane, offset)
        valid = b.compare("sge", source, limit)
    else:
        if mode == "down":
            source = b.add(lane, offset)
        elif mode == "bfly":
            source = b.xor(lane, offset)
        else:
            source = b.lor(low, b.land(offset, outside))
        valid = b.compare("sle", source, limit)
    return b.select(valid, source, lane), valid


def _fixed_sources(fn: Surroundings, mode: str, offset: int, control: int) -> tuple[list[int], Value]:
    """The same for constants: the lane that each lane reads, and those within their segments."""
    offset, segment, clamp = offset & 31, control >> 8 & 31, control & 31
    sources, within = [], []
    for lane in range(fn.width):
        limit = lane & segment | clamp & ~segment
        low = lane & segment
        source = {
            "up": lane - offset,
            "down": lane + offset,
            "bfly": lane ^ offset,
            "idx": low | offset & ~segment,
        }[mode]
        within.append(source >= limit if mode == "up" else source <= limit)
        sources.append(source if within[-1] else lane)
    return sources, fn.b.lanes_const("i1", [int(inside) for inside in within])


def shuffled(b: Builder, value: Value, sources: list[int]) -> Value:
    """A vector in which each lane has the value of the lane that it names."""
    return b.shuffle(value, Value("poison", value.type, value.lanes), sources)


def permute(fn: Surroundings, value: Value, source: Value) -> Value:
    """The value of the lane that each lane names, through memory, which works on any CPU."""
    b, W = fn.b, fn.width
    kind = vector_type(value.type, W)
    slot = f"%{b.fresh('lanes')}"
    fn.prologue.line(f"{slot} = alloca {kind}, align 64")
    b.line(f"store {b.typed(value)}, ptr {slot}, align 64")
    source = b.splat(source)
    pointers = b.value(f"getelementptr {value.type}, ptr {slot}, {b.typed(source)}", "ptr", W)
    name = f"@llvm.masked.gather.v{W}{value.type}.v{W}p0"
    fn.unit.declarations[name] = f"declare {kind} {name}(<{W} x ptr>, i32, <{W} x i1>, {kind})"
    size = value.bits // 8
    given = f"{b.typed(pointers)}, i32 {size}, <{W} x i1> splat (i1 true), {kind} zeroinitializer"
    return b.invoke(name, kind, given, value.type, W)


_REDUX = frozenset({"add", "and", "or", "xor"})


@effect("redux")
def redux(fn: Surroundings, i: Instruction) -> None:
    """``redux.sync.op.type d, a, mask`` over the members; all of them get the result."""
    whole_warp(fn, i)
    ordered(fn, i, 3)
    words = [m for m in i.modifiers if m != "sync"]
    if len(words) != 2 or words[1] not in ("u32", "s32", "b32"):
        raise fn.fail(i, "not supported")
    b = fn.b
    members = check_mask(fn, i, i.operands[2])
    here = b.land(fn.active_bits(), members)
    value = b.splat(fn.read(i, i.operands[1], TYPES["b32"]))
    operation, kind = words
    signed = kind == "s32"
    for observer in fn.observers:
        observer.joins(i, here)
    if operation in _REDUX:
        name, neutral = operation, -1 if operation == "and" else 0
    elif operation in ("min", "max") and kind != "b32":
        name = ("s" if signed else "u") + operation
        extremes = (0x7FFFFFFF, -0x80000000) if signed else (-1, 0)
        neutral = extremes[operation == "max"]
    else:
        raise fn.fail(i, "not supported")
    none = b.const("i32", neutral)
    if here.lanes == 1:
        result = _reduce(fn, name, b.select(b.bits_mask(here, fn.width), value, none))
    else:
        result = b.splat(none)
        for lane in range(fn.width):
            mine = b.compare("ne", b.land(b.shift("lshr", here, lane), 1), 0)
            item = b.select(mine, b.splat(b.extract(value, lane)), none)
            result = b.op(name, result, item) if name in _REDUX else b.intrinsic(name, result, item)
    fn.write(i, i.operands[0], TYPES["b32"], result, False)


def _reduce(fn: Surroundings, name: str, value: Value) -> Value:
    """All lanes of an i32 vector combined into one."""
    W = fn.width
    intrinsic = f"@llvm.vector.reduce.{name}.v{W}i32"
    fn.unit.declarations[intrinsic] = f"declare i32 {intrinsic}(<{W} x i32>)"
    return fn.b.invoke(intrinsic, "i32", fn.b.typed(value), "i32")


@effect("match")
def match(fn: Surroundings, i: Instruction) -> None:
    """``match.any.sync.type d, a, mask``; ``match.all.sync.type d|p, a, mask``."""
    whole_warp(fn, i)
    ordered(fn, i, 3)
    words = [m for m in i.modifiers if m != "sync"]
    if len(words) != 2 or words[0] not in ("any", "all") or words[1] not in ("b32", "b64"):
        raise fn.fail(i, "not supported")
    b, W = fn.b, fn.width
    kind = TYPES[words[1]]
    members = check_mask(fn, i, i.operands[2])
    here = b.land(fn.active_bits(), members)
    value = b.splat(fn.read(i, i.operands[1], kind))
    for observer in fn.observers:
        observer.joins(i, here)
    if words[0] == "all":
        first = b.land(b.flagged_intrinsic("cttz", here, False), W - 1)
        if here.lanes == 1:
            equal = b.land(b.mask_bits(b.compare("eq", value, b.splat(b.extract(value, first)))), here)
        else:
            equal = b.land(_equal_lanes(fn, value, permute(fn, value, first)), here)
        same = b.compare("eq", equal, here)
        target = i.operands[0]
        targets: tuple[Operand, ...] = (target.first, target.second) if isinstance(target, Pair) else (target,)
        fn.write(i, targets[0], TYPES["b32"], b.select(same, here, b.const("i32", 0)), False)
        if len(targets) > 1:
            fn.write(i, targets[1], _PRED, same, False)
        return
    fn.write(i, i.operands[0], TYPES["b32"], b.land(_equal_lanes(fn, value, value), here), False)


def _equal_lanes(fn: Surroundings, value: Value, wanted: Value) -> Value:
    """For each lane, the lanes in which ``value`` equals its ``wanted``, as bits."""
    b = fn.b
    result = b.splat(b.const("i32", 0))
    for lane in range(fn.width):
        same = b.resize(b.compare("eq", wanted, b.splat(b.extract(value, lane))), "i32")
        result = b.lor(result, b.shift("shl", same, lane))
    return result
