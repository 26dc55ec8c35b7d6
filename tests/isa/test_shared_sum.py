"""Addresses in shared memory that the code adds up itself."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from machines import Cpu, Launch

TEXT = """.version 8.7
.target sm_80
.address_size 64
.visible .entry sum(.param .u64 out)
{
    .reg .b32 %t, %v; .reg .b64 %a, %tile, %out;
    .shared .align 16 .b8 tile[128];
    ld.param.u64 %out, [out];
    mov.u64 %tile, tile;
    mov.u32 %t, %tid.x;
    mul.wide.u32 %a, %t, 4;
    add.s64 %a, %a, %tile;
    st.shared.u32 [%a], %t;
    red.shared.add.u32 [%a], 5;
    ld.shared.u32 %v, [%a];
    mul.wide.u32 %a, %t, 4;
    add.s64 %a, %a, %out;
    st.global.u32 [%a], %v;
    ret;
}
"""


@pytest.mark.parametrize("width", [1, 8, 16, 32])
def test_an_address_that_is_added_to_itself(width: int, tmp_path: Path) -> None:
    """``add %a, %a, %tile`` leaves no summand to remember."""
    ran = Cpu(width, tmp_path).run(Launch(TEXT, "sum", [bytes(128)], 1, 32))
    assert struct.unpack("<32I", ran.buffers[0]) == tuple(t + 5 for t in range(32))
