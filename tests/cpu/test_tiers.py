"""Two tiers of machine code: what is quick to make at first, better code once it pays."""

from __future__ import annotations

import ctypes
import struct
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kcheck.cpu import kernel as compiled
from kcheck.cpu import tiers
from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.executor import Ending, Executor, KernelLaunch
from kcheck.cpu.memory import Kind, Memory
from kcheck.cpu.module import Module
from kcheck.cpu.tiers import CachedKernel
from kcheck.errors import InternalError
from kcheck.model import Finding
from kcheck.ptx.abi import Checks

# On AVX-512, LLVM's fast way to select instructions copies the call's mask from a register that it cannot copy.
MASKED = """declare <8 x i1> @admit(<8 x i64>, <8 x i1>)
declare void @llvm.masked.scatter.v8f32.v8p0(<8 x float>, <8 x ptr>, i32 immarg, <8 x i1>)
define void @store(i8 %mask, ptr %from, ptr %to) {
  %lanes = bitcast i8 %mask to <8 x i1>
  %x = load <8 x float>, ptr %from
  %open = fcmp uno <8 x float> %x, %x
  %bits = bitcast i32 2147483647 to float
  %one = insertelement <8 x float> poison, float %bits, i32 0
  %all = shufflevector <8 x float> %one, <8 x float> poison, <8 x i32> zeroinitializer
  %y = select <8 x i1> %open, <8 x float> %all, <8 x float> %x
  %where = load <8 x i64>, ptr %to
  %may = call <8 x i1> @admit(<8 x i64> %where, <8 x i1> %lanes)
  %places = inttoptr <8 x i64> %where to <8 x ptr>
  call void @llvm.masked.scatter.v8f32.v8p0(<8 x float> %y, <8 x ptr> %places, i32 4, <8 x i1> %may)
  ret void
}
"""

COUNT = 1 << 22
BLOCK = 64

# out[i] = sqrt(i) + i / 3
KERNEL = """.version 8.7
.target sm_80
.address_size 64
.visible .entry roots(.param .u64 out)
{
    .reg .b32 %r<5>; .reg .b64 %rd<4>; .reg .f32 %f<6>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.s32 %r4, %r1, %r2, %r3;
    cvt.rn.f32.u32 %f1, %r4;
    sqrt.rn.f32 %f2, %f1;
    mov.f32 %f3, 0f40400000;
    div.rn.f32 %f4, %f1, %f3;
    add.rn.f32 %f5, %f2, %f4;
    mul.wide.u32 %rd2, %r4, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.f32 [%rd3], %f5;
    ret;
}
"""


class Device:
    """An executor, and its only kernel."""

    def __init__(self, folder: Path) -> None:
        self.findings: list[Finding] = []
        self.memory = Memory(64 << 20)
        self.executor = Executor(
            self.memory, 2, ObjectCache(folder), time.perf_counter, self.findings.append, lambda _: None
        )
        self.module: Module = self.executor.load(KERNEL)
        self.base = self.memory.allocate(4 * COUNT, Kind.DEVICE)

    def launch(self, count: int) -> bytes:
        """What the kernel makes of so many elements."""
        ctypes.memset(self.base, 0xFF, 4 * count)
        params, grid = struct.pack("<Q", self.base), (count // BLOCK, 1, 1)
        launch = KernelLaunch(self.module, "roots", params, grid, (BLOCK, 1, 1), 0, cooperative=False)
        assert self.executor.launch(launch) is Ending.FINISHED
        assert self.findings == []
        return ctypes.string_at(self.base, 4 * count)

    @property
    def known(self) -> CachedKernel:
        """The kernel, as the next launch would find it."""
        return self.executor.kernels.find(
            self.module, "roots", (BLOCK, 1, 1), self.executor.width, Checks(), widens=True
        )


@pytest.fixture
def device(tmp_path: Path) -> Device:
    """A fresh device with an empty cache."""
    return Device(tmp_path)


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> Counter[bool]:
    """How many ranges of blocks ran in code of either tier; True: quick."""
    ranges: Counter[bool] = Counter()
    compile_kernel = tiers.compile_kernel

    def counting(*arguments: Any, **options: Any) -> compiled.Kernel:
        made = compile_kernel(*arguments, **options)

        def run(*where: int) -> int:
            ranges[options["quick"]] += 1
            return made.run(*where)

        return replace(made, run=run)

    monkeypatch.setattr(tiers, "compile_kernel", counting)
    return ranges


def test_the_first_launches_run_quick_code(device: Device) -> None:
    """A kernel that is launched once for a moment is worth no better code."""
    device.launch(BLOCK)
    assert 0 < device.known.left < device.known.kernel.tier_up_after < 5


def test_what_ran_for_as_long_as_better_code_takes_to_make_gets_it(device: Device) -> None:
    """Launches add up; the one after that runs better code, which is never replaced, and leaves the same bits."""
    first = device.launch(1000 * BLOCK)
    quick = device.known.kernel
    until = time.monotonic() + 60
    while device.known.kernel is quick:
        assert device.launch(1000 * BLOCK) == first
        assert time.monotonic() < until
    better = device.known
    assert better.left == float("inf")
    assert device.launch(1000 * BLOCK) == first
    assert device.known is better


def test_a_long_launch_goes_over_to_better_code(device: Device, launched: Counter[bool]) -> None:
    """Blocks begin in quick code and end in the better one; none is lost, and all leave the same bits."""
    other = device.known
    expected = device.launch(COUNT)
    launched.clear()
    other.kernel = replace(other.kernel, tier_up_after=other.spent)  # from the first moment of the next launch on
    for _ in range(20):
        assert device.launch(COUNT) == expected
        if launched[True] and launched[False]:
            return
        device.executor.kernels.known.clear()
        launched.clear()
        device.known.kernel = replace(device.known.kernel, tier_up_after=0.0)
    pytest.fail("no launch ran code of both tiers")


def test_no_better_code_is_made_near_a_time_limit(device: Device) -> None:
    """Whoever waits for a launch to be stopped does not wait for a compiler first."""
    device.launch(BLOCK)
    known = device.known
    known.kernel = replace(known.kernel, tier_up_after=1e9)
    known.spent = 1e9
    device.executor.limit = 1e6
    device.launch(COUNT)
    assert known.kernel.tier_up_after == 1e9


def test_better_code_may_be_asked_for_at_once(device: Device) -> None:
    """Whoever measures how fast kernels are wants no quick code; it leaves the same bits."""
    quick = device.launch(100 * BLOCK)
    device.executor.kernels.quick = False
    device.executor.kernels.known.clear()
    assert device.known.left == float("inf")
    assert device.launch(100 * BLOCK) == quick


def test_better_code_on_disk_is_used_at_once(device: Device, tmp_path: Path) -> None:
    """A second process takes the better code where the first one came to make it, and quick code where not."""
    device.launch(BLOCK)
    assert Device(tmp_path).known.left < float("inf")
    device.executor.kernels.improve(device.known, device.module)
    assert Device(tmp_path).known.left == float("inf")


def test_a_fault_while_better_code_is_made_ends_the_launch(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault of ours comes out as one, with no block still running; the next launch is right."""
    expected = device.launch(COUNT)
    known = device.known
    known.kernel = replace(known.kernel, tier_up_after=known.spent)

    def fail(*_: object, **__: object) -> None:
        raise InternalError("no better code")

    with monkeypatch.context() as patch:
        patch.setattr(tiers, "compile_kernel", fail)
        with pytest.raises(InternalError, match="no better code"):
            device.launch(COUNT)
    assert device.launch(COUNT) == expected


def test_masks_beside_calls_are_no_end_of_the_process() -> None:
    """LLVM makes quick code of what its fast way to select instructions fails at; it would end the process."""
    program = (
        "from llvmlite import binding; from kcheck.cpu import jit; machine = jit._machine(0);"
        f"machine.emit_object(binding.parse_assembly({MASKED!r}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
