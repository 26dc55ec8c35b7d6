"""Threads of one block together: barriers, warps, locks, calls, and what goes wrong."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_machine import HEAD, launch

from kcheck.errors import PtxError
from kcheck.ptx import abi
from kcheck.ptx.program import Program

WIDTHS = [1, 16, 32]

PROLOGUE = """
.reg .b32 %t, %r<20>; .reg .b64 %o, %a, %rd<10>; .reg .pred %p, %q; .reg .f32 %f<8>;
mov.u32 %t, %tid.x; ld.param.u64 %o, [out]; mad.wide.u32 %a, %t, 4, %o;
"""


def kernel(body: str, before: str = "", params: str = "") -> str:
    """A kernel over ``.param .u64 out``: %t is tid.x, %a the address of the thread's own word."""
    return f"{HEAD}{before}\n.visible .entry k(.param .u64 out{params})\n{{{PROLOGUE}{body}\nret;\n}}"


def run(text: str, count: int, width: int, **options: object) -> tuple[np.ndarray, Program]:
    """The words that ``count`` threads leave, which must come without a fault."""
    out = np.zeros(count, np.uint32)
    ended = launch(text, [out], width, **options)  # type: ignore[arg-type]
    assert (ended.status, ended.faults) == (abi.FINISHED, ())
    return out, ended


@pytest.mark.parametrize("width", WIDTHS)
def test_a_barrier_shows_each_thread_what_all_wrote(width: int) -> None:
    """Values written to shared memory before bar.sync are read after it, registers live across it are kept."""
    body = """
    mov.u32 %r2, buffer; mul.lo.u32 %r3, %t, 4; add.u32 %r4, %r2, %r3; st.shared.u32 [%r4], %t;
    mul.lo.u32 %r5, %t, %t;
    bar.sync 0;
    sub.u32 %r6, 99, %t; mad.lo.u32 %r7, %r6, 4, %r2; ld.shared.u32 %r8, [%r7];
    mad.lo.u32 %r9, %r8, 10000, %r5; st.global.u32 [%a], %r9;"""
    out, _ = run(kernel(body, ".shared .align 4 .b8 buffer[400];"), 100, width, block=(100,))
    t = np.arange(100, dtype=np.uint32)
    np.testing.assert_array_equal(out, (99 - t) * 10000 + t * t)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_barrier_in_a_loop_with_a_uniform_counter(width: int) -> None:
    """A block-wide prefix sum: log2 rounds of two barriers each."""
    body = """
    mov.u32 %r2, buffer; mad.lo.u32 %r3, %t, 4, %r2; add.u32 %r10, %t, 1; st.shared.u32 [%r3], %r10;
    mov.u32 %r4, 1;
    LOOP:
    bar.sync 0;
    ld.shared.u32 %r5, [%r3];
    setp.lt.u32 %p, %t, %r4; @%p bra KEEP;
    sub.u32 %r6, %t, %r4; mad.lo.u32 %r7, %r6, 4, %r2; ld.shared.u32 %r8, [%r7]; add.u32 %r5, %r5, %r8;
    KEEP:
    bar.sync 0;
    st.shared.u32 [%r3], %r5;
    shl.b32 %r4, %r4, 1; setp.lt.u32 %q, %r4, 128; @%q bra LOOP;
    bar.sync 0; ld.shared.u32 %r9, [%r3]; st.global.u32 [%a], %r9;"""
    out, _ = run(kernel(body, ".shared .align 4 .b8 buffer[512];"), 128, width, block=(128,))
    np.testing.assert_array_equal(out, np.cumsum(np.arange(1, 129)))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("bar.red.popc.u32 %r2, 0, %p;", 25),
        ("bar.red.and.pred %q, 0, %p; selp.u32 %r2, 1, 0, %q;", 0),
        ("bar.red.or.pred %q, 0, %p; selp.u32 %r2, 1, 0, %q;", 1),
        ("bar.red.and.pred %q, 0, !%p; selp.u32 %r2, 1, 0, %q;", 0),
        ("barrier.cta.red.popc.aligned.u32 %r2, 3, 80, !%p;", 55),
    ],
)
def test_reductions_over_a_block(row: str, expected: int, width: int) -> None:
    """bar.red counts, ands and ors the predicates of all threads."""
    body = f"rem.u32 %r1, %t, 16; setp.lt.u32 %p, %r1, 5; {row} st.global.u32 [%a], %r2;"
    out, _ = run(kernel(body), 80, width, block=(80,))
    assert set(out) == {expected}


@pytest.mark.parametrize("width", WIDTHS)
def test_named_barriers_count_their_own_threads(width: int) -> None:
    """A producer warp arrives and goes on; the consumer warp waits for it."""
    body = """
    mov.u32 %r2, buffer; and.b32 %r3, %t, 31; mad.lo.u32 %r4, %r3, 4, %r2;
    setp.ge.u32 %p, %t, 32; @%p bra CONSUMER;
    mul.lo.u32 %r5, %t, 3; st.shared.u32 [%r4], %r5; bar.arrive 2, 64; st.global.u32 [%a], 7; ret;
    CONSUMER: bar.sync 2, 64; ld.shared.u32 %r6, [%r4]; st.global.u32 [%a], %r6;"""
    out, _ = run(kernel(body, ".shared .align 4 .b8 buffer[128];"), 64, width, block=(64,))
    np.testing.assert_array_equal(out, [7] * 32 + [3 * t for t in range(32)])


LOCK = """
SPIN: atom.global.cas.b32 %r1, [mutex], 0, 1; setp.ne.u32 %p, %r1, 0; @%p bra SPIN;
ld.global.u32 %r2, [total]; add.u32 %r2, %r2, 1; st.global.u32 [total], %r2;
atom.global.exch.b32 %r3, [mutex], 0;"""


@pytest.mark.parametrize("width", WIDTHS)
def test_a_spin_lock_between_lanes_of_a_warp_ends(width: int) -> None:
    """Independent thread scheduling: who holds the lock gets on, whoever spins in the same warp."""
    body = LOCK + "bar.sync 0; ld.global.u32 %r4, [total]; st.global.u32 [%a], %r4;"
    before = ".global .align 4 .u32 mutex; .global .align 4 .u32 total;"
    out, _ = run(kernel(body, before), 96, width, block=(96,))
    assert set(out) == {96}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("fence", ["membar.gl;", "membar.cta;", "fence.acq_rel.gpu;", "fence.sc.sys;"])
def test_a_wait_for_a_lane_of_the_same_warp_ends(fence: str, width: int) -> None:
    """A plain load does where a fence follows it: each lane waits for what the one before it stores."""
    body = f"""
    mul.wide.u32 %rd1, %t, 4; mov.u64 %rd2, flags; add.u64 %rd1, %rd1, %rd2;
    setp.ne.u32 %p, %t, 0; @%p bra WAIT; st.global.u32 [%rd1], 5;
    WAIT: ld.global.u32 %r1, [%rd1]; {fence} setp.eq.u32 %p, %r1, 0; @%p bra WAIT;
    add.u32 %r2, %r1, 1; st.global.u32 [%rd1+4], %r2; st.global.u32 [%a], %r1;"""
    out, _ = run(kernel(body, ".global .align 4 .b8 flags[400];"), 70, width, block=(70,))
    np.testing.assert_array_equal(out, 5 + np.arange(70))


@pytest.mark.parametrize("width", WIDTHS)
def test_a_lock_and_a_barrier_inside_a_called_function(width: int) -> None:
    """A function in which a warp may wait behaves as if it stood in the kernel."""
    before = f""".global .align 4 .u32 mutex; .global .align 4 .u32 total;
    .func (.param .b32 got) locked(.param .b32 amount)
    {{ .reg .b32 %r<9>; .reg .pred %p; ld.param.u32 %r5, [amount]; setp.eq.u32 %p, %r5, 0; @%p bra LEAVE;
    {LOCK.replace("add.u32 %r2, %r2, 1", "add.u32 %r2, %r2, %r5")}
    LEAVE: bar.sync 0; ld.global.u32 %r4, [total]; st.param.b32 [got], %r4; ret; }}"""
    body = """
    and.b32 %r1, %t, 3;
    { .param .b32 x; .param .b32 y; st.param.b32 [x], %r1; call.uni (y), locked, (x); ld.param.b32 %r2, [y]; }
    st.global.u32 [%a], %r2;"""
    out, _ = run(kernel(body, before), 64, width, block=(64,))
    assert set(out) == {16 * (1 + 2 + 3)}


@pytest.mark.parametrize("width", WIDTHS)
def test_recursion_keeps_each_frame_of_local_memory(width: int) -> None:
    """A function that sums its own local variables over its recursion, to another depth in each lane."""
    before = """
    .func (.param .b32 got) sum(.param .b32 n)
    { .local .align 4 .b8 frame[16]; .reg .b32 %r<6>; .reg .pred %p;
      ld.param.u32 %r1, [n]; st.local.u32 [frame+4], %r1; setp.eq.u32 %p, %r1, 0; @%p bra BASE;
      sub.u32 %r2, %r1, 1;
      { .param .b32 x; .param .b32 y; st.param.b32 [x], %r2; call (y), sum, (x); ld.param.b32 %r3, [y]; }
      ld.local.u32 %r4, [frame+4]; add.u32 %r3, %r3, %r4; st.param.b32 [got], %r3; ret;
      BASE: st.param.b32 [got], 0; ret; }"""
    body = """
    { .param .b32 x; .param .b32 y; st.param.b32 [x], %t; call (y), sum, (x); ld.param.b32 %r2, [y]; }
    st.global.u32 [%a], %r2;"""
    out, _ = run(kernel(body, before), 40, width, block=(40,))
    np.testing.assert_array_equal(out, [t * (t + 1) // 2 for t in range(40)])


@pytest.mark.parametrize("align", [4, 64, 256, 4096])
@pytest.mark.parametrize("width", WIDTHS)
def test_local_arrays_lie_as_aligned_as_they_ask(width: int, align: int) -> None:
    """In every thread of several warps, beside saved registers, in a called function's second frame too."""
    before = f"""
    .func (.param .b64 got) deeper(.param .b32 n)
    {{ .local .align 4 .b8 odd[20]; .local .align {align} .b8 even[8];
      .reg .b32 %r<4>; .reg .b64 %rd<6>; .reg .pred %p;
      ld.param.u32 %r1, [n]; mov.u64 %rd1, even; st.local.u32 [odd+16], %r1; setp.eq.u32 %p, %r1, 0;
      mov.u64 %rd2, 0; @%p bra BASE;
      {{ .param .b32 x; .param .b64 y; st.param.b32 [x], 0; call (y), deeper, (x); ld.param.b64 %rd2, [y]; }}
      BASE: or.b64 %rd3, %rd1, %rd2; and.b64 %rd4, %rd3, {align - 1}; st.param.b64 [got], %rd4; ret; }}"""
    body = f"""
    .local .align 4 .b8 first[4]; .local .align {align} .b8 second[40];
    mul.lo.u32 %r5, %t, 3; mov.u64 %rd1, second; st.local.u32 [second+36], %r5;
    bar.sync 0;
    {{ .param .b32 x; .param .b64 y; st.param.b32 [x], 1; call (y), deeper, (x); ld.param.b64 %rd2, [y]; }}
    and.b64 %rd3, %rd1, {align - 1}; or.b64 %rd4, %rd3, %rd2; cvt.u32.u64 %r1, %rd4;
    ld.local.u32 %r2, [second+36]; sub.u32 %r3, %r2, %r5; or.b32 %r4, %r1, %r3; st.global.u32 [%a], %r4;"""
    out, _ = run(kernel(body, before), 70, width, block=(70,))
    np.testing.assert_array_equal(out, np.zeros(70))


def test_an_alignment_beyond_a_page_is_not_modelled() -> None:
    """What no window of memory is aligned to is refused by its line, in every space."""
    with pytest.raises(PtxError, match=r"test\.ptx:\d+:.* 8192 bytes is not supported: at most 4096"):
        run(kernel(".local .align 8192 .b8 wide[4];"), 1, 16)


@pytest.mark.parametrize("width", WIDTHS)
def test_half_of_a_local_address_is_enough(width: int) -> None:
    """LLVM keeps only the lower half of an address in local memory, which no GPU has more than 4 GB of."""
    body = """
    .local .align 4 .b8 frame[16]; .reg .b32 %low;
    mov.u64 %rd1, frame; cvt.u32.u64 %low, %rd1; add.u32 %low, %low, 4;
    st.local.u32 [%low+4], %t; ld.local.u32 %r1, [frame+8]; st.global.u32 [%a], %r1;"""
    out, _ = run(kernel(body), 40, width, block=(40,))
    np.testing.assert_array_equal(out, range(40))


@pytest.mark.parametrize("width", WIDTHS)
def test_parameters_are_read_through_an_address(width: int) -> None:
    """LLVM selects between the addresses of two parameters."""
    body = """
    mov.u64 %rd1, out; mov.u64 %rd2, more; and.b32 %r1, %t, 1; setp.eq.u32 %p, %r1, 0;
    selp.b64 %rd3, %rd1, %rd2, %p; ld.param.b64 %rd4, [%rd3]; cvt.u32.u64 %r2, %rd4;
    cvt.u32.u64 %r3, %a; shl.b32 %r4, %t, 2; sub.u32 %r3, %r3, %r4; @!%p mov.u32 %r3, 0;
    sub.u32 %r2, %r2, %r3; st.global.u32 [%a], %r2;"""
    out = np.zeros(40, np.uint32)
    text = kernel(body).replace(".param .u64 out", ".param .u64 out, .param .u64 more")
    assert launch(text, [out, 7], width, block=(40,)).faults == ()
    np.testing.assert_array_equal(out, [0, 7] * 20)


HALF_ATOMIC = """
    .reg .b16 %half; .reg .b32 %w<9>; .reg .b64 %base, %narrow, %word;
    ld.param.u64 %base, [out]; add.u64 %narrow, %base, 4; and.b64 %word, %narrow, -4;
    cvt.u32.u64 %w1, %narrow; and.b32 %w1, %w1, 3; shl.b32 %w1, %w1, 3; shl.b32 %w2, 65535, %w1; not.b32 %w2, %w2;
    ld.relaxed.gpu.global.b32 %w3, [%word];
    AGAIN:
    shr.u32 %w4, %w3, %w1; cvt.u16.u32 %half, %w4; add.u16 %half, %half, 1;
    cvt.u32.u16 %w4, %half; shl.b32 %w4, %w4, %w1;
    and.b32 %w5, %w3, %w2; or.b32 %w4, %w4, %w5;
    atom.relaxed.gpu.global.cas.b32 %w5, [%word], %w3, %w4;
    setp.ne.u32 %q, %w5, %w3; mov.u32 %w3, %w5; @%q bra AGAIN;"""


@pytest.mark.parametrize("width", WIDTHS)
def test_an_atomic_on_half_a_word_may_be_at_the_end_of_an_allocation(width: int) -> None:
    """Three halves: the word around the last one is half outside, and its other half stays what it is."""
    memory = np.array([0, 0, 7, 9], np.uint16)
    text = kernel(HALF_ATOMIC)
    assert launch(text, [memory[:3]], width, block=(40,)).faults == ()
    np.testing.assert_array_equal(memory, [0, 0, 47, 9])
    ended = launch(text, [memory[:2]], width, block=(1,))
    assert {kind for kind, *_ in ended.faults} == {"OUT_OF_BOUNDS_LOAD", "OUT_OF_BOUNDS_ATOMIC"}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    ("variables", "addresses"),
    [
        ("", "mov.u64 %rd1, twice; mov.u64 %rd2, inc;"),
        (
            ".global .align 8 .u64 table[3] = {0, inc, twice};",
            "mov.u64 %rd3, table; ld.global.u64 %rd1, [%rd3+16]; ld.global.u64 %rd2, [%rd3+8];",
        ),
    ],
    ids=["in registers", "in a table"],
)
def test_calls_through_registers_go_where_each_lane_wants(width: int, variables: str, addresses: str) -> None:
    """Lanes that call different functions through one register each get their own. A table of virtual functions is
    a variable with their addresses."""
    function = """.func (.param .b32 r) {0}(.param .b32 x)
    {{ .reg .b32 %r1; ld.param.b32 %r1, [x]; {1} st.param.b32 [r], %r1; ret; }}
    """
    before = function.format("twice", "shl.b32 %r1, %r1, 1;") + function.format("inc", "add.u32 %r1, %r1, 1;")
    before += variables
    body = f"""
    {addresses} and.b32 %r1, %t, 1; setp.eq.u32 %p, %r1, 0;
    selp.b64 %rd3, %rd1, %rd2, %p;
    {{ .param .b32 x; .param .b32 y; st.param.b32 [x], %t;
      shape: .callprototype (.param .b32 _) _ (.param .b32 _);
      call (y), %rd3, (x), shape; ld.param.b32 %r2, [y]; }}
    st.global.u32 [%a], %r2;"""
    out, _ = run(kernel(body, before), 40, width, block=(40,))
    np.testing.assert_array_equal(out, [t + 1 if t & 1 else 2 * t for t in range(40)])


@pytest.mark.parametrize("width", WIDTHS)
def test_shuffles_votes_and_matches_of_a_whole_warp(width: int) -> None:
    """One value of each kind of warp instruction, as the ISA's pseudocode has it."""
    body = """
    shfl.sync.down.b32 %r1|%p, %t, 3, 31, -1; shfl.sync.bfly.b32 %r2, %t, 5, 0x1f, 0xffffffff;
    shfl.sync.idx.b32 %r3, %t, 9, 0x181f, -1; shfl.sync.up.b32 %r4, %t, 2, 0, -1;
    setp.lt.u32 %q, %t, 7; vote.sync.ballot.b32 %r5, %q, -1; redux.sync.add.s32 %r6, %t, -1;
    and.b32 %r7, %t, 3; match.any.sync.b32 %r8, %r7, -1;
    selp.u32 %r9, 1, 0, %p;
    mad.lo.u32 %r1, %r9, 100, %r1; mad.wide.u32 %a, %t, 28, %o;
    st.global.v2.u32 [%a], {%r1, %r2}; st.global.u32 [%a+8], %r3; st.global.u32 [%a+12], %r4;
    st.global.u32 [%a+16], %r5; st.global.u32 [%a+20], %r6; st.global.u32 [%a+24], %r8;"""
    body = body.replace(
        "st.global.v2.u32 [%a], {%r1, %r2};", "st.global.u32 [%a], %r1; st.global.u32 [%a+4], %r2;"
    )
    out, _ = run(kernel(body), 32 * 7, width)
    for t, (down, bfly, idx, up, ballot, total, same) in enumerate(out.reshape(32, 7)):
        assert down == (t + 3 + 100 if t + 3 <= 31 else t)
        assert bfly == t ^ 5
        assert idx == (t & 24) | 1
        assert up == (t - 2 if t >= 2 else t)
        assert (ballot, total) == (0x7F, 496)
        assert same == 0x11111111 << (t & 3)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("st.global.u32 [%a+4096], %t;", "OUT_OF_BOUNDS_STORE"),
        ("ld.global.u32 %r1, [%a+4096];", "OUT_OF_BOUNDS_LOAD"),
        ("ld.u32 %r1, [%a+-512];", "OUT_OF_BOUNDS_LOAD"),
        ("atom.global.add.u32 %r1, [%a+4096], 1;", "OUT_OF_BOUNDS_ATOMIC"),
        ("ld.global.v2.u32 {%r1, %r2}, [%a];", "MISALIGNED"),
        ("ld.global.u32 %r1, [%a+2];", "MISALIGNED"),
        ("st.shared.u32 [buffer+32], %t;", "OUT_OF_BOUNDS_STORE"),
        ("mov.u64 %rd1, frame; st.local.u32 [%rd1+16], %t;", "OUT_OF_BOUNDS_STORE"),
        ("mov.u32 %r1, frame; st.local.u32 [%r1+16], %t;", "OUT_OF_BOUNDS_STORE"),
        ("mov.u64 %rd1, out; ld.param.u64 %rd1, [%rd1+8];", "OUT_OF_BOUNDS_LOAD"),
        ("mov.u64 %rd1, out; st.u32 [%rd1], %t;", "OUT_OF_BOUNDS_STORE"),
        ("mov.u64 %rd1, 0; ld.u8 %r1, [%rd1];", "OUT_OF_BOUNDS_LOAD"),
        ("mov.u64 %rd1, -1; ld.u8 %r1, [%rd1];", "OUT_OF_BOUNDS_LOAD"),
        ("setp.eq.u32 %p, %t, 9; @%p trap;", "TRAP"),
    ],
)
def test_what_goes_wrong_is_recorded_and_not_performed(body: str, kind: str, width: int) -> None:
    """Stray and misaligned accesses of every space, and traps, are faults of the right kind at the right line."""
    out = np.zeros(32, np.uint32)
    text = kernel(f".local .align 4 .b8 frame[16];\n{body}", ".shared .align 4 .b8 buffer[32];")
    ended = launch(text, [out], width)
    assert ended.faults, text
    line = 1 + next(k for k, row in enumerate(text.splitlines()) if row == body)
    assert {(k, at) for k, at, _, _ in ended.faults} == {(kind, line)}


def test_a_store_by_one_lane_in_many_does_not_hide_the_others() -> None:
    """The lanes in bounds store, the one out of bounds is named."""
    out = np.zeros(31, np.uint32)
    ended = launch(kernel("st.global.u32 [%a], %t;"), [out], 16)
    np.testing.assert_array_equal(out, np.arange(31))
    assert [(kind, thread) for kind, _, thread, _ in ended.faults] == [("OUT_OF_BOUNDS_STORE", 31)]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("setp.lt.u32 %p, %t, 20; @%p bra A; bar.sync 0; bra B;\nA: bar.sync 0;\nB:", "BARRIER_DIVERGENCE"),
        ("setp.lt.u32 %p, %t, 20; @%p bra A; bar.sync 1; bra B;\nA: bar.sync 0;\nB:", "BARRIER_DIVERGENCE"),
        ("setp.lt.u32 %p, %t, 20; @%p ret;\nbar.sync 0;", "BARRIER_GONE"),
        ("setp.lt.u32 %p, %t, 20; @%p bra A; bar.sync 0;\nA:", "BARRIER_EXITED"),
    ],
)
def test_barriers_that_not_all_threads_reach_are_findings_and_the_kernel_ends(
    body: str, kind: str, width: int
) -> None:
    """Different barriers in one block, and threads gone before one."""
    out = np.zeros(64, np.uint32)
    ended = launch(kernel(f"{body}\nst.global.u32 [%a], 5;"), [out], width, block=(64,))
    assert ended.status == abi.FINISHED
    assert {k for k, *_ in ended.faults} == {kind}
    assert set(out[20:]) == {5}


@pytest.mark.parametrize("width", WIDTHS)
def test_endless_recursion_is_a_stack_overflow(width: int) -> None:
    """The kernel ends, with a fault; the process lives."""
    before = ".func deep() { call.uni deep; ret; }"
    ended = launch(kernel("call.uni deep;", before), [np.zeros(32, np.uint32)], width)
    assert ended.status == abi.STOPPED or ended.faults
    assert {k for k, *_ in ended.faults} == {"STACK_OVERFLOW"}


@pytest.mark.parametrize("width", WIDTHS)
def test_an_endless_loop_sees_the_stop_flag(width: int) -> None:
    """A launch that the host has stopped returns from any loop."""
    ended = launch(kernel("LOOP: bra LOOP;"), [np.zeros(32, np.uint32)], width, stop=abi.STOP_REQUESTED)
    assert (ended.status, ended.faults) == (abi.STOPPED, ())


@pytest.mark.parametrize("width", WIDTHS)
def test_dynamic_shared_memory_begins_behind_the_static_one(width: int) -> None:
    """Extern arrays of open size share their place, and their bounds are those of the launch."""
    before = (
        ".shared .align 4 .b8 fixed[20]; .extern .shared .align 8 .b8 open[]; .extern .shared .align 8 .b8 too[];"
    )
    body = """
    mov.u32 %r1, open; mov.u32 %r2, too; mov.u32 %r3, fixed; sub.u32 %r4, %r1, %r3; sub.u32 %r5, %r2, %r1;
    mad.lo.u32 %r6, %t, 4, %r1; st.shared.u32 [%r6], %t; ld.shared.u32 %r7, [%r6];
    mad.lo.u32 %r8, %r4, 100, %r5; add.u32 %r8, %r8, %r7; st.global.u32 [%a], %r8;"""
    out, _ = run(kernel(body, before), 32, width, dynamic_shared=128)
    np.testing.assert_array_equal(out, 3200 + np.arange(32))
    short = launch(kernel(body, before), [np.zeros(32, np.uint32)], width, dynamic_shared=124)
    assert {k for k, *_ in short.faults} == {"OUT_OF_BOUNDS_STORE", "OUT_OF_BOUNDS_LOAD"}


@pytest.mark.parametrize("width", WIDTHS)
def test_constants_and_addresses_of_variables(width: int) -> None:
    """A table of addresses in .global memory leads to a table in .const memory."""
    before = """.const .align 4 .b32 table[4] = {10, 20, 30, 40};
    .global .align 8 .u64 pointers[2] = {generic(table)+4, table};"""
    body = """
    and.b32 %r1, %t, 1; mul.wide.u32 %rd1, %r1, 8; mov.u64 %rd2, pointers; add.u64 %rd2, %rd2, %rd1;
    ld.global.u64 %rd3, [%rd2]; ld.u32 %r2, [%rd3+4]; ld.const.u32 %r3, [table+12]; add.u32 %r2, %r2, %r3;
    st.global.u32 [%a], %r2;"""
    out, _ = run(kernel(body, before), 32, width)
    np.testing.assert_array_equal(out, [60 if t & 1 else 70 for t in range(32)])


@pytest.mark.parametrize("width", WIDTHS)
def test_blocks_and_threads_in_three_dimensions(width: int) -> None:
    """%tid, %ntid, %ctaid and %nctaid in x, y and z."""
    body = """
    mov.u32 %r1, %tid.y; mov.u32 %r2, %tid.z; mov.u32 %r3, %ntid.x; mov.u32 %r4, %ntid.y; mov.u32 %r5, %ntid.z;
    mad.lo.u32 %r6, %r2, %r4, %r1; mad.lo.u32 %r6, %r6, %r3, %t;
    mov.u32 %r7, %ctaid.x; mov.u32 %r8, %ctaid.y; mov.u32 %r9, %ctaid.z;
    mov.u32 %r10, %nctaid.x; mov.u32 %r11, %nctaid.y;
    mad.lo.u32 %r12, %r9, %r11, %r8; mad.lo.u32 %r12, %r12, %r10, %r7;
    mul.lo.u32 %r13, %r3, %r4; mul.lo.u32 %r13, %r13, %r5; mad.lo.u32 %r14, %r12, %r13, %r6;
    mad.wide.u32 %a, %r14, 4, %o;
    mad.lo.u32 %r15, %t, 10, %r1; mad.lo.u32 %r15, %r15, 10, %r2; mad.lo.u32 %r15, %r15, 10, %r7;
    mad.lo.u32 %r15, %r15, 10, %r8; mad.lo.u32 %r15, %r15, 10, %r9; st.global.u32 [%a], %r15;"""
    out, _ = run(kernel(body), 5 * 3 * 2 * 2 * 3 * 2, width, grid=(2, 3, 2), block=(5, 3, 2))
    order = [
        (x, y, z, bx, by, bz)
        for bz in range(2)
        for by in range(3)
        for bx in range(2)
        for z in range(2)
        for y in range(3)
        for x in range(5)
    ]
    np.testing.assert_array_equal(out, [int("".join(map(str, digits))) for digits in order])


@pytest.mark.parametrize("width", WIDTHS)
def test_a_call_under_a_guard_and_an_exit_inside_it(width: int) -> None:
    """Only lanes with the guard call; those that exit in the function are gone from the kernel."""
    before = """.func leave(.param .b32 x)
    { .reg .b32 %r; .reg .pred %p; ld.param.b32 %r, [x]; setp.gt.u32 %p, %r, 9; @%p exit; ret; }"""
    body = """
    setp.lt.u32 %p, %t, 20;
    { .param .b32 x; st.param.b32 [x], %t; @%p call leave, (x); }
    st.global.u32 [%a], 3;"""
    out, _ = run(kernel(body, before), 32, width)
    np.testing.assert_array_equal(out, [0 if 9 < t < 20 else 3 for t in range(32)])


@pytest.mark.parametrize("width", WIDTHS)
def test_groups_of_lanes_with_masks_of_their_own(width: int) -> None:
    """Lanes of one key find each other by match.any and then vote, sum and elect among themselves only."""
    body = """
    rem.u32 %r1, %t, 5; match.any.sync.b32 %r2, %r1, -1;
    setp.lt.u32 %p, %t, 12; vote.sync.ballot.b32 %r3, %p, %r2; redux.sync.add.u32 %r4, %t, %r2;
    vote.sync.all.pred %q, %p, %r2; selp.u32 %r5, 1, 0, %q; activemask.b32 %r6;
    mad.wide.u32 %a, %t, 20, %o;
    st.global.u32 [%a], %r2; st.global.u32 [%a+4], %r3; st.global.u32 [%a+8], %r4; st.global.u32 [%a+12], %r5;
    st.global.u32 [%a+16], %r6;"""
    out, _ = run(kernel(body), 32 * 5, width)
    for t, (same, ballot, total, every, active) in enumerate(out.reshape(32, 5)):
        group = [k for k in range(32) if k % 5 == t % 5]
        assert same == sum(1 << k for k in group)
        assert ballot == sum(1 << k for k in group if k < 12)
        assert (total, every, active) == (sum(group), 0, 0xFFFFFFFF)


@pytest.mark.parametrize("width", WIDTHS)
def test_warps_reduce_by_shuffles_in_a_loop(width: int) -> None:
    """A butterfly sum, five rounds, in every warp of a block, behind a branch that part of the block takes."""
    body = """
    mov.u32 %r1, %t; setp.lt.u32 %p, %t, 64; @!%p bra DONE; mov.u32 %r2, 16;
    LOOP: shfl.sync.bfly.b32 %r3, %r1, %r2, 31, -1; add.u32 %r1, %r1, %r3; shr.u32 %r2, %r2, 1;
    setp.ne.u32 %q, %r2, 0; @%q bra LOOP;
    bar.warp.sync -1;
    DONE: st.global.u32 [%a], %r1;"""
    out, _ = run(kernel(body), 96, width, block=(96,))
    np.testing.assert_array_equal(out, [496] * 32 + [1520] * 32 + list(range(64, 96)))


HALF = "setp.lt.u32 %p, %t, 16;"
AFTER = "vote.sync.ballot.b32 %r1, %p, -1; st.global.u32 [%a], %r1;"


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (f"{HALF} @!%p bra END; {AFTER} END: st.global.u32 [%a], 0xFFFF;", "WARP_MASK"),
        (
            f"{HALF} setp.gt.u32 %q, %t, 99; @!%p bra END; {AFTER} END: @%q ret; st.global.u32 [%a], 0xFFFF;",
            "WARP_MASK",
        ),
        (f"{HALF} @!%p ret; {AFTER}", "WARP_MASK_GONE"),
        (f"{HALF} @!%p bra END; {AFTER} END: ret;", "WARP_MASK_GONE"),
        (f"{HALF} @!%p exit; shfl.sync.up.b32 %r1, %t, 4, 0, -1; {AFTER}", "WARP_MASK_GONE"),
        (f"{HALF} @!%p ret; shfl.sync.down.b32 %r1, %t, 4, 31, -1; {AFTER}", "SHUFFLE_GONE WARP_MASK_GONE"),
        (f"{HALF} @!%p ret; mov.u32 %r2, 4; shfl.sync.bfly.b32 %r1, %t, %r2, 31, -1; {AFTER}", "WARP_MASK_GONE"),
        (f"{HALF} @!%p ret; bar.sync 0; redux.sync.add.u32 %r2, %t, -1; {AFTER}", "BARRIER_GONE WARP_MASK_GONE"),
        (f"{HALF} @!%p ret; bar.warp.sync -1; bar.warp.sync 0xFFFF; {AFTER}", "WARP_MASK_GONE"),
    ],
)
def test_lanes_named_in_a_mask_that_do_not_come_are_a_finding(body: str, kind: str, width: int) -> None:
    """Half of the warp takes part; the other half is elsewhere, or has exited, or only has to exit.

    Where lanes come one after another it is not known which had exited before: all count as being elsewhere.
    """
    if width == 1:
        kind = kind.replace("WARP_MASK_GONE", "WARP_MASK").replace("SHUFFLE_GONE", "WARP_MASK")
    out = np.zeros(32, np.uint32)
    ended = launch(kernel(body), [out], width)
    assert {k for k, *_ in ended.faults} == set(kind.split())
    assert set(out[:16]) == {0xFFFF}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("row", ["div.u32 %r1, %t, %r2;", "rem.s32 %r1, %t, %r2;", "div.s32 %r1, %t, 0;"])
def test_an_integer_divided_by_zero_is_a_finding_and_the_kernel_goes_on(row: str, width: int) -> None:
    """The first lane that divides by zero is named; the others, and lanes that are off, are not."""
    out = np.zeros(32, np.uint32)
    body = f"""and.b32 %r2, %t, 7; sub.u32 %r2, %r2, 5; setp.lt.u32 %p, %t, 8; mov.u32 %r1, 9;
    @%p {row}
    st.global.u32 [%a], 1;"""
    ended = launch(kernel(body), [out], width)
    assert ended.status == abi.FINISHED
    threads = {thread for _, _, thread, _ in ended.faults}
    assert {kind for kind, *_ in ended.faults} == {"DIVISION_BY_ZERO"}
    assert threads <= set(range(8)) if row.endswith(" 0;") else threads == {5}
    assert set(out) == {1}


@pytest.mark.parametrize("width", WIDTHS)
def test_a_gap_at_the_end_of_a_vector_load_is_not_accessed(width: int) -> None:
    """Compilers load 16 bytes for the 12 that are used; an element that nobody reads is not checked."""
    body = "ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [seven+16]; add.u32 %r5, %r1, %r3; st.global.u32 [%a], %t;"
    before = ".shared .align 16 .b8 seven[28];"
    out, _ = run(kernel(body, before), 32, width)
    np.testing.assert_array_equal(out, np.arange(32))
    whole = launch(kernel(body.replace("%r1, %r3;", "%r1, %r4;"), before), [out], width)
    assert {kind for kind, *_ in whole.faults} == {"OUT_OF_BOUNDS_LOAD"}
