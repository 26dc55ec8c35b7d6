"""Registers of 128 bits: packed, unpacked, copied, loaded and stored, with what the sanitizers say of them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from kcheck.errors import PtxError
from kcheck.ptx.abi import Checks
from kcheck.ptx.syntax.parser import parse
from tests.isa.machines import ON_ALL_MACHINES, Launch, Machine, sanitized

THREADS = 48
KERNEL = """
.version 8.3
.target sm_80
.address_size 64
.visible .entry one(.param .u64 sources, .param .u64 results) {{
.shared .align 16 .b8 room[768];
.reg .b32 %t, %bytes, %at;
.reg .pred %even;
.reg .b64 %from, %to, %step, %d<5>;
.reg .b128 %q<4>, %whole;
ld.param.u64 %from, [sources];
ld.param.u64 %to, [results];
mov.u32 %t, %tid.x;
mul.wide.u32 %step, %t, 16;
add.u64 %from, %from, %step;
add.u64 %to, %to, %step;
and.b32 %at, %t, 1;
setp.eq.u32 %even, %at, 0;
mul.lo.u32 %bytes, %t, 16;
mov.u32 %at, room;
add.u32 %at, %at, %bytes;
{statements}
ret;
}}
"""
SOURCES = [(n * 0x9E3779B97F4A7C15 + 1) & (2**64 - 1) for n in range(2 * THREADS)]
DATA = struct.pack(f"<{2 * THREADS}Q", *SOURCES)
ROWS = {
    "a copy through a register": (
        "ld.global.b128 %q1, [%from]; mov.b128 %q2, %q1; st.global.b128 [%to], %q2;",
        lambda low, high, even: (low, high),
    ),
    "the low half comes first": (
        "ld.global.b128 %q1, [%from]; mov.b128 {%d1, %d2}, %q1; mov.b128 %whole, {%d2, %d1};"
        " st.global.b128 [%to], %whole;",
        lambda low, high, even: (high, low),
    ),
    "one half is discarded": (
        "ld.global.b128 %q1, [%from]; mov.b64 %d1, 5; mov.b128 {_, %d1}, %q1; st.global.v2.b64 [%to], {%d1, %d1};",
        lambda low, high, even: (high, high),
    ),
    "shared memory": (
        "ld.global.b128 %q1, [%from]; st.shared.b128 [%at], %q1; bar.sync 0; ld.shared.b128 %q2, [%at];"
        " st.global.b128 [%to], %q2;",
        lambda low, high, even: (low, high),
    ),
    "with a predicate": (
        "ld.global.b128 %q1, [%from]; mov.b64 %d1, 1; mov.b64 %d2, 2; mov.b128 %q2, {%d1, %d2};"
        " @%even mov.b128 %q2, %q1; st.relaxed.gpu.global.b128 [%to], %q2;",
        lambda low, high, even: (low, high) if even else (1, 2),
    ),
}


@ON_ALL_MACHINES
@pytest.mark.parametrize("name", list(ROWS))
def test_a_value_of_128_bits(name: str, width: int, machine: Callable[[int], Machine]) -> None:
    statements, expected = ROWS[name]
    launch = Launch(KERNEL.format(statements=statements), "one", (DATA, bytes(16 * THREADS)), 1, THREADS)
    ran = machine(width).run(launch)
    assert not ran.found
    results = struct.unpack(f"<{2 * THREADS}Q", ran.buffers[1])
    for t in range(THREADS):
        assert results[2 * t : 2 * t + 2] == expected(SOURCES[2 * t], SOURCES[2 * t + 1], t % 2 == 0)


@pytest.mark.parametrize("width", [1, 8])
def test_the_sanitizers_see_each_half(width: int, tmp_path: Path) -> None:
    """The last 8 bytes of the input are uninitialized: the high half of the last value."""
    load, store = "ld.global.b128 %q1, [%from];", "st.global.b128 [%to], %q2;"

    def found(body: str, checks: Checks) -> set[str]:
        launch = Launch(KERNEL.format(statements=body), "one", (DATA, bytes(16 * THREADS)), 1, THREADS)
        return {finding.rule for finding in sanitized(tmp_path, width, launch, checks, undefined=8)}

    decide = "setp.eq.u64 %even, %d1, 0; @%even mov.b64 %d2, 0;"
    high = f"{load} mov.b128 {{_, %d1}}, %q1; {decide}"
    low = f"{load} mov.b128 {{%d1, _}}, %q1; {decide}"
    init, race = Checks(init=True), Checks(race=True)
    assert found(high, init) == {"initcheck"}
    assert found(low, init) == set()
    copy = f"{load} mov.b128 %q2, %q1; {store}"
    assert found(copy, race) == set()
    assert found("add.u64 %to, %to, %step; add.u64 %from, %from, %step;" + copy, Checks()) == {"memcheck"}
    everyone = f"{load} mov.b128 %q2, %q1; ld.param.u64 %to, [results]; {store}"
    assert found(everyone, race) == {"racecheck"}


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("mov.b128 %q1, {%d1, %d2, %d3, %d4};", "4 parts of .b128: expected two of 64 bits"),
        ("mov.b128 {%d1, %d2}, {%d3, %d4};", "expected a register of 128 bits"),
        ("mov.b128 %d1, %q1;", "expected a register of 128 bits"),
        ("ld.global.b128 %d1, [%from];", "expected a register of 128 bits"),
        ("ld.global.b128 %q1;", "expected 2 operands, found 1"),
        ("ld.global.v2.b128 {%q1, %q2}, [%from];", "expected a register of 128 bits"),
    ],
)
def test_an_operand_that_is_no_such_value_is_an_error(statement: str, message: str) -> None:
    with pytest.raises(PtxError, match=message):
        parse(KERNEL.format(statements=statement))
