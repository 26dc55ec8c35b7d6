"""The block scheduler, in LLVM IR: runs the vectors of a block from barrier to barrier.

The usual case is fast: all vectors stop with all their threads at one plain barrier, and all go on. Anything
else (several barriers, counts, reductions, threads that left, loops that spin) takes the general path, which
looks at every stop of every vector:

* lanes in a loop that may spin go on whenever somebody else had a turn;
* a barrier is complete when as many threads arrived as it asks for;
* when nobody can go on otherwise, that is a finding (threads of one block at different barriers, or gone before
  one), and all barriers are taken to be complete, so that the kernel ends.

Source of the counts: PTX ISA, bar.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from kcheck.ptx.abi import FINISHED, GRID_BARRIER, STOPPED, Block, FaultKind, Launch, Worker
from kcheck.ptx.unit import align_up
from kcheck.ptx.warp import STOP_BYTES, Stop

HEAD_BYTES = align_up(ctypes.sizeof(Block), 64)
"""Where the vectors' states begin in a block's state."""

_KINDS = {"block": 0, "grid": 1, "spin": 2}


def _field(name: str, source: str, offset: int, kind: str, pointer: str) -> str:
    return (
        f"  %{pointer} = getelementptr i8, ptr %{source}, i64 {offset}\n  %{name} = load {kind}, ptr %{pointer}\n"
    )


def schedule_ir(width: int, stops: Sequence[Stop], sites: Sequence[int], vector_bytes: int) -> str:
    """The functions ``kcheck_run``, ``kcheck_block`` and what they call; ``@kcheck.warp`` is the kernel itself.

    Args:
        stops: of the kernel; ``sites``: the site of each, for findings.
        vector_bytes: of one vector's state.
    """
    W = width
    bits = f"i{W}"
    n = max(len(stops), 1)
    kinds = ", ".join(f"i32 {_KINDS[s.arrival.kind]}" for s in stops) or "i32 0"
    places = ", ".join(f"i32 {s}" for s in sites) or "i32 0"
    plain = " ".join(f"i32 {s.number + 1}, label %alike" for s in stops if s.arrival.plain)
    tables = f"@kcheck.kinds = internal constant [{n} x i32] [{kinds}]\n@kcheck.places = internal constant [{n} x i32] [{places}]\n"
    stop_flag = _field("stopv", "launch", Launch.stop.offset, "i32", "stopp").replace(
        "load i32, ptr %stopp", "load atomic i32, ptr %stopp monotonic, align 4"
    )
    full = f"""  %rem = sub i32 %n, %t0
  %isfull = icmp uge i32 %rem, {W}
  %shift = and i32 %rem, {W - 1 if W > 1 else 0}
  %rem64 = zext i32 %shift to i64
  %one = shl i64 1, %rem64
  %pm = sub i64 %one, 1
  %pmw = trunc i64 %pm to {bits}
  %m = select i1 %isfull, {bits} -1, {bits} %pmw
"""
    context = "ptr %launch, ptr %worker, ptr %block, ptr %wp, i32 %t0"
    m32 = f"  %m32 = zext {bits} %m to i32\n" if W < 32 else "  %m32 = add i32 %m, 0\n"
    popcount = "declare i32 @llvm.ctpop.i32(i32)\ndeclare void @llvm.memset.p0.i64(ptr, i8, i64, i1 immarg)\n"
    cttz = "" if W == 32 else "declare i32 @llvm.cttz.i32(i32, i1 immarg)\n"
    narrow = f"  %pendw = trunc i32 %pend to {bits}\n" if W < 32 else "  %pendw = add i32 %pend, 0\n"
    prepare = f"""
define internal void @kcheck.prepare(ptr %launch, ptr %worker) noinline {{
  %mark = alloca i8
  %here = ptrtoint ptr %mark to i64
{_field("sb", "worker", Worker.stack_bytes.offset, "i64", "sbp")}  %limit = sub i64 %here, %sb
  %slp = getelementptr i8, ptr %worker, i64 {Worker.stack_limit.offset}
  store i64 %limit, ptr %slp
{_field("state", "worker", Worker.state.offset, "ptr", "statep")}{_field("n", "launch", Launch.threads.offset, "i32", "np")}{_field("dx", "launch", Launch.block_dim.offset, "i32", "dxp")}{_field("dy", "launch", Launch.block_dim.offset + 4, "i32", "dyp")}  %n31 = add i32 %n, 31
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
    block = f"""
define internal i32 @kcheck.block(ptr %launch, ptr %worker, i64 %linear, i32 %resume) {{
{_field("block", "worker", Worker.state.offset, "ptr", "statep")}{_field("n", "launch", Launch.threads.offset, "i32", "np")}  %vectors = getelementptr i8, ptr %block, i64 {HEAD_BYTES}
  %again = icmp ne i32 %resume, 0
  br i1 %again, label %general, label %start
start:
{_field("gx", "launch", Launch.grid_dim.offset, "i32", "gxp")}{_field("gy", "launch", Launch.grid_dim.offset + 4, "i32", "gyp")}  %gx64 = zext i32 %gx to i64
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
  br label %round
round:
  %at = phi i32 [0, %start], [%first2, %alike]
{stop_flag}  %halt = icmp ne i32 %stopv, 0
  br i1 %halt, label %stopped, label %vector
vector:
  %v = phi i32 [0, %round], [%v1, %account]
  %first = phi i32 [0, %round], [%first2, %account]
  %same = phi i1 [true, %round], [%same2, %account]
  %t0 = mul i32 %v, {W}
  %v64 = zext i32 %v to i64
  %vo = mul i64 %v64, {vector_bytes}
  %wp = getelementptr i8, ptr %vectors, i64 %vo
{full}  %isfirst = icmp eq i32 %at, 0
  br i1 %isfirst, label %clear, label %run
clear:
  call void @llvm.memset.p0.i64(ptr align 64 %wp, i8 0, i64 {max(len(stops) * STOP_BYTES, 1)}, i1 false)
  br label %run
run:
  %r = call i32 @kcheck.warp({context}, {bits} %m, i32 %at)
  %aborted = icmp eq i32 %r, -2
  br i1 %aborted, label %stopped, label %judge
judge:
  %v0 = icmp eq i32 %v, 0
  %first2 = select i1 %v0, i32 %r, i32 %first
  %eq = icmp eq i32 %r, %first2
  %same1 = and i1 %same, %eq
  %waits = icmp sgt i32 %r, 0
  br i1 %waits, label %whole, label %left
left:
  %gone = icmp eq i32 %r, 0
  %sameleft = and i1 %same1, %gone
  br label %account
whole:
  %ri = sub i32 %r, 1
  %ri64 = zext i32 %ri to i64
  %so = mul i64 %ri64, {STOP_BYTES}
  %sp = getelementptr i8, ptr %wp, i64 %so
  %waiting = load i32, ptr %sp
{m32}  %allhere = icmp eq i32 %waiting, %m32
  %samewhole = and i1 %same1, %allhere
  br label %account
account:
  %same2 = phi i1 [%sameleft, %left], [%samewhole, %whole]
  %v1 = add i32 %v, 1
  %tn = mul i32 %v1, {W}
  %more = icmp ult i32 %tn, %n
  br i1 %more, label %vector, label %end
end:
  br i1 %same2, label %together, label %general
together:
  switch i32 %first2, label %general [i32 0, label %finished
    {plain}]
alike:
  br label %round
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
        block = block.replace("[0, %start], [%first2, %alike]", "[0, %start]").replace(
            "alike:\n  br label %round\n", ""
        )
    general = _general(W, bits, n if stops else 0, vector_bytes, context, narrow)
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


def _general(W: int, bits: str, stops: int, vector_bytes: int, context: str, narrow: str) -> str:
    """``@kcheck.general``: rounds over all stops of all vectors until the block is done or at a grid barrier."""
    if stops == 0:
        return f"""
define internal i32 @kcheck.general(ptr %launch, ptr %worker, ptr %block, ptr %vectors, i32 %n, i32 %resume) {{
  ret i32 {FINISHED}
}}
"""
    stop_flag = _field("stopv", "launch", Launch.stop.offset, "i32", "stopp").replace(
        "load i32, ptr %stopp", "load atomic i32, ptr %stopp monotonic, align 4"
    )

    def each(tag: str, after: str, body: str, out: str) -> str:
        """A loop over vectors and stops: %{tag}w points at the stop's record, %{tag}j is its number."""
        return f"""{tag}:
  %{tag}v = phi i32 [0, %{after}], [%{tag}vn, %{tag}nextv]
  %{tag}t = mul i32 %{tag}v, {W}
  %{tag}in = icmp ult i32 %{tag}t, %n
  br i1 %{tag}in, label %{tag}body, label %{out}
{tag}body:
  %{tag}v64 = zext i32 %{tag}v to i64
  %{tag}vo = mul i64 %{tag}v64, {vector_bytes}
  %{tag}base = getelementptr i8, ptr %vectors, i64 %{tag}vo
  br label %{tag}stop
{tag}stop:
  %{tag}j = phi i32 [0, %{tag}body], [%{tag}jn, %{tag}next]
  %{tag}j64 = zext i32 %{tag}j to i64
  %{tag}so = mul i64 %{tag}j64, {STOP_BYTES}
  %{tag}w = getelementptr i8, ptr %{tag}base, i64 %{tag}so
  %{tag}kp = getelementptr i32, ptr @kcheck.kinds, i32 %{tag}j
  %{tag}k = load i32, ptr %{tag}kp
  %{tag}wait = load i32, ptr %{tag}w
  %{tag}ip = getelementptr i8, ptr %{tag}w, i64 8
  %{tag}id = load i32, ptr %{tag}ip
{body}
{tag}next:
  %{tag}jn = add i32 %{tag}j, 1
  %{tag}more = icmp ult i32 %{tag}jn, {stops}
  br i1 %{tag}more, label %{tag}stop, label %{tag}nextv
{tag}nextv:
  %{tag}vn = add i32 %{tag}v, 1
  br label %{tag}
"""

    count = each(
        "c",
        "begin",
        """  %cpop = call i32 @llvm.ctpop.i32(i32 %cwait)
  %cempty = icmp eq i32 %cwait, 0
  br i1 %cempty, label %cnext, label %csome
csome:
  %call0 = load i32, ptr %total
  %call1 = add i32 %call0, %cpop
  store i32 %call1, ptr %total
  switch i32 %ck, label %cblock [i32 1, label %cgrid
    i32 2, label %cspin]
cgrid:
  %cg0 = load i32, ptr %grid
  %cg1 = add i32 %cg0, %cpop
  store i32 %cg1, ptr %grid
  br label %cnext
cspin:
  store i32 1, ptr %spin
  br label %cnext
cblock:
  %cap = getelementptr i32, ptr %arrived, i32 %cid
  %ca0 = load i32, ptr %cap
  %ca1 = add i32 %ca0, %cpop
  store i32 %ca1, ptr %cap
  %cnp = getelementptr i8, ptr %cw, i64 12
  %cn = load i32, ptr %cnp
  %cep = getelementptr i32, ptr %expected, i32 %cid
  store i32 %cn, ptr %cep
  %cfp = getelementptr i32, ptr %where, i32 %cid
  %cf = load i32, ptr %cfp
  %cj1 = add i32 %cj, 1
  %cfresh = icmp eq i32 %cf, 0
  %csame = icmp eq i32 %cf, %cj1
  %cok = or i1 %cfresh, %csame
  store i32 %cj1, ptr %cfp
  br i1 %cok, label %cnext, label %cdiffer
cdiffer:
  %cdp = getelementptr i32, ptr %differs, i32 %cid
  store i32 %cj1, ptr %cdp
  br label %cnext""",
        "decide",
    )
    release = each(
        "r",
        "releasing",
        """  %rpp = getelementptr i8, ptr %rw, i64 4
  store i32 0, ptr %rpp
  %rempty = icmp eq i32 %rwait, 0
  br i1 %rempty, label %rnext, label %rsome
rsome:
  switch i32 %rk, label %rblock [i32 1, label %rgrid
    i32 2, label %rspin]
rgrid:
  %rg = icmp eq i32 %mode, 3
  br i1 %rg, label %rgo, label %rnext
rspin:
  br label %rgo
rblock:
  %rforced = icmp eq i32 %mode, 2
  %rcp = getelementptr i32, ptr %complete, i32 %rid
  %rc = load i32, ptr %rcp
  %rdone = icmp ne i32 %rc, 0
  %ry = or i1 %rforced, %rdone
  br i1 %ry, label %rgo, label %rnext
rgo:
  store i32 %rwait, ptr %rpp
  store i32 0, ptr %rw
  br label %rnext""",
        "running",
    )
    run = each(
        "x",
        "running0",
        f"""  %xpp = getelementptr i8, ptr %xw, i64 4
  %pend = load i32, ptr %xpp
  %xempty = icmp eq i32 %pend, 0
  br i1 %xempty, label %xnext, label %xgo
xgo:
{narrow}  %xre = add i32 %xj, 1
  %xr = call i32 @kcheck.warp({context.replace("%wp", "%xbase").replace("%t0", "%xt")}, {bits} %pendw, i32 %xre)
  %xab = icmp eq i32 %xr, -2
  br i1 %xab, label %stopped, label %xnext""",
        "begin0",
    )
    blame = each(
        "b",
        "blame",
        """  %bempty = icmp eq i32 %bwait, 0
  %bblock = icmp ne i32 %bk, 0
  %bskip = or i1 %bempty, %bblock
  br i1 %bskip, label %bnext, label %bsay
bsay:
  %btz = call i32 @llvm.cttz.i32(i32 %bwait, i1 false)
  %bpp = getelementptr i32, ptr @kcheck.places, i32 %bj
  %bsite = load i32, ptr %bpp
  %bid64 = zext i32 %bid to i64
  call void @kcheck.fault(ptr %launch, ptr %block, i32 %bt, i32 %bsite, i32 %why, i64 %bid64, i32 0, i32 %btz)
  br label %blamed""",
        "blamed",
    )
    per_barrier = f"""judge:
  %i = phi i32 [0, %decide2], [%in1, %judged]
  %jap = getelementptr i32, ptr %arrived, i32 %i
  %ja = load i32, ptr %jap
  %jep = getelementptr i32, ptr %expected, i32 %i
  %je = load i32, ptr %jep
  %jall = icmp eq i32 %je, 0
  %jneed = select i1 %jall, i32 %n, i32 %je
  %jb = getelementptr i8, ptr %block, i64 {Block.arrive_count.offset}
  %jcp = getelementptr i32, ptr %jb, i32 %i
  %jc = load i32, ptr %jcp
  %jsum = add i32 %ja, %jc
  %jsome = icmp ne i32 %ja, 0
  %jenough = icmp uge i32 %jsum, %jneed
  %jdone = and i1 %jsome, %jenough
  %jz = zext i1 %jdone to i32
  %jkp = getelementptr i32, ptr %complete, i32 %i
  store i32 %jz, ptr %jkp
  br i1 %jdone, label %jfinish, label %judged
jfinish:
  store i32 0, ptr %jcp
  store i32 1, ptr %progress
  call void @kcheck.reduce(ptr %block, i32 %i)
  %jdp = getelementptr i32, ptr %differs, i32 %i
  %jd = load i32, ptr %jdp
  %jdd = icmp ne i32 %jd, 0
  br i1 %jdd, label %jsay, label %judged
jsay:
  %jd1 = sub i32 %jd, 1
  %jpp = getelementptr i32, ptr @kcheck.places, i32 %jd1
  %jsite = load i32, ptr %jpp
  %ji64 = zext i32 %i to i64
  call void @kcheck.fault(ptr %launch, ptr %block, i32 0, i32 %jsite, i32 {int(FaultKind.BARRIER_DIVERGENCE)}, i64 %ji64, i32 0, i32 0)
  br label %judged
judged:
  %in1 = add i32 %i, 1
  %imore = icmp ult i32 %in1, 16
  br i1 %imore, label %judge, label %verdict
"""
    return f"""
define internal void @kcheck.reduce(ptr %block, i32 %i) {{
  %a = getelementptr i8, ptr %block, i64 {Block.true_count.offset}
  %ai = getelementptr i32, ptr %a, i32 %i
  %av = load i32, ptr %ai
  %b = getelementptr i8, ptr %block, i64 {Block.true_result.offset}
  %bi = getelementptr i32, ptr %b, i32 %i
  store i32 %av, ptr %bi
  store i32 0, ptr %ai
  %c = getelementptr i8, ptr %block, i64 {Block.arrived.offset}
  %ci = getelementptr i32, ptr %c, i32 %i
  %cv = load i32, ptr %ci
  %d = getelementptr i8, ptr %block, i64 {Block.arrived_result.offset}
  %di = getelementptr i32, ptr %d, i32 %i
  store i32 %cv, ptr %di
  store i32 0, ptr %ci
  ret void
}}
define internal i32 @kcheck.general(ptr %launch, ptr %worker, ptr %block, ptr %vectors, i32 %n, i32 %resume) noinline {{
  %total = alloca i32
  %grid = alloca i32
  %spin = alloca i32
  %progress = alloca i32
  %arrived = alloca [16 x i32]
  %expected = alloca [16 x i32]
  %where = alloca [16 x i32]
  %differs = alloca [16 x i32]
  %complete = alloca [16 x i32]
  %resumed = icmp ne i32 %resume, 0
  br i1 %resumed, label %opengrid, label %begin0
opengrid:
  br label %releasing
begin0:
{stop_flag}  %halt = icmp ne i32 %stopv, 0
  br i1 %halt, label %stopped, label %begin
begin:
  store i32 0, ptr %total
  store i32 0, ptr %grid
  store i32 0, ptr %spin
  store i32 0, ptr %progress
  store [16 x i32] zeroinitializer, ptr %arrived
  store [16 x i32] zeroinitializer, ptr %expected
  store [16 x i32] zeroinitializer, ptr %where
  store [16 x i32] zeroinitializer, ptr %differs
  store [16 x i32] zeroinitializer, ptr %complete
  br label %c
{count}decide:
  %alive = load i32, ptr %total
  %none = icmp eq i32 %alive, 0
  br i1 %none, label %finished, label %decide1
decide1:
  %spins = load i32, ptr %spin
  %isspin = icmp ne i32 %spins, 0
  br i1 %isspin, label %releasing, label %decide2
decide2:
  br label %judge
{per_barrier}verdict:
  %prog = load i32, ptr %progress
  %moves = icmp ne i32 %prog, 0
  br i1 %moves, label %releasing, label %stuck
stuck:
  %gr = load i32, ptr %grid
  %allgrid = icmp eq i32 %gr, %alive
  br i1 %allgrid, label %atgrid, label %blame0
atgrid:
  %entire = icmp eq i32 %alive, %n
  br i1 %entire, label %gridwait, label %gridleft
gridleft:
  call void @kcheck.fault(ptr %launch, ptr %block, i32 0, i32 0, i32 {int(FaultKind.GRID_BARRIER_EXITED)}, i64 0, i32 0, i32 0)
  br label %gridwait
gridwait:
  ret i32 {GRID_BARRIER}
blame0:
  br label %kindof
kindof:
  %ki = phi i32 [0, %blame0], [%ki1, %kindof]
  %kc = phi i32 [0, %blame0], [%kc1, %kindof]
  %kap = getelementptr i32, ptr %arrived, i32 %ki
  %ka = load i32, ptr %kap
  %kdp = getelementptr i32, ptr %differs, i32 %ki
  %kd = load i32, ptr %kdp
  %kn = icmp ne i32 %ka, 0
  %kz = zext i1 %kn to i32
  %kdn = icmp ne i32 %kd, 0
  %kdz = zext i1 %kdn to i32
  %kc0 = add i32 %kc, %kz
  %kc1 = add i32 %kc0, %kdz
  call void @kcheck.reduce(ptr %block, i32 %ki)
  %ki1 = add i32 %ki, 1
  %kmore = icmp ult i32 %ki1, 16
  br i1 %kmore, label %kindof, label %blame
blame:
  %single = icmp eq i32 %kc1, 1
  %why = select i1 %single, i32 {int(FaultKind.BARRIER_EXITED)}, i32 {int(FaultKind.BARRIER_DIVERGENCE)}
  br label %b
{blame}blamed:
  br label %releasing
releasing:
  %mode = phi i32 [3, %opengrid], [1, %decide1], [1, %verdict], [2, %blamed]
  br label %r
{release}running:
  br label %running0
running0:
  br label %x
{run}stopped:
  ret i32 {STOPPED}
finished:
  ret i32 {FINISHED}
}}
"""
