"""Branches whose sides have the same warp-level operations run side by side if a whole warp is there."""

from __future__ import annotations

import random

import numpy as np
import ptx_machine
import pytest
from ptx_machine import HEAD, launch

from kcheck.ptx.abi import FINISHED
from kcheck.ptx.analysis import arms, cfg
from kcheck.ptx.analysis.convergence import waits_for_lanes
from kcheck.ptx.compile import lower
from kcheck.ptx.lowering import paired_arms
from kcheck.ptx.lowering.paired_arms import PairedArms
from kcheck.ptx.syntax.ast import Operation
from kcheck.ptx.syntax.parser import parse

THREADS = 128
KERNEL = (
    HEAD
    + """
.visible .entry k(.param .u64 out)
{{
    .reg .b32 %t, %l, %i, %n, %m, %v<6>, %r<3>; .reg .b64 %o, %d; .reg .pred %p, %q, %s;
    ld.param.u64 %o, [out]; mov.u32 %t, %tid.x; mov.u32 %l, %laneid; mov.u32 %i, 0; mov.u32 %m, -1;
    mov.u32 %v0, %t; mad.lo.u32 %v1, %t, 7, 3; xor.b32 %v2, %t, 21; mov.u32 %v3, 5; mov.u32 %v4, 1;
    mov.u32 %v5, %l; mov.u32 %r0, 9; mov.u32 %r1, 8; mov.u32 %r2, 7; mov.u32 %n, 3;
L:  {condition}
    @%q bra A;
    {first}
    bra J;
A:  {second}
J:  {after}
    add.u32 %i, %i, 1; setp.lt.u32 %p, %i, %n; @%p bra L;
    {last}
    mul.wide.u32 %d, %t, 32; add.u64 %o, %o, %d;
    st.global.v4.u32 [%o], {{%v0, %v1, %v2, %v3}}; st.global.v4.u32 [%o+16], {{%v4, %v5, %r0, %r1}};
    ret;
}}
"""
)
SHUFFLE = "shfl.sync.bfly.b32 %r0, %v0, 1, 31, -1;"
OTHER = "shfl.sync.bfly.b32 %r1, %v1, 1, 31, -1;"
VOTE = "setp.gt.u32 %s, %v2, 30; vote.sync.ballot.b32 %r2, %s, -1;"
ODD = "xor.b32 %r2, %l, %i; and.b32 %r2, %r2, 1; setp.eq.u32 %q, %r2, 0;"


def kernel(
    first: str, second: str, condition: str = ODD, after: str = "add.u32 %v0, %v0, 1;", last: str = ""
) -> str:
    return KERNEL.format(first=first, second=second, condition=condition, after=after, last=last)


def found(text: str) -> list[int]:
    """The numbers of segments of the first sides of the paired arms."""
    function = parse(text, "t.ptx").functions["k"]

    def waits(operation: Operation) -> bool:
        return cfg.is_barrier(operation) or waits_for_lanes(operation)

    graph = cfg.build(function, "t.ptx", waits)
    return [len(pair.first) for pair in arms.paired_arms(graph, waits_for_lanes).values()]


@pytest.mark.parametrize(
    ("first", "second", "segments"),
    [
        (SHUFFLE, OTHER, [2]),
        (SHUFFLE + VOTE, OTHER + VOTE, [3]),
        (SHUFFLE + VOTE, OTHER, []),
        (f"@%p {SHUFFLE}", OTHER, []),
        (f"{SHUFFLE} bar.sync 0;", OTHER, []),
        (f"{SHUFFLE} @%p bra X; add.u32 %v1, %v1, 2; X:", OTHER, []),
        ("add.u32 %v1, %v1, 2;", "add.u32 %v2, %v2, 2;", []),
        (f"{SHUFFLE} @%p ret;", OTHER, []),
    ],
)
def test_straight_sides_with_equally_many_operations_are_paired(
    first: str, second: str, segments: list[int]
) -> None:
    assert found(kernel(first, second)) == segments


def pairs_in_code(text: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often a pair is emitted."""
    count = 0
    real = PairedArms.write

    def counted(self: PairedArms, *arguments: object) -> None:
        nonlocal count
        count += 1
        real(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(PairedArms, "write", counted)
    lower(parse(text, "t.ptx"), "k", 32)
    return count


@pytest.mark.parametrize(
    ("first", "second", "count"),
    [
        (SHUFFLE + VOTE, OTHER + VOTE, 1),
        (SHUFFLE + VOTE, VOTE + OTHER, 0),  # different operations do not meet
        (SHUFFLE, OTHER.replace("-1", "0xFFFF"), 0),
        (SHUFFLE.replace("-1", "0xFFFF"), OTHER.replace("-1", "0xFFFF"), 0),
    ],
)
def test_only_operations_of_all_lanes_that_meet_run_side_by_side(
    first: str, second: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pairs_in_code(kernel(first, second), monkeypatch) == count


OPERATIONS = (
    "shfl.sync.bfly.b32 {r}, {v}, {k}, 31, -1;",
    "shfl.sync.idx.b32 {r}|%s, {v}, {w}, 31, %m; selp.b32 {w}, {v}, {w}, %s;",
    "setp.lt.u32 %s, {v}, 40; vote.sync.ballot.b32 {r}, %s, -1;",
    "setp.ne.u32 %p, {v}, {k}; vote.sync.any.pred %s, %p, -1; selp.b32 {v}, {v}, {w}, %s;",
    "bar.warp.sync -1;",
    "match.any.sync.b32 {r}, {v}, -1;",
    "redux.sync.add.u32 {r}, {v}, -1;",
)
BETWEEN = (
    "mad.lo.u32 {v}, {w}, 3, {v};",
    "add.u32 {v}, {r}, {w};",
    "setp.lt.u32 %s, {v}, {w}; @%s mov.u32 {r}, {v};",
    "mov.u32 {r}, {k};",
    "",
)
CONDITIONS = (
    ODD,
    "setp.lt.u32 %q, %l, 8;",
    "setp.ge.u32 %q, %l, %i;",
    "and.b32 %r2, %v0, 4; setp.eq.u32 %q, %r2, 0;",
    "setp.eq.u32 %q, %i, 1;",
)
AFTER = (
    "add.u32 %v0, %v0, %r0;",
    "xor.b32 %v4, %v4, %r1; shfl.sync.up.b32 %v5, %v4, 1, 0, -1;",
    "setp.gt.u32 %s, %v0, 90; @%s bra K; add.u32 %v1, %v1, %r0; K: add.u32 %v3, %v3, 1;",
    "bar.sync 0; add.u32 %v2, %v2, %i;",
    "and.b32 %r2, %l, 2; setp.eq.u32 %s, %r2, 0; @%s bra K; redux.sync.add.u32 %v3, %v1, -1; bra M; "
    "K: redux.sync.add.u32 %v5, %v0, -1; M: add.u32 %v0, %v0, %v5;",
)
LAST = ("", "setp.lt.u32 %s, %l, 3; @%s ret;", f"@%q bra E; {SHUFFLE} bra F; E: {OTHER} F: add.u32 %v0, %v0, %r0;")
SEEDS = [*range(8), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(8, 200))]


def written(seed: int) -> str:
    """A random kernel with paired arms in a loop; the sides share registers."""
    draw = random.Random(seed)

    def fill(text: str) -> str:
        v, w = (f"%v{draw.randrange(6)}" for _ in range(2))
        return text.format(v=v, w=w, r=f"%r{draw.randrange(3)}", k=draw.choice((1, 2, 8)))

    kinds = [draw.choice(OPERATIONS) for _ in range(draw.randint(1, 4))]
    sides = ["\n".join(fill(draw.choice(BETWEEN)) + fill(k) + fill(draw.choice(BETWEEN)) for k in kinds)]
    sides.append("\n".join(fill(k) + fill(draw.choice(BETWEEN)) + fill(draw.choice(BETWEEN)) for k in kinds))
    return kernel(*sides, draw.choice(CONDITIONS), draw.choice(AFTER), draw.choice(LAST))


def run(text: str, width: int, threads: int) -> tuple[bytes, int, tuple[object, ...], tuple[object, ...]]:
    """What a launch of two blocks leaves, how it ended, and its faults with their places but without addresses."""
    out = np.zeros(8 * THREADS, np.uint32)
    ended = launch(text, [out], width, (2,), (threads,))
    return out.tobytes(), ended.status, ended.faults, tuple(place for _, *place in ended.places)


@pytest.mark.parametrize("seed", SEEDS)
def test_sides_compute_what_one_lane_at_a_time_computes(seed: int) -> None:
    text = written(seed)
    expected = run(text, 1, THREADS)
    assert expected[1:] == (FINISHED, (), ())
    assert run(text, 32, THREADS) == expected, text


@pytest.mark.parametrize("seed", SEEDS)
def test_missing_lanes_are_found_at_the_same_places(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a warp is missing: the same bytes and faults as if no sides were paired."""
    text = written(seed)
    measured = run(text, 32, 48)
    monkeypatch.setattr(paired_arms, "paired_arms", lambda cfg, waits: {})
    ptx_machine.compiled.cache_clear()
    expected = run(text, 32, 48)
    ptx_machine.compiled.cache_clear()
    assert expected[2]
    assert measured == expected, text


def test_random_kernels_have_sides_that_run_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of these kernels do."""
    counts = []
    for seed in range(16):
        with monkeypatch.context() as patch:
            counts.append(pairs_in_code(written(seed), patch))
    assert sum(count > 0 for count in counts) >= 10
