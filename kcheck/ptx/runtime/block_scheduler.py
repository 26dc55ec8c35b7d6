"""The block scheduler, in LLVM IR: runs the vectors of a block from barrier to barrier.

The usual case is fast: all vectors stop with all their threads at one plain barrier, and all continue. Anything
else (several barriers, counts, reductions, exited threads, loops that spin) takes the general path, which looks at
every stop of every vector:

* lanes in a loop that may spin continue whenever another lane had a turn;
* a barrier is complete when as many threads have arrived as it waits for;
* vectors take turns in the order of ``Launch.vector_order``;
* when no thread can continue otherwise, that is a finding (threads of one block at different barriers, or exited
  before one), and all barriers count as complete, so that the kernel ends.

Source of the counts: PTX ISA, bar.
"""

# ruff: noqa: E501 (lines of LLVM IR)

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from kcheck.model.alignment import align_up
from kcheck.ptx.abi import FINISHED, STOPPED, Block, Launch, Worker
from kcheck.ptx.analysis.convergence import meeting
from kcheck.ptx.lowering import vector_loop as turn
from kcheck.ptx.lowering.suspension import Stop
from kcheck.ptx.runtime.diagnosis import KINDS
from kcheck.ptx.runtime.general_path import field, general_ir

HEAD_BYTES = align_up(ctypes.sizeof(Block), 64)
"""The offset of the vectors' states in a block's state."""


def schedule_ir(
    width: int,
    stops: Sequence[Stop],
    sites: Sequence[int],
    vector_bytes: int,
    posted: tuple[int, int, int],
    fresh: tuple[str, str] = ("", ""),
    race: bool = False,
) -> str:
    """The functions ``kcheck_run``, ``kcheck_block`` and what they call; ``@kcheck.warp`` is the kernel itself.

    Args:
        stops: of the kernel; ``sites``: the site of each, for findings.
        vector_bytes: of one vector's state.
        posted: where lanes post operands in it, where the copy of them goes, and their size in bytes.
        fresh: additional setup when a block starts, and when a vector does.
        race: report to racecheck when blocks begin and barriers are passed.
    """
    W = width
    bits = f"i{W}"
    n = max(len(stops), 1)
    kinds = ", ".join(f"i32 {KINDS[s.arrival.kind]}" for s in stops) or "i32 0"
    places = ", ".join(f"i32 {s}" for s in sites) or "i32 0"
    plain = " ".join(f"i32 {s.number + 1}, label %alike" for s in stops if s.arrival.plain)
    strict = ", ".join(f"i32 {int(s.arrival.aligned and s.arrival.threads is None)}" for s in stops) or "i32 0"
    aligned = ", ".join(f"i32 {int(s.arrival.aligned)}" for s in stops) or "i32 0"
    tables = f"@kcheck.strict = internal constant [{n} x i32] [{strict}]\n@kcheck.aligned = internal constant [{n} x i32] [{aligned}]\n"
    meets = ", ".join(f"i32 {k}" for k in meeting([s.operation for s in stops])) or "i32 0"
    tables += f"@kcheck.meets = internal constant [{n} x i32] [{meets}]\n@kcheck.kinds = internal constant [{n} x i32] [{kinds}]\n@kcheck.places = internal constant [{n} x i32] [{places}]\n"
    stop_flag = field("stopv", "launch", Launch.stop.offset, "i32", "stopp").replace(
        "load i32, ptr %stopp", "load atomic i32, ptr %stopp monotonic, align 4"
    )
    popcount = "declare i32 @llvm.ctpop.i32(i32)\ndeclare i32 @llvm.usub.sat.i32(i32, i32)\ndeclare void @llvm.memset.p0.i64(ptr, i8, i64, i1 immarg)\ndeclare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1 immarg)\n"
    cttz = "declare i32 @llvm.cttz.i32(i32, i1 immarg)\n"
    narrow = f"  %pendw = trunc i32 %pend to {bits}\n" if W < 32 else "  %pendw = add i32 %pend, 0\n"
    prepare = f"""
define internal void @kcheck.prepare(ptr %launch, ptr %worker) noinline {{
  %mark = alloca i8
  %here = ptrtoint ptr %mark to i64
{field("sb", "worker", Worker.stack_bytes.offset, "i64", "sbp")}  %limit = sub i64 %here, %sb
  %slp = getelementptr i8, ptr %worker, i64 {Worker.stack_limit.offset}
  store i64 %limit, ptr %slp
{field("state", "worker", Worker.state.offset, "ptr", "statep")}{field("n", "launch", Launch.threads.offset, "i32", "np")}{field("dx", "launch", Launch.block_dim.offset, "i32", "dxp")}{field("dy", "launch", Launch.block_dim.offset + 4, "i32", "dyp")}  %n31 = add i32 %n, 31
  %warps = lshr i32 %n31, 5
  %vectors = mul i32 %warps, {32 // W}
  %rounded = shl i32 %warps, 5
  %v64 = zext i32 %vectors to i64
  %vb = mul i64 %v64, {vector_bytes}
  %to = add i64 %vb, {HEAD_BYTES}
  %tx = getelementptr i8, ptr %state, i64 %to
  %r64 = zext i32 %rounded to i64
  %tbytes = shl i64 %r64, 2
  %ty = getelementptr i8, ptr %tx, i64 %tbytes
  %tz = getelementptr i8, ptr %ty, i64 %tbytes
  %txp = getelementptr i8, ptr %state, i64 {Block.thread_x.offset}
  store ptr %tx, ptr %txp
  %typ = getelementptr i8, ptr %state, i64 {Block.thread_y.offset}
  store ptr %ty, ptr %typ
  %tzp = getelementptr i8, ptr %state, i64 {Block.thread_z.offset}
  store ptr %tz, ptr %tzp
  br label %loop
loop:
  %t = phi i32 [0, %0], [%t1, %next]
  %x = phi i32 [0, %0], [%x2, %next]
  %y = phi i32 [0, %0], [%y2, %next]
  %z = phi i32 [0, %0], [%z2, %next]
  %c = icmp ult i32 %t, %rounded
  br i1 %c, label %next, label %done
next:
  %px = getelementptr i32, ptr %tx, i32 %t
  store i32 %x, ptr %px
  %py = getelementptr i32, ptr %ty, i32 %t
  store i32 %y, ptr %py
  %pz = getelementptr i32, ptr %tz, i32 %t
  store i32 %z, ptr %pz
  %x1 = add i32 %x, 1
  %wx = icmp eq i32 %x1, %dx
  %x2 = select i1 %wx, i32 0, i32 %x1
  %y1 = add i32 %y, 1
  %ya = select i1 %wx, i32 %y1, i32 %y
  %wy = icmp eq i32 %ya, %dy
  %y2 = select i1 %wy, i32 0, i32 %ya
  %z1 = add i32 %z, 1
  %z2 = select i1 %wy, i32 %z1, i32 %z
  %t1 = add i32 %t, 1
  br label %loop
done:
  ret void
}}
"""
    begin = "  call void @kcheck.race.block(ptr %launch, i64 %linear)\n" if race else ""
    passed = "  call void @kcheck.race.barrier(ptr %launch)\n" if race else ""
    begun, before = "  br label %round\n", "start"
    if fresh[1]:
        before = "freshen"
        begun = f"""  br label %freshen
freshen:
  %fv = phi i32 [0, %start], [%fv1, %freshen]
  %fv64 = zext i32 %fv to i64
  %fo = mul i64 %fv64, {vector_bytes}
  %fwp = getelementptr i8, ptr %vectors, i64 %fo
{fresh[1].replace("%wp", "%fwp")}  %fv1 = add i32 %fv, 1
  %ft = mul i32 %fv1, {W}
  %fmore = icmp ult i32 %ft, %n
  br i1 %fmore, label %freshen, label %round
"""
    block = f"""
define internal i32 @kcheck.block(ptr %launch, ptr %worker, i64 %linear, i32 %resume) {{
{field("block", "worker", Worker.state.offset, "ptr", "statep")}{field("n", "launch", Launch.threads.offset, "i32", "np")}  %vectors = getelementptr i8, ptr %block, i64 {HEAD_BYTES}
{begin}  %again = icmp ne i32 %resume, 0
  br i1 %again, label %general, label %start
start:
{field("gx", "launch", Launch.grid_dim.offset, "i32", "gxp")}{field("gy", "launch", Launch.grid_dim.offset + 4, "i32", "gyp")}  %gx64 = zext i32 %gx to i64
  %gy64 = zext i32 %gy to i64
  %q = udiv i64 %linear, %gx64
  %bx = urem i64 %linear, %gx64
  %by = urem i64 %q, %gy64
  %bz = udiv i64 %q, %gy64
  %bx32 = trunc i64 %bx to i32
  %by32 = trunc i64 %by to i32
  %bz32 = trunc i64 %bz to i32
  store i32 %bx32, ptr %block
  %byp = getelementptr i8, ptr %block, i64 4
  store i32 %by32, ptr %byp
  %bzp = getelementptr i8, ptr %block, i64 8
  store i32 %bz32, ptr %bzp
  %lp = getelementptr i8, ptr %block, i64 {Block.linear.offset}
  store i64 %linear, ptr %lp
  %counts = getelementptr i8, ptr %block, i64 {Block.true_count.offset}
  call void @llvm.memset.p0.i64(ptr %counts, i8 0, i64 {ctypes.sizeof(Block) - Block.true_count.offset}, i1 false)
{field("order", "launch", Launch.vector_order.offset, "ptr", "orderp")}  %natural = icmp eq ptr %order, null
{fresh[0]}{begun}round:
  %at = phi i32 [0, %{before}], [%code, %alike]
{stop_flag}  %halt = icmp ne i32 %stopv, 0
  br i1 %halt, label %caught, label %run
caught:
  %started = icmp ne i32 %at, 0
  br i1 %started, label %between, label %stopped
between:
  %lastp = getelementptr i32, ptr @kcheck.places, i32 %at
  %lastq = getelementptr i8, ptr %lastp, i64 -4
  %lasts = load i32, ptr %lastq
  call void @kcheck.running(ptr %launch, ptr %block, i32 0, i32 %lasts, i32 0)
  br label %stopped
run:
  br i1 %natural, label %all, label %vector
all:
{turn.mask(W, "%m0", "0", "%n", "a")}
  %ra = call i32 @kcheck.warp(ptr %launch, ptr %worker, ptr %block, ptr %vectors, i32 0, {bits} %m0, i32 %at, i32 %n)
  br label %end
vector:
  %v = phi i32 [0, %run], [%v1, %account]
  %sofar = phi i32 [0, %run], [%outcome, %account]
  %vop = getelementptr i32, ptr %order, i32 %v
  %who = load i32, ptr %vop
  %t0 = mul i32 %who, {W}
  %v64 = zext i32 %who to i64
  %vo = mul i64 %v64, {vector_bytes}
  %wp = getelementptr i8, ptr %vectors, i64 %vo
{turn.mask(W, "%m", "%t0", "%n", "v")}
  %r = call i32 @kcheck.warp(ptr %launch, ptr %worker, ptr %block, ptr %wp, i32 %t0, {bits} %m, i32 %at, i32 0)
  %aborted = icmp eq i32 %r, {turn.ABORTED}
  br i1 %aborted, label %stopped, label %account
account:
  %v0 = icmp eq i32 %v, 0
  %alike1 = icmp eq i32 %r, %sofar
  %agree = or i1 %v0, %alike1
  %outcome = select i1 %agree, i32 %r, i32 {turn.SEVERAL}
  %v1 = add i32 %v, 1
  %tn = mul i32 %v1, {W}
  %more = icmp ult i32 %tn, %n
  br i1 %more, label %vector, label %end
end:
  %code = phi i32 [%ra, %all], [%outcome, %account]
  switch i32 %code, label %general [i32 {turn.FINISHED}, label %finished
    i32 {turn.ABORTED}, label %stopped
    {plain}]
alike:
{passed}  br label %round
finished:
  ret i32 {FINISHED}
stopped:
  ret i32 {STOPPED}
general:
  %g = call i32 @kcheck.general(ptr %launch, ptr %worker, ptr %block, ptr %vectors, i32 %n, i32 %resume)
  ret i32 %g
}}
"""
    if not any(s.arrival.plain for s in stops):
        block = block.replace(", [%code, %alike]", "").replace(f"alike:\n{passed}  br label %round\n", "")
    general = general_ir(W, bits, n if stops else 0, vector_bytes, narrow, posted, race)
    run = f"""
define i32 @kcheck_run(ptr %launch, ptr %worker, i64 %first, i64 %last) {{
  call void @kcheck.prepare(ptr %launch, ptr %worker)
  br label %loop
loop:
  %b = phi i64 [%first, %0], [%b1, %next]
  %c = icmp ult i64 %b, %last
  br i1 %c, label %body, label %done
body:
  %r = call i32 @kcheck.block(ptr %launch, ptr %worker, i64 %b, i32 0)
  %e = icmp ne i32 %r, {FINISHED}
  br i1 %e, label %err, label %next
next:
  %b1 = add i64 %b, 1
  br label %loop
err:
  ret i32 %r
done:
  ret i32 {FINISHED}
}}
define i32 @kcheck_block(ptr %launch, ptr %worker, i64 %b, i32 %resume) {{
  call void @kcheck.prepare(ptr %launch, ptr %worker)
  %r = call i32 @kcheck.block(ptr %launch, ptr %worker, i64 %b, i32 %resume)
  ret i32 %r
}}
"""
    return tables + popcount + cttz + prepare + block + general + run
