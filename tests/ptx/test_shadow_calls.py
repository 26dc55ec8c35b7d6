"""initcheck through functions that are called: what they are given and return, and their own local memory."""

from __future__ import annotations

import ctypes
import time
from pathlib import Path

import pytest

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.executor import Ending, Executor, KernelLaunch
from kcheck.cpu.memory import Memory, MemoryKind
from kcheck.model import Finding
from kcheck.ptx.abi import Checks

TEXT = """
.version 8.0
.target sm_80
.address_size 64
.func (.param .b32 out) passed(.param .b32 given) {
  .local .align 4 .b8 own[8];
  .reg .b32 %r<4>;
  .reg .b64 %d<3>;
  ld.param.b32 %r1, [given];
  mov.u64 %d1, own;
  BODY
  st.param.b32 [out], %r1;
  ret;
}
.visible .entry kernel(.param .u64 x, .param .u64 y) {
  .reg .b32 %r<4>;
  .reg .b64 %d<6>;
  ld.param.u64 %d1, [x];
  ld.param.u64 %d2, [y];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %d3, %r1, 4;
  add.s64 %d4, %d1, %d3;
  add.s64 %d5, %d2, %d3;
  ld.global.b32 %r2, [%d4];
  .param .b32 a;
  .param .b32 b;
  st.param.b32 [a], %r2;
  call.uni (b), passed, (a);
  ld.param.b32 %r3, [b];
  st.global.b32 [%d5], %r3;
  ret;
}
"""
BODIES = {
    "nothing": ("", False, True),
    "a sum": ("add.s32 %r1, %r1, 1;", True, False),
    "its own memory": ("st.local.b32 [%d1], %r1; ld.local.b32 %r1, [%d1];", False, True),
    "memory of its own that nobody wrote": ("ld.local.b32 %r1, [%d1+4]; add.s32 %r1, %r1, 1;", True, False),
}


@pytest.mark.parametrize("width", [1, 8, 32])
@pytest.mark.parametrize(("body", "is_told", "is_left"), BODIES.values(), ids=BODIES)
def test_a_value_goes_through_a_call(body: str, is_told: bool, is_left: bool, width: int, tmp_path: Path) -> None:
    """What is handed through stays undefined and is not told; what a function computes with it is."""
    found: list[Finding] = []
    memory = Memory(64 << 20)
    executor = Executor(memory, 1, ObjectCache(tmp_path), time.monotonic, found.append, lambda _: None)
    executor.width = width
    executor.checks = Checks(init=True)
    x, y = (memory.allocate(128, MemoryKind.DEVICE) for _ in range(2))
    memory.define(y, 128)
    module = executor.load(TEXT.replace("BODY", body))
    given = x.to_bytes(8, "little") + y.to_bytes(8, "little")
    assert (
        executor.launch(KernelLaunch(module, "kernel", given, (1, 1, 1), (32, 1, 1), 0, False)) is Ending.FINISHED
    )
    assert {f.rule for f in found} == ({"initcheck"} if is_told else set())
    shadow = ctypes.string_at(y + memory.shadow[2], 128)
    assert shadow == (b"\xff" if is_left else b"\0") * 128
