"""Vectors along y or z: chosen where neighbors along x are far apart in memory and nothing shows which threads are
a warp; they leave the same bits as vectors along x, and findings name the same threads."""

from __future__ import annotations

import random

import numpy as np
import pytest
from ptx_machine import HEAD, launch

from kcheck.ptx import abi
from kcheck.ptx.abi import row_of
from kcheck.ptx.analysis.kernel_facts import called_functions
from kcheck.ptx.analysis.vector_axis import preferred_axis
from kcheck.ptx.syntax.parser import parse

BEGIN = (
    HEAD
    + """
.visible .entry k(.param .u64 a, .param .u64 out, .param .u32 columns) {
    .reg .u64 %rd<20>; .reg .u32 %r<20>, %i, %j, %n, %row, %column; .reg .f32 %f<9>; .reg .pred %p<9>;
    .shared .align 4 .b8 tile[4096]; .local .align 4 .b8 own[16];
    ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [out]; ld.param.u32 %n, [columns];
    mov.u32 %i, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mad.lo.u32 %row, %r1, %r2, %i;
    mov.u32 %j, %tid.y; mov.u32 %r3, %ctaid.y; mov.u32 %r4, %ntid.y; mad.lo.u32 %column, %r3, %r4, %j;
    mad.lo.u32 %r5, %row, %n, %column;
    mul.wide.u32 %rd3, %r5, 4; add.u64 %rd4, %rd1, %rd3; add.u64 %rd5, %rd2, %rd3;
    BODY
"""
)
COPY = BEGIN.replace("BODY", "ld.global.f32 %f1, [%rd4]; MORE st.global.f32 [%rd5], %f1; E: ret; }")


def chosen(text: str) -> str:
    """The axis for the first kernel of a module."""
    module = parse(text, "test.ptx")
    return preferred_axis(called_functions(module, module.entries[0]), "test.ptx")


def test_vectors_lie_along_the_axis_whose_neighbors_are_adjacent_in_memory() -> None:
    """a[row, column] with the row along x: y is better. With the two exchanged, x is as good as any."""
    rows = COPY.replace("MORE", "")
    assert chosen(rows) == "y"
    columns = rows.replace("%tid.x", "%tid.t").replace("%tid.y", "%tid.x").replace("%tid.t", "%tid.y")
    assert chosen(columns) == "x"
    assert chosen(rows.replace("%tid.y", "%tid.z")) == "z"


@pytest.mark.parametrize(
    "more",
    [
        "mov.u32 %r9, %laneid;",
        "mov.u32 %r9, %warpid;",
        "shfl.sync.bfly.b32 %f1, %f1, 1, 31, -1;",
        "bar.warp.sync -1;",
        "atom.global.add.u32 %r9, [%rd2], 1;",
        "red.global.add.f32 [%rd2], %f1;",
        "ld.volatile.global.f32 %f2, [%rd4];",
        "setp.gt.f32 %p1, %f1, 0f00000000; @%p1 bra E; bar.sync 0;",
        "setp.gt.f32 %p1, %f1, 0f00000000; @%p1 bra M; bar.sync 0; M:",
        "setp.gt.f32 %p1, %f1, 0f00000000; @%p1 bar.sync 0;",
        "bar.sync 0, 64;",
    ],
)
def test_vectors_lie_along_x_where_warps_or_the_order_of_threads_show(more: str) -> None:
    """Warp-level operations, atomics, volatile accesses, and barriers that some threads may not reach."""
    assert chosen(COPY.replace("MORE", more)) == "x"


@pytest.mark.parametrize(
    "more",
    [
        "bar.sync 0;",
        "setp.gt.u32 %p1, %n, 9; @%p1 bra M; bar.sync 0; M:",
        "bar.sync 0; setp.gt.f32 %p1, %f1, 0f00000000; @%p1 bra E;",
    ],
)
def test_barriers_that_all_threads_reach_do_not_matter(more: str) -> None:
    """Also one that all skip together, and one before which no thread left."""
    assert chosen(COPY.replace("MORE", more)) == "y"


MIXED = BEGIN.replace(
    "BODY",
    """
    mov.u32 %r6, %ntid.x; mad.lo.u32 %r7, %j, %r6, %i; mul.wide.u32 %rd6, %r7, 4;
    mov.u64 %rd7, tile; add.u64 %rd8, %rd7, %rd6; xor.b32 %r8, %r5, 77; st.shared.u32 [%rd8], %r8;
    bar.sync 0;
    mov.u32 %r9, %ntid.y; mul.lo.u32 %r10, %r6, %r9; sub.u32 %r10, %r10, 1; sub.u32 %r10, %r10, %r7;
    mul.wide.u32 %rd9, %r10, 4; add.u64 %rd10, %rd7, %rd9; ld.shared.u32 %r11, [%rd10];
    mov.u64 %rd11, own; st.local.u32 [%rd11], %r11; and.b32 %r12, %i, 3; st.local.u32 [%rd11+4], %r12;
    setp.ge.u32 %p1, %column, %n; @%p1 bra E;
    GUARD
    ld.local.u32 %r13, [%rd11]; ld.local.u32 %r14, [%rd11+4]; ld.global.u32 %r15, [%rd4];
L:  mad.lo.u32 %r13, %r13, 31, %r15; setp.gt.u32 %p2, %r14, 0; sub.u32 %r14, %r14, 1; @%p2 bra L;
    st.global.u32 [%rd5], %r13;
E:  ret; }""",
)
GUARDS = (
    "",
    "setp.lt.u32 %p3, %i, 2; @%p3 bra E;",
    "and.b32 %r16, %j, 1; setp.eq.u32 %p3, %r16, 1; @%p3 ret;",
    "add.u32 %r16, %i, %j; setp.gt.u32 %p3, %r16, 9; @%p3 bra E;",
)


@pytest.mark.parametrize("seed", range(8))
def test_bits_do_not_depend_on_the_axis(seed: int) -> None:
    """Random shapes of blocks and grids, guards, early returns, shared memory, a barrier, local memory, and loops
    that threads leave one by one: the same bits as with one lane per vector."""
    draw = random.Random(f"axis {seed}")
    text = MIXED.replace("GUARD", draw.choice(GUARDS))
    x, y = draw.choice([(16, 16), (8, 32), (5, 8), (3, 7), (32, 4), (1, 24), (17, 2)])
    grid = draw.randint(1, 3), draw.randint(1, 3)
    columns = grid[1] * y - draw.randint(0, 2)
    words = grid[0] * x * columns + y * grid[1]
    a = np.random.default_rng(seed).integers(0, 1 << 32, words, dtype=np.uint32)
    results = []
    for axis, width in (("x", 1), ("x", 8), ("y", 8), ("y", 32), ("z", 8)):
        out = np.zeros_like(a)
        ended = launch(text, [a, out, columns], width, grid, (x, y), axis=axis)
        assert (ended.status, ended.faults) == (abi.FINISHED, ()), axis
        results.append(out.tobytes())
    assert set(results) == {results[0]}
    assert any(results[0])


@pytest.mark.parametrize("axis", ["x", "y"])
def test_findings_name_the_thread_whatever_the_axis(axis: str) -> None:
    """Only thread (3, 5) reads outside the array: that is the thread in the record."""
    guard = "setp.ne.u32 %p1, %i, 3; setp.ne.u32 %p2, %j, 5; or.pred %p1, %p1, %p2; @%p1 bra E;"
    text = BEGIN.replace("BODY", f"{guard} ld.global.f32 %f1, [%rd1+99996]; E: ret; }}")
    out = np.zeros(4096, np.uint32)
    ended = launch(text, [out, out, 16], 8, block=(16, 16), axis=axis)
    ((kind, _, thread, _),) = ended.faults
    assert (kind, thread) == ("OUT_OF_BOUNDS_LOAD", 3)


def test_rows_are_counted_along_the_axis() -> None:
    """A block of one dimension has rows of any length, whichever dimension it is."""
    assert [row_of((16, 24, 1), axis) for axis in "xyz"] == [16, 8, 1]
    assert [row_of((1, 20, 1), axis) for axis in "xyz"] == [1, 32, 1]
    assert row_of((64, 2, 1)) == 32
