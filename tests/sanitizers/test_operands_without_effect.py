"""initcheck: an operand that an instruction requires, and whose value cannot affect the result, may be undefined.

Each instruction gets ``%u``, which is loaded from uninitialized memory, and its result is stored. What counts is
whether the result depends on ``%u``, as the PTX ISA defines the instruction, not whether it is written there.
"""

from __future__ import annotations

import struct
import time
from pathlib import Path

import pytest

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.executor import Ending, Executor, KernelLaunch
from kcheck.cpu.memory import Memory, MemoryKind
from kcheck.cpu.sanitizers import checks
from kcheck.model import Finding

KERNEL = """.version 8.0
.target sm_80
.address_size 64
.visible .entry use(.param .u64 out, .param .u64 unset, .param .u32 x, .param .u32 y)
{
    .reg .pred %p, %q, %yes, %no; .reg .b32 %r<9>, %u, %x, %y, %minus; .reg .f32 %f; .reg .b64 %a<2>;
    ld.param.u64 %a0, [out]; ld.param.u64 %a1, [unset]; ld.param.u32 %x, [x]; ld.param.u32 %y, [y];
    ld.global.u32 %u, [%a1];
    neg.s32 %minus, %x; setp.ne.u32 %yes, %x, 0; setp.eq.u32 %no, %x, 0;
    INSTRUCTION
    add.u32 %r1, %r1, 1;
    st.global.u32 [%a0], %r1;
    ret;
}
"""
AS_NUMBER = "selp.u32 %r1, 1, 0, %p;"


def messages(folder: Path, instruction: str, width: int) -> list[str]:
    findings: list[Finding] = []
    memory = Memory(1 << 20)
    executor = Executor(memory, 1, ObjectCache(folder), time.perf_counter, findings.append, lambda text: None)
    executor.checks, executor.width = checks(["initcheck"]), width
    out, unset = (memory.allocate(256, MemoryKind.DEVICE) for _ in range(2))
    content = struct.pack("<QQII", out, unset, 7, 9)
    loaded = executor.load(KERNEL.replace("INSTRUCTION", instruction))
    launch = KernelLaunch(loaded, "use", content, (1, 1, 1), (1, 1, 1), 0, False)
    assert executor.launch(launch) is Ending.FINISHED
    return [finding.message for finding in findings]


WITHOUT_EFFECT = {
    "c of a video instruction that adds nothing": "vabsdiff4.u32.u32.u32 %r1, %x, %y, %u;",
    "c of one on halves that saturates": "vadd2.s32.s32.s32.sat %r1, %x, %y, %u;",
    "c of a comparison": "vset4.u32.u32.lt %r1, %x, %y, %u;",
    "c under a mask of all bytes": "vabsdiff4.u32.u32.u32 %r1.b3210, %x, %y, %u;",
    "bytes that no selector takes": "vadd4.u32.u32.u32 %r1, %x.b3210, %u.b3210, %y;",
    "bytes that prmt does not take": "prmt.b32 %r1, %x, %u, 0x3210;",
    "bits that bfi replaces": "bfi.b32 %r1, %x, %u, 0, 32;",
    "the value that selp does not choose": "selp.b32 %r1, %x, %u, %yes;",
    "the value that slct does not choose": "slct.u32.s32 %r1, %x, %u, %y;",
    "the other one": "slct.u32.s32 %r1, %u, %x, %minus;",
    "the one that slct does not choose by a float": "cvt.rn.f32.s32 %f, %y; slct.u32.f32 %r1, %x, %u, %f;",
    "a comparison and false": f"setp.lt.and.u32 %p, %u, %x, %no; {AS_NUMBER}",
    "a comparison or true": f"setp.lt.or.u32 %p|%q, %u, %x, %yes; {AS_NUMBER}",
    "a comparison of floats and false": (f"mov.b32 %f, %u; setp.lt.and.f32 %p, %f, 0f00000000, %no; {AS_NUMBER}"),
    "bits that and clears": "and.b32 %r1, %u, 0; or.b32 %r1, %r1, %x;",
}
WITH_EFFECT = {
    "c that is added": "vabsdiff4.u32.u32.u32.add %r1, %x, %y, %u;",
    "a source": "vabsdiff4.u32.u32.u32 %r1, %u, %y, %x;",
    "c of the bytes that a mask leaves": "vabsdiff4.u32.u32.u32 %r1.b0, %x, %y, %u;",
    "bytes that prmt takes": "prmt.b32 %r1, %x, %u, 0x3214;",
    "the order of prmt": "prmt.b32 %r1, %x, %y, %u;",
    "bits that bfi keeps": "bfi.b32 %r1, %x, %u, 0, 31;",
    "the value that selp chooses": "selp.b32 %r1, %x, %u, %no;",
    "the value that slct chooses": "slct.u32.s32 %r1, %x, %u, %minus;",
    "the sign that slct chooses by": "slct.u32.s32 %r1, %x, %y, %u;",
    "a comparison and true": f"setp.lt.and.u32 %p, %u, %x, %yes; {AS_NUMBER}",
    "a comparison or false": f"setp.lt.or.u32 %p|%q, %u, %x, %no; {AS_NUMBER}",
    "a comparison xor true": f"setp.lt.xor.u32 %p, %u, %x, %yes; {AS_NUMBER}",
    "the predicate of a comparison": (f"setp.lt.u32 %q, %u, %x; setp.lt.and.u32 %p, %x, %y, %q; {AS_NUMBER}"),
}


@pytest.mark.parametrize("width", [1, 16])
@pytest.mark.parametrize("instruction", WITHOUT_EFFECT.values(), ids=WITHOUT_EFFECT)
def test_a_value_that_cannot_affect_the_result_is_not_reported(
    tmp_path: Path, instruction: str, width: int
) -> None:
    assert messages(tmp_path, instruction, width) == []


@pytest.mark.parametrize("width", [1, 16])
@pytest.mark.parametrize("instruction", WITH_EFFECT.values(), ids=WITH_EFFECT)
def test_a_value_that_affects_the_result_is_reported_where_it_is_stored(
    tmp_path: Path, instruction: str, width: int
) -> None:
    (message,) = messages(tmp_path, instruction, width)
    assert message.startswith("stores a value computed with")
