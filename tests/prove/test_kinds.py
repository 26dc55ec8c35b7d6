"""Kinds of kernels that are proved, each next to a twin that differs in one line and is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from decided import decided
from random_kernels import HEAD, SPEC

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

ROWS_OF_A_BATCH = """
    mul.lo.u32 %r6, %r0, 4;
    setp.ge.u32 %p0, %r4, %r6;
    @%p0 bra END;
    div.u32 %r7, %r4, %r0;
    mul.lo.u32 %r8, %r7, %r0;
    sub.u32 %r9, %r4, %r8;
    mad.lo.u32 %r10, %r7, 3, 2;
    mad.lo.u32 %r11, %r10, %r0, %r9;
    mul.wide.u32 %a9, %r11, 4;
    add.u64 %a2, %a1, %a9;
    st.global.f32 [%a2], 0f00000000;
"""
"""``y[i / N, 2, i % N]`` of ``y: [4, 3, N]``."""

ROWS_TWINS = {"rows of a batch": "3, 2;", "rows outside": "3, 3;", "one row": "0, 2;"}

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

WRITES_OUTSIDE = """
    mov.u32 %r6, %r0;
    setp.eq.u32 %p0, %r6, 7;
    @%p0 bra END;
    bar.sync 0;
    mul.wide.u32 %a9, %r4, 4;
    add.u64 %a2, %a1, %a9;
    st.global.u32 [%a2], %r6;
"""
"""No guard at the end of ``y``; all threads of a block come to the barrier, or none."""

TRAPS = """
    setp.ge.u32 %p0, %r4, %r0;
    @%p0 bra END;
    setp.ge.u32 %p1, %r4, %r0;
    @!%p1 bra END;
    trap;
"""
"""Compilers put a trap where an access is never valid; here, no thread comes to it."""

NOWHERE = """
    setp.ge.u32 %p0, %r4, %r0;
    @%p0 bra END;
    setp.ge.u32 %p1, %r4, %r0;
    @!%p1 bra END;
    mov.u64 %a2, 0;
    st.global.u32 [%a2], %r4;
"""
"""A write to no array, which no thread comes to."""

SWIZZLED = """
    shr.u32 %r6, %r1, 3;
    xor.b32 %r7, %r1, %r6;
    shl.b32 %r8, %r7, 2;
    mov.u32 %r9, tile;
    add.u32 %r10, %r9, %r8;
    st.shared.u32 [%r10], %r4;
"""
"""Each of 32 threads writes a word of its own, at its number with the lower bits changed by the upper ones."""

MASKED = """
    bfe.s32 %r6, %r1, 3, 1;
    and.b32 %r7, %r6, 144;
    and.b32 %r8, %r1, 7;
    or.b32 %r9, %r7, %r8;
    mov.u32 %r10, tile;
    add.u32 %r11, %r10, %r9;
    ld.shared.u8 %r12, [%r11+104];
"""
"""A bit that is spread to a mask, as in the addresses of Triton: at most 151 + 104."""

STAGES = """
    mov.u32 %r6, -1;
    mov.u32 %r7, 0;
LOOP:
    add.s32 %r8, %r6, 1;
    setp.gt.s32 %p1, %r8, 2;
    selp.b32 %r6, 0, %r8, %p1;
    shl.b32 %r9, %r6, 6;
    mov.u32 %r10, tile;
    add.u32 %r11, %r10, %r9;
    ld.shared.u32 %r12, [%r11+124];
    add.u32 %r7, %r7, 1;
    setp.lt.u32 %p2, %r7, %r0;
    @%p2 bra LOOP;
"""
"""A number of a stage, which begins again after the third one: the tile has four times 64 bytes."""

PAIRS = {
    "swizzled": (SWIZZLED, "xor", "and", "racecheck"),
    "swizzled outside": (SWIZZLED, "%r7, 2;", "%r7, 4;", "memcheck"),
    "masked": (MASKED, "+104", "+105", "memcheck"),
    "stages": (STAGES, "%r8, 2;", "%r8, 3;", "memcheck"),
    "traps": (TRAPS, "@!%p1", "@%p1", "memcheck"),
    "nowhere": (NOWHERE, "@!%p1", "@%p1", "memcheck"),
    "unrolled": (UNROLLED, "%r0, 3;", "%r0, 1;", "memcheck"),
    "unrolled too far": (UNROLLED, "[%a2+12]", "[%a2+16]", "memcheck"),
    "counted": (COUNTED, "setp.gt.s32 %p1, %r6, 1;", "setp.gt.s32 %p1, %r6, 0;", "memcheck"),
    "barrier in a loop": (BARRIER_IN_A_LOOP, "%r6, %r0;", "%r6, %r1;", "synccheck"),
    "barrier in an inner loop": (BARRIER_IN_A_LOOP, "INNER:", "INNER: bar.sync 0;", "synccheck"),
    "divided": (DIVIDED, "setp.ge", "setp.gt", "memcheck"),
    "copied": (COPIED, "4, 0, %p0", "4, 4, %p0", "memcheck"),
    "rows": (ROWS, "x2.shared.b16 {%r8, %r9}", "x4.shared.b16 {%r8, %r9, %r10, %r11}", "memcheck"),
}


CONTENTS = {"in the example": 4, "beyond it": 5, "written before": 4}
"""The largest ``x[i]`` in an example with N = 5; in each case that is drawn, it is below N."""

Verdicts = dict[str, dict[str, str]]
"""By spec and check: what is decided."""


def kernel(folder: Path, name: str, body: str) -> None:
    """Write a kernel and its spec."""
    text = HEAD.replace("TILE", "256").replace(".align 4", ".align 16") + body + "END:\n    ret;\n}\n"
    (folder / f"{name}.ptx").write_text(text)
    grid = "ceildiv(N * N, 32)" if body.lstrip().startswith("mul.lo") else "ceildiv(N, 32)"
    spec = SPEC.format(op="one", low=1, high=300, size="N", grid=grid, block=32)
    (folder / f"{name}.yaml").write_text(spec.replace("one.ptx", f"{name}.ptx"))


def kernel_of_contents(folder: Path, name: str, high: int) -> None:
    """Write a kernel that counts ``x[i]``, and its spec with an example."""
    body = f"    setp.ge.u32 %p0, %r4, %r0;\n    @%p0 bra END;\n    {ELEMENT.format(index='%r4')}\n"
    if name == "written before":
        body += "    st.global.u32 [%a2], %r0;\n"
    body += "    ld.global.u32 %r7, [%a2];\n" + "    mul.wide.u32 %a9, %r7, 4;\n    add.u64 %a3, %a1, %a9;\n"
    kernel(folder, name, body + "    atom.global.add.u32 %r8, [%a3], 1;\n")
    spec = folder / f"{name}.yaml"
    text = spec.read_text().replace(
        "x: {shape: [N], dtype: float32}", "x: {shape: [N], dtype: int32, values: {integers: [0, N - 1]}}"
    )
    text = text.replace('y: {shape: ["N"], dtype: float32}', "y: {shape: [N], dtype: int32}")
    spec.write_text(text + f"examples: [{{dims: {{N: 5}}, values: {{x: {{integers: [0, {high}]}}}}}}]\n")


LOADS = {
    "byte": ("uint8", "[0, 255]", "ld.global.u8 %r7, [%a2]; cvt.u64.u32 %a5, %r7;"),
    "byte twin": ("uint8", "[0, 255]", "ld.global.s8 %r7, [%a2]; cvt.s64.s32 %a5, %r7;"),
    "word": ("int32", "[-1, 0]", "ld.global.s32 %a5, [%a2]; add.u64 %a5, %a5, 1;"),
    "word twin": ("int32", "[-1, 0]", "ld.global.u32 %a5, [%a2]; add.u64 %a5, %a5, 1;"),
}
"""A load that extends to a wider register, with the sign of the array's dtype, and without it."""


def kernel_that_extends(folder: Path, name: str) -> None:
    """Write a kernel that reads the shared memory at an element of ``x``, and its spec."""
    dtype, values, load = LOADS[name]
    step = f"mul.wide.u32 %a9, %r4, {4 if dtype == 'int32' else 1}; add.u64 %a2, %a0, %a9;"
    body = f"    setp.ge.u32 %p0, %r4, %r0;\n    @%p0 bra END;\n    {step}\n    {load}\n"
    kernel(
        folder, name, body + "    mov.u64 %a4, tile;\n    add.u64 %a6, %a4, %a5;\n    ld.shared.u8 %r8, [%a6];\n"
    )
    spec = folder / f"{name}.yaml"
    new = f"x: {{shape: [N], dtype: {dtype}, values: {{integers: {values}}}}}"
    spec.write_text(spec.read_text().replace("x: {shape: [N], dtype: float32}", new))


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> Verdicts:
    """Of all kernels, decided in one process, which has not imported the simulator."""
    folder = tmp_path_factory.mktemp("kinds")
    (folder / "kcheck.yaml").write_text("")
    for name, (body, old, new, _) in PAIRS.items():
        assert body.count(old) == 1
        kernel(folder, name, body)
        kernel(folder, f"{name} twin", body.replace(old, new))
    kernel(folder, "copied and read", COPIED + "    ld.shared.f32 %f0, [%a5];\n")
    for name, row in ROWS_TWINS.items():
        kernel(folder, name, ROWS_OF_A_BATCH.replace("3, 2;", row))
        spec = folder / f"{name}.yaml"
        text = spec.read_text().replace('y: {shape: ["N"]', "y: {shape: [4, 3, N]")
        spec.write_text(text.replace("ceildiv(N * N, 32)", "ceildiv(4 * N, 32)"))
    for name in LOADS:
        kernel_that_extends(folder, name)
    kernel(folder, "outside", WRITES_OUTSIDE)
    kernel(folder, "outside and loads", WRITES_OUTSIDE.replace("mov.u32 %r6, %r0", "ld.global.u32 %r6, [%a0]"))
    for name, high in CONTENTS.items():
        kernel_of_contents(folder, name, high)
    specs = [path.stem for path in sorted(folder.glob("*.yaml")) if path.stem != "kcheck"]
    return {name: verdicts for name, (verdicts, _) in decided(folder, specs).items()}


@pytest.mark.parametrize(("name", "check"), [(name, check) for name, (*_, check) in PAIRS.items()])
def test_a_kernel_is_proved_and_its_twin_is_not(verdicts: Verdicts, name: str, check: str) -> None:
    """For the check that the twin breaks."""
    assert verdicts[name][check] == "proved"
    assert verdicts[f"{name} twin"][check] == "undecided"


@pytest.mark.parametrize("name", ["byte", "word"])
def test_a_load_extends_the_sign_that_it_names(verdicts: Verdicts, name: str) -> None:
    """Not that of the array: 255 is -1 as a signed byte, and -1 is 2**32 - 1 as an unsigned word."""
    assert verdicts[name]["memcheck"] == "proved"
    assert verdicts[f"{name} twin"]["memcheck"] == "undecided"


@pytest.mark.parametrize(
    ("name", "memcheck", "racecheck"),
    [
        ("rows of a batch", "proved", "proved"),
        ("rows outside", "undecided", "undecided"),
        ("one row", "proved", "undecided"),
    ],
)
def test_rows_and_columns_of_one_number(verdicts: Verdicts, name: str, memcheck: str, racecheck: str) -> None:
    """With an axis between them, the column is ``i - N * (i / N)`` in the address."""
    assert (verdicts[name]["memcheck"], verdicts[name]["racecheck"]) == (memcheck, racecheck)


def test_an_asynchronous_copy_is_in_no_order(verdicts: Verdicts) -> None:
    """Even after the wait, what it writes is not proved to be free of races."""
    assert verdicts["copied and read"]["memcheck"] == "proved"
    assert verdicts["copied and read"]["racecheck"] == "undecided"


def test_what_writes_outside_may_change_what_a_branch_loads(verdicts: Verdicts) -> None:
    """A barrier behind a branch on ``N`` is proved even so; one behind a branch on ``x[0]`` is not."""
    assert [verdicts[name]["memcheck"] for name in ("outside", "outside and loads")] == ["undecided"] * 2
    assert verdicts["outside"]["synccheck"] == "proved"
    assert verdicts["outside and loads"]["synccheck"] == "undecided"


@pytest.mark.parametrize(
    ("name", "word"),
    [("in the example", "proved"), ("beyond it", "undecided"), ("written before", "undecided")],
)
def test_the_contents_of_an_example_hold_for_its_sizes(verdicts: Verdicts, name: str, word: str) -> None:
    """An index of 5 is outside the array of the example, and N is outside any."""
    assert verdicts[name]["memcheck"] == word
