"""Recording races: LLVM IR that is called for two accesses that no barrier orders."""

# ruff: noqa: E501 (lines of LLVM IR)

from __future__ import annotations

import ctypes

from kcheck.ptx.abi import Allocation, Block, Launch
from kcheck.ptx.sanitizers.race.layout import (
    CHANGED,
    CHANGED_EVER,
    INFLIGHT,
    LAST_STAMP,
    READ,
    REPLICATED,
    SAME_VALUE,
    SITE_MASK,
    THREAD_BITS,
    THREAD_MASK,
    UNCHANGED,
    Access,
    Event,
    Race,
    RaceState,
)
from kcheck.ptx.sanitizers.race.sync import load_ir, state_ir

# The base of the allocation that contains an address, 0 if there is none: memcheck reports accesses outside.
_OWNER = f"""
define internal i64 @kcheck.race.owner(ptr %launch, i64 %a) noinline {{
{load_ir("table", "launch", Launch.allocations.offset, "ptr")}{load_ir("n", "launch", Launch.allocation_count.offset, "i64")}  br label %search
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

# Whether two writes to one granule write the same value: an earlier lane of the same instruction may not have
# written its value to memory yet.
_BENIGN = f"""
define internal i1 @kcheck.race.benign(ptr %rs, ptr %access, i64 %address, i32 %me, i32 %stamp, i32 %info, i32 %granule) noinline {{
{load_ir("as", "access", Access.addresses.offset, "ptr")}{load_ir("vs", "access", Access.values.offset, "ptr")}{load_ir("size", "access", Access.size.offset, "i32")}{load_ir("mask", "access", Access.mask.offset, "i32")}{load_ir("t0", "access", Access.t0.offset, "i32")}{load_ir("lane", "access", Access.lane.offset, "i32")}  %mp = getelementptr i64, ptr %as, i32 %lane
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


_ASK = f"""  br i1 %filling, label %unknown, label %ask
ask:
  %ask1 = zext i32 %me to i64
  %ask2 = zext i32 %info to i64
  %ask3 = zext i32 %stamp to i64
  %askb = zext i1 %benign to i64
  %ask4 = or i64 %base, %askb
  %asked = call i32 @kcheck.race.tell(ptr %launch, i32 {int(Event.DECIDE)}, i64 %ask1, i64 %ask2, i64 %ask3, i64 %ask4)
  %is_known = icmp ne i32 %asked, 0
  br i1 %is_known, label %done, label %unknown
unknown:
"""


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
define internal void @kcheck.race.judge(ptr %launch, ptr %block, ptr %access, i64 %address, i32 %me, i32 %record, i32 %stamp, i32 %info, i1 %shared, i1 %write, i1 %read, i32 %granule) noinline cold {{
{state_ir()}  %now = load i32, ptr %rs
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
  %filling = icmp eq i32 %record, {INFLIGHT}
  %settled = xor i1 %filling, true
  %mates1 = and i1 %near, %samewarp
  %mates = and i1 %mates1, %settled
  br i1 %mates, label %partial, label %who
partial:
{load_ir("lanes", "rs", RaceState.lanes.offset, "ptr")}  %to = shl i32 %thread, 5
  %ol = and i32 %othread, 31
  %li = or i32 %to, %ol
  %lp = getelementptr i32, ptr %lanes, i32 %li
  %known = load i32, ptr %lp
  %knows = icmp ult i32 %stamp, %known
  br i1 %knows, label %done, label %who
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
  %same = phi i1 [false, %owned], [%alike, %weigh]
  %same32 = select i1 %same, i32 {SAME_VALUE}, i32 0
  %reads = sub i32 %record, {READ}
  %isread = icmp ult i32 %reads, 2
  %mine1 = and i32 %me, {CHANGED}
  %mine2 = icmp eq i32 %mine1, 0
  %beside = and i1 %isread, %write
  %keeps = and i1 %beside, %mine2
  %which = select i1 %near, i32 {CHANGED}, i32 {CHANGED_EVER}
  %theirs1 = and i32 %info, %which
  %theirs2 = icmp eq i32 %theirs1, 0
  %after = and i1 %isw, %read
  %kept = and i1 %after, %theirs2
  %unchanged = or i1 %keeps, %kept
  %benign31 = select i1 %unchanged, i32 {UNCHANGED}, i32 %same32
{load_ir("replicates", "rs", RaceState.replicates.offset, "i64")}  %copies1 = icmp ne i64 %replicates, 0
  %sx = xor i32 %me, %info
  %sitebits = and i32 %sx, {SITE_MASK << THREAD_BITS}
  %onesite = icmp eq i32 %sitebits, 0
  %copies2 = and i1 %mates, %onesite
  %copies3 = and i1 %copies1, %copies2
  %copies = and i1 %copies3, %both
  %equal = and i1 %copies, %same
  br i1 %equal, label %done, label %differ
differ:
  %benign32 = select i1 %copies, i32 {REPLICATED}, i32 %benign31
  %benign = icmp ne i32 %benign32, 0
{_ASK if fences else ""}  %ms = lshr i32 %me, {THREAD_BITS}
  %site = and i32 %ms, {SITE_MASK}
  %os = lshr i32 %info, {THREAD_BITS}
  %osite = and i32 %os, {SITE_MASK}
{load_ir("table", "rs", RaceState.races.offset, "ptr")}{load_ir("count", "rs", RaceState.race_count.offset, "i64")}{load_ir("room", "rs", RaceState.race_capacity.offset, "i64")}  br label %search
search:
  %i = phi i64 [0, %{"unknown" if fences else "differ"}], [%i1, %other]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %look, label %new
look:
  %lo = mul i64 %i, {ctypes.sizeof(Race)}
  %e = getelementptr i8, ptr %table, i64 %lo
  %e1 = load i32, ptr %e
{load_ir("e2", "e", Race.other_site.offset, "i32")}{load_ir("e3", "e", Race.record.offset, "i32")}{load_ir("e4", "e", Race.benign.offset, "i32")}{load_ir("e5", "e", Race.base.offset, "i64")}  %q1 = icmp eq i32 %e1, %site
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
{load_ir("seen", "e", Race.count.offset, "i64")}  %seen1 = add i64 %seen, 1
  store i64 %seen1, ptr %seen.p
  ret void
other:
  %i1 = add i64 %i, 1
  br label %search
new:
  %fits = icmp ult i64 %count, %room
  br i1 %fits, label %keep, label %drop
drop:
{load_ir("dropped", "rs", RaceState.races_dropped.offset, "i64")}  %dropped1 = add i64 %dropped, 1
  store i64 %dropped1, ptr %dropped.p
  ret void
keep:
  %count1 = add i64 %count, 1
  store i64 %count1, ptr %count.p
  %no = mul i64 %count, {ctypes.sizeof(Race)}
  %n = getelementptr i8, ptr %table, i64 %no
{load_ir("as", "access", Access.addresses.offset, "ptr")}{load_ir("vs", "access", Access.values.offset, "ptr")}{load_ir("size", "access", Access.size.offset, "i32")}{load_ir("lane", "access", Access.lane.offset, "i32")}{load_ir("linear", "block", Block.linear.offset, "i64")}  %mp = getelementptr i64, ptr %as, i32 %lane
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


def definitions(fences: bool) -> dict[str, str]:
    """Every function of this module, by name; with fences the host is asked first."""
    return {
        "@kcheck.race.owner": _OWNER,
        "@kcheck.race.benign": _BENIGN,
        "@kcheck.race.judge": _judge_ir(fences),
    }
