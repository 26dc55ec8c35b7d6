"""Hostile kernels: each is a finding, with the process alive and the next launch correct."""

from __future__ import annotations

import itertools
import struct
import time
from pathlib import Path

import pytest

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.executor import Ending, Executor, KernelLaunch
from kcheck.cpu.memory import Memory, MemoryKind
from kcheck.model import Finding

HEAD = ".version 8.7\n.target sm_80\n.address_size 64\n"
SPACES = {
    "global": "",
    "generic": "",
    "shared": ".shared .align 16 .b8 here[64];",
    "local": ".local .align 16 .b8 here[64];",
    "const": "",
}
ACCESSES = {
    "load": "ld{space}.u32 %r2, [%rd3];\n    st.global.u32 [%rd1], %r2;",
    "vector load": "ld{space}.v4.u32 {{%r2, %r3, %r4, %r5}}, [%rd3];\n    st.global.u32 [%rd1], %r2;",
    "byte load": "ld{space}.u8 %r2, [%rd3];\n    st.global.u32 [%rd1], %r2;",
    "store": "st{space}.u32 [%rd3], %r1;",
    "vector store": "st{space}.v2.u64 [%rd3], {{%rd2, %rd2}};",
    "add": "atom{space}.add.u32 %r2, [%rd3], %r1;\n    st.global.u32 [%rd1], %r2;",
    "exchange": "atom{space}.exch.b64 %rd2, [%rd3], %rd2;\n    st.global.u64 [%rd1], %rd2;",
    "swap": "atom{space}.cas.b32 %r2, [%rd3], %r1, %r1;\n    st.global.u32 [%rd1], %r2;",
}
OFFSETS = [0x100, -0x100, 1 << 20, -(1 << 20), 1 << 32, 1 << 47, -(1 << 47), (1 << 63) - 256, -(1 << 63)]
SPIN = ".reg .pred %p; .reg .b32 %r; mov.u32 %r, %tid.x; L: setp.ne.u32 %p, %r, 99; @%p bra L; ret;"
LONELY = """.shared .align 8 .b64 bar; .reg .pred %p; .reg .b32 %r; .reg .b64 %s;
mov.u32 %r, bar; mbarrier.init.shared.b64 [%r], 33; bar.sync 0; mbarrier.arrive.shared.b64 %s, [%r];
L: mbarrier.test_wait.shared.b64 %p, [%r], %s; @!%p bra L; ret;"""
"""An mbarrier for 33 arrivals, which 32 threads wait for."""

COPY_TO, COPY_FROM, ARRIVE = (
    f""".shared .align 16 .b8 tile[64]; .reg .b64 %g, %w, %s;
ld.param.u64 %g, [good]; ld.param.u64 %w, [wild]; {text} ret;"""
    for text in (
        "mov.u64 %s, tile; add.s64 %w, %w, %s; cp.async.cg.shared.global [%w], [%g], 16; cp.async.wait_all;",
        "mov.u64 %s, tile; cp.async.cg.shared.global [%s], [%w], 16; cp.async.wait_all;",
        "mov.u64 %s, tile; add.s64 %w, %w, %s; mbarrier.arrive.shared.b64 %g, [%w];",
    )
)

LEGAL = {
    "const": {"load", "vector load", "byte load"},
    "local": {"load", "vector load", "byte load", "store", "vector store"},
}


def kernel(space: str, access: str) -> str:
    """A kernel whose first parameter is good memory and whose second is added to an address of the space."""
    module = ".const .align 16 .b8 here[64];\n" if space == "const" else ""
    base = "mov.u64 %rd3, here;" if space in ("shared", "local", "const") else "mov.u64 %rd3, 0;"
    infix = "" if space == "generic" else f".{space}"
    return f"""{HEAD}{module}
.visible .entry hostile(.param .u64 good, .param .u64 wild)
{{
    {SPACES[space]}
    .reg .b32 %r<6>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [good];
    ld.param.u64 %rd2, [wild];
    {base}
    add.s64 %rd3, %rd3, %rd2;
    mov.u32 %r1, %tid.x;
    {ACCESSES[access].format(space=infix)}
    ret;
}}
"""


class Device:
    """One device for every case: what a case leaves behind would show in the next."""

    def __init__(self, folder: Path) -> None:
        self.findings: list[Finding] = []
        self.memory = Memory(64 << 20)
        self.executor = Executor(
            self.memory, 2, ObjectCache(folder), time.monotonic, self.findings.append, lambda text: None
        )
        self.executor.limit = 10.0
        self.good = self.memory.allocate(4096, MemoryKind.DEVICE)
        self.check = self.executor.load(kernel("global", "store"))

    def launch(self, ptx: str, *params: int, grid: int = 1, block: int = 32) -> tuple[Ending, set[str]]:
        """How a launch of the only kernel ends, and the rules of what was found."""
        self.findings.clear()
        module = self.executor.load(ptx)
        (entry,) = module.entries
        content = b"".join(struct.pack("<Q", param % 2**64) for param in params)
        ending = self.executor.launch(KernelLaunch(module, entry, content, (grid, 1, 1), (block, 1, 1), 0, False))
        return ending, {finding.rule for finding in self.findings}

    def is_well(self) -> bool:
        """Whether a good kernel runs to its end, without a finding."""
        return self.launch(kernel("global", "store"), self.good, self.good) == (Ending.FINISHED, set())


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Device:
    """The device."""
    return Device(tmp_path_factory.mktemp("cache"))


@pytest.mark.parametrize(
    ("space", "access"),
    [(s, a) for s, a in itertools.product(SPACES, ACCESSES) if a in LEGAL.get(s, set(ACCESSES))],
)
def test_wild_addresses(device: Device, space: str, access: str) -> None:
    """Every access of every state space, at offsets near and absurd: memcheck, never a crash."""
    for offset in OFFSETS:
        ending, rules = device.launch(kernel(space, access), device.good, offset)
        assert (ending, rules) == (Ending.ILLEGAL_ADDRESS, {"memcheck"}), hex(offset)
    assert device.is_well()


@pytest.mark.parametrize("body", [COPY_TO, COPY_FROM, ARRIVE], ids=["copy to", "copy from", "arrive"])
def test_wild_copies_and_barriers(device: Device, body: str) -> None:
    """So are asynchronous copies, at both ends, and mbarrier objects."""
    text = f"{HEAD}.visible .entry k(.param .u64 good, .param .u64 wild) {{ {body} }}"
    for offset in OFFSETS:
        assert device.launch(text, device.good, offset) == (Ending.ILLEGAL_ADDRESS, {"memcheck"}), hex(offset)
    assert device.is_well()


@pytest.mark.parametrize(
    ("body", "ending", "rule"),
    [
        ("L: bra L;", Ending.TIMED_OUT, "timeout"),
        ("L: bar.sync 0; bra L;", Ending.TIMED_OUT, "timeout"),
        (SPIN, Ending.TIMED_OUT, "timeout"),
        (LONELY, Ending.TIMED_OUT, "timeout"),
        ("trap; ret;", Ending.TRAPPED, "trap"),
    ],
)
def test_kernels_that_do_not_end_well(device: Device, body: str, ending: Ending, rule: str) -> None:
    """Loops that never end are stopped, and traps end a launch."""
    device.executor.limit = 0.3
    try:
        assert device.launch(f"{HEAD}.visible .entry k() {{ {body} }}") == (ending, {rule})
    finally:
        device.executor.limit = 10.0
    assert device.is_well()


RECURSION = (
    HEAD
    + """
.func (.param .b32 out) down(.param .b32 n)
{
    .reg .b32 %r<3>;
    .local .align 8 .b8 room[64];
    .reg .b64 %rd1;
    ld.param.b32 %r1, [n];
    mov.u64 %rd1, room;
    st.local.u32 [%rd1], %r1;
    add.s32 %r1, %r1, 1;
    { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), down, (a); ld.param.b32 %r2, [b]; }
    add.s32 %r2, %r2, 1;
    st.param.b32 [out], %r2;
    ret;
}
.visible .entry k()
{
    .reg .b32 %r<3>;
    mov.u32 %r1, 0;
    { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), down, (a); ld.param.b32 %r2, [b]; }
    ret;
}
"""
)


def test_endless_recursion_overflows_the_stack(device: Device) -> None:
    """A function that calls itself for ever is a finding about the stack."""
    assert device.launch(RECURSION) == (Ending.STACK_OVERFLOW, {"stack"})
    assert device.is_well()


@pytest.mark.parametrize("operation", ["div.s32", "rem.u32", "div.u32", "rem.s32"])
def test_division_by_zero_does_not_kill(device: Device, operation: str) -> None:
    """An integer division by zero is a finding, and the kernel goes on, as it does on a GPU."""
    ptx = f"{HEAD}.visible .entry k() {{ .reg .b32 %r<3>; mov.u32 %r1, %tid.x; {operation} %r2, %r1, 0; ret; }}"
    ending, rules = device.launch(ptx)
    assert ending is Ending.FINISHED
    assert rules <= {"division"}
    assert device.is_well()


def test_freed_memory(device: Device) -> None:
    """Every access to a freed array is a finding."""
    gone = device.memory.allocate(4096, MemoryKind.DEVICE)
    device.memory.free(gone)
    for access in ACCESSES:
        assert device.launch(kernel("global", access), device.good, gone) == (Ending.ILLEGAL_ADDRESS, {"memcheck"})
    assert device.is_well()


@pytest.mark.parametrize("offset", [1, 2, 3])
def test_misaligned(device: Device, offset: int) -> None:
    """Every access wider than a byte, at an odd address in good memory, is a misaligned address."""
    for access in ACCESSES:
        if access != "byte load":
            ending, rules = device.launch(kernel("global", access), device.good, device.good + offset)
            assert (ending, rules) == (Ending.MISALIGNED, {"memcheck"}), access
    assert device.is_well()
