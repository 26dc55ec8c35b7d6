"""Sums of floats in memory, one lane after another: those that the processor adds, and those that need more."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from ptx_machine import HEAD, launch

KERNEL = """{head}
.visible .entry k(.param .u64 to, .param .u64 from, .param .u64 out)
{{
    .reg .b32 %t; .reg .b64 %to, %from, %out, %at, %rd<5>; .reg .{kind} %old, %v; .shared .align 8 .b8 s[256];
    mov.u32 %t, %tid.x; mul.wide.u32 %rd0, %t, {size};
    ld.param.u64 %to, [to]; ld.param.u64 %from, [from]; ld.param.u64 %out, [out];
    add.u64 %to, %to, %rd0; add.u64 %from, %from, %rd0; add.u64 %out, %out, %rd0;
    ld.global.{kind} %v, [%from]; ld.global.{kind} %old, [%to];
    mov.u64 %at, s; add.u64 %at, %at, %rd0;
    st.shared.{kind} [%at], %old;
    {operation}
    ld.shared.{kind} %old, [%at];
    {back}
    ret;
}}"""
OPERATIONS = {
    "global": "{op}.global.add.{kind} {d}[%to], %v;",
    "shared": "{op}.shared.add.{kind} {d}[%at], %v;",
    "generic": "{op}.add.{kind} {d}[%to], %v;",
    "generic of shared": "cvta.shared.u64 %at, %at; {op}.add.{kind} {d}[%at], %v; cvta.to.shared.u64 %at, %at;",
}
SMALL = [0.0, -0.0, 1e-45, -1e-45, 1.1e-38, -1.1754942e-38, 1.1754944e-38, -1.1754945e-38, 2.0**-103, 2.0**-100]
F32 = [*SMALL, -(2.0**-100), np.nextafter(np.float32(2.0**-100), np.float32(0)), 2.0**-99, 1.5, -1.5, 3e38]
F64 = [0.0, -0.0, 5e-324, -5e-324, 2.2e-308, 1.0, -1.0, 1e308]


def expected(old: np.ndarray, value: np.ndarray, flushes: bool) -> np.ndarray:
    """The sums, as the ISA says: f32 in global memory flushes subnormals; the NaN of f32 is 0x7fffffff."""

    def flushed(x: np.ndarray) -> np.ndarray:
        return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), x), x) if flushes else x

    with np.errstate(all="ignore"):
        return flushed(flushed(old) + flushed(value)).astype(old.dtype)


@pytest.mark.parametrize("width", [1, 2, 8, 16, 32])
@pytest.mark.parametrize("opcode", ["atom", "red"])
@pytest.mark.parametrize("space", OPERATIONS)
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_sums_are_those_of_the_isa(kind: str, space: str, opcode: str, width: int) -> None:
    """For every pair of a value in memory and one that is added, in full vectors: tiny, subnormal,
    infinite and no number."""
    dtype = np.dtype({"f32": np.float32, "f64": np.float64}[kind])
    some = np.array([*(F32 if kind == "f32" else F64), np.inf, -np.inf, np.nan], dtype)
    pairs = np.array(list(itertools.product(some, some)), dtype)
    operation = OPERATIONS[space].format(op=opcode, kind=kind, d="%old, " if opcode == "atom" else "")
    if opcode == "atom":
        operation += f" st.global.{kind} [%out], %old;"
    in_shared = "shared" in space
    back = f"st.global.{kind} [%to], %old;" if in_shared else ""
    text = KERNEL.format(head=HEAD, kind=kind, size=dtype.itemsize, operation=operation, back=back)
    for at in range(0, len(pairs) - 32, 32):
        old, value = (np.ascontiguousarray(part) for part in pairs[at : at + 32].T)
        memory, seen = old.copy(), np.zeros_like(old)
        assert launch(text, [memory, value, seen], width, block=(32,)).faults == ()
        sums = expected(old, value, kind == "f32" and not in_shared)
        whole = f"u{dtype.itemsize}"
        numbers = ~np.isnan(sums)
        np.testing.assert_array_equal(np.isnan(memory), ~numbers)
        np.testing.assert_array_equal(memory[numbers].view(whole), sums[numbers].view(whole))
        if kind == "f32":
            assert set(memory[~numbers].view(whole).tolist()) <= {0x7FFFFFFF}
        if opcode == "atom":
            np.testing.assert_array_equal(seen.view(whole), old.view(whole))


@pytest.mark.parametrize("width", [8, 32])
def test_lanes_that_add_to_one_place_follow_each_other(width: int) -> None:
    """From a subnormal on, through a sum that cancels, to a NaN."""
    text = KERNEL.format(
        head=HEAD, kind="f32", size=4, back="", operation="ld.param.u64 %to, [to]; red.global.add.f32 [%to], %v;"
    )
    value = np.array([1e-40, 2.0**-101, 2.0**-101, 1.0, -1.0, 1e-38, 3.0, np.inf] * 4, np.float32)
    for count in range(1, 33):
        memory, some = np.full(32, 1e-45, np.float32), np.where(np.arange(32) < count, value, 0).astype(np.float32)
        launch(text, [memory, some, np.zeros(32, np.float32)], width, block=(32,))
        total = memory.dtype.type(1e-45)
        for x in some:
            total = expected(np.array(total), np.array(x), True)[()]
        assert memory[0].tobytes() == np.float32(total).tobytes()
