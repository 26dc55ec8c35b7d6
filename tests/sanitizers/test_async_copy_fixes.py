"""What racecheck says of asynchronous copies that other threads read too early: the wait, and the barrier."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.executor import Ending, Executor, KernelLaunch
from kcheck.cpu.memory import Memory, MemoryKind
from kcheck.cpu.sanitizers import checks
from kcheck.model import Finding

# Each thread copies a word, and reads that of a thread of the other warp.
KERNEL = """.version 8.0
.target sm_80
.address_size 64
.visible .entry exchange(.param .u64 x)
{
    .reg .b32 %t, %s, %o, %v; .reg .b64 %x, %a;
    .shared .align 16 .b32 tile[64];
    ld.param.u64 %x, [x];
    mov.u32 %t, %tid.x;
    mul.wide.u32 %a, %t, 4;
    add.u64 %a, %x, %a;
    mov.u32 %s, tile;
    shl.b32 %o, %t, 2;
    add.u32 %o, %o, %s;
    cp.async.ca.shared.global [%o], [%a], 4;
WAIT    xor.b32 %o, %t, 32;
    shl.b32 %o, %o, 2;
    add.u32 %o, %o, %s;
    ld.shared.b32 %v, [%o];
    st.global.b32 [%a], %v;
    ret;
}
"""
WAIT, BARRIER = "    cp.async.wait_all;\n", "    bar.sync 0;\n"


def found(folder: Path, wait: str) -> list[Finding]:
    findings: list[Finding] = []
    memory = Memory(1 << 20)
    executor = Executor(memory, 1, ObjectCache(folder), time.perf_counter, findings.append, lambda text: None)
    executor.checks = checks(["racecheck"])
    content = memory.allocate(256, MemoryKind.DEVICE).to_bytes(8, "little")
    module = executor.load(KERNEL.replace("WAIT", wait))
    launch = KernelLaunch(module, "exchange", content, (1, 1, 1), (64, 1, 1), 0, False)
    assert executor.launch(launch) is Ending.FINISHED
    return findings


@pytest.mark.parametrize("wait", ["", WAIT], ids=["no wait", "no barrier"])
def test_a_copy_that_another_thread_reads_needs_a_wait_and_a_barrier(tmp_path: Path, wait: str) -> None:
    messages = {finding.fix for finding in found(tmp_path, wait) if "no synchronization" in finding.message}
    assert messages == {
        "wait for the copy with cp.async.wait_group, and put cuda.syncthreads() between the copy and the read"
    }


def test_with_both_there_is_no_race(tmp_path: Path) -> None:
    assert found(tmp_path, WAIT + BARRIER) == []
