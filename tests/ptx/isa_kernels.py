"""Kernels with instructions that compilers seldom emit: forms of the list in conformance/ptx_instructions."""

from __future__ import annotations

import random
import sys
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from conformance.ptx_table import read_lists

NEWEST = 89
"""The newest target whose instructions the kernels use: those of later ones are errors, one like the other."""

_START = """.version 8.7
.target sm_89
.address_size 64
.func nothing() { ret; }
.visible .entry listed(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d, .param .u64 data) {
  .reg .pred %p<5>; .reg .b16 %h<5>; .reg .b32 %r<10>; .reg .b64 %d<5>; .reg .b128 %q<3>;
  .reg .f32 %f<10>; .reg .f64 %g<5>;
  .shared .align 16 .b8 tile[8192];
  mov.u32 %r1, tile;
  mov.u32 %r9, %tid.x;
  mad.lo.u32 %r1, %r9, 16, %r1;
  mov.u32 %r2, 1;
  add.u32 %r3, %r9, 3;
  mul.lo.u32 %r4, %r9, 0x9E3779B9;
  xor.b32 %r5, %r4, 0x3C003C00;
  mov.u32 %r6, 0x40004000;
  shl.b32 %r7, %r9, 2;
  mov.u32 %r8, -1;
  ld.param.u64 %d1, [data];
  cvta.to.global.u64 %d1, %d1;
  mad.wide.u32 %d1, %r9, 16, %d1;
  add.u64 %d2, %d1, 4096;
  add.u64 %d3, %d1, 8192;
  cvt.u64.u32 %d4, %r4;
  mov.b128 %q1, {%d1, %d4};
  mov.b128 %q2, {%d4, %d1};
  setp.gt.u32 %p1, %r9, 16;
  setp.eq.u32 %p2, %r9, 7;
  setp.ne.u32 %p3, %r9, 0;
  setp.lt.s32 %p4, %r4, 0;
"""
_VALUES = (
    [f"cvt.u16.u32 %h{n}, %r{n};" for n in range(1, 5)]
    + [f"cvt.rn.f32.s32 %f{n}, %r{n};" for n in range(1, 10)]
    + [f"cvt.f64.f32 %g{n}, %f{n};" for n in range(1, 5)]
)


@cache
def _forms() -> tuple[str, ...]:
    return tuple(form for listed in read_lists() if listed.since <= NEWEST for form in listed.forms)


def isa_kernel(r: random.Random) -> str:
    """PTX of a kernel with 1 to 12 listed instructions, on addresses that are mostly valid."""
    chosen = r.choices(_forms(), k=r.randint(1, 12))
    targets = ["TARGETS: .branchtargets END, NEXT;"] if any("TARGETS" in form for form in chosen) else []
    body = [*_VALUES, *targets, *chosen, "NEXT:", "st.global.b32 [%d1], %r1;", "END:", "ret;"]
    return _START + "".join(f"  {line}\n" for line in body) + "}\n"
