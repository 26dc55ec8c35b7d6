"""Bounds of integer registers: they hold for every value that the code can compute."""

from __future__ import annotations

import pytest
from ptx_machine import HEAD

from kcheck.ptx.analysis import cfg as control
from kcheck.ptx.analysis import ranges
from kcheck.ptx.syntax.parser import parse

BEGIN = """
.reg .b32 %t, %g, %r<20>; .reg .b64 %rd<10>; .reg .pred %p;
mov.u32 %t, %tid.x; mov.u32 %g, %ctaid.x;
"""


def bounds_of(body: str, register: str) -> ranges.Bounds | None:
    """The bounds that the analysis finds; None for those of the type."""
    text = f"{HEAD}\n.visible .entry k(.param .u64 out)\n{{{BEGIN}{body}\nret;\n}}"
    kernel = parse(text, "kernel.ptx").functions["k"]
    found = ranges.analyze(control.build(kernel, "kernel.ptx")).get(register)
    whole = (ranges.bounds_of_type(32), ranges.bounds_of_type(64))
    return None if found in whole else found


@pytest.mark.parametrize(
    ("body", "register", "bounds"),
    [
        ("", "%t", (0, 1023)),
        ("mov.u32 %r1, %ntid.y;", "%r1", (0, 1024)),
        ("mov.u32 %r1, %clock;", "%r1", None),
        ("add.s32 %r1, %t, -5;", "%r1", (-5, 1018)),
        ("sub.s32 %r1, 5, %t;", "%r1", (-1018, 5)),
        ("add.s32 %r1, %t, %g;", "%r1", None),
        ("mul.wide.s32 %rd1, %g, %g;", "%rd1", (0, (2**31 - 2) ** 2)),
        ("mul.lo.s32 %r1, %g, 2;", "%r1", None),
        ("add.s32 %r1, %t, -5; mul.wide.s32 %rd1, %r1, -3;", "%rd1", (-3054, 15)),
        ("add.s32 %r1, %t, -5; mul.wide.u32 %rd1, %r1, 3;", "%rd1", None),
        ("mad.lo.s32 %r1, %t, 4, %t;", "%r1", (0, 5115)),
        ("cvt.s64.s32 %rd1, %t;", "%rd1", (0, 1023)),
        ("add.s32 %r1, %t, -5; cvt.u64.u32 %rd1, %r1;", "%rd1", None),
        ("cvt.s64.s8 %rd1, %t;", "%rd1", None),
        ("mul.wide.s32 %rd1, %g, %g; cvt.u32.u64 %r1, %rd1;", "%r1", None),
        ("shl.b32 %r1, %t, 3;", "%r1", (0, 8184)),
        ("shl.b32 %r1, %g, 3;", "%r1", None),
        ("add.s32 %r1, %t, -5; shr.s32 %r2, %r1, 31;", "%r2", (-1, 0)),
        ("add.s32 %r1, %t, -5; shr.u32 %r2, %r1, 31;", "%r2", None),
        ("ld.param.u32 %r1, [out]; and.b32 %r2, %r1, 7;", "%r2", (0, 7)),
        ("ld.param.u32 %r1, [out]; and.b32 %r2, %r1, -8;", "%r2", None),
        ("or.b32 %r1, %t, 4;", "%r1", (0, 1023)),
        ("or.b32 %r1, %t, 1024;", "%r1", (0, 2047)),
        ("add.s32 %r1, %t, -5; or.b32 %r2, %r1, 4;", "%r2", None),
        ("min.u32 %r1, %t, 7; max.s32 %r2, %r1, 3;", "%r2", (0, 7)),
        ("setp.lt.u32 %p, %g, 3; selp.b32 %r1, %t, 5000, %p;", "%r1", (0, 5000)),
        ("add.cc.u32 %r1, %t, 1;", "%r1", None),
        ("setp.lt.u32 %p, %g, 3; mov.s32 %r1, 7; @%p mov.s32 %r1, -1;", "%r1", (-1, 7)),
        ("mov.u32 %r1, 0; L: add.s32 %r1, %r1, 1; setp.lt.s32 %p, %r1, 9; @%p bra L;", "%r1", None),
        (
            "mov.u32 %r1, 0; L: add.s32 %r2, %r1, 1; mov.u32 %r1, %r2; setp.lt.s32 %p, %r1, 9; @%p bra L;",
            "%r2",
            None,
        ),
        ("mov.u32 %r1, 7; L: and.b32 %r1, %r1, %t; setp.lt.s32 %p, %r1, 9; @%p bra L;", "%r1", (0, 7)),
    ],
)
def test_bounds_follow_arithmetic_that_does_not_wrap(
    body: str, register: str, bounds: ranges.Bounds | None
) -> None:
    """What may wrap, is read from elsewhere or does not settle in a loop has no bounds; 0 is always within, for
    lanes that have not written the register."""
    assert bounds_of(body, register) == bounds
