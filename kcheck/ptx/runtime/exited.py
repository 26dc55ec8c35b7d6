"""Barriers that exited threads do not come to: LLVM IR that decides whether the barrier still completes.

Sources:

* PTX ISA, "Parallel Synchronization and Communication Instructions: barrier": a barrier waits for all non-exited
  threads of its warp, marks the arrival of the warp, and waits for the non-exited threads of the other warps.
* PTX ISA, "Control Flow Instructions: exit": when threads exit, barriers that wait for all threads are checked; if
  the exiting threads are the only ones that have not arrived, the barrier is released.
* CUDA C++ Programming Guide, "Compute Capability 7.x, Independent Thread Scheduling": ``__syncthreads()`` and
  ``bar.sync`` do not succeed until all non-exited threads of the block have reached them.

A thread that skips a barrier and goes on with the code behind it is another matter: ``__syncthreads()`` may only
be in conditional code if the condition is the same for the whole block (CUDA C++ Programming Guide,
"Synchronization Functions"); within a warp such code deadlocks where the compiler makes the lanes reconverge behind
the barrier. :mod:`kcheck.ptx.analysis.skips` finds the branches that skip a barrier.
"""

# ruff: noqa: E501 (lines of LLVM IR)

from __future__ import annotations

from kcheck.ptx.lowering.suspension import SKIPPED, STOP_BYTES


def exited_ir(W: int, stops: int, vector_bytes: int) -> str:
    """``i1 @kcheck.skipped(vectors, n, only)`` and ``void @kcheck.whole(vectors, n, only, budget, found)``.

    The first tells whether a thread that has exited skipped one of the stops at which threads wait for the barrier
    ``only``. The second counts the threads that wait for it as the hardware does, by whole warps: a warp counts as 32
    where all of its non-exited threads wait. It writes three i32 to ``found``: that count; how many threads wait in
    the first warps that make up ``budget``; how many threads of the counted warps have exited.
    """
    group = 32 // W
    return f"""
define internal i1 @kcheck.skipped(ptr %vectors, i32 %n, i32 %only) noinline cold {{
  %here = alloca [{stops} x i32]
  store [{stops} x i32] zeroinitializer, ptr %here
  br label %v
v:
  %vi = phi i32 [0, %0], [%vi1, %vnext]
  %second = phi i1 [false, %0], [%second1, %vnext]
  %t = mul i32 %vi, {W}
  %in = icmp ult i32 %t, %n
  br i1 %in, label %body, label %round
round:
  br i1 %second, label %no, label %vnext
body:
  %v64 = zext i32 %vi to i64
  %vo = mul i64 %v64, {vector_bytes}
  %base = getelementptr i8, ptr %vectors, i64 %vo
  br label %count
count:
  %k = phi i32 [0, %body], [%k1, %count]
  %alive = phi i32 [0, %body], [%alive1, %count]
  %k64 = zext i32 %k to i64
  %ko = mul i64 %k64, {STOP_BYTES}
  %krec = getelementptr i8, ptr %base, i64 %ko
  %kwait = load i32, ptr %krec
  %alive1 = or i32 %alive, %kwait
  %k1 = add i32 %k, 1
  %km = icmp ult i32 %k1, {stops}
  br i1 %km, label %count, label %j
j:
  %ji = phi i32 [0, %count], [%ji1, %jnext]
  %j64 = zext i32 %ji to i64
  %jo = mul i64 %j64, {STOP_BYTES}
  %rec = getelementptr i8, ptr %base, i64 %jo
  %hp = getelementptr i32, ptr %here, i32 %ji
  %before = load i32, ptr %hp
  br i1 %second, label %look, label %mark
mark:
  %wait = load i32, ptr %rec
  %some = icmp ne i32 %wait, 0
  %kp = getelementptr i32, ptr @kcheck.kinds, i32 %ji
  %kind = load i32, ptr %kp
  %isblock = icmp eq i32 %kind, 0
  %idp = getelementptr i8, ptr %rec, i64 8
  %id = load i32, ptr %idp
  %isid = icmp eq i32 %id, %only
  %at = and i1 %isblock, %isid
  %that = and i1 %at, %some
  %found = zext i1 %that to i32
  %both = or i32 %before, %found
  store i32 %both, ptr %hp
  br label %jnext
look:
  %sp = getelementptr i8, ptr %rec, i64 {SKIPPED}
  %skipped = load i32, ptr %sp
  %gone = xor i32 %alive1, -1
  %lanes = and i32 %skipped, %gone
  %any = icmp ne i32 %lanes, 0
  %waited = icmp ne i32 %before, 0
  %is = and i1 %any, %waited
  br i1 %is, label %yes, label %jnext
jnext:
  %ji1 = add i32 %ji, 1
  %jm = icmp ult i32 %ji1, {stops}
  br i1 %jm, label %j, label %vnext
vnext:
  %second1 = phi i1 [%second, %jnext], [true, %round]
  %next = phi i32 [%vi, %jnext], [-1, %round]
  %vi1 = add i32 %next, 1
  br label %v
yes:
  ret i1 true
no:
  ret i1 false
}}

define internal void @kcheck.whole(ptr %vectors, i32 %n, i32 %only, i32 %budget, ptr %found) noinline cold {{
  store [3 x i32] zeroinitializer, ptr %found
  %freep = getelementptr i32, ptr %found, i32 1
  %gonep = getelementptr i32, ptr %found, i32 2
  br label %warp
warp:
  %g = phi i32 [0, %0], [%g1, %nextwarp]
  %gt = shl i32 %g, 5
  %gin = icmp ult i32 %gt, %n
  br i1 %gin, label %part, label %done
part:
  %p = phi i32 [0, %warp], [%p1, %nextpart]
  %q = phi i32 [0, %warp], [%q1, %nextpart]
  %alive = phi i32 [0, %warp], [%alive1, %nextpart]
  %here = phi i32 [0, %warp], [%here1, %nextpart]
  %g0 = mul i32 %g, {group}
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
  %kp = getelementptr i32, ptr @kcheck.kinds, i32 %q
  %kind = load i32, ptr %kp
  %isblock = icmp eq i32 %kind, 0
  %idp = getelementptr i8, ptr %rec, i64 8
  %id = load i32, ptr %idp
  %isid = icmp eq i32 %id, %only
  %that = and i1 %isblock, %isid
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
  %pm = icmp ult i32 %p1, {group}
  br i1 %pm, label %part, label %judge
judge:
  %some = icmp ne i32 %here1, 0
  br i1 %some, label %add1, label %nextwarp
add1:
  %all = icmp eq i32 %here1, %alive1
  %come = call i32 @llvm.ctpop.i32(i32 %here1)
  %counts = select i1 %all, i32 32, i32 %come
  %before = load i32, ptr %found
  %total = add i32 %before, %counts
  store i32 %total, ptr %found
  %free0 = load i32, ptr %freep
  %within = icmp ult i32 %before, %budget
  %these = select i1 %within, i32 %come, i32 0
  %free1 = add i32 %free0, %these
  store i32 %free1, ptr %freep
  %rest = sub i32 %n, %gt
  %partial = icmp ult i32 %rest, 32
  %has = select i1 %partial, i32 %rest, i32 32
  %lack = sub i32 %has, %come
  %lost = select i1 %all, i32 %lack, i32 0
  %gone0 = load i32, ptr %gonep
  %gone1 = add i32 %gone0, %lost
  store i32 %gone1, ptr %gonep
  br label %nextwarp
nextwarp:
  %g1 = add i32 %g, 1
  br label %warp
done:
  ret void
}}
"""
