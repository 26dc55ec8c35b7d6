"""Launches that need no checks in code that has them, while other code is not worth its compilation."""

from __future__ import annotations

import ctypes
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.executor import Ending, Executor, KernelLaunch
from kcheck.cpu.memory import Memory, MemoryKind
from kcheck.cpu.tiers import CachedKernel
from kcheck.model import Finding, Schedule
from kcheck.ptx.abi import Checks

ALL = Checks(race=True, init=True, overflow=True)
THREADS = 64

# out[i] = i; out[64] = i, by every thread
KERNEL = """.version 8.7
.target sm_80
.address_size 64
.visible .entry race(.param .u64 out)
{
    .reg .b32 %r<2>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r1;
    st.global.u32 [%rd1+256], %r1;
    ret;
}
"""


class Device:
    """An executor that may lend code, and its only kernel. The clock stands still unless a test sets ``now``."""

    def __init__(self, folder: Path) -> None:
        self.now = 0.0
        self.findings: list[Finding] = []
        memory = Memory(64 << 20)
        self.executor = Executor(
            memory, 1, ObjectCache(folder), lambda: self.now, self.findings.append, lambda _: None
        )
        self.executor.lends = ALL
        self.module = self.executor.load(KERNEL)
        self.base = memory.allocate(4 * (THREADS + 1), MemoryKind.DEVICE)

    def launch(self, checks: Checks) -> tuple[int, ...]:
        """What the kernel writes."""
        ctypes.memset(self.base, 0xFF, 4 * (THREADS + 1))
        self.executor.checks = checks
        self.executor.memory.undefine(self.base, 4 * (THREADS + 1))
        self.findings.clear()
        params = struct.pack("<Q", self.base)
        launch = KernelLaunch(self.module, "race", params, (1, 1, 1), (THREADS, 1, 1), 0, cooperative=False)
        assert self.executor.launch(launch) is Ending.FINISHED
        return struct.unpack(f"{THREADS + 1}i", ctypes.string_at(self.base, 4 * (THREADS + 1)))

    @property
    def compiled(self) -> dict[Checks, CachedKernel]:
        return {variant.checks: kernel for variant, kernel in self.executor.kernels.known[self.module].items()}


@pytest.fixture
def device(tmp_path: Path) -> Device:
    return Device(tmp_path)


def test_a_launch_without_checks_uses_code_with_checks_that_is_compiled(device: Device) -> None:
    checked = device.launch(ALL)
    assert device.launch(Checks()) == checked
    assert set(device.compiled) == {ALL}


def test_what_only_the_checks_of_lent_code_find_is_not_reported(device: Device) -> None:
    device.launch(ALL)
    assert {finding.rule for finding in device.findings} == {"racecheck"}
    device.launch(Checks())
    assert device.findings == []


def test_lent_code_runs_in_other_orders_of_threads(device: Device) -> None:
    """So that repeats of a launch find values that depend on the order."""
    natural = device.launch(ALL)
    device.executor.schedule = Schedule("reverse")
    reverse = device.launch(Checks())
    assert set(device.compiled) == {ALL}
    assert natural[:THREADS] == reverse[:THREADS] == tuple(range(THREADS))
    assert natural[THREADS] != reverse[THREADS]


def test_code_without_checks_is_compiled_when_launches_have_taken_as_long(device: Device) -> None:
    checked = device.launch(ALL)
    device.launch(Checks())
    lent = device.compiled[ALL]
    lent.lent = lent.kernel.compile_seconds
    assert device.launch(Checks()) == checked
    assert set(device.compiled) == {ALL, Checks()}
    lent.lent = 0.0
    device.launch(Checks())
    assert lent.lent == 0.0  # code without checks is there, and runs


def test_a_long_launch_is_not_run_in_lent_code(device: Device) -> None:
    device.launch(ALL)
    device.compiled[ALL].seconds = 1e9
    device.launch(Checks())
    assert set(device.compiled) == {ALL, Checks()}


def test_nothing_is_lent_unless_asked(device: Device) -> None:
    """A benchmark compares code with checks with code without."""
    device.executor.lends = Checks()
    device.launch(ALL)
    device.launch(Checks())
    assert set(device.compiled) == {ALL, Checks()}


def test_other_checks_are_not_taken_for_those_that_lend(device: Device) -> None:
    device.executor.lends = replace(ALL, overflow=False)
    device.launch(ALL)
    device.launch(Checks())
    assert set(device.compiled) == {ALL, Checks()}
