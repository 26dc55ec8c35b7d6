"""Launches from end to end below the driver: PTX in, memory changed, findings out."""

from __future__ import annotations

import ctypes
import struct
import time
from pathlib import Path

import pytest

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.executor import Ending, Executor, KernelLaunch
from kcheck.cpu.memory import Memory, MemoryKind, RangeLabel
from kcheck.model import Finding

HEAD = ".version 8.7\n.target sm_80\n.address_size 64\n"

# out[i] = i for i < n, n unchecked against the array: what a missing bounds check does
IOTA = (
    HEAD
    + """
.visible .entry iota(.param .u64 out, .param .u32 n)
{
    .reg .pred %p1; .reg .b32 %r<6>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1;
    @%p1 bra DONE;
    mul.wide.u32 %rd2, %r5, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r5;
DONE:
    ret;
}
"""
)

FOREVER = (
    HEAD
    + """
.visible .entry forever()
{
AGAIN:
    bra AGAIN;
}
"""
)

TRAP = HEAD + ".visible .entry crash() { trap; ret; }\n"


class Bench:
    """An executor and what it reported."""

    def __init__(self, folder: Path, processors: int = 2) -> None:
        self.findings: list[Finding] = []
        self.written: list[bytes] = []
        self.memory = Memory(64 << 20)
        self.executor = Executor(
            self.memory,
            processors,
            ObjectCache(folder),
            time.perf_counter,
            self.findings.append,
            self.written.append,
        )

    def launch(self, ptx: str, params: bytes = b"", grid: int = 1, block: int = 32, shared: int = 0) -> Ending:
        """Launch the only kernel of a module."""
        module = self.executor.load(ptx)
        (entry,) = module.entries
        return self.executor.launch(
            KernelLaunch(module, entry, params, (grid, 1, 1), (block, 1, 1), shared, cooperative=False)
        )


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One object cache for the module, so that each kernel is compiled once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def bench(cache: Path) -> Bench:
    """A fresh device."""
    return Bench(cache)


@pytest.mark.parametrize("width", [1, 8, 16, 32])
@pytest.mark.parametrize(("count", "block"), [(1, 32), (100, 32), (1000, 96), (1000, 50)])
def test_every_thread_runs_once(bench: Bench, width: int, count: int, block: int) -> None:
    """Each index is written by its own thread, at every width, whole blocks or not."""
    bench.executor.width = width
    base = bench.memory.allocate(4 * count, MemoryKind.DEVICE)
    ending = bench.launch(IOTA, struct.pack("<QI", base, count), -(-count // block), block)
    assert (ending, bench.findings) == (Ending.FINISHED, [])
    assert list((ctypes.c_uint32 * count).from_address(base)) == list(range(count))


def test_many_blocks_over_workers(bench: Bench) -> None:
    """A grid that takes long enough is shared by the workers, and no block is lost or run twice."""
    count = 1 << 20
    base = bench.memory.allocate(4 * count, MemoryKind.DEVICE)
    assert bench.launch(IOTA, struct.pack("<QI", base, count), count // 32, 32) is Ending.FINISHED
    values = memoryview((ctypes.c_uint32 * count).from_address(base)).cast("B").cast("I")
    assert values.tolist() == list(range(count))


def test_a_store_past_the_end_is_found(bench: Bench) -> None:
    """The finding names the array and the index, the block and the thread; nothing else was written."""
    base = bench.memory.allocate(4 * 40, MemoryKind.DEVICE)
    bench.memory.label(RangeLabel("out", base, (40,), (4,), 4, base, base + 160))
    assert bench.launch(IOTA, struct.pack("<QI", base, 41), 2, 32) is Ending.ILLEGAL_ADDRESS
    (finding,) = bench.findings
    assert (finding.rule, finding.kernel, finding.array, finding.index) == ("memcheck", "iota", "out", (40,))
    assert (finding.block, finding.thread) == ((1, 0, 0), (8, 0, 0))
    assert finding.message == "writes out[40], but axis 0 has size 40"


@pytest.mark.parametrize("base", [0, 8, 1 << 40, (1 << 64) - 4, 0xDEAD_BEEF_0000_0000])
def test_wild_pointers_are_findings(bench: Bench, base: int) -> None:
    """A pointer to anywhere is a finding, and the device runs the next launch as if nothing had been."""
    assert bench.launch(IOTA, struct.pack("<QI", base, 1)) is Ending.ILLEGAL_ADDRESS
    assert [finding.rule for finding in bench.findings] == ["memcheck"]
    good = bench.memory.allocate(4, MemoryKind.DEVICE)
    assert bench.launch(IOTA, struct.pack("<QI", good, 1)) is Ending.FINISHED


def test_a_use_after_free_says_so(bench: Bench) -> None:
    """An access to freed memory is told as one."""
    base = bench.memory.allocate(128, MemoryKind.DEVICE)
    bench.memory.free(base)
    assert bench.launch(IOTA, struct.pack("<QI", base, 1)) is Ending.ILLEGAL_ADDRESS
    assert "that was freed" in bench.findings[0].message


def test_misaligned_addresses_are_findings(bench: Bench) -> None:
    """An address that is no multiple of the access is told, as a GPU would fault on it."""
    base = bench.memory.allocate(128, MemoryKind.DEVICE)
    assert bench.launch(IOTA, struct.pack("<QI", base + 2, 1)) is Ending.MISALIGNED


def test_an_endless_kernel_is_stopped(bench: Bench) -> None:
    """At its time limit a launch ends, with a finding, and the device runs the next one."""
    bench.executor.limit = 0.2
    assert bench.launch(FOREVER) is Ending.TIMED_OUT
    assert [finding.rule for finding in bench.findings] == ["timeout"]
    base = bench.memory.allocate(4, MemoryKind.DEVICE)
    assert bench.launch(IOTA, struct.pack("<QI", base, 1)) is Ending.FINISHED


def test_a_trap_ends_the_launch(bench: Bench) -> None:
    """A trap is a finding that names where it stands."""
    assert bench.launch(TRAP) is Ending.TRAPPED
    assert [finding.rule for finding in bench.findings] == ["trap"]


def test_code_that_is_not_modelled_is_a_finding(bench: Bench) -> None:
    """An instruction that does not exist stops the launch before it begins, and names its line."""
    ptx = HEAD + ".visible .entry k() {\n    frobnicate.u32 1, 2;\n    ret;\n}\n"
    assert bench.launch(ptx) is Ending.NOT_COMPILED
    (finding,) = bench.findings
    assert finding.rule == "compile"
    assert "kernel.ptx:5:" in finding.message


def test_warm_from_disk(cache: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one device compiled, the next loads: nothing is lowered again."""
    base = bench.memory.allocate(4, MemoryKind.DEVICE)
    bench.launch(IOTA, struct.pack("<QI", base, 1))
    monkeypatch.setattr("kcheck.ptx.compile.lower", lambda *arguments: pytest.fail("lowered again"))
    other = Bench(cache)
    again = other.memory.allocate(4, MemoryKind.DEVICE)
    assert other.launch(IOTA, struct.pack("<QI", again, 1)) is Ending.FINISHED
