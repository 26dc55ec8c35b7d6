"""Loads and stores of lanes at a constant distance, by any set of lanes: the same as one lane at a time does.

A lane reads and writes only its own element: those between, before and after stay what they were.
"""

from __future__ import annotations

import numpy as np
import pytest
from ptx_machine import HEAD, compiled, launch

THREADS = 64
PROGRAM = """
.visible .entry k(.param .u64 x, .param .u64 out)
{{
    .reg .b32 %t, %i; .reg .b64 %x, %o, %s, %d, %a<3>; .reg .{kind} %v; .reg .pred %p;
    .shared .align 16 .b8 tile[{bytes}];
    mov.u32 %t, %tid.x; ld.param.u64 %x, [x]; ld.param.u64 %o, [out]; mov.u64 %s, tile;
    mul.wide.s32 %d, %t, {step}; add.s64 %a0, %x, %d; add.s64 %a1, %s, %d; add.s64 %a2, %o, %d;
    {condition} @!%p bra END;
    ld.global.{kind} %v, [%a0];
    st.shared.{kind} [%a1], %v;
    ld.shared.{kind} %v, [%a1];
    st.global.{kind} [%a2], %v;
END: ret;
}}
"""
LANES = {
    "first": ("setp.lt.u32 %p, %t, 1;", lambda t: t < 1),
    "first two": ("setp.lt.u32 %p, %t, 2;", lambda t: t < 2),
    "first three": ("setp.lt.u32 %p, %t, 3;", lambda t: t < 3),
    "first four": ("setp.lt.u32 %p, %t, 4;", lambda t: t < 4),
    "first five": ("setp.lt.u32 %p, %t, 5;", lambda t: t < 5),
    "third": ("setp.eq.u32 %p, %t, 2;", lambda t: t == 2),
    "second and fourth": ("and.b32 %i, %t, -3; setp.eq.u32 %p, %i, 1;", lambda t: (t & ~2) == 1),
    "last": ("setp.eq.u32 %p, %t, 63;", lambda t: t == 63),
    "every other": ("and.b32 %i, %t, 1; setp.eq.u32 %p, %i, 1;", lambda t: t & 1 == 1),
    "all": ("setp.lt.u32 %p, %t, 64;", lambda t: t < 64),
}


@pytest.mark.parametrize("width", [4, 8, 16, 32])
@pytest.mark.parametrize("kind", ["u32", "u64"])
@pytest.mark.parametrize("stride", [2, 3, 4, 8, 16])
def test_each_lane_accesses_its_own_element(stride: int, kind: str, width: int) -> None:
    dtype = np.dtype(f"uint{kind[1:]}")
    length = THREADS * stride
    for name, (condition, chosen) in LANES.items():
        step = stride * dtype.itemsize
        text = HEAD + PROGRAM.format(kind=kind, step=step, bytes=THREADS * step, condition=condition)
        x, out = np.arange(1, length + 1, dtype=dtype), np.full(length, 7, dtype)
        expected = out.copy()
        places = np.arange(THREADS)[chosen(np.arange(THREADS))] * stride
        expected[places] = x[places]
        ended = launch(text, [x, out], width, (1,), (THREADS,))
        assert not ended.faults, name
        assert (out == expected).all(), name
    assert f".every{step}." in compiled(text, width, THREADS)[0].ir.text
