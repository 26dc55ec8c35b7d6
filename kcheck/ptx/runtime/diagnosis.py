"""Which threads wait where when a barrier goes wrong: LLVM IR that runs only once a finding is certain.

Only the first such finding of a block is recorded: once barriers no longer match, later ones do not either. Of the
stops at which threads wait it names two: the one with the fewest threads, since that is where the code diverged
from the rest of the block, and the one with the most.
"""

# ruff: noqa: E501 (lines of LLVM IR)

from __future__ import annotations

from kcheck.ptx.abi import STOP_REQUESTED, WAITING, Block, FaultKind, Launch
from kcheck.ptx.lowering.suspension import STOP_BYTES

KINDS = {"block": 0, "grid": 1, "spin": 2, "warp": 3}
"""What a stop waits for, as numbers in ``@kcheck.kinds``."""

BLAMED, WARNED = 1, 2
"""Bits of ``Block.told``: a barrier error was recorded, after which nothing else is; a warning was recorded."""

ANY = -1
"""For ``@kcheck.diagnose``: search all stops, not only those of one barrier."""


def diagnose_ir(W: int, stops: int, vector_bytes: int) -> str:
    """``void @kcheck.diagnose(launch, block, vectors, n, only, why)``, ``i1 @kcheck.split(vectors, n, only)``,
    ``i32 @kcheck.gridsite(vectors, n)`` and ``void @kcheck.where(launch, block, vectors, n)``.

    The first records a fault from what threads wait for. ``only`` is a barrier's number, or ANY; ``why`` is the
    kind of the fault, or 0 to determine it. The second returns whether only part of a warp has reached an aligned
    barrier, the third the site of the grid barrier at which threads wait. The last records where threads spin or,
    if no thread spins, where they wait.
    """
    packed = ""
    before = "0"
    for name, value in (
        ("barrier", "%id"),
        ("other", "%other"),
        ("there", "%there"),
        ("gone", "%gone"),
        ("asked", "%asked"),
    ):
        low, bits = WAITING[name]
        packed += f"""  %{name}w = zext i32 {value} to i64
  %{name}k = and i64 %{name}w, {(1 << bits) - 1}
  %{name}s = shl i64 %{name}k, {low}
  %{name}p = or i64 {before}, %{name}s
"""
        before = f"%{name}p"
    return f"""
define internal void @kcheck.diagnose(ptr %launch, ptr %block, ptr %vectors, i32 %n, i32 %only, i32 %why) noinline cold {{
  %toldp = getelementptr i8, ptr %block, i64 {Block.told.offset}
  %told = load i64, ptr %toldp
  %mild = icmp eq i32 %why, {int(FaultKind.BARRIER_GONE)}
  %mark = select i1 %mild, i64 {WARNED}, i64 {BLAMED}
  %marked = or i64 %told, %mark
  store i64 %marked, ptr %toldp
  %before = select i1 %mild, i64 %told, i64 {BLAMED}
  %both = and i64 %before, %told
  %again = icmp ne i64 %both, 0
  br i1 %again, label %done, label %first
first:
  %counts = alloca [{stops} x i32]
  %firsts = alloca [{stops} x i32]
  %ids = alloca [{stops} x i32]
  %asks = alloca [{stops} x i32]
  %total = alloca i32
  store [{stops} x i32] zeroinitializer, ptr %counts
  store i32 0, ptr %total
  br label %v
v:
  %vi = phi i32 [0, %first], [%vi1, %vnext]
  %t = mul i32 %vi, {W}
  %in = icmp ult i32 %t, %n
  br i1 %in, label %vbody, label %choose
vbody:
  %v64 = zext i32 %vi to i64
  %vo = mul i64 %v64, {vector_bytes}
  %base = getelementptr i8, ptr %vectors, i64 %vo
  br label %j
j:
  %ji = phi i32 [0, %vbody], [%ji1, %jnext]
  %j64 = zext i32 %ji to i64
  %jo = mul i64 %j64, {STOP_BYTES}
  %rec = getelementptr i8, ptr %base, i64 %jo
  %wait = load i32, ptr %rec
  %none = icmp eq i32 %wait, 0
  br i1 %none, label %jnext, label %some
some:
  %pop = call i32 @llvm.ctpop.i32(i32 %wait)
  %tot0 = load i32, ptr %total
  %tot1 = add i32 %tot0, %pop
  store i32 %tot1, ptr %total
  %kp = getelementptr i32, ptr @kcheck.kinds, i32 %ji
  %kind = load i32, ptr %kp
  %idp = getelementptr i8, ptr %rec, i64 8
  %jid = load i32, ptr %idp
  %all = icmp slt i32 %only, 0
  %isblock = icmp eq i32 %kind, 0
  %isid = icmp eq i32 %jid, %only
  %that = and i1 %isblock, %isid
  %counted = or i1 %all, %that
  br i1 %counted, label %enter, label %jnext
enter:
  %cp = getelementptr i32, ptr %counts, i32 %ji
  %c0 = load i32, ptr %cp
  %c1 = add i32 %c0, %pop
  store i32 %c1, ptr %cp
  %fresh = icmp eq i32 %c0, 0
  br i1 %fresh, label %begin, label %jnext
begin:
  %fp = getelementptr i32, ptr %firsts, i32 %ji
  %tz = call i32 @llvm.cttz.i32(i32 %wait, i1 false)
  %ft = add i32 %t, %tz
  store i32 %ft, ptr %fp
  %ip = getelementptr i32, ptr %ids, i32 %ji
  %idk = select i1 %isblock, i32 %jid, i32 0
  store i32 %idk, ptr %ip
  %np = getelementptr i8, ptr %rec, i64 12
  %asked0 = load i32, ptr %np
  %askk = select i1 %isblock, i32 %asked0, i32 0
  %ap = getelementptr i32, ptr %asks, i32 %ji
  store i32 %askk, ptr %ap
  br label %jnext
jnext:
  %ji1 = add i32 %ji, 1
  %jm = icmp ult i32 %ji1, {stops}
  br i1 %jm, label %j, label %vnext
vnext:
  %vi1 = add i32 %vi, 1
  br label %v
choose:
  %k = phi i32 [0, %v], [%k1, %choose]
  %few = phi i32 [-1, %v], [%few2, %choose]
  %fewj = phi i32 [0, %v], [%fewj2, %choose]
  %places = phi i32 [0, %v], [%places1, %choose]
  %kcp = getelementptr i32, ptr %counts, i32 %k
  %kc = load i32, ptr %kcp
  %kz = icmp ne i32 %kc, 0
  %kone = zext i1 %kz to i32
  %places1 = add i32 %places, %kone
  %less = icmp ult i32 %kc, %few
  %take = and i1 %kz, %less
  %few2 = select i1 %take, i32 %kc, i32 %few
  %fewj2 = select i1 %take, i32 %k, i32 %fewj
  %k1 = add i32 %k, 1
  %km = icmp ult i32 %k1, {stops}
  br i1 %km, label %choose, label %against
against:
  %a = phi i32 [0, %choose], [%a1, %against]
  %most = phi i32 [0, %choose], [%most2, %against]
  %mostj = phi i32 [0, %choose], [%mostj2, %against]
  %acp = getelementptr i32, ptr %counts, i32 %a
  %ac = load i32, ptr %acp
  %notfew = icmp ne i32 %a, %fewj2
  %more = icmp ugt i32 %ac, %most
  %atake = and i1 %notfew, %more
  %most2 = select i1 %atake, i32 %ac, i32 %most
  %mostj2 = select i1 %atake, i32 %a, i32 %mostj
  %a1 = add i32 %a, 1
  %am = icmp ult i32 %a1, {stops}
  br i1 %am, label %against, label %tell
tell:
  %nobody = icmp eq i32 %places1, 0
  br i1 %nobody, label %done, label %say
say:
  %single = icmp eq i32 %places1, 1
  %sp = getelementptr i32, ptr @kcheck.places, i32 %fewj2
  %site = load i32, ptr %sp
  %op = getelementptr i32, ptr @kcheck.places, i32 %mostj2
  %osite = load i32, ptr %op
  %osite1 = add i32 %osite, 1
  %other = select i1 %single, i32 0, i32 %osite1
  %there = select i1 %single, i32 0, i32 %most2
  %alive = load i32, ptr %total
  %gone = sub i32 %n, %alive
  %somegone = icmp ne i32 %gone, 0
  %idq = getelementptr i32, ptr %ids, i32 %fewj2
  %id = load i32, ptr %idq
  %asq = getelementptr i32, ptr %asks, i32 %fewj2
  %asked = load i32, ptr %asq
  %fkp = getelementptr i32, ptr @kcheck.kinds, i32 %fewj2
  %fk = load i32, ptr %fkp
  %isgrid = icmp eq i32 %fk, 1
  %left = select i1 %isgrid, i32 {int(FaultKind.GRID_BARRIER_EXITED)}, i32 {int(FaultKind.BARRIER_EXITED)}
  %alone = select i1 %somegone, i32 %left, i32 {int(FaultKind.BARRIER_COUNT)}
  %found = select i1 %single, i32 %alone, i32 {int(FaultKind.BARRIER_DIVERGENCE)}
  %given = icmp ne i32 %why, 0
  %what = select i1 %given, i32 %why, i32 %found
{packed}  %fsp = getelementptr i32, ptr %firsts, i32 %fewj2
  %thread = load i32, ptr %fsp
  call void @kcheck.fault(ptr %launch, ptr %block, i32 %thread, i32 %site, i32 %what, i64 {before}, i32 %few2, i32 0)
  br label %done
done:
  ret void
}}

define internal i1 @kcheck.split(ptr %vectors, i32 %n, i32 %only) noinline {{
  br label %warp
warp:
  %g = phi i32 [0, %0], [%g1, %nextwarp]
  %gt = shl i32 %g, 5
  %gin = icmp ult i32 %gt, %n
  br i1 %gin, label %stop, label %no
stop:
  %j = phi i32 [0, %warp], [%j1, %nextstop]
  br label %part
part:
  %p = phi i32 [0, %stop], [%p1, %nextpart]
  %q = phi i32 [0, %stop], [%q1, %nextpart]
  %alive = phi i32 [0, %stop], [%alive1, %nextpart]
  %here = phi i32 [0, %stop], [%here1, %nextpart]
  %g0 = mul i32 %g, {32 // W}
  %pv = add i32 %g0, %p
  %pt = mul i32 %pv, {W}
  %pin = icmp ult i32 %pt, %n
  br i1 %pin, label %look, label %nextpart
look:
  %pv64 = zext i32 %pv to i64
  %po = mul i64 %pv64, {vector_bytes}
  %q64 = zext i32 %q to i64
  %qo = mul i64 %q64, {STOP_BYTES}
  %at = add i64 %po, %qo
  %rec = getelementptr i8, ptr %vectors, i64 %at
  %wait = load i32, ptr %rec
  %shift = mul i32 %p, {W}
  %bits = shl i32 %wait, %shift
  %alive0 = or i32 %alive, %bits
  %mine = icmp eq i32 %q, %j
  %idp = getelementptr i8, ptr %rec, i64 8
  %id = load i32, ptr %idp
  %isid = icmp eq i32 %id, %only
  %that = and i1 %mine, %isid
  %add = select i1 %that, i32 %bits, i32 0
  %here0 = or i32 %here, %add
  br label %nextpart
nextpart:
  %alive1 = phi i32 [%alive, %part], [%alive0, %look]
  %here1 = phi i32 [%here, %part], [%here0, %look]
  %qs = add i32 %q, 1
  %qm = icmp ult i32 %qs, {stops}
  %q1 = select i1 %qm, i32 %qs, i32 0
  %ps = add i32 %p, 1
  %p1 = select i1 %qm, i32 %p, i32 %ps
  %pm = icmp ult i32 %p1, {32 // W}
  br i1 %pm, label %part, label %judge
judge:
  %ap = getelementptr i32, ptr @kcheck.aligned, i32 %j
  %aligned = load i32, ptr %ap
  %isaligned = icmp ne i32 %aligned, 0
  %some = icmp ne i32 %here1, 0
  %lack = icmp ne i32 %here1, %alive1
  %partly = and i1 %some, %lack
  %is = and i1 %partly, %isaligned
  br i1 %is, label %yes, label %nextstop
nextstop:
  %j1 = add i32 %j, 1
  %jm = icmp ult i32 %j1, {stops}
  br i1 %jm, label %stop, label %nextwarp
nextwarp:
  %g1 = add i32 %g, 1
  br label %warp
yes:
  ret i1 true
no:
  ret i1 false
}}

define internal i32 @kcheck.seek(ptr %vectors, i32 %n, i32 %kind) noinline cold {{
  br label %v
v:
  %vi = phi i32 [0, %0], [%vi1, %vnext]
  %t = mul i32 %vi, {W}
  %in = icmp ult i32 %t, %n
  br i1 %in, label %j, label %none
j:
  %ji = phi i32 [0, %v], [%ji1, %jnext]
  %v64 = zext i32 %vi to i64
  %vo = mul i64 %v64, {vector_bytes}
  %j64 = zext i32 %ji to i64
  %jo = mul i64 %j64, {STOP_BYTES}
  %at = add i64 %vo, %jo
  %rec = getelementptr i8, ptr %vectors, i64 %at
  %wait = load i32, ptr %rec
  %some = icmp ne i32 %wait, 0
  %kp = getelementptr i32, ptr @kcheck.kinds, i32 %ji
  %k = load i32, ptr %kp
  %that = icmp eq i32 %k, %kind
  %any = icmp slt i32 %kind, 0
  %either = or i1 %that, %any
  %found = and i1 %some, %either
  br i1 %found, label %yes, label %jnext
jnext:
  %ji1 = add i32 %ji, 1
  %jm = icmp ult i32 %ji1, {stops}
  br i1 %jm, label %j, label %vnext
vnext:
  %vi1 = add i32 %vi, 1
  br label %v
yes:
  %tz = call i32 @llvm.cttz.i32(i32 %wait, i1 false)
  %thread = add i32 %t, %tz
  %high = shl i32 %ji, 16
  %both = or i32 %high, %thread
  ret i32 %both
none:
  ret i32 -1
}}

define internal i32 @kcheck.gridsite(ptr %vectors, i32 %n) noinline cold {{
  %at = call i32 @kcheck.seek(ptr %vectors, i32 %n, i32 {KINDS["grid"]})
  %j = lshr i32 %at, 16
  %sp = getelementptr i32, ptr @kcheck.places, i32 %j
  %site = load i32, ptr %sp
  ret i32 %site
}}

define internal void @kcheck.where(ptr %launch, ptr %block, ptr %vectors, i32 %n) noinline cold {{
  %spin = call i32 @kcheck.seek(ptr %vectors, i32 %n, i32 {KINDS["spin"]})
  %some = icmp sge i32 %spin, 0
  br i1 %some, label %tell, label %others
others:
  %other = call i32 @kcheck.seek(ptr %vectors, i32 %n, i32 -1)
  %any = icmp sge i32 %other, 0
  br i1 %any, label %tell, label %done
tell:
  %at = phi i32 [%spin, %0], [%other, %others]
  %j = lshr i32 %at, 16
  %thread = and i32 %at, 65535
  %sp = getelementptr i32, ptr @kcheck.places, i32 %j
  %site = load i32, ptr %sp
  call void @kcheck.running(ptr %launch, ptr %block, i32 %thread, i32 %site, i32 0)
  br label %done
done:
  ret void
}}
"""


def running_ir() -> str:
    """``void @kcheck.running(launch, block, t0, site, lane)``: where a thread was when the host stopped the launch."""
    return f"""
define internal void @kcheck.running(ptr %launch, ptr %block, i32 %t0, i32 %site, i32 %lane) noinline cold {{
  %sp = getelementptr i8, ptr %launch, i64 {Launch.stop.offset}
  %stop = load atomic i32, ptr %sp monotonic, align 4
  %asked = icmp eq i32 %stop, {STOP_REQUESTED}
  br i1 %asked, label %tell, label %done
tell:
  call void @kcheck.fault(ptr %launch, ptr %block, i32 %t0, i32 %site, i32 {int(FaultKind.RUNNING)}, i64 0, i32 0, i32 %lane)
  br label %done
done:
  ret void
}}
"""
