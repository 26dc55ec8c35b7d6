"""How time moves on, and what is written down of a race: LLVM IR."""

# ruff: noqa: E501 (lines of LLVM IR)

from __future__ import annotations

import ctypes

from kcheck.ptx.abi import Allocation, Block, Launch
from kcheck.ptx.race.layout import (
    LAST_STAMP,
    SITE_MASK,
    THREAD_BITS,
    THREAD_MASK,
    Access,
    BlockStart,
    Event,
    Race,
    RaceState,
)


def _state(name: str = "rs") -> str:
    return f"  %{name}p = getelementptr i8, ptr %launch, i64 {Launch.race.offset}\n  %{name} = load ptr, ptr %{name}p\n"


def _load(name: str, source: str, offset: int, kind: str) -> str:
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
{_state()}  %now = call i32 @kcheck.race.tick(ptr %rs)
  %start = getelementptr i8, ptr %rs, i64 {RaceState.start.offset}
  store i32 %now, ptr %start
  %barrier = getelementptr i8, ptr %rs, i64 {RaceState.barrier.offset}
  store i32 %now, ptr %barrier
{_load("count", "rs", RaceState.block_count.offset, "i64")}{_load("room", "rs", RaceState.block_capacity.offset, "i64")}  %more = add i64 %count, 1
  store i64 %more, ptr %count.p
  %fits = icmp ult i64 %count, %room
  br i1 %fits, label %keep, label %done
keep:
{_load("table", "rs", RaceState.blocks.offset, "ptr")}  %at = mul i64 %count, {ctypes.sizeof(BlockStart)}
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
{_state()}  %now = call i32 @kcheck.race.tick(ptr %rs)
  %barrier = getelementptr i8, ptr %rs, i64 {RaceState.barrier.offset}
  store i32 %now, ptr %barrier
  ret void
}}
"""

# Lanes that name each other synchronise: all of the warp, or a part of it, which then knows what each of it knew.
_WARP = f"""
define internal void @kcheck.race.warp(ptr %launch, i32 %warp, i32 %active, ptr %masks) noinline {{
{_state()}  %n.p = getelementptr i8, ptr %launch, i64 {Launch.threads.offset}
  %n = load i32, ptr %n.p
  %first = shl i32 %warp, 5
  %rest = sub i32 %n, %first
  %whole = icmp uge i32 %rest, 32
  %part = and i32 %rest, 31
  %one = shl i32 1, %part
  %some = sub i32 %one, 1
  %all = select i1 %whole, i32 -1, i32 %some
{_load("table", "rs", RaceState.lanes.offset, "ptr")}  %wo = shl i32 %warp, 10
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

# The base of the allocation that an address lies in, 0 for none: accesses outside are memcheck's to report.
_OWNER = f"""
define internal i64 @kcheck.race.owner(ptr %launch, i64 %a) noinline {{
{_load("table", "launch", Launch.allocations.offset, "ptr")}{_load("n", "launch", Launch.allocation_count.offset, "i64")}  br label %search
search:
  %lo = phi i64 [0, %0], [%lo2, %step]
  %hi = phi i64 [%n, %0], [%hi2, %step]
  %more = icmp ult i64 %lo, %hi
  br i1 %more, label %step, label %found
step:
  %sum = add i64 %lo, %hi
  %mid = lshr i64 %sum, 1
  %ep = getelementptr {{i64, i64}}, ptr %table, i64 %mid
  %eb = load i64, ptr %ep
  %right = icmp ule i64 %eb, %a
  %mid1 = add i64 %mid, 1
  %lo2 = select i1 %right, i64 %mid1, i64 %lo
  %hi2 = select i1 %right, i64 %hi, i64 %mid
  br label %search
found:
  %none = icmp eq i64 %lo, 0
  br i1 %none, label %nobody, label %candidate
candidate:
  %ci = sub i64 %lo, 1
  %cp = getelementptr {{i64, i64}}, ptr %table, i64 %ci
  %base = load i64, ptr %cp
  %sp = getelementptr i8, ptr %cp, i64 {Allocation.size.offset}
  %size = load i64, ptr %sp
  %d = sub i64 %a, %base
  %in = icmp ult i64 %d, %size
  br i1 %in, label %yes, label %nobody
yes:
  ret i64 %base
nobody:
  ret i64 0
}}
"""

# Whether two writes of one granule write the same: what an earlier lane of the same instruction is about to write
# is not in memory yet.
_BENIGN = f"""
define internal i1 @kcheck.race.benign(ptr %rs, ptr %access, i64 %address, i32 %me, i32 %stamp, i32 %info, i32 %granule) noinline {{
{_load("as", "access", Access.addresses.offset, "ptr")}{_load("vs", "access", Access.values.offset, "ptr")}{_load("size", "access", Access.size.offset, "i32")}{_load("mask", "access", Access.mask.offset, "i32")}{_load("t0", "access", Access.t0.offset, "i32")}{_load("lane", "access", Access.lane.offset, "i32")}  %mp = getelementptr i64, ptr %as, i32 %lane
  %mine = load i64, ptr %mp
  %off = sub i64 %address, %mine
  %vo = mul i32 %lane, %size
  %vp = getelementptr i8, ptr %vs, i32 %vo
  %new = getelementptr i8, ptr %vp, i64 %off
  %memory = inttoptr i64 %address to ptr
  %now = load i32, ptr %rs
  %fresh = icmp eq i32 %stamp, %now
  %x = xor i32 %info, %me
  %sites = and i32 %x, {SITE_MASK << THREAD_BITS}
  %site = icmp eq i32 %sites, 0
  %ot = and i32 %info, {THREAD_MASK}
  %ol = sub i32 %ot, %t0
  %near = icmp ult i32 %ol, 32
  %c1 = and i1 %fresh, %site
  %c2 = and i1 %c1, %near
  br i1 %c2, label %lanes, label %compare
lanes:
  %ob = lshr i32 %mask, %ol
  %on = trunc i32 %ob to i1
  br i1 %on, label %same, label %compare
same:
  %op = getelementptr i64, ptr %as, i32 %ol
  %oa = load i64, ptr %op
  %eq = icmp eq i64 %oa, %mine
  %ovo = mul i32 %ol, %size
  %ovp = getelementptr i8, ptr %vs, i32 %ovo
  %theirs = getelementptr i8, ptr %ovp, i64 %off
  %pick = select i1 %eq, ptr %theirs, ptr %memory
  br label %compare
compare:
  %old = phi ptr [%memory, %0], [%memory, %lanes], [%pick, %same]
  br label %bytes
bytes:
  %i = phi i32 [0, %compare], [%i1, %byte]
  %in = icmp ult i32 %i, %granule
  br i1 %in, label %byte, label %yes
byte:
  %np = getelementptr i8, ptr %new, i32 %i
  %nv = load i8, ptr %np
  %pp = getelementptr i8, ptr %old, i32 %i
  %pv = load i8, ptr %pp
  %i1 = add i32 %i, 1
  %alike = icmp eq i8 %nv, %pv
  br i1 %alike, label %bytes, label %no
yes:
  ret i1 true
no:
  ret i1 false
}}
"""


def _put(name: str, field: str, value: str) -> str:
    offset = getattr(Race, field).offset
    return (
        f"  %{name}.{field} = getelementptr i8, ptr %{name}, i64 {offset}\n  store {value}, ptr %{name}.{field}\n"
    )


_TELL = f"""
define internal i32 @kcheck.race.tell(ptr %launch, i32 %event, i64 %a, i64 %b, i64 %c, i64 %d) noinline {{
{_state()}{_load("function", "rs", RaceState.tell.offset, "ptr")}  %answer = call i32 %function(i32 %event, i64 %a, i64 %b, i64 %c, i64 %d)
  ret i32 %answer
}}
"""

_FENCE = f"""
define internal void @kcheck.race.fence(ptr %launch, i32 %t0, i32 %lanes, i64 %within) noinline {{
{_state()}  %now = call i32 @kcheck.race.tick(ptr %rs)
  %t64 = zext i32 %t0 to i64
  %l64 = zext i32 %lanes to i64
  call i32 @kcheck.race.tell(ptr %launch, i32 {int(Event.FENCE)}, i64 %t64, i64 %l64, i64 %within, i64 0)
  ret void
}}
"""


def _told(event: Event, a: str = "0", b: str = "0") -> str:
    return f"  call i32 @kcheck.race.tell(ptr %launch, i32 {int(event)}, i64 {a}, i64 {b}, i64 0, i64 0)\n"


def _judge_ir(fences: bool) -> str:
    fields = [
        ("site", "i32 %site"),
        ("other_site", "i32 %osite"),
        ("record", "i32 %record"),
        ("benign", "i32 %benign32"),
        ("base", "i64 %base"),
        ("count", "i64 1"),
        ("address", "i64 %address"),
        ("block", "i64 %linear"),
        ("thread", "i32 %thread"),
        ("other_thread", "i32 %othread"),
        ("other_stamp", "i32 %stamp"),
        ("size", "i32 %size"),
        ("access", "i64 %mine"),
        ("is_near", "i32 %near32"),
        ("is_write", "i32 %write32"),
    ]
    return f"""
define internal void @kcheck.race.judge(ptr %launch, ptr %block, ptr %access, i64 %address, i32 %me, i32 %record, i32 %stamp, i32 %info, i1 %shared, i1 %write, i32 %granule) noinline cold {{
{_state()}  %now = load i32, ptr %rs
  %late = icmp uge i32 %now, {LAST_STAMP}
  br i1 %late, label %done, label %begin
begin:
  %thread = and i32 %me, {THREAD_MASK}
  %othread = and i32 %info, {THREAD_MASK}
  %start.p = getelementptr i8, ptr %rs, i64 {RaceState.start.offset}
  %start = load i32, ptr %start.p
  %near = icmp uge i32 %stamp, %start
  %x = xor i32 %thread, %othread
  %wd = lshr i32 %x, 5
  %samewarp = icmp eq i32 %wd, 0
  %mates = and i1 %near, %samewarp
  br i1 %mates, label %partial, label %who
partial:
{_load("lanes", "rs", RaceState.lanes.offset, "ptr")}  %to = shl i32 %thread, 5
  %ol = and i32 %othread, 31
  %li = or i32 %to, %ol
  %lp = getelementptr i32, ptr %lanes, i32 %li
  %known = load i32, ptr %lp
  %after = icmp ult i32 %stamp, %known
  br i1 %after, label %done, label %who
who:
  br i1 %shared, label %owned, label %find
find:
  %owner = call i64 @kcheck.race.owner(ptr %launch, i64 %address)
  %lost = icmp eq i64 %owner, 0
  br i1 %lost, label %done, label %owned
owned:
  %base = phi i64 [0, %who], [%owner, %find]
  %isw = icmp eq i32 %record, 0
  %both = and i1 %isw, %write
  br i1 %both, label %weigh, label %weighed
weigh:
  %alike = call i1 @kcheck.race.benign(ptr %rs, ptr %access, i64 %address, i32 %me, i32 %stamp, i32 %info, i32 %granule)
  br label %weighed
weighed:
  %benign = phi i1 [false, %owned], [%alike, %weigh]
  %benign32 = zext i1 %benign to i32
{_ASK if fences else ""}  %ms = lshr i32 %me, {THREAD_BITS}
  %site = and i32 %ms, {SITE_MASK}
  %os = lshr i32 %info, {THREAD_BITS}
  %osite = and i32 %os, {SITE_MASK}
{_load("table", "rs", RaceState.races.offset, "ptr")}{_load("count", "rs", RaceState.race_count.offset, "i64")}{_load("room", "rs", RaceState.race_capacity.offset, "i64")}  br label %search
search:
  %i = phi i64 [0, %{"unknown" if fences else "weighed"}], [%i1, %other]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %look, label %new
look:
  %lo = mul i64 %i, {ctypes.sizeof(Race)}
  %e = getelementptr i8, ptr %table, i64 %lo
  %e1 = load i32, ptr %e
{_load("e2", "e", Race.other_site.offset, "i32")}{_load("e3", "e", Race.record.offset, "i32")}{_load("e4", "e", Race.benign.offset, "i32")}{_load("e5", "e", Race.base.offset, "i64")}  %q1 = icmp eq i32 %e1, %site
  %q2 = icmp eq i32 %e2, %osite
  %q3 = icmp eq i32 %e3, %record
  %q4 = icmp eq i32 %e4, %benign32
  %q5 = icmp eq i64 %e5, %base
  %r1 = and i1 %q1, %q2
  %r2 = and i1 %q3, %q4
  %r3 = and i1 %r1, %r2
  %r4 = and i1 %r3, %q5
  br i1 %r4, label %again, label %other
again:
{_load("seen", "e", Race.count.offset, "i64")}  %seen1 = add i64 %seen, 1
  store i64 %seen1, ptr %seen.p
  ret void
other:
  %i1 = add i64 %i, 1
  br label %search
new:
  %fits = icmp ult i64 %count, %room
  br i1 %fits, label %keep, label %drop
drop:
{_load("dropped", "rs", RaceState.races_dropped.offset, "i64")}  %dropped1 = add i64 %dropped, 1
  store i64 %dropped1, ptr %dropped.p
  ret void
keep:
  %count1 = add i64 %count, 1
  store i64 %count1, ptr %count.p
  %no = mul i64 %count, {ctypes.sizeof(Race)}
  %n = getelementptr i8, ptr %table, i64 %no
{_load("as", "access", Access.addresses.offset, "ptr")}{_load("vs", "access", Access.values.offset, "ptr")}{_load("size", "access", Access.size.offset, "i32")}{_load("lane", "access", Access.lane.offset, "i32")}{_load("linear", "block", Block.linear.offset, "i64")}  %mp = getelementptr i64, ptr %as, i32 %lane
  %mine = load i64, ptr %mp
  %near32 = zext i1 %near to i32
  %write32 = zext i1 %write to i32
{"".join(_put("n", *field) for field in fields)}  %from = inttoptr i64 %mine to ptr
  %vo = mul i32 %lane, %size
  %vp = getelementptr i8, ptr %vs, i32 %vo
  %source = select i1 %write, ptr %vp, ptr %from
  %vt = getelementptr i8, ptr %n, i64 {Race.value.offset}
  %size64 = zext i32 %size to i64
  call void @llvm.memcpy.p0.p0.i64(ptr %vt, ptr %source, i64 %size64, i1 false)
  br label %done
done:
  ret void
}}
"""


DECLARATIONS = {"@llvm.cttz.i32": "declare i32 @llvm.cttz.i32(i32, i1 immarg)"}


_ASK = f"""  %ask1 = zext i32 %me to i64
  %ask2 = zext i32 %info to i64
  %ask3 = zext i32 %stamp to i64
  %askb = zext i1 %benign to i64
  %ask4 = or i64 %base, %askb
  %asked = call i32 @kcheck.race.tell(ptr %launch, i32 {int(Event.DECIDE)}, i64 %ask1, i64 %ask2, i64 %ask3, i64 %ask4)
  %is_known = icmp ne i32 %asked, 0
  br i1 %is_known, label %done, label %unknown
unknown:
"""


def definitions(fences: bool) -> dict[str, str]:
    """Every function of this module, by name; with fences the host is told what moves time on."""
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
        "@kcheck.race.owner": _OWNER,
        "@kcheck.race.benign": _BENIGN,
        "@kcheck.race.judge": _judge_ir(fences),
    }
    return made | ({"@kcheck.race.tell": _TELL, "@kcheck.race.fence": _FENCE} if fences else {})
