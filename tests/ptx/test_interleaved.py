"""Accesses to several elements of each lane as one range: the bits and the faults of accesses one by one."""

from __future__ import annotations

import random

import numpy as np
import pytest
from ptx_machine import HEAD, compiled, launch

from kcheck.ptx.analysis import cfg
from kcheck.ptx.analysis.interleaved import OPERATIONS_PER_ACCESS, Interleaved, find
from kcheck.ptx.compile import lower
from kcheck.ptx.syntax.parser import parse

THREADS = 80
"""Not a multiple of most widths: the last vector has lanes that are off."""

FACTORS = (2, 4, 8)
KERNEL = (
    HEAD
    + """
.visible .entry k(.param .u64 out, .param .u32 away)
{{
    .reg .b32 %t, %n, %away; .reg .pred %p, %q, %in;
    .reg .b64 %o, %tile, %far, %at, %begin, %mine, %apart, %wide; .reg .b32 %near; .reg .{kind} %v, %w, %x, %i;
    .shared .align 16 .b8 tile[{bytes}];
    ld.param.u64 %o, [out]; ld.param.u32 %away, [away]; mov.u32 %t, %tid.x; mov.u64 %tile, tile;
    cvt.{kind}.u32 %v, %t; cvt.{kind}.u32 %i, %t; mov.u32 %n, %t;
F:  mul.wide.u32 %at, %n, {size}; add.u64 %at, %at, %tile; cvt.{kind}.u32 %w, %n; mul.lo.{kind} %w, %w, 77;
    st.shared.{kind} [%at], %w;
    add.u32 %n, %n, {threads}; setp.lt.u32 %p, %n, {elements}; @%p bra F;
    bar.sync 0;
    mul.wide.u32 %apart, %t, {step}; add.u64 %begin, %tile, %apart;
    cvt.u64.u32 %far, %away; add.u64 %mine, %begin, %far; cvt.u32.u64 %near, %mine;
    setp.lt.u32 %in, %t, {active}; @!%in bra E;
    {code}
E:  bar.sync 0;
    mul.wide.u32 %wide, %t, {size}; add.u64 %at, %o, %wide; st.global.{kind} [%at+{total}], %v;
    mov.u32 %n, %t;
G:  mul.wide.u32 %at, %n, {size}; add.u64 %wide, %at, %tile; ld.shared.{kind} %w, [%wide];
    add.u64 %wide, %at, %o; st.global.{kind} [%wide], %w;
    add.u32 %n, %n, {threads}; setp.lt.u32 %p, %n, {elements}; @%p bra G;
    ret;
}}
"""
)


def kernel(code: str, factor: int, kind: str = "u32", active: int = THREADS) -> str:
    """Each thread below ``active`` runs ``code`` on its ``factor`` elements, at ``%mine`` (``%near``: 32 bits)."""
    size = int(kind[1:]) // 8
    elements = THREADS * factor
    return KERNEL.format(
        code=code,
        kind=kind,
        size=size,
        step=size * factor,
        bytes=elements * size,
        total=elements * size,
        elements=elements,
        threads=THREADS,
        active=active,
    )


def load(offset: int, size: int = 4, base: str = "%mine") -> str:
    return f"ld.shared.u{8 * size} %x, [{base}+{size * offset}]; mad.lo.u{8 * size} %v, %v, 3, %x;"


def store(offset: int, size: int = 4, base: str = "%mine") -> str:
    return f"st.shared.u{8 * size} [{base}+{size * offset}], %v;"


def groups(text: str, width: int = 16) -> list[Interleaved]:
    """Those of the blocks of a kernel, where ``%mine`` and ``%near`` have a stride of 16 bytes."""
    stride = {"%mine": 16, "%near": 16, "%other": 12}.get
    found = []
    for block in cfg.build(parse(text, "t.ptx").functions["k"], "t.ptx").blocks:
        begin = 0
        while (group := find(block.body, begin, stride, width, lambda i: i.opcode == "mad")) is not None:
            found.append(group)
            begin = group.end
    return found


def test_accesses_by_one_register_are_a_group() -> None:
    (group,) = groups(kernel(load(3) + load(1) + store(3), 4))
    assert (group.base.name, group.factor, group.lowest) == ("%mine", 4, 4)
    assert list(group.offsets.values()) == [2, 0, 2]


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(load(1) + store(1), id="one element of each lane"),
        pytest.param(load(0) + load(4), id="an element of the next lane"),
        pytest.param(load(0) + "bar.sync 0;" + load(1), id="a barrier between them"),
        pytest.param(load(0) + "add.u64 %mine, %mine, 64;" + load(1), id="the register changes"),
        pytest.param(load(0) + load(1, base="%at"), id="an access by a register without a known stride"),
        pytest.param(load(0).replace("shared", "volatile.shared") + load(1), id="volatile"),
        pytest.param((load(0) + load(1)).replace("ld.", "@%p ld."), id="guarded"),
        pytest.param(load(0) + "ld.shared.u16 %w, [%mine+4];", id="of another type"),
        pytest.param(load(0) + "mad.lo.u32 %v, %v, %v, %v;" * 3 * OPERATIONS_PER_ACCESS + load(1), id="far apart"),
    ],
)
def test_others_are_no_group(code: str) -> None:
    assert groups(kernel(code, 4)) == []


def test_a_vector_of_fewer_lanes_than_elements_has_no_group() -> None:
    assert groups(kernel(load(0) + load(1), 4), width=2) == []


def has_range(text: str, width: int, interiors: bool = True) -> bool:
    """Whether code of a kernel accesses a range."""
    ir = lower(parse(text, "t.ptx"), "k", width, row=width, interiors=interiors).ir.text
    return "@kcheck.gather." in ir or "@kcheck.spread." in ir


def test_only_slow_code_has_ranges() -> None:
    """Quick code, and code with one lane per vector, does not."""
    text = kernel(load(0) + load(1), 4)
    assert has_range(text, 16)
    assert not has_range(text, 16, interiors=False)
    assert not has_range(text, 1)


def written(seed: int) -> str:
    """Random accesses to the elements of each lane, with other instructions between them."""
    draw = random.Random(seed)
    factor, kind = FACTORS[seed % 3], "u64" if seed % 4 == 3 else "u32"
    size, base = int(kind[1:]) // 8, draw.choice(("%mine", "%mine", "%near"))
    offsets = draw.sample(range(factor), draw.randint(2, factor))
    between = [
        *[""] * 5,
        f"xor.b{8 * size} %v, %v, %i;",
        f"setp.lt.{kind} %q, %x, 9999; @%q add.{kind} %v, %v, 7;",
        f"ld.global.{kind} %w, [%o]; add.{kind} %v, %v, %w;",
        "membar.cta;",
    ]
    code = ""
    for _ in range(draw.randint(3, 9)):
        code += draw.choice((load, load, store))(draw.choice(offsets), size, base) + draw.choice(between) + "\n"
    active = draw.choice((THREADS, THREADS, 33, 16, 5))
    return kernel(code, factor, kind, active)


def run(text: str, away: int, width: int, *, interiors: bool) -> tuple[object, ...]:
    """What a block leaves, how it ended, and its faults with the threads but without addresses."""
    out = np.zeros(9 * THREADS, np.uint64)
    ended = launch(text, [out, away], width, block=(THREADS,), interiors=interiors)
    return out.tobytes(), ended.status, ended.faults, tuple(place for _, *place in ended.places)


SEEDS = [*range(12), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(12, 240))]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("width", [8, 16, 32])
def test_bits_and_faults_are_those_of_single_accesses(seed: int, width: int) -> None:
    """Inside the array, across its end, far beyond, and misaligned."""
    text = written(seed)
    for away in (0, 40, 1 << 20, 2):
        assert run(text, away, width, interiors=True) == run(text, away, width, interiors=False), text


@pytest.mark.parametrize("seed", SEEDS)
def test_bits_are_those_of_one_lane_at_a_time(seed: int) -> None:
    text = written(seed)
    expected = run(text, 0, 1, interiors=True)
    for width in (8, 16, 32):
        assert run(text, 0, width, interiors=True)[:3] == expected[:3], text


def test_random_kernels_have_ranges() -> None:
    """Most of them do, with each distance of the lanes."""
    for k, _ in enumerate(FACTORS):
        assert sum(has_range(written(seed), 16) for seed in range(k, 48, 3)) >= 10


def test_elements_of_no_lane_keep_what_other_threads_stored() -> None:
    """A store of the first and the third of four elements does not write the others."""
    text = kernel(load(0) + "add.u32 %v, %i, 5000;" + store(0) + store(2), 4)
    out = np.zeros(5 * THREADS, np.uint32)
    assert not launch(text, [out, 0], 16, block=(THREADS,)).faults
    assert "@kcheck.spread.16i32.4.2.0.2" in compiled(text, 16, 16)[0].ir.text
    expected = np.arange(4 * THREADS, dtype=np.uint32) * 77
    expected[0::4] = expected[2::4] = np.arange(THREADS) + 5000
    assert (out[: 4 * THREADS] == expected).all()
