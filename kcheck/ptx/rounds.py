"""The general path of the block scheduler, in LLVM IR: every stop of every vector, round after round.

Lanes in a loop that may spin go on whenever somebody else had a turn; a barrier is complete when as many threads
arrived as it asks for, and that many go on; when nobody can go on otherwise that is a finding, and all barriers are
taken to be complete.
"""

# ruff: noqa: E501 (lines of LLVM IR)

from __future__ import annotations

from kcheck.ptx.abi import FINISHED, GRID_BARRIER, STOPPED, Block, FaultKind, Launch, Worker
from kcheck.ptx.diagnose import ANY, diagnose_ir
from kcheck.ptx.warp import STOP_BYTES


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
  %jenough = icmp uge i32 %jsum, %jneed
  %jdone = and i1 %jsome, %jenough
  br i1 %jdone, label %jfinish, label %judged
jfinish:
{counted}  %jtimes = udiv i32 %jsum, %jneed
  %jused = mul i32 %jtimes, %jneed
  %jfree = call i32 @llvm.usub.sat.i32(i32 %jused, i32 %jc)
  %jkeep = call i32 @llvm.usub.sat.i32(i32 %jc, i32 %jused)
  %jkp = getelementptr i32, ptr %complete, i32 %i
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
  br i1 %jsplit, label %jparts, label %judged
jparts:
  call void @kcheck.diagnose(ptr %launch, ptr %block, ptr %vectors, i32 %n, i32 {ANY}, i32 {int(FaultKind.BARRIER_SPLIT)})
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
{gather_ir(W, stops, vector_bytes, posted, race)}{diagnose_ir(W, stops, vector_bytes)}
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


def gather_ir(W: int, stops: int, vector_bytes: int, posted: tuple[int, int, int], race: bool) -> str:
    """``i1 @kcheck.gather(vectors, n, force)``: which lanes go on with what they do together in a warp.

    A stop of lanes is ready when all of the warp that its member mask names have come to it, or to one that it may
    meet with the same mask, or have left; with ``force`` all are. The lanes at a stop that is ready are written to its record in each vector, 0 to the others,
    and what they posted is copied from the first offset of ``posted`` to the second; the third is its bytes.
    """
    group = 32 // W
    record = f"""  %RvX = mul i32 %g, {group}
  %Rv0 = add i32 %RvX, %Rk
  %Rt = mul i32 %Rv0, {W}
  %Rin = icmp ult i32 %Rt, %n
  br i1 %Rin, label %Rbody, label %Rnext
Rbody:
  %R64 = zext i32 %Rv0 to i64
  %Ro = mul i64 %R64, {vector_bytes}
  %Rj64 = zext i32 %Rj to i64
  %Rso = mul i64 %Rj64, {STOP_BYTES}
  %Rat = add i64 %Ro, %Rso
  %Rw = getelementptr i8, ptr %vectors, i64 %Rat
  %Rwait = load i32, ptr %Rw
  %Rs = mul i32 %Rk, {W}"""

    def at(tag: str) -> str:
        return record.replace("%R", f"%{tag}").replace("Rbody", f"{tag}body").replace("Rnext", f"{tag}next")

    def step(tag: str) -> str:
        return f"""  %{tag}k1 = add i32 %{tag}k, 1
  %{tag}more = icmp ult i32 %{tag}k1, {group}"""

    told = room = nobody = named = synced = ""
    after = "nextstop"
    if race:
        told, after = "ptr %launch, ", "synced"
        room = "  %going = alloca i32\n  %masks = alloca [32 x i32], align 64\n"
        nobody = "  store i32 0, ptr %going\n"
        named = """  %going0 = load i32, ptr %going
  %going1 = or i32 %going0, %part
  store i32 %going1, ptr %going
"""
        for k in range(32):
            named += f"""  %names{k} = getelementptr i32, ptr %masks, i32 {k}
  %bit{k} = and i32 %part, {1 << k}
  %is{k} = icmp ne i32 %bit{k}, 0
  %name{k} = load i32, ptr %names{k}
  %mask{k} = select i1 %is{k}, i32 %named, i32 %name{k}
  store i32 %mask{k}, ptr %names{k}
"""
        synced = """synced:
  %together = load i32, ptr %going
  call void @kcheck.race.warp(ptr %launch, i32 %g, i32 %together, ptr %masks)
  br label %nextstop
"""
    return f"""
define internal i32 @kcheck.met(ptr %vectors, i32 %n, i32 %g, i32 %sj, i32 %mask) noinline {{
  %here = alloca i32
  store i32 0, ptr %here
  %sp = getelementptr i32, ptr @kcheck.meets, i32 %sj
  %first = load i32, ptr %sp
  br label %q
q:
  %bj = phi i32 [0, %0], [%bj1, %qnext]
  %qp = getelementptr i32, ptr @kcheck.meets, i32 %bj
  %other = load i32, ptr %qp
  %alike = icmp eq i32 %first, %other
  br i1 %alike, label %b, label %qnext
b:
  %bk = phi i32 [0, %q], [%bk1, %bnext]
{at("b")}
  %bmp = getelementptr i8, ptr %bw, i64 8
  %bmask = load i32, ptr %bmp
  %agree = icmp eq i32 %bmask, %mask
  %bbits = shl i32 %bwait, %bs
  %badd = select i1 %agree, i32 %bbits, i32 0
  %bold = load i32, ptr %here
  %bnew = or i32 %bold, %badd
  store i32 %bnew, ptr %here
  br label %bnext
bnext:
{step("b")}
  br i1 %bmore, label %b, label %qnext
qnext:
  %bj1 = add i32 %bj, 1
  %bjm = icmp ult i32 %bj1, {stops}
  br i1 %bjm, label %q, label %done
done:
  %m = load i32, ptr %here
  ret i32 %m
}}

define internal i1 @kcheck.gather({told}ptr %vectors, i32 %n, i1 %force) noinline {{
{room}  %alive = alloca i32
  %any = alloca i1
  store i1 false, ptr %any
  br label %warps
warps:
  %g = phi i32 [0, %0], [%g1, %nextwarp]
  %gt = shl i32 %g, 5
  %gin = icmp ult i32 %gt, %n
  br i1 %gin, label %warp, label %done
warp:
  store i32 0, ptr %alive
  br label %a
a:
  %aj = phi i32 [0, %warp], [%aj1, %astops]
  br label %alanes
alanes:
  %ak = phi i32 [0, %a], [%ak1, %anext]
{at("a")}
  %abits = shl i32 %await, %as
  %aold = load i32, ptr %alive
  %anew = or i32 %aold, %abits
  store i32 %anew, ptr %alive
  br label %anext
anext:
{step("a")}
  br i1 %amore, label %alanes, label %astops
astops:
  %aj1 = add i32 %aj, 1
  %ajm = icmp ult i32 %aj1, {stops}
  br i1 %ajm, label %a, label %judge
judge:
  %who = load i32, ptr %alive
  br label %s
s:
  %sj = phi i32 [0, %judge], [%sj1, %nextstop]
  %kp = getelementptr i32, ptr @kcheck.kinds, i32 %sj
  %kind = load i32, ptr %kp
  %mine = icmp eq i32 %kind, 3
  br i1 %mine, label %collect, label %nextstop
collect:
{nobody}  %cj = add i32 %sj, 0
  br label %c
c:
  %ck = phi i32 [0, %collect], [%ck1, %cnext]
{at("c")}
  %mp = getelementptr i8, ptr %cw, i64 8
  %named = load i32, ptr %mp
  %m = call i32 @kcheck.met(ptr %vectors, i32 %n, i32 %g, i32 %sj, i32 %named)
  %absent = xor i32 %m, -1
  %need = and i32 %named, %who
  %lack = and i32 %need, %absent
  %whole = icmp eq i32 %lack, 0
  %fine = or i1 %whole, %force
  %some = icmp ne i32 %cwait, 0
  %go = and i1 %fine, %some
  %part = select i1 %go, i32 %m, i32 0
  %pp = getelementptr i8, ptr %cw, i64 12
  store i32 %part, ptr %pp
  %yet = load i1, ptr %any
  %now = or i1 %yet, %go
  store i1 %now, ptr %any
  br i1 %go, label %copy, label %cnext
copy:
{named}  %base = getelementptr i8, ptr %vectors, i64 %co
  %from = getelementptr i8, ptr %base, i64 {posted[0]}
  %to = getelementptr i8, ptr %base, i64 {posted[1]}
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 {posted[2]}, i1 false)
  br label %cnext
cnext:
{step("c")}
  br i1 %cmore, label %c, label %{after}
{synced}nextstop:
  %sj1 = add i32 %sj, 1
  %sjm = icmp ult i32 %sj1, {stops}
  br i1 %sjm, label %s, label %nextwarp
nextwarp:
  %g1 = add i32 %g, 1
  br label %warps
done:
  %r = load i1, ptr %any
  ret i1 %r
}}
"""
