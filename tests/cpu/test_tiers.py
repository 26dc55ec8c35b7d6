"""Two tiers of machine code: what is quick to make at first, better code once it pays."""

from __future__ import annotations

import ctypes
import math
import struct
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from llvmlite import binding

from kcheck.cpu import jit, tiers
from kcheck.cpu import kernel as compiled
from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.completion import Completion
from kcheck.cpu.contest import TURNS
from kcheck.cpu.executor import Ending, Executor, KernelLaunch
from kcheck.cpu.history import save_all
from kcheck.cpu.kernel import Tier
from kcheck.cpu.memory import Memory, MemoryKind
from kcheck.cpu.module import LoadedModule
from kcheck.cpu.needless_checks import CheckChooser, NeededChecks
from kcheck.cpu.scheduler import Job, Scheduler
from kcheck.cpu.tiers import CachedKernel, CodeOptions
from kcheck.errors import InternalError
from kcheck.model import NATURAL, Finding, Index3, Schedule
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

LOOP = """define i32 @sum(ptr %p, i32 %n) {
entry: br label %loop
loop:
  %i = phi i32 [0, %entry], [%j, %loop]
  %s = phi i32 [0, %entry], [%t, %loop]
  %q = getelementptr i32, ptr %p, i32 %i
  %v = load i32, ptr %q
  %t = add i32 %s, %v
  %j = add i32 %i, 1
  %c = icmp ult i32 %j, %n
  br i1 %c, label %loop, label %end
end: ret i32 %t
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
    """An executor, and its only kernel. Time passes only when a test sets ``now``, in seconds."""

    def __init__(self, folder: Path) -> None:
        self.now = 0.0
        self.findings: list[Finding] = []
        self.memory = Memory(64 << 20)
        self.executor = Executor(
            self.memory, 2, ObjectCache(folder), lambda: self.now, self.findings.append, lambda _: None
        )
        self.module: LoadedModule = self.executor.load(KERNEL)
        self.base = self.memory.allocate(4 * COUNT, MemoryKind.DEVICE)

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
        options = CodeOptions(self.executor.width, Checks(), adapts=True, any_axis=True)
        return self.executor.kernels.find(self.module, "roots", (BLOCK, 1, 1), options)


@pytest.mark.parametrize(
    ("schedule", "checks", "any_axis"),
    [
        (NATURAL, Checks(), True),
        (NATURAL, Checks(race=True), False),
        (NATURAL, Checks(init=True), False),
        (NATURAL, Checks(overflow=True), False),
        (NATURAL, Checks(cover=True), True),
        (Schedule("reverse"), Checks(), False),
    ],
)
def test_sanitizers_and_orders_of_threads_follow_warps(
    device: Device, schedule: Schedule, checks: Checks, any_axis: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only code that looks for nothing, in the natural order, may have vectors along another axis than x."""
    asked: list[CodeOptions] = []
    monkeypatch.setattr(device.executor.kernels, "find", lambda module, entry, block, code, _: asked.append(code))
    monkeypatch.setattr(CheckChooser, "expected", lambda _, given, use: NeededChecks(given))
    device.executor.schedule, device.executor.checks = schedule, checks
    device.executor.compile(device.module, "roots")
    assert [code.any_axis for code in asked] == [any_axis]


@pytest.mark.parametrize(
    ("block", "checks", "adapts", "width"),
    [
        ((64, 1, 1), Checks(), True, 16),
        ((16, 16, 1), Checks(), True, 16),
        ((8, 8, 8), Checks(), True, 8),
        ((12, 12, 1), Checks(), True, 4),
        ((10, 10, 1), Checks(), True, 2),
        ((7, 7, 1), Checks(), True, 16),
        ((8, 8, 8), Checks(race=True), True, 8),
        ((10, 10, 1), Checks(race=True), True, 16),
        ((8, 8, 8), Checks(), False, 16),
    ],
)
def test_vectors_are_no_wider_than_rows_that_divide_them(
    device: Device, block: Index3, checks: Checks, adapts: bool, width: int
) -> None:
    """The threads of a vector are then neighbors, down to two of them, or four with sanitizers."""
    options = CodeOptions(16, checks, adapts, any_axis=True)
    assert device.executor.kernels.variant(device.module, "roots", block, options).width == width


@pytest.fixture
def device(tmp_path: Path) -> Device:
    """A fresh device with an empty cache."""
    return Device(tmp_path)


@dataclass
class Tiers:
    """The machine code that ran.

    Attributes:
        ranges: how many ranges of blocks ran in code of either tier; True: quick.
        after_quick, after_better: called on the worker after each range that ran in such code.
        at_compilation: called when a kernel is compiled.
    """

    ranges: Counter[bool] = field(default_factory=Counter)
    after_quick: Callable[[], None] = lambda: None
    after_better: Callable[[], None] = lambda: None
    at_compilation: Callable[[], None] = lambda: None


@pytest.fixture
def tiers_run(monkeypatch: pytest.MonkeyPatch) -> Tiers:
    """The code that runs, counted."""
    seen = Tiers()
    compile_kernel, stored_kernel = tiers.compile_kernel, tiers.stored_kernel

    def counting(made: compiled.Kernel) -> compiled.Kernel:
        is_quick = made.tier is not Tier.BETTER

        def run(*where: int) -> int:
            seen.ranges[is_quick] += 1
            status = made.run(*where)
            (seen.after_quick if is_quick else seen.after_better)()
            return status

        return replace(made, run=run)

    def compile_counted(*arguments: Any) -> compiled.Kernel:
        seen.at_compilation()
        return counting(compile_kernel(*arguments))

    def stored_counted(*arguments: Any) -> compiled.Kernel | None:
        made = stored_kernel(*arguments)
        return None if made is None else counting(made)

    monkeypatch.setattr(tiers, "compile_kernel", compile_counted)
    monkeypatch.setattr(tiers, "stored_kernel", stored_counted)
    return seen


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """The jobs that the scheduler was given, in order."""
    given: list[Job] = []
    run = Scheduler.run

    def noting(self: Scheduler, job: Job, *arguments: Any, **options: Any) -> Completion:
        given.append(job)
        return run(self, job, *arguments, **options)

    monkeypatch.setattr(Scheduler, "run", noting)
    return given


def test_the_first_launches_run_quick_code(device: Device, tiers_run: Tiers) -> None:
    """A kernel that is launched once for a moment is worth no better code."""
    spent = device.known.left / 4

    def pass_time() -> None:
        device.now += spent

    tiers_run.after_quick = pass_time
    device.launch(BLOCK)
    assert device.known.left == pytest.approx(3 * spent)
    assert tiers_run.ranges == {True: 1}


@pytest.mark.parametrize(
    ("count", "registers"), [(BLOCK, False), (1 << 12, False), (1 << 13, True), (1 << 20, True)]
)
def test_quick_code_for_many_threads_keeps_values_in_registers(
    device: Device, count: int, registers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first launch of a kernel decides; the next ones, of any size, run the same code."""
    compile_ir, asked = compiled.compile_ir, []

    def noting(ir: str, width: int, *, quick: bool, registers: bool = False) -> bytes:
        asked.append((quick, registers))
        return compile_ir(ir, width, quick=quick, registers=registers)

    monkeypatch.setattr(compiled, "_compiled_scheduler", lambda variant, quick: b"")
    monkeypatch.setattr(compiled, "LoadedCode", lambda *_: (_ for _ in ()).throw(InternalError("compiled")))
    monkeypatch.setattr(compiled, "compile_ir", noting)
    with pytest.raises(InternalError, match="compiled"):
        device.launch(count)
    assert set(asked) == {(True, registers)}


def test_each_quick_code_leaves_the_bits_of_the_better_one(tmp_path: Path) -> None:
    """With values in registers or stored between blocks of code, each from its own cache entry."""
    results, codes = [], set()
    for count in (BLOCK, 1 << 16):
        device = Device(tmp_path)
        device.launch(count)
        results.append(device.launch(BLOCK))
        codes.add(device.known.kernel.compile_seconds)
    device.executor.kernels.improve(device.known, device.module)
    results.append(device.launch(BLOCK))
    assert len(codes) == 2
    assert len(set(results)) == 1


def test_values_that_live_across_many_blocks_do_not_multiply_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop whose body is in 30 blocks, any of which may follow the first, with 30 values."""
    count = range(30)
    text = "define void @f(ptr %p, i32 %n) {\nentry:\n"
    text += "".join(f"%v{k} = alloca i32\nstore i32 {k}, ptr %v{k}\n" for k in count) + "br label %head\nhead:\n"
    text += "%to = load i32, ptr %p\nswitch i32 %to, label %end ["
    text += " ".join(f"i32 {k}, label %b{k}" for k in count) + "]\n"
    for k in count:
        text += f"b{k}:\n%x{k} = load i32, ptr %v{k}\n%y{k} = add i32 %x{k}, %n\nstore i32 %y{k}, ptr %v{k}\n"
        text += f"store volatile i32 %y{k}, ptr %p\n"
        text += f"br label %{f'b{k + 1}' if k + 1 in count else 'head'}\n"
    text += "end:\nret void\n}\n"
    before = len(jit.compile_ir(text, 8, quick=True))
    monkeypatch.setattr(jit, "VERY_LARGE_MODULE", 0)
    assert len(jit.compile_ir(text, 8, quick=True)) < before / 2


def test_code_without_register_allocation_does_not_change_what_is_compiled_after_it() -> None:
    """The option is LLVM's for the whole process: it is on again when the compiler is left."""
    first = jit.compile_ir(LOOP, 1, quick=True, registers=True)
    stored = jit.compile_ir(LOOP, 1, quick=True)
    assert stored != first
    assert jit._machine(0).emit_object(binding.parse_assembly(LOOP)) == first
    large = f"{LOOP}; {'x' * jit.LARGE_MODULE}"
    assert jit.compile_ir(large, 1, quick=True, registers=True) == stored


@pytest.mark.parametrize(
    ("name", "value", "looked_up"),
    [
        ("deadline", 1e9, 0),
        ("schedule", Schedule("reverse", 1), 1),
        ("checks", Checks(race=True), 1),
        ("lends", Checks(race=True), 1),
        ("width", 8, 1),
    ],
)
def test_a_launch_that_differs_in_its_parameters_only_finds_its_code_at_once(
    device: Device, monkeypatch: pytest.MonkeyPatch, name: str, value: object, looked_up: int
) -> None:
    """What decides which code runs makes the next launch look it up again."""
    device.launch(BLOCK)
    lookups: list[object] = []
    variant = device.executor.kernels.variant
    monkeypatch.setattr(
        device.executor.kernels, "variant", lambda *given: lookups.append(given) or variant(*given)
    )
    expected = device.launch(BLOCK)
    assert not lookups
    setattr(device.executor, name, value)
    assert device.launch(BLOCK) == expected
    assert bool(lookups) == bool(looked_up)


def test_kernels_that_were_forgotten_are_compiled_again(device: Device, tiers_run: Tiers) -> None:
    """Also the one of the last launch."""
    device.launch(BLOCK)
    compiled_before = device.known
    device.executor.kernels.known.clear()
    device.launch(BLOCK)
    assert device.known is not compiled_before


def passing(device: Device, seconds: float) -> Callable[[], None]:
    """Lets time pass."""

    def pass_time() -> None:
        device.now += seconds

    return pass_time


def test_what_ran_for_five_times_as_long_as_its_compilations_gets_better_code(
    device: Device, tiers_run: Tiers
) -> None:
    """Launches add up; the one after that runs better code, which is never replaced, and leaves the same bits."""
    quick = device.known.kernel
    tiers_run.after_quick = passing(device, 0.6 * device.known.left)
    first = device.launch(BLOCK)
    assert device.known.kernel is quick
    assert device.launch(BLOCK) == first
    assert tiers_run.ranges == {True: 2}
    better = device.known
    assert better.kernel is not quick
    assert better.left == float("inf")
    assert device.launch(BLOCK) == first
    assert tiers_run.ranges[True] == 2
    assert device.known is better


def test_the_time_of_earlier_processes_counts(tmp_path: Path, tiers_run: Tiers) -> None:
    """Each process alone runs the kernel too briefly; together they run it long enough."""
    seconds = 0.6 * Device(tmp_path).known.left
    for is_second in (False, True):
        device = Device(tmp_path)
        tiers_run.after_quick = passing(device, seconds)
        device.launch(BLOCK)
        assert (device.known.kernel.tier is Tier.BETTER) == is_second
        save_all(device.executor.kernels._histories.values())  # as at the end of a process


def test_the_time_that_compilers_took_postpones_better_code(device: Device, tiers_run: Tiers) -> None:
    """All compilations of a kernel together stay below a share of the time that it has run."""
    tiers_run.at_compilation = passing(device, 8.0)
    expected = (8.0 + device.known.kernel.compile_seconds) / tiers.COMPILE_SHARE
    assert device.known.left == pytest.approx(expected)


def race(device: Device, run: Tiers, quick: float, better: float) -> list[Tier]:
    """The code of each of 20 launches, the last before better code is due and those after it, which take these
    seconds in either."""
    run.after_quick, run.after_better = passing(device, quick), passing(device, better)
    if (left := device.known.left) < math.inf:
        device.known.history.add_launch(left - quick / 2)
    found = []
    for _ in range(20):
        before = run.ranges[True]
        device.launch(BLOCK)
        found.append(Tier.QUICK if run.ranges[True] > before else Tier.BETTER)
    return found


@pytest.mark.parametrize(
    ("quick", "better", "stays", "turns_of_quick"),
    [
        (1.0, 1.3, Tier.QUICK, 5),
        (1.0, 9.0, Tier.QUICK, 2),
        (1.0, 0.9, Tier.BETTER, 5),
        (1.0, 0.3, Tier.BETTER, 0),
    ],
)
def test_the_faster_code_stays(
    device: Device, tmp_path: Path, tiers_run: Tiers, quick: float, better: float, stays: Tier, turns_of_quick: int
) -> None:
    """Both run in turn until one is faster, sooner if the difference is clear; a second process knows which."""
    found = race(device, tiers_run, quick, better)
    settled = found[2 * TURNS + 1 :]
    assert set(settled) == {stays}
    assert found[: -len(settled)].count(Tier.QUICK) >= 1 + turns_of_quick
    if stays is Tier.BETTER:
        assert found.count(Tier.QUICK) == 1 + turns_of_quick
    again = Device(tmp_path)
    assert set(race(again, tiers_run, quick, better)) == {stays}


def test_a_process_that_finds_better_code_compares_it_with_quick_code(tmp_path: Path, tiers_run: Tiers) -> None:
    """An earlier process compiled both, and ended before it compared them."""
    first = Device(tmp_path)
    first.launch(BLOCK)
    first.executor.kernels.improve(first.known, first.module)
    found = race(Device(tmp_path), tiers_run, 1.0, 1.2)
    assert found[:2] == [Tier.BETTER, Tier.QUICK]
    assert set(found[10:]) == {Tier.QUICK}


def test_launches_of_other_sizes_have_a_choice_of_their_own(device: Device, tiers_run: Tiers) -> None:
    """Small launches are faster in quick code, large ones in better code."""
    race(device, tiers_run, 1.0, 1.3)
    tiers_run.after_better = passing(device, 0.1)
    tiers_run.ranges.clear()
    for _ in range(20):
        device.launch(64 * BLOCK)
    assert tiers_run.ranges[False] > 10
    tiers_run.ranges.clear()
    device.launch(BLOCK)
    assert tiers_run.ranges == {True: 1}


def test_a_long_launch_goes_over_to_better_code(device: Device, tiers_run: Tiers, jobs: list[Job]) -> None:
    """Blocks begin in quick code and end in the better one; none is lost, and all leave the same bits."""
    known, switched = device.known, threading.Event()
    expected = device.launch(COUNT)
    known.history.add_launch(known.left)  # better code pays off from the next launch on
    known.seconds = 1.0
    tiers_run.ranges.clear()

    def wait_for_better() -> None:
        while jobs[-1].kernel.tier is not Tier.BETTER and not jobs[-1].launch.stop:
            switched.wait(0.001)

    tiers_run.after_quick = wait_for_better
    assert device.launch(COUNT) == expected
    assert 1 <= tiers_run.ranges[True] <= 2  # at most one range per worker began before the switch
    assert tiers_run.ranges[False] > 0


def test_no_better_code_is_made_near_a_time_limit(device: Device) -> None:
    """Whoever waits for a launch to be stopped does not wait for a compiler first."""
    device.launch(BLOCK)
    known = device.known
    known.kernel = replace(known.kernel, compile_seconds=1e9)
    known.history.add_launch(known.left)
    device.executor.limit = 1e6
    device.launch(COUNT)
    assert known.kernel.tier is Tier.QUICK


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
    known.history.add_launch(known.left)
    known.seconds = 1.0

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
