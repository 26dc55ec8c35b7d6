"""``mbarrier``: counts, phases and parities, what waits, and what the checks say of a wait that is missing."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.executor import Executor, KernelLaunch
from kcheck.cpu.memory import Memory, MemoryKind
from kcheck.model import Finding
from kcheck.ptx.abi import Checks
from tests.isa.machines import DEVICE, ON_THE_DEVICE, Launch, Machine

THREADS = 96


def kernel(body: str, count: int = THREADS) -> str:
    """Thread 0 makes an object, %bar, for ``count`` arrivals; %t is the thread, %u its neighbor, %mine and %next
    their words in shared memory; %r0 is the thread's result."""
    return f"""
.version 8.7
.target sm_80
.address_size 64
.visible .entry meeting(.param .u64 in, .param .u64 out) {{
.shared .align 8 .b8 bar[8];
.shared .align 16 .b8 words[{16 * THREADS}];
.reg .pred %p<4>;
.reg .b32 %t, %u, %bar, %words, %mine, %next, %r<8>, %k;
.reg .b64 %in, %out, %state, %before, %wide;
mov.u32 %t, %tid.x;
add.u32 %u, %t, 1;
rem.u32 %u, %u, {THREADS};
ld.param.u64 %out, [out];
ld.param.u64 %in, [in];
mad.wide.u32 %out, %t, 4, %out;
mad.wide.u32 %in, %t, 16, %in;
mov.u32 %bar, bar;
mov.u32 %words, words;
mad.lo.u32 %mine, %t, 16, %words;
mad.lo.u32 %next, %u, 16, %words;
mov.u32 %r0, 0;
setp.ne.u32 %p0, %t, 0;
@%p0 bra READY;
mbarrier.init.shared.b64 [%bar], {count};
READY:
bar.sync 0;
{body}
st.global.b32 [%out], %r0;
ret;
}}
"""


def results(text: str, machine: Machine) -> list[int]:
    """The word of each thread."""
    given = b"".join(struct.pack("<4I", n, n, n, n) for n in range(THREADS))
    ran = machine.run(Launch(text, "meeting", (given, bytes(4 * THREADS)), 1, THREADS))
    assert ran.found == ()
    return list(struct.unpack(f"<{THREADS}I", ran.buffers[1]))


ARRIVE = "mbarrier.arrive.shared.b64 %state, [%bar];"


def waiting(test: str = "mbarrier.test_wait.shared.b64 %p1, [%bar], %state;", tag: str = "WAIT") -> str:
    """A loop that ends when the phase is complete."""
    return f"{tag}:\n{test}\n@!%p1 bra {tag};"


PUT, GET = "st.shared.b32 [%mine], %t;", "ld.shared.b32 %r0, [%next];"
WIDTHS = pytest.mark.parametrize("width", [1, 8, 32, ON_THE_DEVICE])


@WIDTHS
@pytest.mark.parametrize(
    "test",
    [
        "mbarrier.test_wait.shared.b64 %p1, [%bar], %state;",
        "mbarrier.test_wait.acquire.cta.shared::cta.b64 %p1, [%bar], %state;",
        "mbarrier.test_wait.parity.shared.b64 %p1, [%bar], 0;",
        "mbarrier.try_wait.parity.shared.b64 %p1, [%bar], 0, 1000;",
    ],
)
def test_a_wait_ends_when_all_have_arrived(test: str, width: int, machine: Callable[[int], Machine]) -> None:
    """What was stored before an arrival is there after the wait; threads wait without blocking those that come."""
    text = kernel(f"{PUT}\n{ARRIVE}\n{waiting(test)}\n{GET}")
    assert results(text, machine(width)) == [(n + 1) % THREADS for n in range(THREADS)]


@WIDTHS
def test_phases_follow_one_another(width: int, machine: Callable[[int], Machine]) -> None:
    """Ten rounds of a ring, with two waits in each; the parity of the phase alternates."""
    test = "mbarrier.test_wait.parity.shared.b64 %p1, [%bar], %r1;"
    body = f"""mov.u32 %k, 0;
mov.u32 %r1, 0;
mov.u32 %r0, %t;
ROUND:
st.shared.b32 [%mine], %r0;
{ARRIVE}
{waiting(test, "FULL")}
xor.b32 %r1, %r1, 1;
{GET}
{ARRIVE}
{waiting(test, "EMPTY")}
xor.b32 %r1, %r1, 1;
add.u32 %k, %k, 1;
setp.lt.u32 %p2, %k, 10;
@%p2 bra ROUND;"""
    assert results(kernel(body), machine(width)) == [(n + 10) % THREADS for n in range(THREADS)]


@WIDTHS
def test_counts_and_states(width: int, machine: Callable[[int], Machine]) -> None:
    """PTX ISA: a phase is complete when its count is 0; an arrival may count for several; the pending count is
    that before the arrival; a thread that drops out is not expected again."""
    body = """@%p0 bra DONE;
mbarrier.arrive.noComplete.shared.b64 %before, [%bar], 3;
mbarrier.pending_count.b64 %r1, %before;
mbarrier.arrive_drop.shared.b64 %state, [%bar];
mbarrier.pending_count.b64 %r2, %state;
mbarrier.test_wait.shared.b64 %p1, [%bar], %state;
selp.u32 %r3, 1, 0, %p1;
mbarrier.arrive.shared.b64 %state, [%bar];
mbarrier.test_wait.shared.b64 %p1, [%bar], %state;
selp.u32 %r4, 1, 0, %p1;
mbarrier.arrive.noComplete.shared.b64 %before, [%bar], 1;
mbarrier.pending_count.b64 %r5, %before;
mbarrier.test_wait.shared.b64 %p1, [%bar], %before;
selp.u32 %r6, 1, 0, %p1;
mad.lo.u32 %r0, %r1, 10, %r2;
mad.lo.u32 %r0, %r0, 10, %r3;
mad.lo.u32 %r0, %r0, 10, %r4;
mad.lo.u32 %r0, %r0, 10, %r5;
mad.lo.u32 %r0, %r0, 10, %r6;
DONE:"""
    # 5 expected, 3 come: 5 pending before; one drops: 2 before; not complete; the last: complete; 4 expected now
    assert results(kernel(body, 5), machine(width))[0] == 520140


@WIDTHS
@pytest.mark.parametrize("noinc", [True, False])
def test_copies_arrive_too(noinc: bool, width: int, machine: Callable[[int], Machine], tmp_path: Path) -> None:
    """``cp.async.mbarrier.arrive`` stands for the thread's copies: with ``.noinc`` it is one of the arrivals."""
    arrive = "cp.async.mbarrier.arrive.noinc.shared.b64 [%bar];"
    if not noinc:
        arrive = f"cp.async.mbarrier.arrive.shared.b64 [%bar];\n{ARRIVE}"
    wait = waiting("mbarrier.test_wait.parity.shared.b64 %p1, [%bar], 0;")
    text = kernel(f"cp.async.cg.shared.global [%mine], [%in], 16;\n{arrive}\n{wait}\n{GET}")
    assert results(text, machine(width)) == [(n + 1) % THREADS for n in range(THREADS)]
    if width != DEVICE:
        assert told(text, width, Checks(race=True, init=True), tmp_path) == []


def told(text: str, width: int, checks: Checks, folder: Path, limit: float | None = None) -> list[Finding]:
    """What a launch reports. ``limit``: seconds that it may take."""
    found: list[Finding] = []
    memory = Memory(64 << 20)
    executor = Executor(memory, 1, ObjectCache(folder), time.monotonic, found.append, lambda _: None)
    executor.width = width
    executor.checks = checks
    executor.limit = limit
    places = [memory.allocate(16 * THREADS, MemoryKind.DEVICE) for _ in range(2)]
    module = executor.load(text)
    executor.launch(
        KernelLaunch(module, "meeting", struct.pack("<QQ", *places), (1, 1, 1), (THREADS, 1, 1), 0, False)
    )
    return found


@pytest.mark.parametrize("width", [1, 32])
def test_the_wait_is_order_and_the_arrival_alone_is_not(width: int, tmp_path: Path) -> None:
    """racecheck: who has seen the phase complete comes after all that arrived in it."""
    race = Checks(race=True)
    assert told(kernel(f"{PUT}\n{ARRIVE}\n{waiting()}\n{GET}"), width, race, tmp_path) == []
    assert {f.rule for f in told(kernel(f"{PUT}\n{ARRIVE}\n{GET}"), width, race, tmp_path)} == {"racecheck"}
    late = kernel(f"{ARRIVE}\n{PUT}\n{waiting()}\n{GET}")
    assert {f.rule for f in told(late, width, race, tmp_path)} == {"racecheck"}


@pytest.mark.parametrize("width", [1, 32])
def test_an_object_must_be_made_first(width: int, tmp_path: Path) -> None:
    """racecheck wants a barrier after ``init``; to initcheck an object is uninitialized after ``inval``."""
    text = kernel(f"{ARRIVE}\n{waiting()}")
    unordered = text.replace("bar.sync 0;", "", 1)
    assert "racecheck" in {f.rule for f in told(unordered, width, Checks(race=True), tmp_path)}
    assert told(text, width, Checks(init=True), tmp_path) == []
    gone = kernel(f"{ARRIVE}\n{waiting()}\nbar.sync 0;\nmbarrier.inval.shared.b64 [%bar];\nbar.sync 0;\n{ARRIVE}")
    assert {f.rule for f in told(gone, width, Checks(init=True), tmp_path)} == {"initcheck", "synccheck"}


@pytest.mark.parametrize("width", [1, 32])
@pytest.mark.parametrize(
    ("count", "messages"), [(1, []), (2, ["arrives 2 times at an mbarrier whose phase waits for 1 more"])]
)
def test_more_arrivals_than_a_phase_waits_for_are_a_finding(
    count: int, messages: list[str], width: int, tmp_path: Path
) -> None:
    """synccheck, which is always on; thread 7 arrives last."""
    body = f"""setp.ne.u32 %p2, %t, 7;
@%p2 {ARRIVE}
bar.sync 0;
@!%p2 mbarrier.arrive.noComplete.shared.b64 %state, [%bar], {count};"""
    found = told(kernel(body), width, Checks(), tmp_path)
    assert [f.message for f in found] == messages
    assert {f.rule for f in found} <= {"synccheck"}


def test_an_arrival_at_no_object_is_a_finding(tmp_path: Path) -> None:
    """After ``inval``, without initcheck."""
    text = kernel(f"bar.sync 0;\nmbarrier.inval.shared.b64 [%bar];\nbar.sync 0;\n{ARRIVE}")
    messages = {f.message for f in told(text, 8, Checks(), tmp_path)}
    assert messages == {"arrives at an mbarrier that is not initialized"}


@pytest.mark.parametrize("width", [1, 8])
def test_a_wait_that_never_ends_is_stopped(width: int, tmp_path: Path) -> None:
    """One arrival is missing. The launch ends at its time limit, and the finding names a thread that waits."""
    text = kernel(f"{ARRIVE}\n{waiting()}", THREADS + 1)
    (finding,) = told(text, width, Checks(), tmp_path, limit=0.2)
    assert finding.rule == "timeout"
    assert finding.message == "the kernel was still running at the time limit"
