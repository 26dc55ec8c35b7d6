"""Loads from shared memory whose addresses are tested at once: the bits and faults of a check of each."""

from __future__ import annotations

import random

import numpy as np
import pytest
from ptx_machine import HEAD, launch

from kcheck.ptx.analysis import cfg
from kcheck.ptx.analysis.load_groups import FEWEST_LOADS, Segment, find
from kcheck.ptx.compile import lower
from kcheck.ptx.syntax.parser import parse

ROWS, COLUMNS = 16, 32
TILE = 4 * ROWS * COLUMNS
KERNEL = (
    HEAD
    + """
.visible .entry k(.param .u64 out, .param .u32 away)
{{
    .reg .b32 %t, %y, %i, %v, %w, %away, %near, %n, %m; .reg .pred %p, %q;
    .reg .b64 %o, %d, %tile, %row, %column, %other, %at, %one, %two, %lane, %begin, %far, %start, %line;
    .shared .align 4 .b8 first[{tile}]; .shared .align 4 .b8 second[{tile}];
    ld.param.u64 %o, [out]; ld.param.u32 %away, [away]; mov.u32 %t, %tid.x; mov.u32 %y, %tid.y; mov.u32 %i, 0;
    mov.u64 %tile, first; mov.u64 %other, second; mov.u32 %v, 1;
    mad.lo.u32 %n, %y, {columns}, %t; mul.wide.u32 %at, %n, 4;
    add.u64 %one, %tile, %at; st.shared.u32 [%one], %n;
    add.u64 %two, %other, %at; not.b32 %m, %n; st.shared.u32 [%two], %m; bar.sync 0;
    mul.wide.u32 %lane, %t, 4; add.u64 %begin, %tile, %lane;
    cvt.u64.u32 %far, %away; add.u64 %column, %begin, %far;
    mul.wide.u32 %start, %y, {pitch}; add.u64 %row, %other, %start; cvt.u32.u64 %near, %row;
    {code}
    add.u64 %o, %o, %at; st.global.u32 [%o], %v;
    ret;
}}
"""
)


def kernel(code: str) -> str:
    return KERNEL.format(code=code, tile=TILE, columns=COLUMNS, pitch=4 * COLUMNS)


def loads(base: str, distances: list[int], size: str = "u32") -> str:
    """Loads by a register, whose values are added to ``%v``."""
    return " ".join(f"ld.shared.{size} %w, [{base}+{d}]; mad.lo.u32 %v, %v, 3, %w;" for d in distances)


def segments(text: str) -> list[Segment]:
    """Those of the blocks of a kernel."""
    function = parse(text, "t.ptx").functions["k"]
    found = (find(block.body, {}) for block in cfg.build(function, "t.ptx").blocks)
    return [segment for segment in found if segment is not None]


def test_loads_by_the_same_registers_are_a_segment() -> None:
    (segment,) = segments(kernel(loads("%column", [0, 128, 64]) + loads("%row", [4, 0, 8, 12])))
    assert [(g.base.name, len(g.loads), g.lowest, g.highest) for g in segment.groups] == [
        ("%column", 3, 0, 128),
        ("%row", 4, 0, 12),
    ]


@pytest.mark.parametrize(
    "code",
    [
        loads("%column", list(range(0, 4 * FEWEST_LOADS - 4, 4))),
        loads("%column", [0, 4, 8]) + "add.u64 %column, %column, 64;" + loads("%column", [0, 4, 8]),
        loads("%column", [0, 4, 8]) + "bar.sync 0;" + loads("%column", [0, 4, 8]),
        loads("%column", [0, 4, 8, 12, 16, 20]).replace("ld", "@%p ld"),
    ],
)
def test_few_loads_changed_registers_barriers_and_guards_end_a_segment(code: str) -> None:
    assert segments(kernel(code)) == []


def has_version(text: str, width: int, interiors: bool) -> bool:
    """Whether the code has a version without checks: the test of a group subtracts its extent from the array's."""
    ir = lower(parse(text, "t.ptx"), "k", width, row=width, interiors=interiors).ir
    body = next(f for name, f in ir.definitions.items() if name == "@kcheck.warp")
    return any("usub.sat" in line for line in body.lines)


def test_only_slow_code_has_the_version() -> None:
    """Quick code, and code with one lane per vector, does not."""
    text = kernel(loads("%column", [0, 128, 64]) + loads("%row", [4, 0, 8, 12]))
    assert has_version(text, 16, True)
    assert not has_version(text, 16, False)
    assert not has_version(text, 1, True)


GUARDED = "setp.lt.u32 %p, %v, 9999; @%p add.u32 %v, %v, 7;"
ELSEWHERE = (
    "and.b32 %w, %v, 60; cvt.u64.u32 %d, %w; add.u64 %line, %tile, %d; ld.shared.u32 %w, [%line]; "
    "add.u32 %v, %v, %w;"
)
"""A load whose address depends on what was loaded."""


def written(seed: int) -> str:
    """Random loads by three registers, with other instructions between them, in a loop or not."""
    draw = random.Random(seed)
    parts, between = [], ["", "", "", "xor.b32 %v, %v, %t;", GUARDED]
    if seed % 3 == 0:
        between += ["add.u64 %column, %column, 4;", f"st.shared.u32 [%column+{4 * COLUMNS}], %t;"]
    elif seed % 3 == 1:
        between += [ELSEWHERE]
    for _ in range(draw.randint(8, 24)):
        base = draw.choice(("%column", "%row", "%near", "%tile"))
        rows = 4 * COLUMNS * draw.randrange(4)
        parts.append(loads(base, [draw.choice((0, 4, 8, rows, rows))], draw.choice(("u32", "u32", "u16", "s8"))))
        parts.append(draw.choice(between))
    code = "\n".join(parts)
    if draw.random() < 0.4:
        code = f"setp.lt.u32 %q, %t, {draw.choice((3, 17, 31))}; @%q bra E;\n{code}\nE:"
    elif draw.random() < 0.4:
        code = f"L: {code}\nadd.u32 %i, %i, 1; setp.lt.u32 %q, %i, 3; @%q bra L;"
    return kernel(code)


def run(text: str, away: int, width: int, *, interiors: bool) -> tuple[object, ...]:
    """What a block leaves, how it ended, and its faults with the threads but without addresses."""
    out = np.zeros(ROWS * COLUMNS, np.uint32)
    ended = launch(text, [out, away], width, block=(COLUMNS, ROWS), interiors=interiors)
    return out.tobytes(), ended.status, ended.faults, tuple(place for _, *place in ended.places)


SEEDS = [*range(10), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(10, 200))]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("width", [4, 16])
def test_bits_and_faults_are_those_of_single_checks(seed: int, width: int) -> None:
    """Inside the array, across its end, far beyond, and misaligned."""
    text = written(seed)
    for away in (0, TILE - 300, TILE + 5000, 2):
        assert run(text, away, width, interiors=True) == run(text, away, width, interiors=False), text


@pytest.mark.parametrize("seed", [seed for seed in range(10) if seed % 3])  # the others race
def test_bits_are_those_of_one_lane_at_a_time(seed: int) -> None:
    text = written(seed)
    expected = run(text, 0, 1, interiors=True)
    for width in (4, 16):
        assert run(text, 0, width, interiors=True)[:2] == expected[:2], text


def test_a_load_beyond_the_array_is_found_among_many() -> None:
    """The last of ten loads passes the end in the last row of threads; the correct twin is one row shorter."""
    for beyond, rows in ((0, ROWS), (1, ROWS + 1)):
        code = loads("%other", [4 * COLUMNS * row for row in range(ROWS - 9, ROWS)])
        code += loads("%other", [4 * COLUMNS * (rows - 1) + 4 * k for k in range(3)])
        text = kernel(code)
        found = run(text, 0, 16, interiors=True)
        assert found == run(text, 0, 16, interiors=False)
        kinds = {fault[0] for fault in found[2]}  # type: ignore[attr-defined]
        assert kinds == ({"OUT_OF_BOUNDS_LOAD"} if beyond else set())


def test_random_kernels_have_the_version() -> None:
    """Most of them do."""
    assert sum(has_version(written(seed), 16, True) for seed in range(10)) >= 7
