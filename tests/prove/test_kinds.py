"""Kinds of kernels that are proved, each next to a twin that differs in one line and is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from random_kernels import HEAD, SPEC

from kcheck.device import choose_for
from kcheck.prover.verdicts import decide, words
from kcheck.specfile import load_spec

ELEMENT = "mul.wide.u32 %a9, {index}, 4; add.u64 %a2, %a0, %a9; ld.global.f32 %f0, [%a2];"
X_OF_7 = ELEMENT.format(index="%r7")

UNROLLED = f"""
    and.b32 %r6, %r0, 3;
    mov.u32 %r7, 0;
    setp.eq.u32 %p0, %r6, 0;
    @%p0 bra MAIN;
    neg.s32 %r8, %r6;
REST:
    {X_OF_7}
    add.u32 %r7, %r7, 1;
    add.u32 %r8, %r8, 1;
    setp.ne.u32 %p1, %r8, 0;
    @%p1 bra REST;
MAIN:
    setp.lt.u32 %p2, %r0, 4;
    @%p2 bra END;
LOOP:
    {X_OF_7}
    ld.global.f32 %f1, [%a2+12];
    add.u32 %r7, %r7, 4;
    setp.ne.u32 %p3, %r7, %r0;
    @%p3 bra LOOP;
"""
"""``for j in range(N): x[j]``, four steps at once after the first ``N % 4``."""

COUNTED = f"""
    setp.ge.u32 %p0, %r4, %r0;
    @%p0 bra END;
    sub.u32 %r6, %r0, %r4;
    mov.u32 %r7, %r4;
LOOP:
    {X_OF_7}
    setp.gt.s32 %p1, %r6, 1;
    selp.b32 %r8, -1, 0, %p1;
    add.s32 %r6, %r6, %r8;
    selp.b32 %r9, 1, 0, %p1;
    add.u32 %r7, %r7, %r9;
    @%p1 bra LOOP;
"""
"""A counter that stops at a limit, as those of Numba's ``range`` do."""

BARRIER_IN_A_LOOP = """
    mov.u32 %r6, 0;
OUTER:
    mov.u32 %r7, 0;
INNER:
    add.u32 %r7, %r7, 1;
    setp.lt.u32 %p1, %r7, %r1;
    @%p1 bra INNER;
    bar.sync 0;
    add.u32 %r6, %r6, 1;
    setp.lt.u32 %p2, %r6, %r0;
    @%p2 bra OUTER;
"""
"""Threads leave the inner loop in different iterations, and meet after it."""

DIVIDED = f"""
    mul.lo.u32 %r6, %r0, %r0;
    setp.ge.u32 %p0, %r4, %r6;
    @%p0 bra END;
    div.u32 %r7, %r4, %r0;
    {X_OF_7}
    rem.u32 %r7, %r4, %r0;
    {X_OF_7}
"""
"""Row ``i / N`` and column ``i % N`` where ``i < N * N``."""

COPIED = """
    mov.u64 %a4, tile;
    mul.wide.u32 %a9, %r1, 4;
    add.u64 %a5, %a4, %a9;
    mul.wide.u32 %a8, %r4, 4;
    add.u64 %a2, %a0, %a8;
    setp.lt.u32 %p0, %r4, %r0;
    selp.b32 %r6, 4, 0, %p0;
    cvt.u32.u64 %r7, %a5;
    cp.async.ca.shared.global [%r7], [%a2], 4, %r6;
    cp.async.wait_all;
"""
"""An asynchronous copy that reads nothing behind the end."""

ROWS = """
    mov.u32 %r6, tile;
    mad.lo.u32 %r7, %r1, 16, %r6;
    ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r8, %r9}, [%r7];
"""
"""16 rows of 16 bytes: only the first 16 lanes give an address."""

PAIRS = {
    "unrolled": (UNROLLED, "%r0, 3;", "%r0, 1;", "memcheck"),
    "unrolled too far": (UNROLLED, "[%a2+12]", "[%a2+16]", "memcheck"),
    "counted": (COUNTED, "setp.gt.s32 %p1, %r6, 1;", "setp.gt.s32 %p1, %r6, 0;", "memcheck"),
    "barrier in a loop": (BARRIER_IN_A_LOOP, "%r6, %r0;", "%r6, %r1;", "synccheck"),
    "barrier in an inner loop": (BARRIER_IN_A_LOOP, "INNER:", "INNER: bar.sync 0;", "synccheck"),
    "divided": (DIVIDED, "setp.ge", "setp.gt", "memcheck"),
    "copied": (COPIED, "4, 0, %p0", "4, 4, %p0", "memcheck"),
    "rows": (ROWS, "x2.shared.b16 {%r8, %r9}", "x4.shared.b16 {%r8, %r9, %r10, %r11}", "memcheck"),
}


def verdict(folder: Path, body: str, check: str) -> str:
    """What is decided about a kernel."""
    (folder / "kcheck.yaml").write_text("")
    (folder / "one.ptx").write_text(
        HEAD.replace("TILE", "256").replace(".align 4", ".align 16") + body + "END:\n    ret;\n}\n"
    )
    grid = "ceildiv(N * N, 32)" if body.lstrip().startswith("mul.lo") else "ceildiv(N, 32)"
    text = SPEC.format(op="one", low=1, high=300, size="N", grid=grid, block=32)
    (folder / "one.yaml").write_text(text)
    spec = load_spec(folder / "one.yaml")
    return words(decide(spec, choose_for([spec], "cpu")).proofs)[check]


@pytest.mark.parametrize(("body", "old", "new", "check"), PAIRS.values(), ids=PAIRS)
def test_a_kernel_is_proved_and_its_twin_is_not(body: str, old: str, new: str, check: str, tmp_path: Path) -> None:
    """For the check that the twin breaks."""
    assert body.count(old) == 1
    assert verdict(tmp_path, body, check) == "proved"
    assert verdict(tmp_path, body.replace(old, new), check) == "undecided"


def test_an_asynchronous_copy_is_in_no_order(tmp_path: Path) -> None:
    """Even after the wait, what it writes is not proved to be free of races."""
    read = "    ld.shared.f32 %f0, [%a5];\n"
    assert verdict(tmp_path, COPIED + read, "memcheck") == "proved"
    assert verdict(tmp_path, COPIED + read, "racecheck") == "undecided"


@pytest.mark.parametrize(("high", "word"), [(4, "proved"), (5, "undecided")])
def test_the_contents_of_an_example_hold_for_its_sizes(high: int, word: str, tmp_path: Path) -> None:
    """``x[i]`` is below N in each case that is drawn, and in the example if N is 5 there."""
    (tmp_path / "kcheck.yaml").write_text("")
    body = f"    setp.ge.u32 %p0, %r4, %r0;\n    @%p0 bra END;\n    {ELEMENT.format(index='%r4')}\n"
    body += "    ld.global.u32 %r7, [%a2];\n" + "    mul.wide.u32 %a9, %r7, 4;\n    add.u64 %a3, %a1, %a9;\n"
    (tmp_path / "one.ptx").write_text(
        HEAD.replace("TILE", "4") + body + "    atom.global.add.u32 %r8, [%a3], 1;\nEND:\n    ret;\n}\n"
    )
    text = SPEC.format(op="one", low=1, high=300, size="N", grid="ceildiv(N, 32)", block=32)
    text = text.replace(
        "x: {shape: [N], dtype: float32}", "x: {shape: [N], dtype: int32, values: {integers: [0, N - 1]}}"
    )
    text = text.replace('y: {shape: ["N"], dtype: float32}', "y: {shape: [N], dtype: int32}")
    text += f"examples: [{{dims: {{N: 5}}, values: {{x: {{integers: [0, {high}]}}}}}}]\n"
    (tmp_path / "one.yaml").write_text(text)
    spec = load_spec(tmp_path / "one.yaml")
    assert words(decide(spec, choose_for([spec], "cpu")).proofs)["memcheck"] == word
