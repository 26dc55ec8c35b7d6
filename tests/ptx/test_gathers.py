"""Loads from addresses that differ from lane to lane: of every size, at the end of arrays, with lanes off."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_machine import HEAD, launch

from kcheck.ptx import abi

KERNEL = """{head}
.visible .entry k(.param .u64 from, .param .u64 where, .param .u64 out)
{{
    .reg .b32 %t, %i, %v; .reg .b64 %from, %where, %out, %rd<3>; .reg .pred %p; .reg .b16 %h;
    mov.u32 %t, %tid.x; ld.param.u64 %from, [from]; ld.param.u64 %where, [where]; ld.param.u64 %out, [out];
    mad.wide.u32 %rd0, %t, 4, %where; ld.global.u32 %i, [%rd0];
    setp.eq.u32 %p, %i, 0xFFFFFFFF; @%p bra E;
    mad.wide.u32 %rd1, %i, {size}, %from; ld.global.{kind} %{register}, [%rd1]; {widen}
    mad.wide.u32 %rd2, %t, 4, %out; st.global.u32 [%rd2], %v;
E:  ret;
}}"""
KINDS = {
    "u8": (np.uint8, "v", ""),
    "s8": (np.int8, "v", ""),
    "u16": (np.uint16, "v", ""),
    "b16": (np.uint16, "h", "cvt.u32.u16 %v, %h;"),
    "u32": (np.uint32, "v", ""),
}
OFF = 0xFFFFFFFF


def text(kind: str) -> str:
    """A kernel that copies ``from[where[t]]`` to ``out[t]``, but where that is OFF."""
    dtype, register, widen = KINDS[kind]
    return KERNEL.format(head=HEAD, kind=kind, register=register, widen=widen, size=np.dtype(dtype).itemsize)


@pytest.mark.parametrize("width", [1, 2, 8, 16, 32])
@pytest.mark.parametrize("kind", KINDS)
def test_each_lane_loads_its_own_element(kind: str, width: int) -> None:
    """From anywhere in an array that does not end with a word: in order, backwards, scattered, with lanes off."""
    rng = np.random.default_rng(1)
    dtype = KINDS[kind][0]
    source = rng.integers(0, 256, 103 * np.dtype(dtype).itemsize, dtype=np.uint8).view(dtype)
    rows = [np.arange(64) + 39, np.arange(64)[::-1], rng.integers(0, 103, 64), np.full(64, 102)]
    for where in rows:
        for off in (np.zeros(64, bool), np.arange(64) % 32 < 3, rng.random(64) < 0.5):
            places, out = np.where(off, OFF, where).astype(np.uint32), np.full(64, 7, np.uint32)
            ended = launch(text(kind), [source, places, out], width, block=(64,))
            assert (ended.status, ended.faults) == (abi.FINISHED, ())
            np.testing.assert_array_equal(out, np.where(off, 7, source[where].astype(np.uint32)))


@pytest.mark.parametrize("width", [1, 8, 32])
@pytest.mark.parametrize("kind", KINDS)
def test_an_element_behind_an_array_is_told_though_its_word_begins_inside(kind: str, width: int) -> None:
    """The lane outside gets 0; the others load."""
    source = np.arange(1, 2 * 17 + 1, 2).astype(KINDS[kind][0])
    places, out = np.arange(16, dtype=np.uint32)[::-1].copy(), np.full(16, 7, np.uint32)
    places[5] = 17
    ended = launch(text(kind), [source, places, out], width, block=(16,))
    assert [(fault, x) for fault, _, x, _ in ended.faults] == [("OUT_OF_BOUNDS_LOAD", 5)]
    want = source[15::-1].astype(np.uint32)
    want[5] = 0
    np.testing.assert_array_equal(out, want)
