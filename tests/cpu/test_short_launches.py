"""What is known to be short runs on the thread that launches, with every guarantee of the other launches."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import resource
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.executor import Ending, Executor, KernelLaunch
from kcheck.cpu.memory import Memory, MemoryKind
from kcheck.cpu.module import LoadedModule
from kcheck.cpu.scheduler import Scheduler, _RunningJob
from kcheck.cpu.tiers import CachedKernel, LaunchedAlone
from kcheck.model import Finding, Schedule
from kcheck.ptx.abi import Checks

HEAD = ".version 8.7\n.target sm_80\n.address_size 64\n"

# out[i] += n for the threads of one block; endless for n = 0; recurses n deep from n = 2^20 on
COUNT = (
    HEAD
    + """
.func (.param .b32 r) deeper(.param .b32 n)
{
    .reg .pred %p<2>; .reg .b32 %r<5>;
    ld.param.u32 %r1, [n];
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra DONE;
    sub.u32 %r2, %r1, 1;
    {
        .param .b32 a; .param .b32 b;
        st.param.b32 [a], %r2;
        call.uni (b), deeper, (a);
        ld.param.b32 %r3, [b];
    }
    add.u32 %r1, %r3, 1;
DONE:
    st.param.b32 [r], %r1;
    ret;
}

.visible .entry count(.param .u64 out, .param .u32 n)
{
    .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [n];
AGAIN:
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra AGAIN;
    setp.lt.u32 %p2, %r1, 1048576;
    @%p2 bra ADD;
    {
        .param .b32 a; .param .b32 b;
        st.param.b32 [a], %r1;
        call.uni (b), deeper, (a);
        ld.param.b32 %r1, [b];
    }
ADD:
    mov.u32 %r2, %tid.x;
    mul.wide.u32 %rd2, %r2, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.u32 %r3, [%rd3];
    add.u32 %r3, %r3, %r1;
    st.global.u32 [%rd3], %r3;
    ret;
}
"""
)


# out[block] += block + 1
NUMBER = (
    HEAD
    + """
.visible .entry number(.param .u64 out)
{
    .reg .b32 %r<4>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %ctaid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.u32 %r2, [%rd3];
    add.u32 %r3, %r2, %r1;
    add.u32 %r3, %r3, 1;
    st.global.u32 [%rd3], %r3;
    ret;
}
"""
)


class Counting:
    """A device, the kernel ``count``, and on which threads its launches ran.

    Args:
        repeats: a launch that differs from the last one only in its parameters is run by ``Executor.again``.
    """

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, processors: int = 2, *, repeats: bool = False
    ) -> None:
        self.repeats = repeats
        self.last: LaunchedAlone | None = None
        self.findings: list[Finding] = []
        self.memory = Memory(64 << 20)
        clock = time.perf_counter
        self.executor = Executor(
            self.memory, processors, ObjectCache(folder), clock, self.findings.append, lambda text: None
        )
        self.module: LoadedModule = self.executor.load(COUNT)
        self.out = self.memory.allocate(4 * 1024, MemoryKind.DEVICE)
        ctypes.memset(self.out, 0, 4 * 1024)
        self.here = 0

        def counted(scheduler: Scheduler, *arguments: object) -> object:
            done = run_here(scheduler, *arguments)
            self.here += done is not None
            return done

        run_here: Callable[..., object] = Scheduler.run_here
        monkeypatch.setattr(Scheduler, "run_here", counted)
        # once a launch is known it is short, however busy this machine is
        monkeypatch.setattr("kcheck.cpu.executor.SHORT_SECONDS", 60.0)

    def launch(self, n: int, block: int = 32, out: int | None = None) -> Ending:
        """Launch one block."""
        params = struct.pack("<QI", self.out if out is None else out, n)
        launch = KernelLaunch(self.module, "count", params, (1, 1, 1), (block, 1, 1), 0, False)
        if self.repeats and self.last is not None and self.last.launch.block == launch.block:
            ending = self.executor.again(self.last, params)
            if ending is not None:
                return ending
        ending = self.executor.launch(launch)
        self.last = self.executor.last
        return ending

    def learn(self, block: int = 32) -> None:
        """Launch until what is launched next runs on this thread."""
        assert self.launch(1, block) is Ending.FINISHED
        before = self.here
        assert self.launch(1, block) is Ending.FINISHED
        assert self.here == before + 1

    @property
    def known(self) -> CachedKernel:
        """The code of the last launch."""
        assert self.last is not None
        return self.last.known

    @property
    def counts(self) -> list[int]:
        return list((ctypes.c_uint32 * 1024).from_address(self.out))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One object cache for the module, so that the kernel is compiled once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(params=[False, True], ids=["launched", "again"])
def device(cache: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Counting:
    """A fresh device."""
    return Counting(cache, monkeypatch, repeats=request.param)


CHANGES: dict[str, Callable[[Counting], object]] = {
    "nothing": lambda device: None,
    "memory": lambda device: device.memory.allocate(64, MemoryKind.DEVICE),
    "checks": lambda device: setattr(device.executor, "checks", Checks(init=True)),
    "lends": lambda device: setattr(device.executor, "lends", Checks(init=True)),
    "schedule": lambda device: setattr(device.executor, "schedule", Schedule("reverse")),
    "recorded": lambda device: setattr(device.executor, "seen", []),
    "width": lambda device: setattr(device.executor, "width", 4),
    "another shape": lambda device: device.launch(1, 64),
    "code was discarded": lambda device: device.executor.kernels.known.clear(),
    "better code is due": lambda device: device.known.history.add_launch(1e9),
    "it became long": lambda device: setattr(device.known, "seconds", 1e9),
    "reset": lambda device: device.executor.reset(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_only_parameters_and_memory_may_change(cache: Path, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    """After any other change, a launch cannot be run again as the last one."""
    device = Counting(cache, monkeypatch)
    device.learn()
    last, before = device.last, device.counts[0]
    assert last is not None
    CHANGES[change](device)
    ending = device.executor.again(last, struct.pack("<QI", device.out, 5))
    assert ending is (Ending.FINISHED if change in ("nothing", "memory") else None)
    if ending is not None:
        assert device.counts[0] == before + 5


def test_launches_take_their_own_arguments(device: Counting) -> None:
    """A launch that reuses what the last one was made of has its own arguments, sizes and allocations."""
    device.learn()
    before = device.counts[0]
    for n, block in [(5, 32), (7, 32), (11, 64), (13, 32)]:
        assert device.launch(n, block) is Ending.FINISHED
    assert device.counts[0] == before + 36
    assert device.counts[32] == 11
    assert device.counts[64] == 0
    other = device.memory.allocate(128, MemoryKind.DEVICE)
    assert device.launch(1, 32, other) is Ending.FINISHED
    device.memory.free(other)
    assert device.launch(1, 32, other) is Ending.ILLEGAL_ADDRESS
    assert "that was freed" in device.findings[-1].message


def test_a_reused_launch_defines_what_it_writes(device: Counting) -> None:
    """Code without initcheck does not track its writes, so any launch of it marks all memory as initialized, also
    one that reuses the previous launch."""
    device.executor.checks = Checks(init=True)
    device.executor.checks = Checks()
    device.learn()
    fresh = device.memory.allocate(128, MemoryKind.DEVICE)
    device.memory.undefine(fresh, 128)
    assert device.launch(1, 32, fresh) is Ending.FINISHED
    _, _, distance = device.memory.shadow
    assert ctypes.string_at(fresh + distance, 128) == bytes(128)


def test_faults_are_those_of_their_own_launch(device: Counting) -> None:
    """Each faulting launch has the same findings, a load and a store, and the one after it is clean."""
    device.learn()
    for _ in range(3):
        assert device.launch(1, 32, 8) is Ending.ILLEGAL_ADDRESS
        assert [finding.message.split()[0] for finding in device.findings] == ["reads", "writes"]
        device.findings.clear()
        assert device.launch(1) is Ending.FINISHED
        assert device.findings == []


def test_after_a_reset(device: Counting) -> None:
    """Once the device was reset, nothing of the launches before is left."""
    device.learn()
    device.executor.reset()
    assert device.launch(1) is Ending.ILLEGAL_ADDRESS
    device.out = device.memory.allocate(4096, MemoryKind.DEVICE)
    assert device.launch(1) is Ending.FINISHED


@pytest.mark.parametrize("main", [True, False])
def test_a_launch_that_never_ends_after_all_is_stopped(device: Counting, main: bool) -> None:
    """At the time limit it ends, whichever thread launched it, and short ones run as before."""
    device.learn()
    device.executor.limit = 0.3
    endings: list[Ending] = []
    begun, here = time.perf_counter(), device.here

    def astray() -> None:
        endings.append(device.launch(0))

    if main:
        astray()
    else:
        thread = threading.Thread(target=astray)
        thread.start()
        thread.join()
    assert device.here == here + 1
    assert 0.3 <= time.perf_counter() - begun < 5
    assert endings == [Ending.TIMED_OUT]
    assert [finding.rule for finding in device.findings] == ["timeout"]
    assert device.launch(1) is Ending.FINISHED


@pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 2048, reason="few files may be open")
def test_in_a_program_with_many_open_files(device: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    """File descriptors beyond 1023, which select() does not take, and none at all: launches end at their limit."""

    def high() -> tuple[int, int]:
        low = pipe()
        made = [fcntl.fcntl(end, fcntl.F_DUPFD, 1500) for end in low]
        for end in low:
            os.close(end)
        return made[0], made[1]

    def none() -> tuple[int, int]:
        raise OSError(errno.EMFILE, "too many open files")

    pipe = os.pipe
    monkeypatch.setattr(os, "pipe", none)
    assert [device.launch(1) for _ in range(3)] == [Ending.FINISHED] * 3
    assert device.here == 0
    monkeypatch.setattr(os, "pipe", high)
    device.learn()
    device.executor.limit = 0.3
    assert device.launch(0) is Ending.TIMED_OUT
    assert device.here == 3


def test_the_limit_of_one_launch_is_not_the_next_ones(device: Counting) -> None:
    """Many short launches, longer together than the limit, and none is stopped."""
    device.learn()
    device.executor.limit = 0.1
    begun = time.perf_counter()
    while time.perf_counter() - begun < 0.4:
        assert device.launch(1) is Ending.FINISHED


def test_deep_recursion_on_a_thread_with_a_small_stack(device: Counting) -> None:
    """What a kernel has for its stack does not depend on the thread that launches it: 64 MB, then a finding."""
    device.learn()
    before = threading.stack_size(256 << 10)
    endings: list[Ending] = []
    try:
        thread = threading.Thread(target=lambda: endings.append(device.launch(1 << 20)))
        here = device.here
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert device.here == here + 1
    assert endings == [Ending.STACK_OVERFLOW]
    assert device.launch(1) is Ending.FINISHED


def test_several_threads_launch_at_once(device: Counting) -> None:
    """No launch of theirs is lost, done twice or given another's arguments."""
    for block in (32, 64):
        device.learn(block)
    before = device.counts

    def launches(block: int) -> None:
        for _ in range(300):
            assert device.launch(1, block) is Ending.FINISHED

    threads = [threading.Thread(target=launches, args=(block,)) for block in (32, 64, 32, 64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [after - n for after, n in zip(device.counts, before, strict=True)]
    assert found[:64] == [1200] * 32 + [600] * 32


def test_what_is_known_to_be_long_all_threads_begin(device: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every block of a long launch runs once, whoever joined when. One thread begins until several are known to be
    faster."""
    alone: list[bool] = []
    start = _RunningJob.start

    def started(run: _RunningJob, with_all: bool) -> None:
        alone.append(not with_all)
        start(run, with_all)

    monkeypatch.setattr(_RunningJob, "start", started)
    monkeypatch.setattr("kcheck.cpu.executor.SHORT_SECONDS", 0.0)
    monkeypatch.setattr("kcheck.cpu.executor.LONG_SECONDS", 0.0)
    blocks = 3000
    base = device.memory.allocate(4 * blocks, MemoryKind.DEVICE)
    module = device.executor.load(NUMBER)
    params = struct.pack("<Q", base)
    launch = KernelLaunch(module, "number", params, (blocks, 1, 1), (1, 1, 1), 0, False)
    for _ in range(5):
        ctypes.memset(base, 0, 4 * blocks)
        assert device.executor.launch(launch) is Ending.FINISHED
        assert list((ctypes.c_uint32 * blocks).from_address(base)) == [n + 1 for n in range(blocks)]
        (known,) = device.executor.kernels.known[module].values()
        known.scales = True
    assert alone == [True, False, False, False, False]


@pytest.mark.parametrize(
    ("processors", "scales", "seconds", "is_here"),
    [
        (2, None, 0.9, True),
        (2, None, 1.1, False),
        (2, True, 1.1, False),
        (2, False, 9.0, True),
        (1, None, 9.0, True),
        (1, None, 11.0, False),
    ],
)
def test_where_a_launch_runs(
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    processors: int,
    scales: bool | None,
    seconds: float,
    is_here: bool,
) -> None:
    """A launch that no other thread will join runs on the launching thread even if it is ten times as long."""
    device = Counting(cache, monkeypatch, processors)
    device.learn()
    (known,) = device.executor.kernels.known[device.module].values()
    known.seconds, known.scales = 60.0 * seconds, scales
    before = device.here
    assert device.launch(1) is Ending.FINISHED
    assert device.here - before == is_here


def test_several_threads_are_tried_again_after_a_while(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They were slower once: another program may have been running."""
    monkeypatch.setattr("kcheck.cpu.tiers.RETRY", 3)
    device = Counting(cache, monkeypatch, 2)
    device.learn()
    (known,) = device.executor.kernels.known[device.module].values()
    known.scales, found = False, []
    for _ in range(3):
        known.seconds = 1e-4
        assert device.launch(1) is Ending.FINISHED
        found.append(known.scales)
    assert found == [False, False, None]
