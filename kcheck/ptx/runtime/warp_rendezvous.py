"""Who of a warp takes part, where its lanes do something together and its vectors are narrower than it."""

# ruff: noqa: E501 (lines of LLVM IR)

from __future__ import annotations

from kcheck.ptx.lowering.suspension import STOP_BYTES


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
