"""Damaged PTX: every mutation gives a tree or a PtxError with its place, in bounded time."""

from __future__ import annotations

import os
import random
import re
import time

import pytest

from kcheck.errors import PtxError
from kcheck.ptx.compile import lower
from kcheck.ptx.isa.verify import verify
from kcheck.ptx.syntax.parser import parse

SOURCE = """//
.version 8.0
.target sm_80, debug
.address_size 64
.file 1 "kernel.py"
.visible .global .align 4 .u32 counter = 7;
.const .align 8 .f64 table[2] = {0d3FF0000000000000, 0d4000000000000000};
.global .align 8 .u64 address[2] = {counter, generic(table)+8};
.extern .shared .align 16 .b8 dynamic[];
.shared .align 4 .b8 tile[256];
.extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);
.func (.param .b32 got) square(.param .b32 n) { .reg .b32 %r<3>; ld.param.u32 %r1, [n]; mul.lo.s32 %r2, %r1, %r1;
  st.param.b32 [got], %r2; ret; }
.visible .entry k(
  .param .u64 .ptr .global .align 4 k_param_0,
  .param .u32 k_param_1
) .maxntid 128, 1, 1
{
  .local .align 16 .b8 __local_depot0[32];
  .reg .pred %p<6>; .reg .b16 %rs<4>; .reg .f32 %f<12>; .reg .b32 %r<16>; .reg .f64 %fd<4>; .reg .b64 %rd<12>;
  .loc 1 9 0
  mov.u64 %rd9, __local_depot0; cvta.local.u64 %rd10, %rd9;
  ld.param.u64 %rd1, [k_param_0]; ld.param.u32 %r1, [k_param_1]; cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r2, %ntid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %tid.x; mad.lo.s32 %r5, %r3, %r2, %r4;
  setp.ge.s32 %p1, %r5, %r1; @%p1 bra $L__BB0_4;
  .loc 1 11 5
  mul.wide.s32 %rd3, %r5, 4; add.s64 %rd4, %rd2, %rd3; mov.f32 %f1, 0f00000000; mov.u32 %r6, 0;
$L__BB0_2:
  ld.global.nc.f32 %f2, [%rd4+4]; fma.rn.ftz.f32 %f1, %f2, 0f3F000000, %f1; ex2.approx.ftz.f32 %f3, %f1;
  cvt.rni.sat.u8.f32 %rs1, %f3; cvt.f64.f32 %fd1, %f3; add.rn.f64 %fd2, %fd1, 0d3FF8000000000000;
  { .reg .pred q; setp.lt.or.f32 q|%p2, %f1, %f3, %p1; selp.b32 %r7, %r6, %r5, q; }
  add.s32 %r6, %r6, 1; setp.ne.s32 %p3, %r6, 10; @%p3 bra $L__BB0_2;
  st.local.v2.f32 [%rd9+8], {%f1, %f3}; ld.v2.u32 {%r8, %r9}, [%rd10+8]; bar.sync 0;
  atom.global.add.u32 %r10, [counter], 1; red.shared.max.s32 [tile+4], %r10;
  shfl.sync.bfly.b32 %r11|%p4, %r10, 16, 31, -1;
  { .param .b32 a; st.param.b32 [a+0], %r11; .param .b32 b; call.uni (b), square, (a); ld.param.b32 %r12, [b+0]; }
  add.cc.u32 %r13, %r12, -1; addc.u32 %r14, %r13, 0xFFFFU; mov.b64 %rd5, {%r13, %r14}; st.global.u64 [%rd4], %rd5;
  T: .branchtargets $L__BB0_2, $L__BB0_4;
  rem.u32 %r15, %r14, 2; brx.idx %r15, T;
$L__BB0_4:
  ret;
}
"""
TOKENS = re.compile(r"[.%$\w]+|\s+|.")
WORDS = sorted(set(TOKENS.findall(SOURCE)))
NUMBERS = ("0", "-1", "2147483648", str(2**63), str(2**64), "9" * 30, "0x", "0f", "0d7ff", "1e999", "08")


def mutate(seed: int) -> str:
    """The source with a few tokens dropped, swapped, repeated, reversed, cut off or replaced."""
    r = random.Random(seed)
    tokens = TOKENS.findall(SOURCE)
    for _ in range(r.choice([1, 1, 1, 2, 3, 8])):
        i = r.randrange(len(tokens))
        action = r.randrange(8)
        if action == 0:
            del tokens[i]
        elif action == 1:
            tokens[i] = r.choice(WORDS)
        elif action == 2:
            tokens.insert(i, r.choice(WORDS))
        elif action == 3:
            j = r.randrange(len(tokens))
            tokens[i], tokens[j] = tokens[j], tokens[i]
        elif action == 4:
            tokens[i] = tokens[i][::-1]
        elif action == 5 and r.random() < 0.2:
            tokens = tokens[: i + 1]
        elif action == 6:
            tokens[i] += r.choice('{}()[]<>;,.:!@"\x00\u00e909')
        else:
            tokens[i] = r.choice(NUMBERS)
        tokens = tokens or [" "]
    return "".join(tokens)


def refusal(text: str, file: str, lowered: bool) -> str | None:
    """What the PtxError says about a module; None where it was read (and lowered)."""
    try:
        module = parse(text, file)
        verify(module)
        for entry in module.entries if lowered else ():
            lower(module, entry.name, 8)
    except PtxError as error:
        return str(error)
    return None


def survive(seed: int) -> bool:
    """Whether the mutation was read and lowered; anything but a PtxError with a place comes through."""
    message = refusal(mutate(seed), "damaged.ptx", lowered=seed % 8 == 0)
    assert message is None or re.match(r"damaged\.ptx:\d+: .", message), message
    return message is None


def test_the_source_itself_is_read_and_lowered() -> None:
    """What is mutated below is sound PTX."""
    module = parse(SOURCE, "sound.ptx")
    verify(module)
    assert lower(module, "k", 8).ir.definitions


@pytest.mark.parametrize("part", range(4))
def test_mutated_modules_are_read_or_refused(part: int) -> None:
    """Seeded mutations; KCHECK_PTX_MUTATIONS sets how many (100,000 were tried)."""
    count = int(os.environ.get("KCHECK_PTX_MUTATIONS", "2000")) // 4
    began = time.monotonic()
    read = sum(survive(seed) for seed in range(part * count, (part + 1) * count))
    assert count // 50 < read < count
    assert time.monotonic() - began < 0.1 * count


@pytest.mark.parametrize(
    "text",
    [
        ".version 8.0\n" + "{" * 100_000,
        ".version 8.0\n.entry k() {" + "{" * 100_000,
        ".version 8.0\n.entry k() {" + "{ .reg .b32 a; " * 20_000 + "}" * 20_001,
        ".version 8.0\n.global .u32 x[] = " + "{" * 100_000,
        ".version 8.0\n.entry k() { .reg .b32 %r<1000000000>; ret; }",
        ".version 8.0\n.entry k() {" + "".join(f"L{n}: bra L{max(n - 1, 0)};" for n in range(2000)) + "}",
        ".version 8.0\n.entry k() { .reg .pred %p;"
        + "".join(f"L{n}: @%p bra L{n // 2};" for n in range(600))
        + "}",
        ".version 8.0 " + "(" * 100_000,
        "\x00" * 1000,
    ],
)
def test_hostile_modules_end_soon(text: str) -> None:
    """Deep nesting, huge declarations and tangled loops are read or refused within seconds."""
    began = time.monotonic()
    message = refusal(text, "hostile.ptx", lowered=True)
    assert message is None or message.startswith("hostile.ptx:")
    assert time.monotonic() - began < 20
