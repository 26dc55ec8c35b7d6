"""``cp.async``: what is copied, when it is there, and what the checks say of a copy that nobody waited for."""

from __future__ import annotations

import random
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
from kcheck.ptx.compile import lower
from kcheck.ptx.syntax.parser import parse
from tests.isa.machines import DEVICE, ON_THE_DEVICE, Cpu, Launch, Machine

THREADS = 64
CELL = 16  # bytes of a thread's cell in shared memory
COMMIT, WAIT = "cp.async.commit_group;", "cp.async.wait_group 0;"
FILL = 0xEE
POLICY = "createpolicy.fractional.L2::evict_first.b64 %wide, 1.0;"


def kernel(body: str, stages: int = 1) -> str:
    """Each thread has 16 bytes of ``tile`` per stage, filled with FILL, and 16 of ``from`` and ``to``.

    In ``body``: %mine and %next are the thread's cell of the first stage and its neighbor's, %src and %dst its
    places in global memory, %t its number, %n a number between 0 and 16 that the second buffer gives it.
    """
    size = THREADS * CELL
    fill = "\n".join(f"st.shared.v4.b32 [%mine+{stage * size}], {{%f, %f, %f, %f}};" for stage in range(stages))
    return f"""
.version 8.7
.target sm_80
.address_size 64
.visible .entry copies(.param .u64 from, .param .u64 sizes, .param .u64 to) {{
.shared .align 16 .b8 tile[{stages * size}];
.reg .pred %p<4>;
.reg .b32 %t, %f, %n, %u, %r<8>, %mine32;
.reg .b64 %src, %dst, %mine, %next, %tile, %wide, %sizes;
mov.u32 %t, %tid.x;
ld.param.u64 %src, [from];
ld.param.u64 %dst, [to];
ld.param.u64 %sizes, [sizes];
mad.wide.u32 %src, %t, {CELL}, %src;
mad.wide.u32 %dst, %t, {CELL}, %dst;
mad.wide.u32 %sizes, %t, 4, %sizes;
ld.global.u32 %n, [%sizes];
mov.u64 %tile, tile;
mad.wide.u32 %mine, %t, {CELL}, %tile;
add.u32 %u, %t, 1;
and.b32 %u, %u, {THREADS - 1};
mad.wide.u32 %next, %u, {CELL}, %tile;
cvt.u32.u64 %mine32, %mine;
mov.b32 %f, 0x{FILL:02x}{FILL:02x}{FILL:02x}{FILL:02x};
{fill}
bar.sync 0;
{body}
ret;
}}
.file 1 "stage.cu"
"""


def out(cell: str = "%mine") -> str:
    """Store the thread's cell, or another, as its result."""
    return f"ld.shared.v4.b32 {{%r0, %r1, %r2, %r3}}, [{cell}];\nst.global.v4.b32 [%dst], {{%r0, %r1, %r2, %r3}};"


def run(text: str, machine: Machine, sizes: list[int]) -> tuple[bytes, bytes]:
    """What was copied from, and the result."""
    source = random.Random(7).randbytes(THREADS * CELL)
    given = struct.pack(f"<{THREADS}I", *sizes)
    ran = machine.run(Launch(text, "copies", (source, given, bytes(THREADS * CELL)), 1, THREADS))
    assert ran.found == ()
    return source, ran.buffers[2]


def cells(data: bytes) -> list[bytes]:
    """The cells of all threads."""
    return [data[at : at + CELL] for at in range(0, len(data), CELL)]


@pytest.mark.parametrize(
    ("width", "address"),
    [
        (1, "%mine"),
        (8, "%mine32"),
        (32, "%mine32"),
        pytest.param(DEVICE, "%mine", marks=pytest.mark.gpu, id="gpu"),
    ],
)
@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("ca.shared.global", 4),
        ("ca.shared.global", 8),
        ("ca.shared.global", 16),
        ("cg.shared.global", 16),
        ("cg.shared::cta.global.L2::128B", 16),
    ],
)
def test_a_copy_writes_its_bytes_and_no_more(
    name: str, size: int, width: int, address: str, machine: Callable[[int], Machine]
) -> None:
    """4, 8 or 16 bytes arrive; the rest of the cell stays. A shared address may have 32 bits."""
    text = kernel(f"cp.async.{name} [{address}], [%src], {size};\n{COMMIT}\n{WAIT}\n{out()}")
    source, result = run(text, machine(width), [0] * THREADS)
    for copied, cell in zip(cells(source), cells(result), strict=True):
        assert cell == copied[:size] + bytes([FILL] * (CELL - size))


@pytest.mark.parametrize("width", [1, 32, ON_THE_DEVICE])
@pytest.mark.parametrize("size", [4, 8, 16])
def test_what_is_not_read_is_zero(size: int, width: int, machine: Callable[[int], Machine]) -> None:
    """PTX ISA: with a source size below the size of the copy, the remaining bytes are filled with zeros."""
    sizes = [random.Random(n).randrange(size + 1) for n in range(THREADS)]
    text = kernel(f"cp.async.ca.shared.global [%mine], [%src], {size}, %n;\n{COMMIT}\n{WAIT}\n{out()}")
    source, result = run(text, machine(width), sizes)
    for amount, copied, cell in zip(sizes, cells(source), cells(result), strict=True):
        assert cell == copied[:amount] + bytes(size - amount) + bytes([FILL] * (CELL - size))


@pytest.mark.parametrize("width", [1, 8, ON_THE_DEVICE])
def test_a_source_may_be_ignored(width: int, machine: Callable[[int], Machine]) -> None:
    """With a true predicate nothing is read, and zeros are written."""
    body = (
        f"setp.ne.u32 %p0, %n, 0;\ncp.async.cg.shared.global [%mine], [%src], 16, %p0;\n{COMMIT}\n{WAIT}\n{out()}"
    )
    ignored = [n % 3 for n in range(THREADS)]
    source, result = run(kernel(body), machine(width), ignored)
    assert [any(cell) for cell in cells(result)] == [not n for n in ignored]
    assert [c for c, n in zip(cells(result), ignored, strict=True) if not n] == cells(source)[::3]


@pytest.mark.parametrize("width", [1, 8])
def test_a_cache_policy_changes_nothing(width: int, machine: Callable[[int], Machine]) -> None:
    """``createpolicy`` and hints are for caches, which there are none of here. (An H100 refuses the instruction to
    which ptxas 13.0 compiles this.)"""
    hinted = "cp.async.cg.shared.global.L2::cache_hint [%mine], [%src], 16, %wide;"
    body = f"{POLICY}\n{hinted}\n{COMMIT}\n{WAIT}\n{out()}"
    source, result = run(kernel(body), machine(width), [0] * THREADS)
    assert result == source


@pytest.mark.parametrize("width", [1, 32])
@pytest.mark.parametrize("allowed", [0, 1, 2, 3])
def test_a_wait_covers_all_groups_but_the_last_ones(allowed: int, width: int, cpu: Callable[[int], Cpu]) -> None:
    """``wait_group N`` completes all but the N most recent groups; the others are as late as they may be."""
    size = THREADS * CELL
    issue = "\n".join(
        f"cp.async.ca.shared.global [%mine+{size * stage}], [%src+{4 * stage}], 4;\n{COMMIT}" for stage in range(3)
    )
    reads = "\n".join(f"ld.shared.b32 %r{n}, [%mine+{size * n}];" for n in range(3))
    store = "mov.b32 %r3, 0;\nst.global.v4.b32 [%dst], {%r0, %r1, %r2, %r3};"
    text = kernel(f"{issue}\ncp.async.wait_group {allowed};\n{reads}\n{store}", 3)
    source, result = run(text, cpu(width), [0] * THREADS)
    for copied, cell in zip(cells(source), cells(result), strict=True):
        done = max(3 - allowed, 0) * 4
        assert cell[:12] == copied[:done] + bytes([FILL] * (12 - done))


@pytest.mark.parametrize("width", [1, 32, ON_THE_DEVICE])
def test_wait_all_needs_no_group(width: int, machine: Callable[[int], Machine]) -> None:
    """It covers copies that were not committed too."""
    text = kernel(f"cp.async.cg.shared.global [%mine], [%src], 16;\ncp.async.wait_all;\n{out()}")
    source, result = run(text, machine(width), [0] * THREADS)
    assert result == source


@pytest.mark.parametrize("width", [1, 32])
def test_a_thread_waits_for_its_own_copies(width: int, cpu: Callable[[int], Cpu]) -> None:
    """Groups are counted by thread: lanes that waited have their data, the others do not."""
    body = f"""setp.lt.u32 %p0, %n, 1;
cp.async.cg.shared.global [%mine], [%src], 16;
{COMMIT}
@%p0 cp.async.wait_group 0;
{out()}"""
    sizes = [n % 5 % 2 for n in range(THREADS)]
    source, result = run(kernel(body), cpu(width), sizes)
    for late, copied, cell in zip(sizes, cells(source), cells(result), strict=True):
        assert cell == (bytes([FILL] * CELL) if late else copied)


@pytest.mark.parametrize("width", [1, 32, ON_THE_DEVICE])
def test_more_copies_than_the_queue_holds(width: int, machine: Callable[[int], Machine]) -> None:
    """The oldest copies are made early, in order, and none is lost."""
    body = f"""mov.u32 %u, 0;
AGAIN:
cp.async.ca.shared.global [%mine], [%src], 4;
cp.async.ca.shared.global [%mine+4], [%src+4], 4;
cp.async.ca.shared.global [%mine+8], [%src+8], 8;
add.u32 %u, %u, 1;
setp.lt.u32 %p0, %u, 200;
@%p0 bra AGAIN;
{COMMIT}
{WAIT}
{out()}"""
    source, result = run(kernel(body), machine(width), [0] * THREADS)
    assert result == source


def findings(folder: Path, width: int, text: str, checks: Checks, defined: int = THREADS * CELL) -> list[Finding]:
    """What a launch reports; the first bytes of its input are initialized, and sizes are 16."""
    found: list[Finding] = []
    memory = Memory(64 << 20)
    executor = Executor(memory, 1, ObjectCache(folder), time.monotonic, found.append, lambda _: None)
    executor.width = width
    executor.checks = checks
    places = [memory.allocate(THREADS * CELL, MemoryKind.DEVICE) for _ in range(3)]
    if checks.init:
        memory.undefine(places[0], THREADS * CELL)
        memory.define(places[0], defined)
    module = executor.load(text)
    params = struct.pack("<QQQ", *places)
    executor.launch(KernelLaunch(module, "copies", params, (1, 1, 1), (THREADS, 1, 1), 0, False))
    return found


COPY = "cp.async.cg.shared.global [%mine], [%src], 16;"
RACE, INIT = Checks(race=True), Checks(init=True)


@pytest.mark.parametrize("width", [1, 32])
@pytest.mark.parametrize("cell", ["%mine", "%next"])
def test_a_missing_wait_is_a_race(tmp_path: Path, width: int, cell: str) -> None:
    """A barrier orders threads, not copies: only a wait, and then a barrier for other threads, does."""
    missing = kernel(f".loc 1 40 1\n{COPY}\n{COMMIT}\nbar.sync 0;\n.loc 1 41 1\n{out(cell)}")
    (found,) = findings(tmp_path, width, missing, RACE)
    assert found.rule == "racecheck"
    assert "is still copying" in found.message
    waits = "__pipeline_wait_prior() or consumer_wait()"
    assert found.fix == f"wait for the copy with {waits}, then call __syncthreads()"
    assert found.message.startswith("reads byte ")
    assert found.message.endswith("is still copying to, with no wait for the copy in between")
    assert str(found.place).endswith("stage.cu:41:1")
    assert str(found.other_place).endswith("stage.cu:40:1")
    waited = kernel(f"{COPY}\n{COMMIT}\n{WAIT}\nbar.sync 0;\n{out(cell)}")
    assert findings(tmp_path, width, waited, RACE) == []


@pytest.mark.parametrize("width", [1, 32])
def test_a_wait_alone_is_not_for_other_threads(tmp_path: Path, width: int) -> None:
    """After the wait the copy is a store of its thread, which a barrier must follow."""
    text = kernel(f"{COPY}\n{COMMIT}\n{WAIT}\n{out('%next')}")
    assert {f.rule for f in findings(tmp_path, width, text, RACE)} == {"racecheck"}
    own = kernel(f"{COPY}\n{COMMIT}\n{WAIT}\n{out()}")
    assert findings(tmp_path, width, own, RACE) == []


@pytest.mark.parametrize("width", [1, 32])
def test_a_copy_into_what_others_still_read_is_a_race(tmp_path: Path, width: int) -> None:
    """The next round's copy needs a barrier after this round's reads."""
    first = f"{COPY}\n{COMMIT}\n{WAIT}\nbar.sync 0;\n{out('%next')}\n"
    again = f"{COPY}\n{COMMIT}\n{WAIT}\n"
    assert {f.rule for f in findings(tmp_path, width, kernel(first + again), RACE)} == {"racecheck"}
    assert findings(tmp_path, width, kernel(f"{first}bar.sync 0;\n{again}"), RACE) == []


def test_a_copy_names_the_element_that_it_writes(tmp_path: Path) -> None:
    """``cp.async`` has no type: an array of C++ is counted in the elements of its other accesses."""
    racing = kernel(f"{COPY}\n{COMMIT}\n{WAIT}\nbar.sync 0;\n{out('%next')}\n{COPY}\n{COMMIT}\n{WAIT}\n")
    named = racing.replace(" tile[", " _ZZ6copiesE4tile[").replace("%tile, tile;", "%tile, _ZZ6copiesE4tile;")
    assert {f.message.partition(",")[0] for f in findings(tmp_path, 32, racing, RACE)} == {
        "copies to byte 16 of shared memory"
    }
    assert {f.message.partition(",")[0] for f in findings(tmp_path, 32, named, RACE)} == {"copies to tile[4]"}


@pytest.mark.parametrize("width", [1, 32])
def test_one_stage_too_few_is_a_race(tmp_path: Path, width: int) -> None:
    """With two stages in flight, a wait must allow only one of them, or the older must not be read."""
    size = THREADS * CELL
    issue = "\n".join(
        f"cp.async.cg.shared.global [%mine+{size * stage}], [%src], 16;\n{COMMIT}" for stage in range(2)
    )
    right = kernel(f"{issue}\ncp.async.wait_group 1;\nbar.sync 0;\n{out('%next')}", 2)
    assert findings(tmp_path, width, right, RACE) == []
    wrong = right.replace("wait_group 1", "wait_group 2")
    (found,) = findings(tmp_path, width, wrong, RACE)
    assert "is still copying" in found.message


@pytest.mark.parametrize("width", [1, 32])
def test_a_store_into_a_stage_that_is_being_filled_is_a_race(tmp_path: Path, width: int) -> None:
    """The thread's own store as well: which of the two comes last is open."""
    text = kernel(f"{COPY}\nst.shared.b32 [%mine], %t;\n{COMMIT}\n{WAIT}")
    (found,) = findings(tmp_path, width, text, RACE)
    assert "is still copying" in found.message


@pytest.mark.parametrize("width", [1, 32])
def test_a_destination_is_uninitialized_until_the_wait(tmp_path: Path, width: int) -> None:
    """Then it is as initialized as its source."""
    use = "ld.shared.b32 %r0, [%mine];\nadd.u32 %r0, %r0, 1;\nst.global.b32 [%dst], %r0;"
    early = kernel(f"{COPY}\n{COMMIT}\n{use}\n{WAIT}")
    assert {f.rule for f in findings(tmp_path, width, early, INIT)} == {"initcheck"}
    late = kernel(f"{COPY}\n{COMMIT}\n{WAIT}\n{use}")
    assert findings(tmp_path, width, late, INIT) == []
    (found,) = findings(tmp_path, width, late, INIT, defined=CELL * 40)
    assert found.thread == (40, 0, 0)
    # What is filled with zeros is initialized whatever the source.
    zeroed = late.replace(COPY, "mov.u32 %n, 0;\ncp.async.cg.shared.global [%mine], [%src], 16, %n;")
    assert findings(tmp_path, width, zeroed, INIT, defined=0) == []


@pytest.mark.parametrize("width", [1, 32])
def test_memcheck_looks_at_what_is_copied(tmp_path: Path, width: int) -> None:
    """Both ends must exist and be aligned; a source that is not read need not."""
    for wrong in (
        COPY.replace("[%src]", "[%src+16]"),
        COPY.replace("[%mine]", "[%mine+16]"),
        COPY.replace("[%src]", "[%src+8]"),
        "mov.u32 %n, 4;\n" + COPY.replace("[%src], 16", "[%src+16], 16, %n"),
    ):
        assert {f.rule for f in findings(tmp_path, width, kernel(wrong + WAIT), Checks())} == {"memcheck"}
    for right in (
        "mov.u32 %n, 0;\n" + COPY.replace("[%src], 16", "[%src+16], 16, %n"),
        "mov.u32 %n, 4;\n" + COPY.replace("[%src], 16", "[%src], 16, %n"),
    ):
        assert findings(tmp_path, width, kernel(right + WAIT), Checks()) == []


def test_code_of_a_copy_does_not_grow_with_the_lanes() -> None:
    """Kernels have hundreds of copies: what a lane needs that reads a part is in one function for all of them."""
    copy = "cp.async.ca.shared.global [%mine], [%src], 4, %n;\n"
    lengths = {}
    for width in (8, 32):
        few, many = (
            lower(parse(kernel(copy * count + COMMIT + WAIT + out())), "copies", width).ir.text
            for count in (10, 20)
        )
        lengths[width] = many.count("\n") - few.count("\n")
    assert lengths[32] <= lengths[8] < 10 * 60
