"""The turns of a block's vectors: a kernel's function runs the vectors one after another, from stop to stop.

Calling it once for each vector and barrier was a third of the time of a block scan; values that are the same for
all vectors are computed once for all of them. When all vectors of a block are at one plain barrier, they continue
from there in another round, without leaving the function.
"""

from __future__ import annotations

from collections.abc import Sequence

from kcheck.ptx.abi import Launch
from kcheck.ptx.lowering.warp_emulation import VECTOR_BYTES

VECTORS = "ptr %launch, ptr %worker, ptr %block, ptr %state, i32 %first, i{W} %lanes, i32 %stop, i32 %end"
"""Parameters of a kernel's function: the state, first thread and lanes of one vector; the stop to resume from,
plus 1, or 0 to begin; and where to end: vectors up to this thread take their turns too, with all of their lanes; 0
for the one vector alone."""

ABORTED, FINISHED, SEVERAL = -2, 0, -1
"""What it returns: the launch was stopped; all lanes have exited; they are not all at one stop. Otherwise all
lanes of all these vectors are at one stop: its number plus 1."""

_NONE_YET = -3


def begin(W: int) -> list[str]:
    """From the end of the entry block to the start of a vector's turn, with its %warp, %t0 and %mask."""
    return f"""  br label %round
round:
  %resume = phi i32 [%stop, %entry], [%outcome, %again]
  br label %turn
turn:
  %warp = phi ptr [%state, %round], [%warp1, %onward]
  %t0 = phi i32 [%first, %round], [%t1, %onward]
  %mask = phi i{W} [%lanes, %round], [%mask1, %onward]
  %sofar = phi i32 [{_NONE_YET}, %round], [%outcome, %onward]""".split("\n")


def end(W: int, outcomes: Sequence[tuple[str, str]], plain: Sequence[int]) -> list[str]:
    """The end of a turn, block %over: on to the next vector, to the next round, or back to the caller.

    Args:
        outcomes: the outcome for its vector from each block that branches here, and the block.
        plain: numbers of the barriers that complete when all have arrived, with nothing else to do there.
    """
    codes = ", ".join(f"[{code}, %{block}]" for code, block in outcomes)
    return f"""over:
  %code = phi i32 {codes}
  %alone = icmp eq i32 %sofar, {_NONE_YET}
  %alike = icmp eq i32 %code, %sofar
  %agree = or i1 %alone, %alike
  %outcome = select i1 %agree, i32 %code, i32 {SEVERAL}
  %t1 = add i32 %t0, {W}
  %more = icmp ult i32 %t1, %end
  br i1 %more, label %onward, label %last
onward:
  %warp1 = getelementptr i8, ptr %warp, i64 {VECTOR_BYTES}
{mask(W, "%mask1", "%t1", "%end", "o")}
  br label %turn
last:
  %several = icmp ne i32 %end, 0
  br i1 %several, label %met, label %back
met:
  switch i32 %outcome, label %back [{" ".join(f"i32 {number + 1}, label %passed" for number in plain)}]
passed:
  %stopp = getelementptr i8, ptr %launch, i64 {Launch.stop.offset}
  %stopv = load atomic i32, ptr %stopp monotonic, align 4
  %halt = icmp ne i32 %stopv, 0
  br i1 %halt, label %back, label %again
again:
  br label %round
back:
  ret i32 %outcome""".split("\n")


def mask(W: int, name: str, first: str, threads: str, tag: str) -> str:
    """Instructions for the lanes of the vector that begins at thread ``first`` of a block of this many threads."""
    return f"""  %{tag}left = sub i32 {threads}, {first}
  %{tag}whole = icmp uge i32 %{tag}left, {W}
  %{tag}count = and i32 %{tag}left, {W - 1 if W > 1 else 0}
  %{tag}count64 = zext i32 %{tag}count to i64
  %{tag}bit = shl i64 1, %{tag}count64
  %{tag}below = sub i64 %{tag}bit, 1
  %{tag}some = trunc i64 %{tag}below to i{W}
  {name} = select i1 %{tag}whole, i{W} -1, i{W} %{tag}some"""
