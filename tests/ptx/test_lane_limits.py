"""Comparisons of a thread's index with one number for all lanes: which lanes hold, at every edge."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_machine import HEAD, launch

from kcheck.ptx.analysis import affine, cfg, lane_limits, liveness, uniformity
from kcheck.ptx.syntax.parser import parse

KERNEL = """{head}
.visible .entry k(.param .u64 out, .param .u{bits} first, .param .u{bits} limit)
{{
    .reg .b32 %t, %v, %w; .reg .b64 %out, %rd0; .reg .b{bits} %i, %first, %n; .reg .pred %p, %q, %c;
    mov.u32 %t, %tid.x; ld.param.u64 %out, [out]; ld.param.u{bits} %n, [limit]; ld.param.u{bits} %first, [first];
    and.b32 %w, %t, 4; setp.ne.u32 %c, %w, 0;
    {index}
    mov.u32 %v, 0;
    {compare}
    mad.wide.u32 %rd0, %t, 4, %out; st.global.u32 [%rd0], %v;
    ret;
}}"""
TID = {32: "mov.b32 %i, %t;", 64: "cvt.u64.u32 %i, %t;"}
FROM = {32: "add.u32 %i, %t, %first;", 64: "cvt.u64.u32 %i, %t; add.u64 %i, %i, %first;"}
THREADS = 96
ORDERS = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
CONDITIONS = {
    **{f"{name}.{kind}": test for name, test in ORDERS.items() for kind in ("s", "u")},
    "eq.b": np.equal,
    "ne.b": np.not_equal,
    "eq.s": np.equal,
    "ne.u": np.not_equal,
    "lo.u": np.less,
    "ls.u": np.less_equal,
    "hi.u": np.greater,
    "hs.u": np.greater_equal,
}


def edges(bits: int) -> list[int]:
    """Numbers around those of the threads, and around those at which signed and unsigned numbers end."""
    near = [0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 95, 96, 97, 1 << 20]
    return [*near, (1 << bits) - 1, (1 << bits) - 33, 1 << bits - 1, (1 << bits - 1) - 1, (1 << bits - 1) + 1]


def held(condition: str, bits: int, index: np.ndarray, limit: int, turned: bool) -> np.ndarray:
    """Whether the comparison holds in each thread."""
    sign = "i" if condition.endswith(".s") else "u"
    x, y = (
        v.astype(f"u{bits // 8}").view(f"{sign}{bits // 8}") for v in (index, np.full(len(index), limit, "u8"))
    )
    result: np.ndarray = CONDITIONS[condition](*((y, x) if turned else (x, y)))
    return result


def comparison(number: int, condition: str, bits: int, sources: str, joined: bool) -> str:
    """Two bits of %v, from bit 2 ``number`` on: whether the comparison holds, and whether it does not."""
    name, _, kind = condition.partition(".")
    setp = f"setp.{name}{'.and' if joined else ''}.{kind}{bits} %p|%q, {sources}{', %c' if joined else ''};"
    holds, fails = (f"selp.b32 %w, {1 << 2 * number + k}, 0, %{p}; or.b32 %v, %v, %w;" for k, p in enumerate("pq"))
    return f"{setp} {holds} {fails}"


@pytest.mark.parametrize("width", [2, 8, 16, 32])
@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("sources", ["%i, %n", "%n, %i"])
@pytest.mark.parametrize("joined", [False, True], ids=["alone", "with a predicate"])
@pytest.mark.parametrize("index", [(TID, 0), (FROM, 40), (FROM, -40)], ids=["from 0", "over the sign", "over 0"])
def test_lanes_that_hold(
    index: tuple[dict[int, str], int], joined: bool, sources: str, bits: int, width: int
) -> None:
    """Also where the index wraps around in the middle of a vector."""
    lines = [comparison(k, condition, bits, sources, joined) for k, condition in enumerate(CONDITIONS)]
    text = KERNEL.format(head=HEAD, bits=bits, index=index[0][bits], compare="\n".join(lines))
    first = (1 << bits - 1) - 40 if index[1] > 0 else index[1] % (1 << bits)
    numbers = (np.arange(THREADS, dtype="u8") + np.uint64(first)).astype(f"u{bits // 8}")
    other = (np.arange(THREADS) & 4 != 0) | (not joined)
    for limit in edges(bits):
        out = np.full(THREADS, 9, np.uint32)
        assert launch(text, [out, first, limit], width, block=(THREADS,)).faults == ()
        for k, condition in enumerate(CONDITIONS):
            p = held(condition, bits, numbers, limit, sources == "%n, %i")
            found = out >> np.uint32(2 * k) & np.uint32(3)
            np.testing.assert_array_equal(found, (p & other) + 2 * (~p & other), condition)


def limits(compare: str, index: str) -> list[lane_limits.LaneLimit]:
    """What the analysis finds in the kernel."""
    module = parse(KERNEL.format(head=HEAD, bits=32, index=index, compare=compare), "test.ptx")
    graph = cfg.build(module.functions["k"], "test.ptx", cfg.is_barrier)
    live = liveness.analyze(graph)
    same = uniformity.analyze(graph, live, lambda name: False, frozenset(), 16)
    found = affine.analyze(graph, live, same, liveness.constants(graph), lambda name: False, 16)
    return list(lane_limits.find(graph, found.strides, same.uniform, found.bounds, 16).values())


def test_what_is_compared_by_lane_limits() -> None:
    """An order of an index with known bounds, and equality of any; nothing of an index times two."""
    assert limits("setp.lt.s32 %p|%q, %i, %n;", TID[32]) == [lane_limits.LaneLimit("lt", True, False)]
    assert limits("setp.lo.u32 %p|%q, %n, %i;", TID[32]) == [lane_limits.LaneLimit("gt", False, True)]
    assert limits("setp.lt.s32 %p|%q, %i, %n;", FROM[32]) == []
    assert limits("setp.eq.s32 %p|%q, %i, %n;", FROM[32]) == [lane_limits.LaneLimit("eq", True, False)]
    assert limits("setp.lt.s32 %p|%q, %i, %n;", "shl.b32 %i, %t, 1;") == []
