"""initcheck on matrix products that add to an accumulator which nothing has set."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.executor import Ending, Executor, KernelLaunch
from kcheck.cpu.memory import Memory, MemoryKind
from kcheck.cpu.sanitizers import checks
from kcheck.model import Finding

HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry multiply(.param .u64 out, .param .u32 steps)
{
    .reg .pred %p, %q; .reg .b32 %r<9>, %n; .reg .f32 %f<9>; .reg .b64 %out;
    ld.param.u64 %out, [out];
    ld.param.u32 %n, [steps];
    mov.b32 %r1, 0x3C003C00;
"""
SET = "    mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;\n"
COPIED = "    mov.f32 %f1, %f5; mov.f32 %f2, %f6; mov.f32 %f3, %f7; mov.f32 %f4, %f8;\n"
GUARDED = (
    "    setp.eq.u32 %q, %n, 1;\n"
    + "".join(f"    @%q mov.f32 %f{k}, 0f00000000;\n" for k in range(1, 5))
    + "".join(f"    @!%q mov.f32 %f{k}, 0f3F800000;\n" for k in range(1, 5))
)
PRODUCT = """LOOP:
    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
        {%f1, %f2, %f3, %f4}, {%r1, %r1, %r1, %r1}, {%r1, %r1}, {%f1, %f2, %f3, %f4};
    sub.u32 %n, %n, 1;
    setp.ne.u32 %p, %n, 0;
    @%p bra LOOP;
"""
STORE = "    st.global.f32 [%out], %f1;\n"
END = "    ret;\n}\n"
WMMA = """    wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32
        {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, {%n, %n}, {%n, %n}, {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8};
    wmma.store.d.sync.aligned.row.m16n16k16.global.s32 [%out], {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8};
"""


def found(folder: Path, text: str, width: int) -> list[Finding]:
    findings: list[Finding] = []
    memory = Memory(1 << 20)
    executor = Executor(memory, 1, ObjectCache(folder), time.perf_counter, findings.append, lambda text: None)
    executor.checks, executor.width = checks(["initcheck"]), width
    out = memory.allocate(1024, MemoryKind.DEVICE)
    content = out.to_bytes(8, "little") + (3).to_bytes(4, "little")
    launch = KernelLaunch(executor.load(text), "multiply", content, (1, 1, 1), (32, 1, 1), 0, False)
    assert executor.launch(launch) is Ending.FINISHED
    return findings


@pytest.mark.parametrize("width", [1, 8, 32])
@pytest.mark.parametrize("start", ["", COPIED], ids=["never set", "copied from what is never set"])
def test_a_product_that_adds_to_what_nothing_sets_is_found_at_the_store(
    tmp_path: Path, start: str, width: int
) -> None:
    (finding,) = found(tmp_path, HEAD + start + PRODUCT + STORE + END, width)
    assert (finding.rule, finding.severity) == ("initcheck", "error")
    assert finding.message == "stores a value computed with an uninitialized value"
    assert finding.fix == "set the accumulator of the matrix product first, as with wmma::fill_fragment()"


@pytest.mark.parametrize("width", [1, 32])
def test_an_accumulator_of_wmma_that_nothing_sets_is_reported(tmp_path: Path, width: int) -> None:
    text = HEAD.replace("    mov.b32 %r1, 0x3C003C00;\n", "") + WMMA + END
    assert {finding.rule for finding in found(tmp_path, text, width)} == {"initcheck"}
    zeros = "".join(f"    mov.b32 %r{k}, 0;\n" for k in range(1, 9))
    assert found(tmp_path, text.replace("    wmma.mma", zeros + "    wmma.mma"), width) == []


@pytest.mark.parametrize("width", [1, 8, 32])
@pytest.mark.parametrize("start", [SET, GUARDED], ids=["set", "set under either of two guards"])
def test_an_accumulator_that_is_set_is_not(tmp_path: Path, start: str, width: int) -> None:
    assert found(tmp_path, HEAD + start + PRODUCT + STORE + END, width) == []


def test_a_product_that_nothing_stores_is_not(tmp_path: Path) -> None:
    assert found(tmp_path, HEAD + PRODUCT + END, 32) == []
