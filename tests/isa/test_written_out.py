"""Instructions that are read as several: ``lop3`` with a predicate, and video instructions with selectors."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from tests.isa.machines import ON_ALL_MACHINES, Launch, Machine

KERNEL = """
.version 8.3
.target sm_80
.address_size 64
.visible .entry one(.param .u64 results) {{
.reg .pred %p<3>;
.reg .b32 %r<8>;
.reg .b64 %out;
ld.param.u64 %out, [results];
mov.b32 %r1, 0x80FF7F01;
mov.b32 %r2, 0x0102FF80;
mov.b32 %r3, 0;
mov.b32 %r4, 7;
mov.b32 %r5, 7;
setp.eq.u32 %p1, 0, 0;
setp.ne.u32 %p2, 0, 0;
{statement}
selp.b32 %r5, %r5, 9, %p1;
st.global.b32 [%out], %r4;
st.global.b32 [%out+4], %r5;
ret;
}}
"""


def results(cpu: Machine, statement: str) -> tuple[int, int]:
    """%r4, and 7 or 9 for a true or false %p1."""
    ran = cpu.run(Launch(KERNEL.format(statement=statement), "one", (bytes(8),), 1, 1))
    assert not ran.found
    first, second = struct.unpack("<2I", ran.buffers[0])
    return first, second


ROWS = [
    # and of %r1, %r2, %r2: table 0x80; 0x80FF7F01 & 0x0102FF80
    ("lop3.or.b32 %r4|%p1, %r1, %r2, %r2, 0x80, %p2;", (0x80FF7F01 & 0x0102FF80, 7)),
    ("lop3.and.b32 %r4|%p1, %r1, %r2, %r2, 0x80, %p2;", (0x80FF7F01 & 0x0102FF80, 9)),
    ("lop3.and.b32 %r4|%p1, %r1, %r2, %r2, 0x80, !%p2;", (0x80FF7F01 & 0x0102FF80, 7)),
    ("lop3.or.b32 %r4|%p1, %r1, %r3, %r3, 0x80, %p2;", (0, 9)),
    ("lop3.or.b32 _|%p1, %r1, %r3, %r3, 0x80, %p2;", (7, 9)),
    ("lop3.or.b32 %r1|%p1, %r1, %r2, %r1, 0x80, %p2; mov.b32 %r4, %r1;", (0x80FF7F01 & 0x0102FF80, 7)),
    ("@%p2 lop3.or.b32 %r4|%p1, %r1, %r3, %r3, 0x80, %p2;", (7, 7)),
    ("vadd.s32.u32.u32 %r4, %r1.b2, %r2.b3;", (0xFF + 0x01, 7)),
    ("vadd.s32.s32.s32 %r4, %r1.b2, %r2.b3;", (0, 7)),
    ("vsub.s32.s32.u32 %r4, %r1.h1, %r2.h0;", ((0x80FF - 0x10000 - 0xFF80) & 0xFFFFFFFF, 7)),
    ("vmad.s32.s32.s32 %r4, %r1.b0, %r2.b1, %r5;", (7 - 1, 7)),
    ("vmad.s32.s32.s32 %r4, -%r1.b0, %r2.b1, %r5;", (7 + 1, 7)),
    ("vmad.s32.s32.s32 %r4, -%r1.b0, -%r2.b1, -%r5;", (-1 - 7 & 0xFFFFFFFF, 7)),
    ("vset.s32.s32.lt %r4, %r1.b3, %r2.b2;", (1, 7)),
    ("vmax.u32.u32.u32.add %r4, %r1.h0, %r2, %r5;", (0x0102FF80 + 7, 7)),
]


@ON_ALL_MACHINES
@pytest.mark.parametrize(("statement", "expected"), ROWS, ids=[row[0] for row in ROWS])
def test_a_statement_has_the_result_of_the_isa(
    statement: str, expected: tuple[int, int], width: int, machine: Callable[[int], Machine]
) -> None:
    assert results(machine(width), statement) == expected
