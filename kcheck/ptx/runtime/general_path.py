"""The general path of the block scheduler, in LLVM IR: every stop of every vector, round after round.

Lanes in a loop that may spin continue whenever another lane had a turn; a barrier is complete when as many threads
have arrived as it waits for, and that many continue; when no thread can continue otherwise, that is a finding, and
all barriers count as complete.
"""

# ruff: noqa: E501 (lines of LLVM IR)

from __future__ import annotations

from kcheck.ptx.abi import FINISHED, GRID_BARRIER, STOPPED, Block, FaultKind, Launch, Worker
from kcheck.ptx.lowering.suspension import STOP_BYTES
from kcheck.ptx.runtime.diagnosis import ANY, diagnose_ir
from kcheck.ptx.runtime.exited import exited_ir
from kcheck.ptx.runtime.warp_rendezvous import gather_ir


def field(name: str, source: str, offset: int, kind: str, pointer: str) -> str:
    return (
        f"  %{pointer} = getelementptr i8, ptr %{source}, i64 {offset}\n  %{name} = load {kind}, ptr %{pointer}\n"
    )


def general_ir(
    W: int,
    bits: str,
    stops: int,
    vector_bytes: int,
    narrow: str,
    posted: tuple[int, int, int],
    race: bool,
) -> str:
    """``@kcheck.general``: rounds over all stops of all vectors until the block is done or at a grid barrier."""
    if stops == 0:
        return f"""
define internal i32 @kcheck.general(ptr %launch, ptr %worker, ptr %block, ptr %vectors, i32 %n, i32 %resume) {{
  ret i32 {FINISHED}
}}
"""
    stop_flag = field("stopv", "launch", Launch.stop.offset, "i32", "stopp").replace(
        "load i32, ptr %stopp", "load atomic i32, ptr %stopp monotonic, align 4"
    )

    passed = "  call void @kcheck.race.barrier(ptr %launch)\n" if race else ""
    counted = ""
    if race:
        counted = "  %jpart = icmp ult i32 %jneed, %n\n  call void @kcheck.race.counted(ptr %launch, i1 %jpart)\n"
    told = "ptr %launch, " if race else ""

    def each(tag: str, after: str, body: str, out: str) -> str:
        """A loop over vectors, in their order, and stops: %{tag}w is the stop's record, %{tag}j its number."""
        return f"""{tag}:
  %{tag}turn = phi i32 [0, %{after}], [%{tag}vn, %{tag}nextv]
  %{tag}end = mul i32 %{tag}turn, {W}
  %{tag}in = icmp ult i32 %{tag}end, %n
  br i1 %{tag}in, label %{tag}who, label %{out}
{tag}who:
  br i1 %natural, label %{tag}body, label %{tag}drawn
{tag}drawn:
  %{tag}op = getelementptr i32, ptr %order, i32 %{tag}turn
  %{tag}other = load i32, ptr %{tag}op
  br label %{tag}body
{tag}body:
  %{tag}v = phi i32 [%{tag}turn, %{tag}who], [%{tag}other, %{tag}drawn]
  %{tag}t = mul i32 %{tag}v, {W}
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
  %{tag}vn = add i32 %{tag}turn, 1
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
    i32 2, label %cspin
    i32 3, label %cwarp]
cwarp:
  store i32 1, ptr %together
  br label %cnext
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
  %ce0 = load i32, ptr %cep
  store i32 %cn, ptr %cep
  %cthen = icmp ne i32 %ca0, 0
  %cnsame = icmp ne i32 %ce0, %cn
  %cclash = and i1 %cthen, %cnsame
  %cclashed = zext i1 %cclash to i32
  %ckp2 = getelementptr i32, ptr %clashes, i32 %cid
  %ck0 = load i32, ptr %ckp2
  %ck1 = or i32 %ck0, %cclashed
  store i32 %ck1, ptr %ckp2
  %cfp = getelementptr i32, ptr %where, i32 %cid
  %cf = load i32, ptr %cfp
  %cj1 = add i32 %cj, 1
  %cfresh = icmp eq i32 %cf, 0
  %csame = icmp eq i32 %cf, %cj1
  %cok = or i1 %cfresh, %csame
  store i32 %cj1, ptr %cfp
  br i1 %cok, label %cnext, label %cdiffer
cdiffer:
  %csp = getelementptr i32, ptr @kcheck.strict, i32 %cj
  %cs = load i32, ptr %csp
  %cdp = getelementptr i32, ptr %differs, i32 %cid
  %cd0 = load i32, ptr %cdp
  %cd1 = or i32 %cd0, %cs
  store i32 %cd1, ptr %cdp
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
    i32 2, label %rspin
    i32 3, label %rwarp]
rwarp:
  %rtp = getelementptr i8, ptr %rw, i64 12
  %rpart = load i32, ptr %rtp
  %rready = icmp ne i32 %rpart, 0
  br i1 %rready, label %rgo, label %rnext
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
  %rpop = call i32 @llvm.ctpop.i32(i32 %rwait)
  %rleft = call i32 @llvm.usub.sat.i32(i32 %rc, i32 %rpop)
  store i32 %rleft, ptr %rcp
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
  %xr = call i32 @kcheck.warp(ptr %launch, ptr %worker, ptr %block, ptr %xbase, i32 %xt, {bits} %pendw, i32 %xre, i32 0)
  %xab = icmp eq i32 %xr, -2
  br i1 %xab, label %stopped, label %xnext""",
        "begin0",
    )
    per_barrier = f"""judge:
  %i = phi i32 [0, %decide1], [%in1, %judged]
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
  br i1 %jsome, label %jcome, label %judged
jcome:
  %jparted = icmp ne i32 %alive, %warps
  %jfewer = xor i1 %jall, true
  %jlanewise = and i1 %jfewer, %jparted
  br i1 %jlanewise, label %jwarps, label %jthreads
jthreads:
  %jenough = icmp uge i32 %jsum, %jneed
  br i1 %jenough, label %jexact, label %jshort
jexact:
  %jtimes = udiv i32 %jsum, %jneed
  %jused = mul i32 %jtimes, %jneed
  %jfree0 = call i32 @llvm.usub.sat.i32(i32 %jused, i32 %jc)
  %jkeep0 = call i32 @llvm.usub.sat.i32(i32 %jc, i32 %jused)
  br label %jfinish
jshort:
  br i1 %jall, label %jblock, label %judged
jblock:
  %jevery = icmp eq i32 %ja, %alive
  br i1 %jevery, label %jgone, label %judged
jgone:
  %jskip = call i1 @kcheck.skipped(ptr %vectors, i32 %n, i32 %i)
  %jwhy0 = select i1 %jskip, i32 {int(FaultKind.BARRIER_EXITED)}, i32 {int(FaultKind.BARRIER_GONE)}
  br label %jfinish
jwarps:
  call void @kcheck.whole(ptr %vectors, i32 %n, i32 %i, i32 0, ptr %found)
  %jtotal0 = load i32, ptr %found
  %jtotal = add i32 %jtotal0, %jc
  %jfull = icmp uge i32 %jtotal, %je
  br i1 %jfull, label %jlanes, label %judged
jlanes:
  %jwtimes = udiv i32 %jtotal, %je
  %jwused = mul i32 %jwtimes, %je
  %jbudget = call i32 @llvm.usub.sat.i32(i32 %jwused, i32 %jc)
  %jkeep1 = call i32 @llvm.usub.sat.i32(i32 %jc, i32 %jwused)
  call void @kcheck.whole(ptr %vectors, i32 %n, i32 %i, i32 %jbudget, ptr %found)
  %jfp = getelementptr i32, ptr %found, i32 1
  %jfree1 = load i32, ptr %jfp
  %jxp = getelementptr i32, ptr %found, i32 2
  %jexited = load i32, ptr %jxp
  %jleft = icmp ne i32 %jexited, 0
  %jwhy1 = select i1 %jleft, i32 {int(FaultKind.BARRIER_GONE)}, i32 0
  br label %jfinish
jfinish:
  %jfree = phi i32 [%jfree0, %jexact], [%ja, %jgone], [%jfree1, %jlanes]
  %jkeep = phi i32 [%jkeep0, %jexact], [0, %jgone], [%jkeep1, %jlanes]
  %jwhy = phi i32 [0, %jexact], [%jwhy0, %jgone], [%jwhy1, %jlanes]
{counted}  %jkp = getelementptr i32, ptr %complete, i32 %i
  store i32 %jfree, ptr %jkp
  store i32 %jkeep, ptr %jcp
  store i32 1, ptr %progress
  call void @kcheck.reduce(ptr %block, i32 %i)
  %jdp = getelementptr i32, ptr %differs, i32 %i
  %jd = load i32, ptr %jdp
  %jdd = icmp ne i32 %jd, 0
  br i1 %jdd, label %jdiffer, label %jclash
jdiffer:
  call void @kcheck.diagnose(ptr %launch, ptr %block, ptr %vectors, i32 %n, i32 %i, i32 {int(FaultKind.BARRIER_DIVERGENCE)})
  br label %judged
jclash:
  %jlp = getelementptr i32, ptr %clashes, i32 %i
  %jl = load i32, ptr %jlp
  %jll = icmp ne i32 %jl, 0
  br i1 %jll, label %jcount, label %jwhole
jcount:
  call void @kcheck.diagnose(ptr %launch, ptr %block, ptr %vectors, i32 %n, i32 %i, i32 {int(FaultKind.BARRIER_COUNT)})
  br label %judged
jwhole:
  %jsplit = call i1 @kcheck.split(ptr %vectors, i32 %n, i32 %i)
  br i1 %jsplit, label %jparts, label %jentire
jparts:
  call void @kcheck.diagnose(ptr %launch, ptr %block, ptr %vectors, i32 %n, i32 {ANY}, i32 {int(FaultKind.BARRIER_SPLIT)})
  br label %judged
jentire:
  %jlack = icmp ne i32 %jwhy, 0
  br i1 %jlack, label %jtell, label %judged
jtell:
  call void @kcheck.diagnose(ptr %launch, ptr %block, ptr %vectors, i32 %n, i32 %i, i32 %jwhy)
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
{gather_ir(W, stops, vector_bytes, posted, race)}{diagnose_ir(W, stops, vector_bytes)}{exited_ir(W, stops, vector_bytes)}
define internal i32 @kcheck.general(ptr %launch, ptr %worker, ptr %block, ptr %vectors, i32 %n, i32 %resume) noinline {{
  %total = alloca i32
  %grid = alloca i32
  %spin = alloca i32
  %together = alloca i32
  %progress = alloca i32
  %arrived = alloca [16 x i32]
  %expected = alloca [16 x i32]
  %where = alloca [16 x i32]
  %differs = alloca [16 x i32]
  %clashes = alloca [16 x i32]
  %found = alloca [3 x i32]
  %complete = alloca [16 x i32]
{field("order", "launch", Launch.vector_order.offset, "ptr", "orderp")}  %natural = icmp eq ptr %order, null
  %resumed = icmp ne i32 %resume, 0
  br i1 %resumed, label %opengrid, label %begin0
opengrid:
  br label %releasing
begin0:
{stop_flag}  %halt = icmp ne i32 %stopv, 0
  br i1 %halt, label %leave, label %begin
leave:
  call void @kcheck.where(ptr %launch, ptr %block, ptr %vectors, i32 %n)
  br label %stopped
begin:
  store i32 0, ptr %total
  store i32 0, ptr %grid
  store i32 0, ptr %spin
  store i32 0, ptr %together
  store i32 0, ptr %progress
  store [16 x i32] zeroinitializer, ptr %arrived
  store [16 x i32] zeroinitializer, ptr %expected
  store [16 x i32] zeroinitializer, ptr %where
  store [16 x i32] zeroinitializer, ptr %differs
  store [16 x i32] zeroinitializer, ptr %clashes
  store [16 x i32] zeroinitializer, ptr %complete
  br label %c
{count}decide:
  %alive = load i32, ptr %total
  %none = icmp eq i32 %alive, 0
  br i1 %none, label %finished, label %decide0
decide0:
  %tg = load i32, ptr %together
  %istg = icmp ne i32 %tg, 0
  br i1 %istg, label %decidewarp, label %decide1
decidewarp:
  %ready = call i1 @kcheck.gather({told}ptr %vectors, i32 %n, i1 false)
  br i1 %ready, label %releasing, label %decide1
decide1:
  %n31 = add i32 %n, 31
  %warps = and i32 %n31, -32
  br label %judge
{per_barrier}verdict:
  %prog = load i32, ptr %progress
  %spins = load i32, ptr %spin
  %active = or i32 %prog, %spins
  %moves = icmp ne i32 %active, 0
  br i1 %moves, label %releasing, label %stuck
stuck:
  %gr = load i32, ptr %grid
  %allgrid = icmp eq i32 %gr, %alive
  br i1 %allgrid, label %atgrid, label %absent
absent:
  br i1 %istg, label %force, label %blame
force:
  %forced = call i1 @kcheck.gather({told}ptr %vectors, i32 %n, i1 true)
  br label %releasing
atgrid:
  %entire = icmp eq i32 %alive, %n
  br i1 %entire, label %gridwait, label %gridleft
gridleft:
  call void @kcheck.diagnose(ptr %launch, ptr %block, ptr %vectors, i32 %n, i32 {ANY}, i32 0)
  br label %gridwait
gridwait:
  %gsite = call i32 @kcheck.gridsite(ptr %vectors, i32 %n)
  %gsp = getelementptr i8, ptr %worker, i64 {Worker.grid_site.offset}
  %gsite64 = zext i32 %gsite to i64
  store i64 %gsite64, ptr %gsp
  ret i32 {GRID_BARRIER}
blame:
  call void @kcheck.diagnose(ptr %launch, ptr %block, ptr %vectors, i32 %n, i32 {ANY}, i32 0)
  br label %reset
reset:
  %ki = phi i32 [0, %blame], [%ki1, %reset]
  call void @kcheck.reduce(ptr %block, i32 %ki)
  %ki1 = add i32 %ki, 1
  %kmore = icmp ult i32 %ki1, 16
  br i1 %kmore, label %reset, label %passed
passed:
{passed}  br label %releasing
releasing:
  %mode = phi i32 [3, %opengrid], [1, %decidewarp], [1, %force], [1, %verdict], [2, %passed]
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
