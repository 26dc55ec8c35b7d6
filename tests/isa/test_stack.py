"""``alloca``, ``stacksave`` and ``stackrestore``: memory of a size that is known only at run time."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from kcheck.errors import PtxError
from kcheck.ptx.abi import Checks
from kcheck.ptx.syntax.parser import parse
from tests.isa.machines import DEVICE, ON_ALL_MACHINES, Launch, Machine, sanitized

THREADS = 40
KERNEL = """
.version 8.3
.target sm_80
.address_size 64
.func (.param .b64 sum) squares(.param .b32 count)
{{
.reg .b32 %n, %i;
.reg .b64 %size, %at, %last, %v, %total;
.reg .pred %p;
ld.param.u32 %n, [count];
mul.wide.u32 %size, %n, 8;
alloca.u64 %at, %size, 8;
add.u64 %last, %at, %size;
mov.u64 %total, 0;
mov.u32 %i, 0;
FILL:
setp.ge.u32 %p, %i, %n;
@%p bra FILLED;
mul.wide.u32 %v, %i, %i;
mul.wide.u32 %size, %i, 8;
add.u64 %size, %at, %size;
st.local.u64 [%size], %v;
add.u32 %i, %i, 1;
bra FILL;
FILLED:
setp.ge.u64 %p, %at, %last;
@%p bra DONE;
ld.local.u64 %v, [%at];
add.u64 %total, %total, %v;
add.u64 %at, %at, 8;
bra FILLED;
DONE:
st.param.b64 [sum], %total;
ret;
}}
.visible .entry one(.param .u64 sources, .param .u64 results) {{
.reg .b32 %t, %n;
.reg .pred %even;
.reg .b64 %from, %to, %step, %d<8>, %size, %saved;
ld.param.u64 %from, [sources];
ld.param.u64 %to, [results];
mov.u32 %t, %tid.x;
mul.wide.u32 %step, %t, 8;
add.u64 %from, %from, %step;
add.u64 %to, %to, %step;
ld.global.u64 %size, [%from];
cvt.u32.u64 %n, %size;
and.b32 %n, %n, 1;
setp.eq.u32 %even, %n, 0;
cvt.u32.u64 %n, %size;
{statements}
st.global.u64 [%to], %d1;
ret;
}}
"""
CALL = "{ .param .b32 p; .param .b64 r; st.param.b32 [p], %n; call (r), squares, (p); ld.param.b64 %d1, [r]; }"
ROWS: dict[str, tuple[str, Callable[[int, int], int]]] = {
    "a function with an array": (CALL, lambda t, n: sum(i * i for i in range(n))),
    "its memory is free when it returns": (CALL * 3, lambda t, n: sum(i * i for i in range(n))),
    "arrays do not overlap": (
        "alloca.u64 %d2, %size; alloca.u64 %d3, %size, 64; sub.u64 %d4, %d2, %d3; setp.ge.u64 %even, %d4, %size;"
        " selp.u64 %d1, 1, 0, %even;",
        lambda t, n: 1,
    ),
    "alignment": ("alloca.u64 %d2, %size, 256; and.b64 %d1, %d2, 255;", lambda t, n: 0),
    "8 bytes is the least alignment": ("alloca.u64 %d2, %size, 1; and.b64 %d1, %d2, 7;", lambda t, n: 0),
    "a restored stack gives the same memory again": (
        "stacksave.u64 %saved; alloca.u64 %d2, %size; stackrestore.u64 %saved; alloca.u64 %d3, %size;"
        " sub.u64 %d1, %d2, %d3;",
        lambda t, n: 0,
    ),
    "in some threads only": (
        "stacksave.u64 %saved; @%even alloca.u64 %d2, 64; stacksave.u64 %d3; sub.u64 %d1, %saved, %d3;",
        lambda t, n: 64 if n % 2 == 0 else 0,
    ),
    "across a barrier": (
        "alloca.u64 %d2, 8; st.local.u64 [%d2], %size; bar.sync 0; ld.local.u64 %d1, [%d2];",
        lambda t, n: n,
    ),
    "a generic address": (
        "alloca.u64 %d2, 8; cvta.local.u64 %d2, %d2; st.u64 [%d2], %size; ld.u64 %d1, [%d2];",
        lambda t, n: n,
    ),
}
SIZES = [8 * (1 + (7 * t) % 11) + t % 2 for t in range(THREADS)]
DATA = struct.pack(f"<{THREADS}Q", *SIZES)


def _launch(statements: str) -> Launch:
    return Launch(KERNEL.format(statements=statements), "one", (DATA, bytes(8 * THREADS)), 1, THREADS)


@ON_ALL_MACHINES
@pytest.mark.parametrize("name", list(ROWS))
def test_memory_of_the_stack(name: str, width: int, machine: Callable[[int], Machine]) -> None:
    if (name, width) == ("in some threads only", DEVICE):
        pytest.skip("an H100 has one stack pointer for a warp, code of ptxas 13.0 moves it for all threads")
    statements, expected = ROWS[name]
    ran = machine(width).run(_launch(statements))
    assert not ran.found
    results = struct.unpack(f"<{THREADS}Q", ran.buffers[1])
    assert list(results) == [expected(t, SIZES[t]) for t in range(THREADS)]


@pytest.mark.parametrize("width", [1, 8])
def test_more_than_the_stack_has_is_an_error_with_its_size(width: int, tmp_path: Path) -> None:
    """Also after others, by its alignment, and with a size that wraps around."""
    for statements, size in (
        ("alloca.u64 %d1, 20000;", 20000),
        ("alloca.u64 %d1, -8;", 2**64 - 8),
        ("alloca.u64 %d1, 16000; alloca.u64 %d2, 512;", 512),
        ("alloca.u64 %d1, 64, 65536;", 64),
    ):
        (found,) = sanitized(tmp_path, width, _launch(statements), Checks())
        assert found.rule == "stack"
        assert found.message == f"alloca() of {size} bytes overflows the stack of 16384 bytes"


@pytest.mark.parametrize("width", [1, 8])
def test_the_sanitizers_see_the_memory(width: int, tmp_path: Path) -> None:
    def found(statements: str, checks: Checks) -> set[str]:
        return {finding.rule for finding in sanitized(tmp_path, width, _launch(statements), checks)}

    unset = "alloca.u64 %d2, 8; ld.local.u64 %d1, [%d2]; setp.eq.u64 %even, %d1, 0; @%even mov.u64 %d1, 1;"
    stored = unset.replace("8;", "8; st.local.u64 [%d2], %size;", 1)
    assert found(stored, Checks(init=True, race=True)) == set()
    assert found(
        unset.replace("@%even", "add.u64 %from, %from, %d1; ld.global.u64 %d1, [%from];"), Checks(init=True)
    )
    assert found("alloca.u64 %d2, 8; ld.local.u64 %d1, [%d2+16384];", Checks()) == {"memcheck"}


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("alloca.u32 %t, %n, 8;", "expected .u64"),
        ("alloca.u64 %d1;", "expected 2 operands, found 1"),
        ("alloca.u64 %d1, %size, 24;", "the alignment is a constant, a power of 2"),
        ("alloca.u64 %d1, %size, %size;", "the alignment is a constant, a power of 2"),
        ("stacksave.u64 %d1, %d2;", "expected 1 operands, found 2"),
    ],
)
def test_an_operand_that_it_cannot_have_is_an_error(statement: str, message: str) -> None:
    with pytest.raises(PtxError, match=message):
        parse(KERNEL.format(statements=statement))
