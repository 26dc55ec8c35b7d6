"""Loops whose lanes turn out to lie in a line, and what they do where they do not."""

from __future__ import annotations

import dataclasses
import random
import re

import numpy as np
import ptx_machine
import pytest
from ptx_machine import HEAD, launch

from kcheck.ptx import abi
from kcheck.ptx.compile import lower
from kcheck.ptx.lowering import affine_loops
from kcheck.ptx.program import Program

LANES = 64
WORDS = 4096
MIDDLE = 2048

BEGIN = """
.reg .b32 %t, %n, %c, %y, %w, %v, %r<20>; .reg .b64 %o, %a, %i, %z, %s, %m, %rd<20>; .reg .pred %p, %q, %g<20>;
mov.u32 %t, %tid.x; mov.u32 %n, %ntid.x; cvt.u64.u32 %m, %n; ld.param.u64 %o, [out];
ld.param.u64 %rd1, [start]; mul.wide.u32 %rd2, %t, 8; add.u64 %rd1, %rd1, %rd2; ld.global.u64 %i, [%rd1];
ld.param.u64 %rd3, [other]; add.u64 %rd3, %rd3, %rd2; ld.global.u64 %z, [%rd3];
ld.param.u64 %rd4, [count]; mul.wide.u32 %rd5, %t, 4; add.u64 %rd4, %rd4, %rd5; ld.global.u32 %c, [%rd4];
cvt.u32.u64 %y, %z;
"""
END = """
ld.param.u64 %rd6, [left]; add.u64 %rd6, %rd6, %rd2; st.global.u64 [%rd6], %i; st.global.u64 [%rd6+512], %z;
ld.param.u64 %rd7, [left]; add.u64 %rd7, %rd7, %rd5; st.global.u32 [%rd7+1024], %y; st.global.u32 [%rd7+1280], %c;
ret;
"""


def kernel(body: str, before: str = "") -> str:
    """A kernel in which %i, %z (64 bits) and %c (32) come from memory and go back there; %y is the half of %z."""
    names = ("out", "start", "other", "count", "left")
    params = ", ".join(f".param .u64 {name}" for name in names)
    return f"{HEAD}{before}\n.visible .entry k({params})\n{{{BEGIN}{body}{END}}}"


def run(
    text: str, start: np.ndarray, other: np.ndarray, count: np.ndarray, width: int, block: int = LANES
) -> tuple[bytes, bytes, object]:
    """What a launch leaves in the words, and in the registers; and how it ended."""
    out, left = np.arange(WORDS, dtype=np.uint32), np.zeros(192, np.uint64)
    ended = launch(text, [out, start, other, count, left], width, block=(block,))
    return out.tobytes(), left.tobytes(), (ended.status, sorted(ended.faults)[:1])


LOOP = """
L: {body} shr.s64 %s, %z, 63; and.b64 %s, %s, 640; add.s64 %s, %s, %i; shl.b64 %s, %s, 2; add.s64 %a, %o, %s;
ld.global.u32 %v, [%a]; mad.lo.u32 %v, %v, 5, %c; st.global.u32 [%a], %v;
add.s64 %i, %i, 64; sub.s32 %c, %c, 1; {test} @%p bra L;
"""

OPERATIONS = (
    "add.s64 %z, %z, %i;",
    "sub.s64 %z, %i, %z;",
    "sub.s64 %z, %z, %m;",
    "neg.s64 %z, %z;",
    "not.b64 %z, %z;",
    "mul.lo.s64 %z, %z, {k};",
    "mul.lo.s64 %z, %m, %z;",
    "mad.lo.s64 %z, %z, {k}, %i;",
    "shl.b64 %z, %z, {s};",
    "shr.s64 %z, %z, {s};",
    "shr.u64 %z, %z, {s};",
    "and.b64 %z, %z, -64;",
    "and.b64 %z, %z, {k};",
    "or.b64 %z, %z, %m;",
    "xor.b64 %z, %z, %i;",
    "min.s64 %z, %z, %i;",
    "cvt.u32.u64 %y, %z;",
    "cvt.s64.s32 %z, %y;",
    "cvt.u64.u32 %z, %y;",
    "mul.wide.s32 %z, %y, {k};",
    "mul.wide.u32 %z, %y, 3;",
    "mad.wide.s32 %z, %y, -2, %z;",
    "add.s32 %y, %y, %c;",
    "mul.lo.s32 %y, %y, %n;",
    "setp.lt.s64 %q, %z, {k}; selp.b64 %z, %z, %i, %q;",
    "setp.gt.s32 %q, %y, %c; selp.b32 %y, %c, {k}, %q;",
    "setp.lo.u32 %q, %y, %c; selp.b64 %z, %z, -1, %q;",
    "setp.ge.u64 %q, %z, %i; selp.b64 %z, %i, %z, %q;",
    "setp.eq.s64 %q, %z, %i; selp.b64 %z, %m, %z, %q;",
    "setp.ne.s32 %q, %y, 7; not.pred %q, %q; selp.b64 %z, %z, 0, %q;",
)
TESTS = (
    "setp.gt.s32 %p, %c, 0;",
    "setp.ne.s32 %p, %c, 0; setp.lt.s64 %q, %i, 3300; and.pred %p, %p, %q;",
    "setp.gt.s32 %q, %c, 0; setp.lt.and.s64 %p, %z, 1000, %q;",
)

LINE = np.arange(LANES)
STARTS = {
    "in line": MIDDLE + LINE,
    "backward": MIDDLE - LINE,
    "apart": MIDDLE + 4 * LINE,
    "one lane off": MIDDLE + LINE + 128 * (LINE == 37),
}
OTHERS = {
    "zero": 0 * LINE,
    "through zero": LINE - 20,
    "falling": 40 - 3 * LINE,
    "past 2^31": 2**31 - 40 + LINE,
    "past 2^32": 2**32 - 40 + LINE,
    "past 2^63": (2**63 - 40 + LINE.astype(np.uint64)).astype(np.int64),
    "huge steps": LINE * (2**58 + 3),
}
COUNTS = {"alike": 6 + 0 * LINE, "one less": 6 - (LINE == 50), "falling": 70 - LINE, "none": -LINE}


class _AnySteps(dict[str, int | None]):
    def get(self, name: str, default: object = None) -> None:
        """Of every register, any step will do."""


@pytest.mark.parametrize("steps", ["those needed", "any"])
@pytest.mark.parametrize("seed", range(16))
def test_lanes_in_a_line_compute_what_each_would(seed: int, steps: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops of random arithmetic on indices leave the same bits and faults with one lane per vector and with many,
    wherever the lanes begin: in a line, wrapping around, with one of them elsewhere."""
    draw = random.Random(f"{seed} {steps}")
    if steps == "any":
        monkeypatch.setattr(affine_loops._Iteration, "_wanted", lambda self: _AnySteps())
    body = " ".join(
        draw.choice(OPERATIONS).format(k=draw.choice([-3, 2, 8, 1000, 2**20]), s=draw.choice([1, 5, 31, 63]))
        for _ in range(draw.randint(0, 4))
    )
    text = kernel(LOOP.format(body=body, test=draw.choice(TESTS)), f"// {steps}")
    for name, start in STARTS.items():
        other = OTHERS[draw.choice(list(OTHERS))]
        count = COUNTS[draw.choice(list(COUNTS))]
        values = start.astype(np.int64), other.astype(np.int64), np.minimum(count, 9).astype(np.int32)
        if name == "apart":  # threads would race for a word in the second round; otherwise each has its own
            values = *values[:2], np.ones(LANES, np.int32)
        wanted = run(text, *values, 1)
        for width in (8, 32):
            assert run(text, *values, width) == wanted, (name, body)


def affine_blocks(text: str, monkeypatch: pytest.MonkeyPatch, width: int) -> list[str]:
    """From here on code traps in the loops that have a version for lanes in a line, outside of it; their names."""
    found: list[str] = []

    def trapping(*arguments: object, **keywords: object) -> Program:
        program = lower(*arguments, **keywords)
        kernel = program.ir.definitions["@kcheck.warp"]
        found.extend(line[:-1] for line in kernel.lines if line.startswith("affine"))
        loops = {f"B{name[6:]}:" for name in found}
        lines = [f"{line}\n  call void @llvm.trap()" if line in loops else line for line in kernel.lines]
        functions = {**program.ir.definitions, kernel.name: dataclasses.replace(kernel, lines=tuple(lines))}
        declarations = {**program.ir.declarations, "@llvm.trap": "declare void @llvm.trap()"}
        ir = dataclasses.replace(program.ir, declarations=declarations, definitions=functions)
        return dataclasses.replace(program, ir=ir)

    monkeypatch.setattr(ptx_machine, "lower", trapping)
    return found


PYTHON = """
mov.b64 %s, 0;
L: shr.s64 %s, %i, 63; and.b64 %s, %s, 4096; add.s64 %s, %s, %i; shl.b64 %s, %s, 2; add.s64 %a, %o, %s;
ld.global.u32 %v, [%a]; add.u32 %v, %v, %c; st.global.u32 [%a], %v;
setp.gt.s32 %q, %c, 0; selp.b32 %r1, -1, 0, %q; add.s32 %c, %c, %r1; add.s64 %rd9, %i, 64;
selp.b64 %i, %rd9, 0, %q; @%q bra L;
"""


@pytest.mark.parametrize("first", [MIDDLE, -MIDDLE])
def test_a_loop_over_a_range_runs_in_line(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Indices from Python, which may be negative, and a count of rounds that is the same for all threads: to the
    last round, no lane is looked at by itself."""
    text = kernel(PYTHON, f"// in line from {first}")
    values = (first + LINE).astype(np.int64), 0 * LINE, np.full(LANES, 5, np.int32)
    wanted = run(text, *values, 1)
    found = affine_blocks(text, monkeypatch, 32)
    assert run(text + "// traps", *values, 32) == wanted
    assert found


def test_a_loop_that_gains_nothing_has_one_version() -> None:
    """A loop whose addresses are in line as it stands, or whose work is elsewhere, has one version."""
    known = "mov.u32 %r1, 0; L: st.global.u32 [%rd4], %r1; add.u32 %r1, %r1, 1; setp.lt.u32 %p, %r1, 9; @%p bra L;"
    work = "L: ld.global.u32 %v, [%i];" + "mul.lo.u32 %v, %v, %v;" * 20 + "setp.gt.u32 %p, %c, 1; @%p bra L;"
    for body in (known, work):
        program, _ = ptx_machine.compiled(kernel(body), 16, 32)
        assert "affine" not in program.ir.text


@pytest.mark.parametrize(("width", "offsets"), [(8, [64]), (16, [128]), (32, [256, 320])])
def test_a_loop_in_line_fetches_the_row_of_the_vector_after_the_next(width: int, offsets: list[int]) -> None:
    """All cache lines of it, so that the lines of one vector are there when their turn comes."""
    program, _ = ptx_machine.compiled(kernel(PYTHON), width, 32)
    in_line = program.ir.text.split("\naffine", 1)[1]
    row = re.search(r"@kcheck\.ld\.global\.row\w+\(i64 (%\w+)", in_line)
    assert row is not None
    added = re.findall(
        r"add i64 (%\w+), (\d+)\n +(%\w+) = inttoptr.*\n +call void @llvm.prefetch.p0\(ptr \3,", in_line
    )
    assert [int(offset) for base, offset, _ in added] == offsets
    assert {base for base, _, _ in added} == {row[1]}


@pytest.mark.parametrize("width", [1, 16, 32])
def test_a_loop_in_line_is_checked(width: int) -> None:
    """A round past the end of an array is told, at its instruction and the first thread outside, and ends the
    loop, which would never end by itself."""
    text = kernel(LOOP.format(body="", test="setp.ne.s32 %p, %c, 0;"))
    start, count = (WORDS - 200 + LINE).astype(np.int64), np.full(LANES, -1, np.int32)
    out, left = np.zeros(WORDS, np.uint32), np.zeros(192, np.uint64)
    ended = launch(text, [out, start, 0 * LINE, count, left], width, block=(LANES,))
    assert ended.status == abi.STOPPED
    line = 1 + text[: text.index("ld.global.u32 %v")].count("\n")
    assert ended.faults[0] == ("OUT_OF_BOUNDS_LOAD", line, 8 if width > 1 else 0, 4)


@pytest.mark.parametrize("block", [1, 31, 33, 50])
def test_a_vector_that_is_not_full(block: int) -> None:
    """Lanes that are off change nothing, and hold what they may."""
    text = kernel(PYTHON)
    values = (MIDDLE + LINE).astype(np.int64), 0 * LINE, np.full(LANES, 5, np.int32)
    assert run(text, *values, 32, block) == run(text, *values, 1, block)


def test_counting_in_a_loop_in_line() -> None:
    """Atomics that nobody reads, in a loop that goes on by counting: a histogram."""
    count = """and.b32 %v, %v, 63; mul.wide.u32 %rd8, %v, 4; mov.u64 %rd10, bins; add.u64 %rd10, %rd10, %rd8;
    atom.shared.add.u32 %r2, [%rd10], 1;"""
    body = PYTHON.replace("st.global.u32 [%a], %v;", count)
    clear = (
        "mov.u64 %rd11, bins; add.u64 %rd11, %rd11, %rd5; mov.u32 %r3, 0; st.shared.u32 [%rd11], %r3; bar.sync 0;"
    )
    after = "bar.sync 0; ld.shared.u32 %y, [%rd11];"
    text = kernel(clear + body + after, ".shared .align 4 .b8 bins[256];")
    values = (MIDDLE + LINE).astype(np.int64), 0 * LINE, np.full(LANES, 5, np.int32)
    wanted = run(text, *values, 1)
    assert np.frombuffer(wanted[1], np.uint32)[256 : 256 + LANES].sum() == LANES * 6
    for width in (16, 32):
        assert run(text, *values, width) == wanted
