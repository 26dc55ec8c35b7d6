"""How time advances, and which events the host gets: LLVM IR."""

# ruff: noqa: E501 (lines of LLVM IR)

from __future__ import annotations

import ctypes

from kcheck.ptx.abi import Launch
from kcheck.ptx.sanitizers.race.layout import (
    LAST_STAMP,
    BlockStart,
    Event,
    RaceState,
)


def state_ir() -> str:
    """``%rs``: the state."""
    return f"  %rsp = getelementptr i8, ptr %launch, i64 {Launch.race.offset}\n  %rs = load ptr, ptr %rsp\n"


def load_ir(name: str, source: str, offset: int, kind: str) -> str:
    """``%name``: a field of a structure; ``%name.p``: its address."""
    return f"  %{name}.p = getelementptr i8, ptr %{source}, i64 {offset}\n  %{name} = load {kind}, ptr %{name}.p\n"


_TICK = f"""
define internal i32 @kcheck.race.tick(ptr %rs) alwaysinline {{
  %now = load i32, ptr %rs
  %next = add i32 %now, 1
  %end = icmp uge i32 %now, {LAST_STAMP}
  %then = select i1 %end, i32 %now, i32 %next
  store i32 %then, ptr %rs
  ret i32 %then
}}
"""

_BLOCK = f"""
define internal void @kcheck.race.block(ptr %launch, i64 %linear) noinline {{
{state_ir()}  %now = call i32 @kcheck.race.tick(ptr %rs)
  %start = getelementptr i8, ptr %rs, i64 {RaceState.start.offset}
  store i32 %now, ptr %start
  %barrier = getelementptr i8, ptr %rs, i64 {RaceState.barrier.offset}
  store i32 %now, ptr %barrier
{load_ir("count", "rs", RaceState.block_count.offset, "i64")}{load_ir("room", "rs", RaceState.block_capacity.offset, "i64")}  %more = add i64 %count, 1
  store i64 %more, ptr %count.p
  %fits = icmp ult i64 %count, %room
  br i1 %fits, label %keep, label %done
keep:
{load_ir("table", "rs", RaceState.blocks.offset, "ptr")}  %at = mul i64 %count, {ctypes.sizeof(BlockStart)}
  %entry = getelementptr i8, ptr %table, i64 %at
  store i32 %now, ptr %entry
  %which = getelementptr i8, ptr %entry, i64 {BlockStart.block.offset}
  %number = trunc i64 %linear to i32
  store i32 %number, ptr %which
  br label %done
done:
  ret void
}}
"""

_BARRIER = f"""
define internal void @kcheck.race.barrier(ptr %launch) noinline {{
{state_ir()}  %now = call i32 @kcheck.race.tick(ptr %rs)
  %barrier = getelementptr i8, ptr %rs, i64 {RaceState.barrier.offset}
  store i32 %now, ptr %barrier
  ret void
}}
"""

# Lanes that name each other synchronize: all of the warp, or a part of it; each then knows what the others knew.
_WARP = f"""
define internal void @kcheck.race.warp(ptr %launch, i32 %warp, i32 %active, ptr %masks) noinline {{
{state_ir()}  %n.p = getelementptr i8, ptr %launch, i64 {Launch.threads.offset}
  %n = load i32, ptr %n.p
  %first = shl i32 %warp, 5
  %rest = sub i32 %n, %first
  %whole = icmp uge i32 %rest, 32
  %part = and i32 %rest, 31
  %one = shl i32 1, %part
  %some = sub i32 %one, 1
  %all = select i1 %whole, i32 -1, i32 %some
{load_ir("table", "rs", RaceState.lanes.offset, "ptr")}  %wo = shl i32 %warp, 10
  %rows = getelementptr i32, ptr %table, i32 %wo
  %known = alloca [32 x i32]
  br label %groups
groups:
  %left = phi i32 [%active, %0], [%left1, %next]
  %go = icmp ne i32 %left, 0
  br i1 %go, label %group, label %done
group:
  %lane = call i32 @llvm.cttz.i32(i32 %left, i1 false)
  %mp = getelementptr i32, ptr %masks, i32 %lane
  %named = load i32, ptr %mp
  %here = and i32 %named, %active
  %now = call i32 @kcheck.race.tick(ptr %rs)
  %together = icmp eq i32 %here, %all
  br i1 %together, label %full, label %partial
full:
  %sp = getelementptr i8, ptr %rs, i64 {RaceState.synced.offset}
  %swp = getelementptr i32, ptr %sp, i32 %warp
  store i32 %now, ptr %swp
  br label %next
partial:
  store [32 x i32] zeroinitializer, ptr %known
  br label %join
join:
  %k = phi i32 [0, %partial], [%k1, %joined]
  %bit = lshr i32 %here, %k
  %odd = trunc i32 %bit to i1
  br i1 %odd, label %row, label %joined
row:
  %ko = shl i32 %k, 5
  %kp = getelementptr i32, ptr %rows, i32 %ko
  %kv = load <32 x i32>, ptr %kp, align 4
  %old = load <32 x i32>, ptr %known, align 4
  %later = icmp ugt <32 x i32> %kv, %old
  %best = select <32 x i1> %later, <32 x i32> %kv, <32 x i32> %old
  store <32 x i32> %best, ptr %known, align 4
  %np = getelementptr i32, ptr %known, i32 %k
  br label %joined
joined:
  %k1 = add i32 %k, 1
  %more = icmp ult i32 %k1, 32
  br i1 %more, label %join, label %stamp
stamp:
  %before = load <32 x i32>, ptr %known, align 4
  %members = bitcast i32 %here to <32 x i1>
  %now1 = insertelement <32 x i32> poison, i32 %now, i32 0
  %now2 = shufflevector <32 x i32> %now1, <32 x i32> poison, <32 x i32> zeroinitializer
  %row1 = select <32 x i1> %members, <32 x i32> %now2, <32 x i32> %before
  br label %give
give:
  %g = phi i32 [0, %stamp], [%g1, %given]
  %gbit = lshr i32 %here, %g
  %godd = trunc i32 %gbit to i1
  br i1 %godd, label %set, label %given
set:
  %go32 = shl i32 %g, 5
  %gp = getelementptr i32, ptr %rows, i32 %go32
  store <32 x i32> %row1, ptr %gp, align 4
  br label %given
given:
  %g1 = add i32 %g, 1
  %gmore = icmp ult i32 %g1, 32
  br i1 %gmore, label %give, label %next
next:
  %self = shl i32 1, %lane
  %gone = or i32 %here, %self
  %stay = xor i32 %gone, -1
  %left1 = and i32 %left, %stay
  br label %groups
done:
  ret void
}}
define internal void @kcheck.race.warpall(ptr %launch, i32 %t0, i32 %active, i32 %mask) noinline {{
  %masks = alloca [32 x i32], align 64
  %m1 = insertelement <32 x i32> poison, i32 %mask, i32 0
  %m2 = shufflevector <32 x i32> %m1, <32 x i32> poison, <32 x i32> zeroinitializer
  store <32 x i32> %m2, ptr %masks, align 64
  %warp = lshr i32 %t0, 5
  call void @kcheck.race.warp(ptr %launch, i32 %warp, i32 %active, ptr %masks)
  ret void
}}
"""


# A barrier that waits for some threads of the block is treated as one for all, and the report says so.
_COUNTED = f"""
define internal void @kcheck.race.counted(ptr %launch, i1 %part) noinline {{
  br i1 %part, label %note, label %pass
note:
{state_ir()}  %counted = getelementptr i8, ptr %rs, i64 {RaceState.counted.offset}
  store i64 1, ptr %counted
  br label %pass
pass:
  call void @kcheck.race.barrier(ptr %launch)
  ret void
}}
"""

_TELL = f"""
define internal i32 @kcheck.race.tell(ptr %launch, i32 %event, i64 %a, i64 %b, i64 %c, i64 %d) noinline {{
{state_ir()}{load_ir("function", "rs", RaceState.tell.offset, "ptr")}  %answer = call i32 %function(i32 %event, i64 %a, i64 %b, i64 %c, i64 %d)
  ret i32 %answer
}}
"""

_FENCE = f"""
define internal void @kcheck.race.fence(ptr %launch, i32 %t0, i32 %lanes, i64 %within) noinline {{
{state_ir()}  %now = call i32 @kcheck.race.tick(ptr %rs)
  %t64 = zext i32 %t0 to i64
  %l64 = zext i32 %lanes to i64
  call i32 @kcheck.race.tell(ptr %launch, i32 {int(Event.FENCE)}, i64 %t64, i64 %l64, i64 %within, i64 0)
  ret void
}}
"""


def _told(event: Event, a: str = "0", b: str = "0") -> str:
    return f"  call i32 @kcheck.race.tell(ptr %launch, i32 {int(event)}, i64 {a}, i64 {b}, i64 0, i64 0)\n"


DECLARATIONS = {"@llvm.cttz.i32": "declare i32 @llvm.cttz.i32(i32, i1 immarg)"}


def definitions(fences: bool) -> dict[str, str]:
    """Every function of this module, by name; with fences the host gets every event that advances time."""
    block, barrier, warp = _BLOCK, _BARRIER, _WARP
    if fences:
        block = block.replace("done:\n", "done:\n" + _told(Event.BLOCK))
        barrier = barrier.replace("  ret void\n", _told(Event.BARRIER) + "  ret void\n")
        lanes = "  %w64 = zext i32 %warp to i64\n  %h64 = zext i32 %here to i64\n"
        warp = warp.replace("next:\n", "next:\n" + lanes + _told(Event.WARP, "%w64", "%h64"), 1)
    made = {
        "@kcheck.race.tick": _TICK,
        "@kcheck.race.block": block,
        "@kcheck.race.barrier": barrier,
        "@kcheck.race.warp": warp,
        "@kcheck.race.counted": _COUNTED,
    }
    return made | ({"@kcheck.race.tell": _TELL, "@kcheck.race.fence": _FENCE} if fences else {})
