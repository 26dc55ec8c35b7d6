"""Threads of a block and of a grid together: barriers that reduce, atomics on one address, kernel parameters."""

from __future__ import annotations

import random
import struct
from collections import Counter
from collections.abc import Callable

import pytest

from tests.isa.machines import Cpu, Gpu, Launch, Machine
from tests.isa.model.formats import signed

WIDTHS = [1, 8, 16]
THREADS, BLOCKS = 96, 5

_HEAD = """
.version 8.0
.target sm_80
.address_size 64
"""

_THREAD = """
mov.u32 %me, %tid.x;
mov.u32 %n, %ntid.x;
mov.u32 %i, %ctaid.x;
mad.lo.u32 %i, %i, %n, %me;
"""


def _words(content: bytes) -> list[int]:
    return list(struct.unpack(f"<{len(content) // 4}I", content))


def _packed(words: list[int]) -> bytes:
    return struct.pack(f"<{len(words)}I", *words)


_BARRIERS = (
    _HEAD
    + """
.visible .entry barriers(.param .u64 inputs, .param .u64 results) {
.shared .align 4 .b8 line[384];
.reg .pred %p, %q, %half;
.reg .b32 %me, %n, %i, %v, %w, %k, %line;
.reg .b64 %in, %out;
"""
    + _THREAD
    + """
ld.param.u64 %in, [inputs];
ld.param.u64 %out, [results];
mad.wide.u32 %in, %i, 4, %in;
mad.wide.u32 %out, %i, 32, %out;
ld.global.b32 %v, [%in];
setp.ne.u32 %p, %v, 0;
bar.red.popc.u32 %w, 0, %p;
st.global.b32 [%out], %w;
bar.red.and.pred %q, 1, %p;
selp.u32 %w, 1, 0, %q;
st.global.b32 [%out+4], %w;
barrier.cta.red.or.aligned.pred %q, 15, %n, %p;
selp.u32 %w, 1, 0, %q;
st.global.b32 [%out+8], %w;
mov.u32 %k, 3;
bar.cta.red.popc.u32 %w, %k, !%p;
st.global.b32 [%out+12], %w;
mov.u32 %line, line;
mad.lo.u32 %w, %me, 4, %line;
st.shared.b32 [%w], %i;
bar.sync 0;
sub.u32 %w, 95, %me;
mad.lo.u32 %w, %w, 4, %line;
ld.shared.b32 %w, [%w];
st.global.b32 [%out+16], %w;
setp.lt.u32 %half, %me, 64;
mov.u32 %w, 7;
@!%half bra END;
bar.red.popc.u32 %w, 2, 64, %p;
END:
st.global.b32 [%out+20], %w;
ret;
}
"""
)


def _check_barriers(machine: Machine) -> None:
    chance = random.Random("kcheck barriers")
    held = [0] * THREADS + [1] * THREADS + [chance.getrandbits(1) for _ in range(THREADS * (BLOCKS - 2))]
    size = THREADS * BLOCKS
    launch = Launch(_BARRIERS, "barriers", (_packed(held), bytes(32 * size)), BLOCKS, THREADS)
    ran = machine.run(launch)
    assert ran.found == ()
    words = _words(ran.buffers[1])
    for thread in range(size):
        first = thread - thread % THREADS
        block = held[first : first + THREADS]
        expected = [
            sum(block),
            int(all(block)),
            int(any(block)),
            THREADS - sum(block),
            first + THREADS - 1 - thread % THREADS,
            sum(block[:64]) if thread % THREADS < 64 else 7,
        ]
        assert words[8 * thread : 8 * thread + 6] == expected, f"thread {thread}"


@pytest.mark.parametrize("width", WIDTHS)
def test_barriers_reduce_and_order(width: int, cpu: Callable[[int], Cpu]) -> None:
    """``bar.red`` counts and combines predicates, ``bar.sync`` orders memory, a count takes part of a block."""
    _check_barriers(cpu(width))


@pytest.mark.gpu
def test_barriers_on_a_device(gpu: Gpu) -> None:
    """A CUDA device agrees."""
    _check_barriers(gpu)


def _contended(space: str) -> str:
    """Every second thread updates the cells of the grid, or of its block, and tells what it found in them."""
    home = "%all" if space == "global" else "%mine"
    return (
        _HEAD
        + """
.visible .entry contended(.param .u64 inputs, .param .u64 results, .param .u64 cells) {
.shared .align 8 .b8 own[64];
.reg .pred %odd, %first, %again;
.reg .b32 %me, %n, %i, %v, %w, %old, %new, %one;
.reg .b64 %in, %out, %all, %mine, %wide, %wider, %copy;
"""
        + _THREAD
        + f"""
ld.param.u64 %in, [inputs];
ld.param.u64 %out, [results];
ld.param.u64 %all, [cells];
mad.wide.u32 %in, %i, 4, %in;
mad.wide.u32 %out, %i, 32, %out;
mov.u32 %w, %ctaid.x;
mad.wide.u32 %copy, %w, 64, %all;
mov.u64 %mine, own;
setp.ne.u32 %first, %me, 0;
@%first bra START;
st.shared.v2.b64 [%mine], {{0, 0}};
st.shared.v2.b64 [%mine+16], {{0, 0}};
st.shared.v2.b64 [%mine+32], {{0, 0}};
st.shared.v2.b64 [%mine+48], {{0, 0}};
START:
bar.sync 0;
and.b32 %w, %me, 1;
setp.eq.u32 %odd, %w, 1;
@%odd bra END;
ld.global.b32 %v, [%in];
atom.{space}.add.u32 %old, [{home}], 1;
st.global.b32 [%out], %old;
atom.{space}.inc.u32 %old, [{home}+4], 6;
st.global.b32 [%out+4], %old;
atom.{space}.exch.b32 %old, [{home}+8], %v;
st.global.b32 [%out+8], %old;
atom.{space}.max.s32 %old, [{home}+12], %v;
red.{space}.xor.b32 [{home}+16], %v;
mov.b32 %one, 0f3F800000;
red.{space}.add.f32 [{home}+20], %one;
cvt.u64.u32 %wide, %v;
red.{space}.add.u64 [{home}+24], %wide;
red.{space}.add.f64 [{home}+32], 0d3FE0000000000000;
AGAIN:
ld.volatile.{space}.b32 %w, [{home}+40];
add.u32 %new, %w, %v;
atom.{space}.cas.b32 %old, [{home}+40], %w, %new;
setp.ne.u32 %again, %old, %w;
@%again bra AGAIN;
atom.{space}.dec.u32 %old, [{home}+44], 9;
st.global.b32 [%out+12], %old;
END:
bar.sync 0;
@%first bra OUT;
"""
        + (
            "\n".join(
                f"ld.shared.b64 %wider, [%mine+{n}];\nst.global.b64 [%copy+{n}], %wider;" for n in range(0, 64, 8)
            )
            if space == "shared"
            else ""
        )
        + """
OUT:
ret;
}
"""
    )


def _check_contention(machine: Machine, space: str) -> None:
    chance = random.Random("kcheck contention")
    size = THREADS * BLOCKS
    values = [chance.getrandbits(32) for _ in range(size)]
    launch = Launch(
        _contended(space), "contended", (_packed(values), bytes(32 * size), bytes(64 * BLOCKS)), BLOCKS, THREADS
    )
    ran = machine.run(launch)
    assert ran.found == ()
    told = _words(ran.buffers[1])
    groups = [range(size)] if space == "global" else [range(b * THREADS, (b + 1) * THREADS) for b in range(BLOCKS)]
    for number, group in enumerate(groups):
        threads = [t for t in group if t % THREADS % 2 == 0]
        count = len(threads)
        cell = ran.buffers[2][64 * number : 64 * number + 64]
        counter, inc, exch, greatest, xor, ones, total, halves, cas, dec = struct.unpack("<IIIiIfQdII", cell[:48])
        mine = [values[t] for t in threads]
        assert sorted(told[8 * t] for t in threads) == list(range(count)), "add gives every ticket once"
        assert counter == count
        assert Counter(told[8 * t + 1] for t in threads) == Counter(n % 7 for n in range(count)), "inc wraps at 6"
        assert inc == count % 7
        assert Counter([told[8 * t + 2] for t in threads] + [exch]) == Counter([*mine, 0]), "exch loses nothing"
        assert greatest == max(0, *(signed(v, 32) for v in mine))
        expected = 0
        for v in mine:
            expected ^= v
        assert xor == expected
        assert ones == count
        assert total == sum(mine)
        assert halves == count / 2
        assert cas == sum(mine) & 0xFFFFFFFF, "a compare-and-swap loop loses no update"
        assert Counter(told[8 * t + 3] for t in threads) == Counter(-n % 10 for n in range(count)), (
            "dec wraps to 9"
        )
        assert dec == -count % 10


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("space", ["global", "shared"])
def test_atomics_on_one_address(space: str, width: int, cpu: Callable[[int], Cpu]) -> None:
    """When all even threads of a grid or a block update one cell, each update counts once, in some order."""
    _check_contention(cpu(width), space)


@pytest.mark.gpu
@pytest.mark.parametrize("space", ["global", "shared"])
def test_atomics_on_one_address_of_a_device(space: str, gpu: Gpu) -> None:
    """A CUDA device agrees."""
    _check_contention(gpu, space)


_LOADED = [
    (kind, place, width)
    for kind in ("b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "b64", "u64", "s64", "f32", "f64")
    for place in (0, 8, 24)
    for width in (16, 32, 64)
    if (width >= int(kind[1:]) if kind[0] != "f" else width == int(kind[1:]))
]


def _parameters() -> str:
    lines = []
    for number, (kind, place, width) in enumerate(_LOADED):
        register = {16: "%h", 32: "%r", 64: "%d"}[width]
        lines.append(f"ld.param.{kind} {register}, [last+{place}];")
        lines.append(f"st.global.b{width} [%out+{8 * number}], {register};")
    end = 8 * len(_LOADED) + 8
    return (
        _HEAD
        + f"""
.visible .entry parameters(.param .u64 results, .param .align 16 .b8 last[64]) {{
.reg .b16 %h;
.reg .b32 %r, %r1, %r2, %r3;
.reg .b64 %d, %out, %where;
ld.param.u64 %out, [results];
{chr(10).join(lines)}
ld.param.v4.b32 {{%r, %r1, %r2, %r3}}, [last+16];
st.global.v4.b32 [%out+{end}], {{%r, %r1, %r2, %r3}};
ret;
}}
"""
    )


_VARIABLES = (
    _HEAD
    + """
.global .align 4 .b8 bytes[12] = {1, 255, 0x7F, 128, -1, 6, 7, 8};
.const .align 4 .f32 floats[4] = {0f3F800000, -2.5, 0f7FC00001};
.const .align 8 .f64 doubles[2] = {0d400921FB54442D18, 1.0};
.global .align 2 .s16 shorts[2][3] = {{1, -2, 3}, {-4}};
.const .align 4 .u32 word = 0xDEADBEEF;
.global .align 8 .u64 pointers[3] = {generic(bytes)+4, 0, generic(word)};
.global .align 4 .u32 counter;
.visible .entry variables(.param .u64 results) {
.reg .b16 %h;
.reg .b32 %r;
.reg .b64 %d, %at, %out;
ld.param.u64 %out, [results];
mov.u64 %at, bytes;
ld.global.u8 %r, [%at+1];
st.global.b32 [%out], %r;
ld.global.s8 %r, [bytes+3];
st.global.b32 [%out+4], %r;
ld.global.b32 %r, [bytes+8];
st.global.b32 [%out+8], %r;
ld.const.b32 %r, [floats+4];
st.global.b32 [%out+12], %r;
mov.u64 %at, floats;
ld.const.b32 %r, [%at+8];
st.global.b32 [%out+16], %r;
ld.const.b32 %r, [%at+12];
st.global.b32 [%out+20], %r;
ld.const.v2.b64 {%d, %at}, [doubles];
st.global.b64 [%out+24], %d;
st.global.b64 [%out+32], %at;
ld.global.s16 %r, [shorts+6];
st.global.b32 [%out+40], %r;
ld.global.s16 %r, [shorts+10];
st.global.b32 [%out+44], %r;
ld.global.u64 %at, [pointers];
ld.u8 %r, [%at];
st.global.b32 [%out+48], %r;
ld.global.u64 %at, [pointers+16];
ld.b32 %r, [%at];
st.global.b32 [%out+52], %r;
atom.global.add.u32 %r, [counter], 5;
ld.global.b32 %r, [counter];
st.global.b32 [%out+56], %r;
ret;
}
"""
)


def check_variables(machine: Machine) -> None:
    """Compare what a kernel reads from its module's variables."""
    ran = machine.run(Launch(_VARIABLES, "variables", (bytes(64),), 1, 1))
    assert ran.found == ()
    expected = [255, 0xFFFFFF80, 0, 0xC0200000, 0x7FC00001, 0, 0x54442D18, 0x400921FB, 0, 0x3FF00000]
    expected += [0xFFFFFFFC, 0, 0xFF, 0xDEADBEEF, 5]
    assert list(map(hex, _words(ran.buffers[0])[:15])) == list(map(hex, expected))


@pytest.mark.parametrize("width", WIDTHS)
def test_variables(width: int, cpu: Callable[[int], Cpu]) -> None:
    """Variables of a module hold their initializers, the rest of an array zeros, and addresses of one another."""
    check_variables(cpu(width))


@pytest.mark.gpu
def test_variables_of_a_device(gpu: Gpu) -> None:
    """A CUDA device agrees."""
    check_variables(gpu)


TEXTS = _BARRIERS + _contended("global") + _contended("shared") + _parameters()
"""All kernels of these tests."""


def check_parameters(machine: Machine) -> None:
    """Compare what a kernel reads from its parameters."""
    chance = random.Random("kcheck parameters")
    last = bytes([0x80, 0xFF, 0x7F, 0x81] + [chance.getrandbits(8) | 0x80 for _ in range(60)])
    end = 8 * len(_LOADED) + 8
    assert end % 16 == 0
    ran = machine.run(Launch(_parameters(), "parameters", (bytes(end + 16),), 1, 1, last))
    for number, (kind, place, width) in enumerate(_LOADED):
        size = int(kind[1:]) // 8
        number_held = int.from_bytes(last[place : place + size], "little", signed=kind[0] == "s")
        got = int.from_bytes(ran.buffers[0][8 * number : 8 * number + width // 8], "little")
        assert got == number_held & ((1 << width) - 1), f"ld.param.{kind} into {width} bits"
    assert ran.buffers[0][end:] == last[16:32]


@pytest.mark.parametrize("width", WIDTHS)
def test_parameters(width: int, cpu: Callable[[int], Cpu]) -> None:
    """``ld.param`` of every type extends by the type's sign into wider registers; of a vector too."""
    check_parameters(cpu(width))


@pytest.mark.gpu
def test_parameters_of_a_device(gpu: Gpu) -> None:
    """A CUDA device agrees."""
    check_parameters(gpu)
