"""The carry flag between additions and subtractions: a subtraction leaves 1 if it does not borrow."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from tests.isa.machines import ON_ALL_MACHINES, Launch, Machine

PAIRS = [(5, 3), (3, 5), (4, 4), (0, 0), (0, 2**32 - 1), (2**32 - 1, 0), (2**32 - 1, 1), (2**31, 2**31)]
KERNEL = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry one(.param .u64 sources, .param .u64 results) {{
.reg .b32 %t, %a, %b, %d, %r;
.reg .b64 %from, %to, %step;
ld.param.u64 %from, [sources];
ld.param.u64 %to, [results];
mov.u32 %t, %tid.x;
mul.wide.u32 %step, %t, 8;
add.u64 %from, %from, %step;
mul.wide.u32 %step, %t, 4;
add.u64 %to, %to, %step;
ld.global.v2.u32 {{%a, %b}}, [%from];
{first} %d, %a, %b;
{second} %r, 10, 0;
st.global.u32 [%to], %r;
ret;
}}
"""


@ON_ALL_MACHINES
@pytest.mark.parametrize("second", ["addc.u32", "subc.u32"])
@pytest.mark.parametrize("first", ["add.cc.u32", "sub.cc.u32"])
def test_the_flag_of_a_sum_or_a_difference_is_its_carry(
    first: str, second: str, width: int, machine: Callable[[int], Machine]
) -> None:
    """ptxas computes ``a - b`` as ``a + ~b + 1`` and ``subc a, b`` as ``a + ~b + flag``."""
    data = struct.pack(f"<{2 * len(PAIRS)}I", *(number for pair in PAIRS for number in pair))
    kernel = KERNEL.format(first=first, second=second)
    launch = Launch(kernel, "one", (data, bytes(4 * len(PAIRS))), 1, len(PAIRS))
    results = struct.unpack(f"<{len(PAIRS)}I", machine(width).run(launch).buffers[1])
    for (a, b), result in zip(PAIRS, results, strict=True):
        carry = a + b >= 2**32 if first == "add.cc.u32" else a >= b
        assert result == (10 + carry if second == "addc.u32" else 10 - (not carry)), (a, b)
