"""Accesses of every nth element: of words and of more, in the whole of a vector and in a part of it."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_machine import HEAD, launch

from kcheck.ptx import abi
from kcheck.ptx.lowering.kernel import FEW_ACCESSES

KERNEL = """{head}
.visible .entry k(.param .u64 from, .param .u64 to, .param .u32 count)
{{
    .reg .b32 %t, %n; .reg .b64 %from, %to, %rd<5>; .reg .pred %p; .reg .{kind} %v;
    .shared .align 8 .b8 s[{shared}];
    mov.u32 %t, %tid.x; ld.param.u64 %from, [from]; ld.param.u64 %to, [to]; ld.param.u32 %n, [count];
    setp.ge.u32 %p, %t, %n; @%p bra E;
    mul.wide.u32 %rd0, %t, {step}; add.u64 %rd1, %from, %rd0; ld.global.{kind} %v, [%rd1];
    mov.u64 %rd2, s; add.u64 %rd2, %rd2, %rd0;
    {copies}
    add.u64 %rd3, %to, %rd0; st.global.{kind} [%rd3+{size}], %v;
E:  ret;
}}"""
KINDS = {"u16": np.uint16, "u32": np.uint32, "f32": np.float32, "f64": np.float64}
THREADS = 96


STEPS = [2, 3, 4, 8, 16]


def text(kind: str, n: int, copies: int = 1) -> str:
    """Thread t copies ``from[n * t]`` to ``to[n * t + 1]`` through shared memory, if t is below the count.

    Args:
        copies: how often it is in shared memory; with many, the code of the accesses is not inlined.
    """
    size = np.dtype(KINDS[kind]).itemsize
    through = f"st.shared.{kind} [%rd2], %v; ld.shared.{kind} %v, [%rd2];"
    shared = THREADS * n * size
    return KERNEL.format(head=HEAD, kind=kind, size=size, step=n * size, shared=shared, copies=copies * through)


@pytest.mark.parametrize("n", STEPS)
@pytest.mark.parametrize("width", [1, 2, 8, 16, 32])
@pytest.mark.parametrize("kind", KINDS)
def test_elements_between_are_left_alone(kind: str, width: int, n: int) -> None:
    """Whole vectors, halves, and one that ends within; the arrays end with the last element that is accessed."""
    for count in (THREADS, 81, 80, 48, 41, 32, 17, 16, 1):
        source = np.arange(1, n * count - n + 2).astype(KINDS[kind])
        out = np.arange(1000, 1000 + n * count - n + 2).astype(KINDS[kind])
        expected = out.copy()
        expected[1::n] = source[::n]
        for copies in (1, FEW_ACCESSES):
            out[1::n] = 0
            assert launch(text(kind, n, copies), [source, out, count], width, block=(THREADS,)).faults == ()
            np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("n", STEPS)
@pytest.mark.parametrize("width", [1, 8, 32])
@pytest.mark.parametrize("kind", KINDS)
def test_an_element_outside_is_told_of_the_thread_that_accesses_it(kind: str, width: int, n: int) -> None:
    """The last thread loads and stores past the end; what the others do stands."""
    length = n * THREADS - n + 1
    memory = np.zeros(3 * length, KINDS[kind])  # so that what is after the one is not the other
    source, out = memory[: length - 2], memory[2 * length :]
    source[:] = np.arange(1, length - 1)
    ended = launch(text(kind, n), [source, out, THREADS], width, block=(THREADS,))
    assert ended.status == abi.FINISHED
    size = np.dtype(KINDS[kind]).itemsize
    assert [(what, thread, extent) for what, _, thread, extent in ended.faults] == [
        ("OUT_OF_BOUNDS_LOAD", THREADS - 1, size),
        ("OUT_OF_BOUNDS_STORE", THREADS - 1, size),
    ]
    expected = np.zeros_like(out)
    expected[1::n] = source[::n]
    np.testing.assert_array_equal(out, expected)
