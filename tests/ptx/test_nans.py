"""Which NaN is left where its bits can be seen: at every width, in quick code and in better code."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from ptx_machine import HEAD, compiled, launch

from kcheck.cpu import jit
from kcheck.ptx.analysis import cfg as control
from kcheck.ptx.analysis import nans
from kcheck.ptx.syntax.parser import parse

WIDTHS = [1, 8, 16, 32]
SINGLE, DOUBLE = 0x7FFFFFFF, 0xFFF8000000000000
BEGIN = """
.reg .b32 %t, %r<20>, %n; .reg .b64 %in, %out, %d<20>; .reg .pred %p, %q; .reg .f32 %f<20>; .reg .f64 %g<20>;
.reg .b16 %h<8>;
mov.u32 %t, %tid.x; ld.param.u64 %in, [in]; ld.param.u64 %out, [out];
mad.wide.u32 %in, %t, 16, %in; mad.wide.u32 %out, %t, 16, %out; setp.lt.u32 %p, %t, 16;
"""
SINGLES = "ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%in];"
COPY = "st.global.v4.f32 [%out], {%f1, %f2, %f3, %f4};"
DOUBLES = "ld.global.v2.f64 {%g1, %g2}, [%in];"

ONE, INFINITY = 0x3F800000, 0x7F800000
QUIET, OTHER, MINUS = 0x7FC00015, 0x7FE00777, 0xFFC00123
OPERANDS = [0, ONE, INFINITY, INFINITY | 1 << 31, 0xBF800000, QUIET, OTHER, MINUS, 0x7F800123]


def kernel(body: str, before: str = "") -> str:
    """A kernel whose thread t has 16 bytes of its own at %in and at %out; %p: is t below 16?"""
    return f"{HEAD}{before}\n.visible .entry k(.param .u64 in, .param .u64 out)\n{{{BEGIN}{body}\nret;\n}}"


def run(text: str, words: np.ndarray, width: int) -> np.ndarray:
    """What a kernel leaves of rows of 16 bytes, one for each thread."""
    out = np.zeros_like(words)
    assert launch(text, [np.ascontiguousarray(words), out], width, block=(len(words),)).status == 0
    return out


def singles(count: int = 64) -> np.ndarray:
    """Rows of four f32, as bits: all pairs of operands, the third one too."""
    rows = itertools.islice(itertools.cycle(itertools.product(OPERANDS, OPERANDS)), count)
    return np.array([(x, y, OPERANDS[k % 7], x) for k, (x, y) in enumerate(rows)], np.uint32)


def doubles(count: int = 96) -> np.ndarray:
    """Rows of two f64, as bits."""
    wide = [0, 1023 << 52, 2047 << 52, 4095 << 52, 0x7FF8000000000015, 0x7FFC000000000777, 0xFFF8000000000123]
    rows = itertools.islice(itertools.cycle(itertools.product(wide, wide)), count)
    return np.array(list(rows), np.uint64)


STORE = "st.global.f32 [%out], %f5;"
MADE = {
    "stored": f"OP; {STORE}",
    "beside what is loaded": "OP; st.global.v4.f32 [%out], {%f5, %f1, %f2, %f3};",
    "moved": f"OP; mov.f32 %f6, %f5; mov.b32 %r1, %f6; mov.b32 %r2, %r1; mov.b32 %f5, %r2; {STORE}",
    "selected": f"OP; mov.f32 %f6, 0f3F800000; selp.f32 %f5, %f5, %f6, %p; {STORE}",
    "negated": f"OP; neg.f32 %f5, %f5; {STORE}",
    "absolute": f"OP; abs.f32 %f6, %f5; neg.f32 %f5, %f6; {STORE}",
    "guarded": f"mov.f32 %f5, 0f3F800000; @%p OP; {STORE}",
    "stored by a guard": f"OP; @%p {STORE}",
    "an integer": "OP; mov.b32 %r1, %f5; and.b32 %r2, %r1, -1; st.global.u32 [%out], %r2;",
    "packed": "OP; mov.b64 %d1, {%f5, %f5}; st.global.u64 [%out], %d1;",
    "shuffled": f"OP; mov.b32 %r1, %f5; shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1; mov.b32 %f5, %r2; {STORE}",
    "local": ".local .b32 own; OP; st.local.f32 [own], %f5; ld.local.f32 %f5, [own]; st.global.f32 [%out], %f5;",
    "mixed": f"mov.f32 %f5, %f1; @%p OP; {STORE}",
    "mixed later": "OP; selp.f32 %f5, %f5, %f1, %p; mov.f32 %f6, %f5; st.global.f32 [%out], %f6;",
    "a loop": f"""mov.f32 %f5, 0f00000000; mov.u32 %n, 3;
AGAIN: OP; add.f32 %f5, %f5, %f6; mov.f32 %f6, %f5;
sub.u32 %n, %n, 1; setp.ne.u32 %q, %n, 0; @%q bra AGAIN; {STORE}""",
    "a loop from memory": f"""mov.f32 %f5, %f3; mov.u32 %n, 3;
AGAIN: @%p fma.rn.f32 %f5, %f1, %f2, %f5; sub.u32 %n, %n, 1; setp.ne.u32 %q, %n, 0; @%q bra AGAIN; {STORE}""",
    "added in memory": "OP; st.global.f32 [%out], %f1; red.global.add.f32 [%out], %f5;",
    "swapped": "OP; mov.b32 %r1, %f5; atom.global.exch.b32 %r2, [%out], %r1;",
    "a half": f"OP; cvt.rn.f16.f32 %h1, %f5; add.f16 %h2, %h1, %h1; cvt.f32.f16 %f5, %h2; {STORE}",
    "a sign": f"OP; mov.f32 %f6, 0f3F800000; copysign.f32 %f5, %f5, %f6; {STORE}",
}
"""What becomes of the result of ``OP`` in %f5, of the f32 in %f1, %f2, %f3; %p holds in half of the lanes."""

INSTRUCTIONS = [
    "add.f32 %f5, %f1, %f2",
    "sub.f32 %f5, %f2, %f1",
    "mul.f32 %f5, %f1, %f2",
    "fma.rn.f32 %f5, %f1, %f2, %f3",
    "fma.rn.f32 %f5, %f3, %f1, %f2",
    "div.rn.f32 %f5, %f1, %f2",
    "sqrt.rn.f32 %f5, %f1",
    "rcp.rn.f32 %f5, %f1",
]


def kept(words: np.ndarray, results: np.ndarray) -> np.ndarray:
    """Results that are the NaN of arithmetic, or no NaN, or a NaN that was an operand: the first four bytes."""
    first = results[:, 0]
    is_nan = (first & 0x7FFFFFFF) > INFINITY
    return ~is_nan | (first == SINGLE) | (first == words[:, 0]) | (first == words[:, 2])


@pytest.mark.parametrize("use", MADE)
def test_the_nan_of_f32(use: str) -> None:
    """A NaN that arithmetic made is 0x7FFFFFFF wherever it goes, and the same bits are left at each width."""
    for instruction in INSTRUCTIONS if use in ("stored", "mixed") else INSTRUCTIONS[:4:3]:
        body = MADE[use].replace("OP", instruction)
        text, words = kernel(SINGLES + body), singles()
        ran = [run(text, words, width) for width in WIDTHS]
        for width, one in zip(WIDTHS, ran, strict=True):
            assert np.array_equal(one, ran[0]), f"{instruction} at {width} lanes"
        first = ran[0][:, 0]
        if use == "a sign":
            assert set(first.tolist()) <= {ONE, ONE | 1 << 31}
        elif use in ("mixed", "mixed later", "a loop from memory"):
            assert kept(words, ran[0]).all()
            assert np.array_equal(first[16:32], words[16:32, 2 if "loop" in use else 0])
        else:
            is_nan = (first & 0x7FFFFFFF) > INFINITY
            assert is_nan.any()
            assert set(first[is_nan].tolist()) == {SINGLE}
        if use == "beside what is loaded":
            assert np.array_equal(ran[0][:, 1:], words[:, :3])


@pytest.mark.parametrize(
    ("instruction", "sources"),
    [
        ("add.f64 %g3, %g1, %g2", (0, 1)),
        ("sub.f64 %g3, %g2, %g1", (1, 0)),
        ("mul.f64 %g3, %g2, %g1", (1, 0)),
        ("fma.rn.f64 %g3, %g1, %g2, %g1", (0, 1)),
        ("fma.rn.f64 %g3, 0d3FF0000000000000, %g2, %g1", (1, 0)),
        ("add.rz.f64 %g3, %g1, %g2", (0, 1)),
        ("fma.rp.f64 %g3, %g2, %g1, %g1", (1, 0)),
        ("div.rn.f64 %g3, %g1, %g2", (0, 1)),
        ("sqrt.rn.f64 %g3, %g1", (0,)),
        ("rcp.rn.f64 %g3, %g2", (1,)),
        ("cvt.rni.f64.f64 %g3, %g1; mov.b64 {%r1, %r2}, %g3; mov.b64 %g3, {%r1, %r2}", (0,)),
        ("st.global.f64 [%out], %g1; atom.global.add.f64 %g4, [%out], %g2; ld.global.f64 %g3, [%out]", (0, 1)),
        ("mov.f64 %g4, 0d7FF0000000000000; sub.f64 %g3, %g4, %g4", ()),
        ("mov.f64 %g4, 0dFFF0000000000000; sqrt.rn.f64 %g3, %g4", ()),
        ("mul.f64 %g4, %g1, 0d0000000000000000; mov.f64 %g5, %g4; mul.f64 %g3, %g5, 0d4000000000000000", (0,)),
        ("setp.ne.u32 %q, %t, -1; mov.f64 %g3, %g2; @%q add.f64 %g3, %g1, %g2", (0, 1)),
    ],
)
def test_the_nan_of_f64(instruction: str, sources: tuple[int, ...]) -> None:
    """Arithmetic on f64 gives the first operand that is a NaN, made quiet, and the default one if none was."""
    text, words = kernel(f"{DOUBLES} {instruction}; st.global.v2.f64 [%out], {{%g3, %g1}};"), doubles()
    ran = [run(text, words, width) for width in WIDTHS]
    expected = np.full(len(words), DOUBLE, np.uint64)
    for source in reversed(sources):
        expected = np.where(is_nan(words[:, source]), words[:, source] | np.uint64(1 << 51), expected)
    for one in ran:
        assert np.array_equal(one, ran[0])
    nans = is_nan(ran[0][:, 0])
    assert np.array_equal(ran[0][nans, 0], expected[nans])
    assert (nans | (expected == DOUBLE)).all()
    assert nans.any()
    assert np.array_equal(ran[0][:, 1], words[:, 0])


def is_nan(doubles: np.ndarray) -> np.ndarray:
    """Which bits are those of an f64 that is a NaN."""
    return (doubles & ~np.uint64(1 << 63)) > 2047 << 52


@pytest.mark.parametrize(
    ("instruction", "flips"),
    [
        ("neg.f64 %g3, %g1", lambda x: x ^ np.uint64(1 << 63)),
        ("neg.f64 %g4, %g1; add.f64 %g3, %g2, %g4; sub.f64 %g3, %g3, %g2", None),
        ("abs.f64 %g3, %g1", lambda x: x & ~np.uint64(1 << 63)),
    ],
)
def test_the_sign_of_a_nan_of_f64(instruction: str, flips) -> None:
    """A sign is a bit, also where an optimizer would take it into a sum."""
    text, words = kernel(f"{DOUBLES} {instruction}; st.global.v2.f64 [%out], {{%g3, %g1}};"), doubles()
    ran = [run(text, words, width) for width in WIDTHS]
    for one in ran:
        assert np.array_equal(one, ran[0])
    if flips is None:
        only = is_nan(words[:, 0]) & ~is_nan(words[:, 1])
        expected = (words[:, 0] ^ np.uint64(1 << 63)) | np.uint64(1 << 51)
        assert np.array_equal(ran[0][only, 0], expected[only])
    else:
        assert np.array_equal(ran[0][:, 0], flips(words[:, 0]))


def test_a_single_becomes_the_nan_of_f64() -> None:
    """Which NaN an f32 is, is open: none of its bits are in the f64 made of it, nor in what is made of that."""
    then = "cvt.f64.f32 %g1, %f5; add.f64 %g2, %g1, 0d3FF0000000000000; neg.f64 %g3, %g2; neg.f64 %g4, %g3"
    body = f"{SINGLES} add.f32 %f5, %f1, %f2; {then}; st.global.v2.f64 [%out], {{%g4, %g4}};"
    text, words = kernel(body), singles()
    ran = [run(text, words, width).view(np.uint64)[:, 0] for width in WIDTHS]
    for one in ran:
        assert np.array_equal(one, ran[0])
    assert set(ran[0][is_nan(ran[0])].tolist()) == {DOUBLE}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    "body",
    [
        f"{SINGLES} {COPY}",
        "ld.global.v2.f64 {%g1, %g2}, [%in]; mov.f64 %g3, %g1; st.global.v2.f64 [%out], {%g3, %g2};",
        f"{SINGLES} setp.gt.f32 %q, %f1, %f2; selp.f32 %f1, %f1, %f1, %q; {COPY}",
        f"{SINGLES} mul.f32 %f5, %f1, %f2; st.global.f32 [%out], %f5; {COPY}",
        f"{SINGLES} @%p bra ON; mov.u32 %n, 0; ON: {COPY}",
    ],
)
def test_copies_keep_payloads(body: str, width: int) -> None:
    """What is loaded and stored, whatever the registers on the way, keeps its bits, signaling NaNs too."""
    assert np.array_equal(run(kernel(body), singles(), width), singles())


CALLED = """.func (.param .b32 r) twice(.param .b32 x) { .reg .f32 %f<3>;
ld.param.f32 %f1, [x]; mul.f32 %f2, %f1, %f1; st.param.f32 [r], %f2; ret; }"""
CALL = """{ .param .b32 x; .param .b32 r; add.f32 %f5, %f1, %f2; st.param.f32 [x], %f5;
call (r), twice, (x); ld.param.f32 %f5, [r]; } st.global.f32 [%out], %f5;"""


@pytest.mark.parametrize("width", WIDTHS)
def test_functions_give_it(width: int) -> None:
    """So do functions: their arguments and results lie in memory."""
    first = run(kernel(SINGLES + CALL, CALLED), singles(), width)[:, 0]
    is_nan = (first & 0x7FFFFFFF) > INFINITY
    assert is_nan.any()
    assert set(first[is_nan].tolist()) == {SINGLE}


def test_quick_and_better_code_leave_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """So do the two kinds of code, where it is the other one at each width."""
    texts = [kernel(SINGLES + use.replace("OP", one)) for use in MADE.values() for one in INSTRUCTIONS[3:7:3]]
    wanted = [run(text, singles(), 16) for text in texts]

    def other(ir: str, width: int, *, quick: bool) -> bytes:
        return jit.compile_ir(ir, width, quick=not quick)

    monkeypatch.setattr("ptx_machine.compile_ir", other)
    compiled.cache_clear()
    for text, results in zip(texts, wanted, strict=True):
        for width in (1, 8):
            assert np.array_equal(run(text, singles(), width), results), f"{text}\nat {width} lanes"
    compiled.cache_clear()


def found(body: str) -> nans.Nans | None:
    """What is made canonical in a kernel."""
    return nans.analyze(control.build(parse(kernel(body), "kernel.ptx").functions["k"], "kernel.ptx"))


def test_a_loop_pays_nothing() -> None:
    """Products that are summed in a loop are left alone: the one store is where the sum is made canonical."""
    body = f"""{SINGLES} mov.f32 %f5, 0f00000000; mov.u32 %n, 8;
AGAIN: mul.f32 %f6, %f1, %f2; sub.f32 %f6, %f6, %f3; fma.rn.f32 %f5, %f6, %f2, %f5; mov.b32 %r1, %f5;
shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1; mov.b32 %f7, %r2; add.f32 %f5, %f5, %f7;
sub.u32 %n, %n, 1; setp.ne.u32 %q, %n, 0; @%q bra AGAIN; st.global.f32 [%out], %f5;"""
    result = found(body)
    assert result is not None
    assert {"%f5", "%f6", "%f7", "%r1", "%r2"} <= result.made
    assert not result.written
    assert len(result.shown) == 1


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ("fma.rn.sat.f32 %f2, %f1, %f1, 0f3F000000; fma.rm.f32 %f3, %f2, 0f437C0000, 0f4B400001", False),
        ("mov.f32 %f4, 0f437C0000; add.sat.f32 %f2, %f1, %f1; mul.f32 %f3, %f2, %f4", False),
        ("cvt.rn.f32.s32 %f2, %t; sub.f32 %f3, %f2, 0f3F800000", False),
        ("mov.f32 %f2, 0f7F800000; mul.f32 %f3, %f2, 0f00000000", True),
        ("mul.f32 %f3, 0f7F800000, 0f00000000", True),
        ("cvt.rn.f32.s32 %f2, %t; div.rn.f32 %f3, %f2, %f2", True),
        ("cvt.rn.f32.s32 %f2, %t; mul.f32 %f2, %f2, %f2; sub.f32 %f3, %f2, %f2", True),
        ("cvt.rn.f32.s32 %f2, %t; @%p mov.f32 %f2, %f1; sub.f32 %f3, %f2, 0f3F800000", True),
    ],
)
def test_arithmetic_of_finite_numbers_is_no_nan(body: str, shown: bool) -> None:
    """Sums and products of finite numbers are no NaN, as inside of every exp; of what may be infinite they are."""
    result = found(
        f"ld.global.f32 %f1, [%in]; {body}; mov.b32 %r1, %f3; shl.b32 %r2, %r1, 23; st.u32 [%out], %r2;"
    )
    assert (result is not None and bool(result.shown)) == shown


def test_integers_are_no_concern() -> None:
    """Code without arithmetic on f32 and f64 is left as it is."""
    assert found("ld.global.u32 %r1, [%in]; add.u32 %r1, %r1, 1; st.global.u32 [%out], %r1;") is None
