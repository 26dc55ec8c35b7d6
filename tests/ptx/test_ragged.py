"""Which kernels run one lane after another: their lanes run a loop a different number of times, on any address."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_machine import HEAD, launch

from kcheck.ptx.analysis.cfg import build
from kcheck.ptx.analysis.ragged import is_ragged
from kcheck.ptx.lowering.kernel import suitable_width
from kcheck.ptx.syntax.parser import parse

KERNEL = """{head}
.visible .entry k(.param .u64 starts, .param .u64 columns, .param .u64 x, .param .u64 y, .param .u32 m)
{{
    .reg .b32 %t, %k, %n, %c, %v, %lo, %hi, %sum; .reg .b64 %starts, %columns, %x, %y, %rd<6>; .reg .pred %p;
    mov.u32 %t, %tid.x; ld.param.u64 %starts, [starts]; ld.param.u64 %columns, [columns]; ld.param.u64 %x, [x];
    ld.param.u64 %y, [y]; mad.wide.u32 %rd0, %t, 4, %starts; mad.wide.u32 %rd1, %t, 4, %y;
    {begin}
    mov.u32 %sum, 0; setp.ge.u32 %p, %k, %n; @%p bra E;
L:  {body} add.u32 %k, %k, 1; setp.lt.u32 %p, %k, %n; @%p bra L;
E:  st.global.u32 [%rd1], %sum; ret;
}}"""
LOADED = "ld.global.u32 %k, [%rd0]; ld.global.u32 %n, [%rd0+4];"
SAME = "mov.u32 %k, 0; ld.param.u32 %n, [m];"
COLUMN = "mad.wide.u32 %rd2, %k, 4, %columns; ld.global.u32 %c, [%rd2];"
SPARSE = f"{COLUMN} mad.wide.u32 %rd3, %c, 4, %x; ld.global.u32 %v, [%rd3]; mad.lo.u32 %sum, %sum, 3, %v;"
ROW = "mad.wide.u32 %rd3, %k, 4, %x; ld.global.u32 %v, [%rd3]; add.u32 %sum, %sum, %v;"
BAG = f"{COLUMN} shl.b32 %c, %c, 5; add.u32 %c, %c, %t; mad.wide.u32 %rd3, %c, 4, %x; ld.global.u32 %v, [%rd3];"
SEARCH = """add.u32 %c, %lo, %hi; shr.u32 %c, %c, 1; mad.wide.u32 %rd3, %c, 4, %x; ld.global.u32 %v, [%rd3];
    setp.lt.u32 %p, %v, %sum; selp.b32 %lo, %c, %lo, %p; selp.b32 %hi, %hi, %c, %p;
    mov.u32 %k, %lo; mov.u32 %n, %hi;"""
CHAIN = "mad.wide.u32 %rd3, %k, 4, %x; ld.global.u32 %k, [%rd3];"


def text(begin: str, body: str) -> str:
    """Thread t runs ``body`` for k from ``%k`` to ``%n``."""
    return KERNEL.format(head=HEAD, begin=begin, body=body)


@pytest.mark.parametrize(
    ("what", "begin", "body", "wanted"),
    [
        ("a sparse matrix", LOADED, SPARSE, True),
        ("rows of one length", SAME, SPARSE, False),
        ("rows without columns", LOADED, ROW, False),
        ("rows of which lanes read neighbors", LOADED, BAG, False),
        ("a search, which ends by what it finds", f"{LOADED} mov.u32 %lo, 0; mov.u32 %hi, %n;", SEARCH, False),
        ("a chain, which ends by what it finds", LOADED, CHAIN, False),
        ("a costly operation", LOADED, f"{SPARSE} div.u32 %sum, %sum, %v;", False),
        ("an atomic", LOADED, f"{SPARSE} red.global.add.u32 [%rd1], %v;", False),
        ("a barrier before", f"bar.sync 0; {LOADED}", SPARSE, False),
    ],
)
def test_kernels_that_are(what: str, begin: str, body: str, wanted: bool) -> None:
    """Their vectors have one lane, whatever the processor prefers."""
    module = parse(text(begin, body), "k.ptx")
    assert is_ragged(build(module.functions["k"], "k.ptx")) is wanted, what
    for width in (8, 16):
        assert (suitable_width(module, "k", width, 32) == 1) is wanted


def test_one_lane_finds_what_many_find() -> None:
    """A column out of bounds, in any row."""
    rng = np.random.default_rng(2)
    starts = np.concatenate([[0], np.cumsum(rng.integers(0, 9, 32))]).astype(np.uint32)
    x = rng.integers(0, 1 << 32, 50, dtype=np.uint32)
    for bad in (0, int(starts[-1]) // 2, int(starts[-1]) - 1):
        columns = rng.integers(0, x.size, starts[-1], dtype=np.uint32)
        columns[bad] = x.size
        given = [starts, columns, x, np.zeros(32, np.uint32), 0]
        one, many = (launch(text(LOADED, SPARSE), given, width) for width in (1, 16))
        assert one.places == many.places
        assert one.places[0][0] == x.ctypes.data + x.nbytes
