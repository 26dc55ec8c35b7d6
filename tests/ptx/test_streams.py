"""Loads of lanes that each read their own row: four words are loaded at a time, and each is checked."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_machine import HEAD, compiled, launch

from kcheck.ptx import abi
from kcheck.ptx.analysis import cfg, uniformity
from kcheck.ptx.analysis.liveness import analyze
from kcheck.ptx.lowering.streams import find
from kcheck.ptx.syntax.parser import parse

PARAMETERS = "(.param .u64 from, .param .u64 starts, .param .u64 counts, .param .u64 out)"
BEGIN = """{head}
.visible .entry k{parameters}
{{
    .reg .b32 %t, %n, %s, %v, %sum; .reg .b64 %from, %starts, %counts, %out, %at, %rd<4>; .reg .pred %p;
    mov.u32 %t, %tid.x; ld.param.u64 %from, [from]; ld.param.u64 %starts, [starts]; ld.param.u64 %counts, [counts];
    ld.param.u64 %out, [out]; mad.wide.u32 %rd0, %t, 4, %starts; mad.wide.u32 %rd1, %t, 4, %counts;
    ld.global.u32 %s, [%rd0]; ld.global.u32 %n, [%rd1]; mov.u32 %sum, 0;
"""
END = "E:  mad.wide.u32 %rd1, %t, 4, %out; st.global.u32 [%rd1], %sum; ret;\n}}"
WORD = """mul.wide.u32 %rd2, %s, {scale}; add.u64 %at, %from, %rd2; {load} %v, [%at];
    mad.lo.u32 %sum, %sum, 31, %v; add.u32 %s, %s, {step};"""
LOOP = "setp.eq.u32 %p, %n, 0; @%p bra E;\nL:  {words} sub.u32 %n, %n, 1; setp.ne.u32 %p, %n, 0; @%p bra L;\n"
THREADS, WIDTHS = 64, [1, 8, 16, 32]


def text(words: int = 1, scale: int = 4, step: int = 1, load: str = "ld.global.u32") -> str:
    """Thread t sums ``words * counts[t]`` words from ``from[starts[t]]`` on, as digits of base 31.

    Args:
        words: how often the loop is unrolled.
        scale: bytes between two starts.
        step: starts between two words.
        load: the instruction.
    """
    loop = LOOP.replace("{words}", WORD * words)
    return (BEGIN + loop + END).format(head=HEAD, parameters=PARAMETERS, scale=scale, step=step, load=load)


def summed(source: np.ndarray, starts: np.ndarray, counts: np.ndarray, step: int = 1) -> np.ndarray:
    """What the threads should compute. Words outside the array are 0."""
    found = []
    for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
        total = 0
        for k in range(count):
            place = start + k * step
            total = (total * 31 + (int(source[place]) if 0 <= place < source.size else 0)) % (1 << 32)
        found.append(total)
    return np.array(found, np.uint32)


def rows(rng: np.random.Generator, size: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Starts and counts: rows of one length, of all lengths, that overlap, backwards, up to the end."""
    lane = np.arange(THREADS)
    ragged = rng.integers(0, 23, THREADS)
    return [
        (lane * 37, np.full(THREADS, 37)),
        (lane * 16, lane % 17),
        (rng.integers(0, size - 23, THREADS), ragged),
        (lane[::-1] * 5, ragged),
        (size - 1 - lane % 9, lane % 9 + 1),
        (np.full(THREADS, 11), ragged),
        (lane, np.full(THREADS, 7)),
        (lane * 3, np.where(lane == 40, 30, 0)),
    ]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("words", [1, 4])
def test_each_lane_reads_its_row(words: int, width: int) -> None:
    """In a loop, and in one that is unrolled."""
    rng = np.random.default_rng(5)
    source = rng.integers(0, 1 << 32, THREADS * 37 + 1, dtype=np.uint32)
    for starts, counts in rows(rng, source.size):
        counts = counts // words
        out = np.full(THREADS, 7, np.uint32)
        given = [source, starts.astype(np.uint32), counts.astype(np.uint32), out]
        ended = launch(text(words), given, width, block=(THREADS,))
        assert (ended.status, ended.faults) == (abi.FINISHED, ())
        np.testing.assert_array_equal(out, summed(source, starts, counts * words))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("step", [0, 2, 0xFFFFFFFF])
def test_rows_that_are_not_read_word_after_word(step: int, width: int) -> None:
    """Again and again the same word, every other word, backwards."""
    rng, signed = np.random.default_rng(6), step - (1 << 32) if step >> 31 else step
    source = rng.integers(0, 1 << 32, 4000, dtype=np.uint32)
    starts, counts = rng.integers(100, 3000, THREADS), rng.integers(0, 23, THREADS)
    out = np.zeros(THREADS, np.uint32)
    given = [source, starts.astype(np.uint32), counts.astype(np.uint32), out]
    assert launch(text(step=step), given, width, block=(THREADS,)).faults == ()
    np.testing.assert_array_equal(out, summed(source, starts, counts, signed))


@pytest.mark.parametrize("width", WIDTHS[1:])
@pytest.mark.parametrize("words", [1, 4])
def test_the_first_word_behind_the_array_is_told_in_its_lane(words: int, width: int) -> None:
    """At every place in a row of 12 words, while another row ends with the array. The launch stops there."""
    source = np.arange(1, 1000, dtype=np.uint32)
    for lane in (0, 1, 7, 8, 30, 63):
        for inside in range(12):
            starts, counts = np.arange(THREADS, dtype=np.uint32) * 13, np.full(THREADS, 12 // words, np.uint32)
            starts[lane] = source.size - inside
            starts[(lane + 5) % THREADS] = source.size - 12
            one, other = (
                launch(text(words), [source, starts, counts, np.zeros(THREADS, np.uint32)], w, block=(THREADS,))
                for w in (1, width)
            )
            assert other.places[0] == (source.ctypes.data + source.nbytes, (lane, 0, 0), (0, 0, 0))
            assert (one.faults, one.places) == (other.faults, other.places)


@pytest.mark.parametrize("width", WIDTHS[1:])
@pytest.mark.parametrize("words", [1, 4])
def test_a_misaligned_row_is_told(words: int, width: int) -> None:
    """Starts are bytes; one lane begins in the middle of a word. The launch stops after the iteration."""
    source = np.arange(1, 1000, dtype=np.uint32)
    starts, counts = np.arange(THREADS, dtype=np.uint32) * 48, np.full(THREADS, 2, np.uint32)
    starts[21] += 2
    one, other = (
        launch(text(words, 1, 4), [source, starts, counts, np.zeros(THREADS, np.uint32)], w, block=(THREADS,))
        for w in (1, width)
    )
    first = source.ctypes.data + int(starts[21])
    assert other.places == tuple((first + 4 * k, (21, 0, 0), (0, 0, 0)) for k in range(words))
    assert (one.faults, one.places) == (other.faults, other.places)


BETWEEN = """mov.u32 %n, 5;
O:  mov.u32 %v, %s; mov.u32 %t, 2;
L:  mul.wide.u32 %rd2, %s, 4; add.u64 %at, %from, %rd2; ld.global.u32 %v, [%at];
    mad.lo.u32 %sum, %sum, 31, %v; add.u32 %s, %s, 1; sub.u32 %t, %t, 1; setp.ne.u32 %p, %t, 0; @%p bra L;
    st.global.u32 [%at+4], %sum; sub.u32 %n, %n, 1; setp.ne.u32 %p, %n, 0; @%p bra O;
    mov.u32 %t, %tid.x;
"""


@pytest.mark.parametrize("width", WIDTHS)
def test_a_store_between_two_runs_of_a_loop_is_seen(width: int) -> None:
    """Each thread reads two words of its row and stores the sum into the next one, five times."""
    rng = np.random.default_rng(7)
    source = rng.integers(0, 1 << 32, THREADS * 16, dtype=np.uint32)
    starts, counts, out = (
        np.arange(THREADS, dtype=np.uint32) * 16,
        np.zeros(THREADS, np.uint32),
        np.zeros(THREADS, np.uint32),
    )
    wanted, sums = source.copy(), []
    for start in starts.tolist():
        total = 0
        for k in range(10):
            total = (total * 31 + int(wanted[start + k])) % (1 << 32)
            if k % 2:
                wanted[start + k + 1] = total
        sums.append(total)
    kernel = (BEGIN + BETWEEN + END).format(head=HEAD, parameters=PARAMETERS)
    assert launch(kernel, [source, starts, counts, out], width, block=(THREADS,)).faults == ()
    np.testing.assert_array_equal(source, wanted)
    np.testing.assert_array_equal(out, np.array(sums, np.uint32))


def streams_of(kernel: str, width: int = 16) -> int:
    """How many loads of a kernel belong to a stream."""
    function = parse(kernel, "k.ptx").functions["k"]
    graph = cfg.build(function, "k.ptx")
    found = uniformity.analyze(graph, analyze(graph), lambda name: False, frozenset(), width)
    streams = find(graph, {}, found.uniform, frozenset(), width)
    assert len(set(streams.loads.values())) <= 1
    return len(streams.loads)


def test_all_loads_of_an_unrolled_loop_share_a_stream() -> None:
    """All of an unrolled loop; none that another thread may be waited for with, or in a loop with a store."""
    assert streams_of(text()) == 1
    assert streams_of(text(4)) == 4
    assert streams_of(text(), width=4) == 0
    assert streams_of(text(load="ld.volatile.global.u32")) == 0
    assert streams_of(text(load="ld.relaxed.gpu.global.u32")) == 0
    assert (
        streams_of(text(load="ld.global.nc.f32").replace(".b32 %t, %n, %s, %v", ".f32 %v; .reg .b32 %t, %n, %s"))
        == 1
    )
    stored = text().replace("sub.u32 %n", "st.global.u32 [%rd0], %v; sub.u32 %n")
    assert streams_of(stored) == 0
    program, _ = compiled(text(4), 16, 16)
    assert program.ir.text.count("call <16 x i32> @kcheck.ld.global.v16i32.streams(") >= 4
