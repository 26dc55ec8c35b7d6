"""Registers that go up by a constant from lane to lane, and code that relies on it."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_machine import HEAD, launch

from kcheck.ptx import abi
from kcheck.ptx.analysis import affine, liveness, uniformity
from kcheck.ptx.analysis import cfg as control
from kcheck.ptx.syntax.parser import parse

WIDTH = 16
BEGIN = """
.reg .b32 %t, %n, %r<20>; .reg .b64 %o, %a, %rd<10>; .reg .pred %p, %q; .reg .f32 %f<8>;
mov.u32 %t, %tid.x; mov.u32 %n, %ctaid.x; ld.param.u64 %o, [out]; mad.wide.u32 %a, %t, 4, %o;
"""


def kernel(body: str, before: str = "") -> str:
    """A kernel over ``.param .u64 out``: %t is tid.x, %n the same for all, %a the address of the thread's word."""
    return f"{HEAD}{before}\n.visible .entry k(.param .u64 out)\n{{{BEGIN}{body}\nret;\n}}"


def stride_of(body: str, register: str = "%r1") -> int | None:
    """The stride that the analysis finds for a register; None for none."""
    graph = control.build(parse(kernel(body), "kernel.ptx").functions["k"], "kernel.ptx")
    live = liveness.analyze(graph)
    found = uniformity.analyze(graph, live, lambda name: False, frozenset(), WIDTH)
    constants = liveness.constants(graph)
    return affine.analyze(graph, live, found, constants, lambda name: False, WIDTH).strides.get(register)


@pytest.mark.parametrize(
    ("body", "stride"),
    [
        ("mov.u32 %r1, %t;", 1),
        ("mov.u32 %r1, %tid.y;", 0),
        ("mov.u32 %r1, %laneid;", 1),
        ("add.u32 %r1, %t, %n;", 1),
        ("sub.u32 %r1, %n, %t;", -1),
        ("sub.u32 %r2, %n, %t; add.u32 %r1, %r2, %t;", 0),
        ("shl.b32 %r1, %t, 3;", 8),
        ("mul.lo.u32 %r1, %t, 12;", 12),
        ("mov.u32 %r2, 12; mad.lo.u32 %r1, %r2, %t, %n;", 12),
        ("mul.lo.u32 %r1, %t, %n;", None),
        ("mul.lo.u32 %r1, %t, %t;", None),
        ("mul.hi.u32 %r1, %t, 12;", None),
        ("and.b32 %r1, %t, 31;", 1),
        ("and.b32 %r1, %t, 7;", None),
        ("and.b32 %r1, %t, -16;", 0),
        ("and.b32 %r1, %t, -2147483648;", 0),
        ("add.u32 %r2, %t, 1; and.b32 %r1, %r2, 31;", None),
        ("shl.b32 %r2, %t, 2; or.b32 %r1, %r2, 3;", 4),
        ("mul.lo.u32 %r2, %t, 12; mad.lo.u32 %r3, %n, 8, %r2; or.b32 %r1, 1, %r3;", 12),
        ("shl.b32 %r2, %t, 2; or.b32 %r1, %r2, 4;", None),
        ("shl.b32 %r2, %t, 2; or.b32 %r1, %r2, -1;", None),
        ("shl.b32 %r2, %t, 2; or.b32 %r1, %r2, %n;", None),
        ("or.b32 %r1, %t, 1;", None),
        ("shl.b32 %r2, %t, 1; L: or.b32 %r1, %r2, 1; add.u32 %r2, %r2, 3; @%p bra L;", None),
        ("shr.u32 %r1, %t, 5;", 0),
        ("shr.u32 %r1, %t, 4;", 0),
        ("shr.u32 %r1, %t, 3;", None),
        ("add.u32 %r2, %t, 1; shr.u32 %r1, %r2, 5;", None),
        ("setp.lt.u32 %p, %n, 3; selp.b32 %r1, %t, %t, %p;", 1),
        ("setp.lt.u32 %p, %t, 3; selp.b32 %r1, %t, %n, %p;", None),
        ("setp.lt.u32 %p, %n, 3; @%p mov.u32 %r1, %t;", None),
        (
            "setp.lt.u32 %p, %t, 3; mov.u32 %r1, %t; @%p bra J; add.u32 %r1, %t, 1; J: st.global.u32 [%a], %r1;",
            None,
        ),
        ("mov.u32 %r1, %t; L: add.u32 %r1, %r1, 64; setp.lt.u32 %p, %n, 3; @%p bra L;", 1),
        ("mov.u32 %r1, %t; L: mul.lo.u32 %r1, %r1, 2; setp.lt.u32 %p, %n, 3; @%p bra L;", None),
        ("add.cc.u32 %r1, %t, %n;", None),
        ("ld.global.u32 %r1, [%a];", None),
    ],
)
def test_linear_arithmetic_keeps_a_stride(body: str, stride: int | None) -> None:
    """Linear arithmetic keeps a stride; what is not linear, or written by some lanes only, has none."""
    assert stride_of(body) == stride


@pytest.mark.parametrize(
    ("body", "stride"),
    [
        ("cvt.u64.u32 %rd1, %t;", 1),
        ("mul.wide.u32 %rd1, %t, 4;", 4),
        ("add.u32 %r1, %t, %n; cvt.u64.u32 %rd1, %r1;", None),
        ("add.u32 %r1, %t, %n; mul.wide.u32 %rd1, %r1, 4;", None),
        ("mul.wide.s32 %rd1, %t, -4;", -4),
        ("mul.wide.u32 %rd1, %t, -4;", None),
        ("add.u32 %r1, %t, 5000; mul.wide.u32 %rd1, %r1, 4;", 4),
        ("add.u32 %r1, %t, 5000; cvt.u64.u32 %rd1, %r1;", 1),
        ("sub.u32 %r1, %t, 5; cvt.s64.s32 %rd1, %r1;", 1),
        ("sub.u32 %r1, %t, 5; cvt.u64.u32 %rd1, %r1;", None),
    ],
)
def test_widening_asks_for_a_small_index(body: str, stride: int | None) -> None:
    """An index below 1024 cannot wrap; a sum of 32 bits can, between two lanes, unless its bounds are known."""
    assert stride_of(body, "%rd1") == stride


PLACE = "mov.u32 %r2, %ntid.x; mul.wide.s32 %rd2, %r2, %n; cvt.s64.s32 %rd3, %t; add.s64 %rd4, %rd2, %rd3;"
"""%rd4: the thread's place in the grid, as Numba computes it."""


@pytest.mark.parametrize(
    ("body", "stride"),
    [
        (PLACE + "shr.s64 %rd5, %rd4, 63; and.b64 %rd6, %rd5, %o; add.s64 %rd1, %rd6, %rd4;", 1),
        (PLACE + "add.s64 %rd5, %rd4, 1; shr.s64 %rd1, %rd5, 63;", 0),
        (PLACE + "add.s64 %rd5, %rd4, -1; shr.s64 %rd1, %rd5, 63;", None),
        (PLACE + "mul.lo.s64 %rd5, %rd4, 8388608; shr.s64 %rd1, %rd5, 63;", None),
        (PLACE + "shr.s64 %rd1, %rd4, 3;", None),
        ("add.s64 %rd2, %a, 0; shr.s64 %rd1, %rd2, 63;", None),
        ("cvt.s64.s32 %rd2, %t; L: add.s64 %rd2, %rd2, 64; shr.s64 %rd1, %rd2, 63; @%p bra L;", None),
    ],
)
def test_the_sign_of_an_index_that_cannot_be_negative_is_one_for_all(body: str, stride: int | None) -> None:
    """A place in the grid is not negative, so adding the size to negative indices keeps the stride; an index that
    may be negative, may have wrapped or grows in a loop has a sign in each lane."""
    assert stride_of(body, "%rd1") == stride


@pytest.mark.parametrize(
    ("comparison", "stride"),
    [
        ("setp.lt.s64 %p, %rd4, 0;", 0),
        ("setp.lt.s64 %p, %rd4, -8;", 0),
        ("setp.ge.s64 %p, %rd4, -8;", 0),
        ("setp.gt.s64 %p, %rd4, -1;", 0),
        ("setp.eq.s64 %p, %rd4, -1;", 0),
        ("setp.gt.u32 %p, %t, 1023;", 0),
        ("setp.lt.u32 %p, %t, 1024;", 0),
        ("setp.lt.s64 %p, -1, %rd4;", 0),
        ("setp.lt.s64 %p, %rd4, 1;", None),
        ("setp.le.s64 %p, %rd4, 0;", None),
        ("setp.ne.s64 %p, %rd4, 0;", None),
        ("setp.gt.u32 %p, %t, 1022;", None),
        ("setp.lt.u64 %p, %rd4, -8;", None),
        ("setp.lt.s64 %p, %rd4, 0xFFFFFFFFFFFFFFF8;", None),
        ("setp.lt.and.s64 %p, %rd4, 0, %q;", None),
        ("setp.lt.s64 %p, %rd4, %a;", None),
    ],
)
def test_a_comparison_that_bounds_decide_is_one_for_all(comparison: str, stride: int | None) -> None:
    """The size that Numba adds to indices that are negative is added in all lanes, or in none."""
    body = f"{PLACE} {comparison} selp.b64 %rd5, %o, 0, %p;"
    assert stride_of(body, "%rd5") == stride


@pytest.mark.parametrize(
    ("block", "row"),
    [((7, 1, 1), 32), ((1, 7, 1), 1), ((16, 16, 1), 16), ((48, 2, 1), 16), ((64, 1, 2), 32), ((3, 2, 1), 1)],
)
def test_the_width_of_the_rows_decides_how_many_lanes_are_neighbors(block: tuple[int, int, int], row: int) -> None:
    """A block of one dimension is one row; otherwise the width of the rows decides."""
    assert abi.row_of(block) == row


@pytest.mark.parametrize("width", [1, 8, 16, 32])
@pytest.mark.parametrize("block", [(40,), (16, 3), (5, 7), (32, 2), (8, 4, 2)])
def test_indices_are_those_of_each_thread(block: tuple[int, ...], width: int) -> None:
    """Whatever the shape of a block, each thread writes what its own three indices make, where they say."""
    x, y, _ = (*block, 1, 1)[:3]
    body = f"""
    mov.u32 %r1, %tid.y; mov.u32 %r2, %tid.z; mad.lo.u32 %r3, %r2, {y}, %r1; mad.lo.u32 %r3, %r3, {x}, %t;
    shr.u32 %r4, %t, 5; and.b32 %r5, %t, 31; shl.b32 %r6, %t, 2; sub.u32 %r6, %r6, %r5;
    mad.lo.u32 %r7, %r1, 1000, %r6; mad.lo.u32 %r7, %r2, 100000, %r7; add.u32 %r7, %r7, %r4;
    mad.wide.u32 %rd1, %r3, 4, %o; st.global.u32 [%rd1], %r7;"""
    count = int(np.prod(block))
    out = np.zeros(count, np.uint32)
    ended = launch(kernel(body), [out], width, block=block)
    assert (ended.status, ended.faults) == (abi.FINISHED, ())
    i = np.arange(count)
    tx, ty, tz = i % x, i // x % y, i // (x * y)
    np.testing.assert_array_equal(out, 4 * tx - tx % 32 + 1000 * ty + 100000 * tz + tx // 32)


@pytest.mark.parametrize("width", [1, 16, 32])
def test_rows_are_checked_to_their_last_element(width: int) -> None:
    """A row that begins before an array or ends behind it: threads outside are told, the others do their work."""
    out = np.zeros(40, np.uint32)
    body = "ld.global.u32 %r1, [%a+-8]; add.u32 %r1, %r1, 7; st.global.u32 [%a], %r1;"
    ended = launch(kernel(body), [out], width, block=(41,))
    kinds = [(kind, x) for kind, _, x, _ in ended.faults]
    assert ("OUT_OF_BOUNDS_LOAD", 0) in kinds
    assert ("OUT_OF_BOUNDS_LOAD", 1) in kinds
    assert out[0] == out[1] == 7


EVERY = """
mul.wide.s32 %rd1, %t, {stride}; add.u64 %rd2, %o, %rd1; add.u64 %rd3, %rd2, {start};
setp.ge.u32 %p, %t, {least}; setp.lt.and.u32 %q, %t, {most}, %p; @!%q bra E;
ld.global.u32 %r1, [%rd3]; mad.lo.u32 %r1, %t, 100, %r1; st.global.u32 [%rd3], %r1;
E:"""
"""Threads from ``least`` to ``most`` add 100 times their index to a word; words are ``stride`` bytes apart."""


@pytest.mark.parametrize("width", [1, 2, 8, 32])
@pytest.mark.parametrize("stride", [4, 8, 12, 64, -8, -4])
@pytest.mark.parametrize(("least", "most"), [(0, 40), (3, 37), (9, 10), (33, 34), (5, 5)])
def test_lanes_at_a_constant_distance_access_their_own_words(
    width: int, stride: int, least: int, most: int
) -> None:
    """Whatever the distance and whichever lanes are on, each thread changes its own word and no other."""
    out = np.arange(40 * 16, dtype=np.uint32)
    want, start = out.copy(), 0 if stride > 0 else -39 * stride
    for t in range(least, most):
        want[(start + t * stride) // 4] += 100 * t
    body = EVERY.format(stride=stride, start=start, least=least, most=most)
    ended = launch(kernel(body), [out], width, block=(40,))
    assert (ended.status, ended.faults) == (abi.FINISHED, ())
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("width", [1, 8, 32])
@pytest.mark.parametrize(("stride", "start"), [(8, 0), (8, -24), (-8, 312 - 24), (64, 0), (4096, 0), (1 << 19, 0)])
def test_each_lane_outside_is_told_at_a_constant_distance(width: int, stride: int, start: int) -> None:
    """Threads whose word is outside the array are told, each with its address; the others change theirs."""
    out = np.zeros(76, np.uint32)
    places = [start + t * stride for t in range(30)]
    inside = [t for t, place in enumerate(places) if 0 <= place < out.nbytes]
    ended = launch(kernel(EVERY.format(stride=stride, start=start, least=0, most=30)), [out], width, block=(40,))
    for kind in ("OUT_OF_BOUNDS_LOAD", "OUT_OF_BOUNDS_STORE"):
        told = sorted(x for found, _, x, _ in ended.faults if found == kind)
        assert told == [t for t in range(30) if t not in inside]
    want = np.zeros_like(out)
    for t in inside:
        want[places[t] // 4] += 100 * t
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("width", [1, 8, 32])
def test_words_at_a_constant_distance_must_be_aligned(width: int) -> None:
    """Words that begin between multiples of their size are refused, all of them."""
    out = np.zeros(76, np.uint32)
    ended = launch(kernel(EVERY.format(stride=8, start=2, least=1, most=30)), [out], width, block=(40,))
    assert {kind for kind, *_ in ended.faults} == {"MISALIGNED"}
    assert sorted({x for _, _, x, _ in ended.faults}) == list(range(1, 30))
    assert not out.any()


@pytest.mark.parametrize("width", [1, 8, 16, 32])
def test_columns_of_a_tile_in_shared_memory(width: int) -> None:
    """A tile of 32 x 33 words: threads write a row and read a column."""
    body = """
    mov.u64 %rd1, tile; mov.u32 %r1, %tid.y; mad.lo.u32 %r2, %r1, 33, %t; mul.wide.u32 %rd2, %r2, 4;
    add.u64 %rd3, %rd1, %rd2; mad.lo.u32 %r3, %r1, 32, %t; st.shared.u32 [%rd3], %r3; bar.sync 0;
    mad.lo.u32 %r4, %t, 33, %r1; mul.wide.u32 %rd4, %r4, 4; add.u64 %rd5, %rd1, %rd4;
    ld.shared.u32 %r5, [%rd5]; mul.wide.u32 %rd6, %r3, 4; add.u64 %rd7, %o, %rd6; st.global.u32 [%rd7], %r5;"""
    out = np.zeros((32, 32), np.uint32)
    ended = launch(kernel(body, ".shared .align 4 .b8 tile[4224];"), [out], width, block=(32, 32))
    assert (ended.status, ended.faults) == (abi.FINISHED, ())
    np.testing.assert_array_equal(out, np.arange(1024).reshape(32, 32).T)


@pytest.mark.parametrize("width", [1, 8, 16, 32])
def test_counting_in_shared_memory(width: int) -> None:
    """Counts by atomics that nobody reads: with all lanes on, with some off, at one address for all."""
    body = """
    mov.u64 %rd1, counts; rem.u32 %r1, %t, 7; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2;
    mov.u32 %r2, 0; setp.lt.u32 %p, %t, 8; mul.wide.u32 %rd5, %t, 4; add.u64 %rd6, %rd1, %rd5;
    @%p st.shared.u32 [%rd6], %r2; bar.sync 0;
    atom.shared.add.u32 %r3, [%rd3], 1; setp.ge.u32 %q, %t, 50; @%q red.shared.add.u32 [%rd3], %t;
    red.shared.max.u32 [%rd1+28], %t;
    bar.sync 0; @!%p bra E; ld.shared.u32 %r5, [%rd6]; st.global.u32 [%a], %r5; E:"""
    out = np.zeros(8, np.uint32)
    ended = launch(kernel(body, ".shared .align 4 .b8 counts[32];"), [out], width, block=(100,))
    assert (ended.status, ended.faults) == (abi.FINISHED, ())
    t = np.arange(100)
    want = np.bincount(t % 7) + np.bincount(t % 7, weights=np.where(t >= 50, t, 0)).astype(int)
    np.testing.assert_array_equal(out, [*want, 99])
