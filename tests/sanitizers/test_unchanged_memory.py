"""racecheck does not check loads of memory that no store of the launch can reach, and only those."""

from __future__ import annotations

import ctypes
import struct
import time
from pathlib import Path

import pytest

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.executor import Ending, Executor, KernelLaunch
from kcheck.cpu.memory import Memory, MemoryKind
from kcheck.model import Finding
from kcheck.ptx.abi import Checks
from kcheck.ptx.sanitizers.race.pointers import pointer_use
from kcheck.ptx.syntax.parser import parse

THREADS = 64
BYTES = 4 * THREADS

HEAD = ".version 8.7\n.target sm_80\n.address_size 64\n"
KERNEL = """.visible .entry copy(.param .u64 x, .param .u64 y, .param .u64 n)
{
    .reg .b32 %t, %u, %v, %i; .reg .b64 %x, %y, %n, %a, %b, %c, %d, %load, %store; .reg .pred %p;
    ld.param.u64 %x, [x];
    ld.param.u64 %y, [y];
    ld.param.u64 %n, [n];
    mov.u32 %i, %tid.x;
    xor.b32 %t, %i, 0;  // so that it is not known where threads store
    sub.u32 %u, 63, %t;
    mul.wide.u32 %a, %t, 4;
    mul.wide.u32 %b, %u, 4;
    setp.eq.u64 %p, %n, 0;
    LOAD
    ld.global.u32 %v, [%load];
    STORE
    st.global.u32 [%store], %v;
    ret;
}
"""
LOAD, STORE = "add.s64 %load, %b, %x;", "add.s64 %store, %y, %a;"
"""Thread t stores y[t], and loads x[63 - t]."""


class Launcher:
    """An executor with racecheck, two arrays of BYTES bytes, and what was found in the last launch."""

    def __init__(self, folder: Path) -> None:
        self.found: list[Finding] = []
        self.memory = Memory(64 << 20)
        cache = ObjectCache(folder)
        self.executor = Executor(self.memory, 1, cache, time.monotonic, self.found.append, lambda _: None)
        self.executor.checks = Checks(race=True)
        self.x, self.y = (self.memory.allocate(BYTES, MemoryKind.DEVICE) for _ in range(2))
        for array in (self.x, self.y):
            ctypes.memset(array, 0, BYTES)

    def launch(self, text: str, x: int, y: int, n: int = 0) -> tuple[bool, bool]:
        """Whether a race was found, and whether the load was checked."""
        self.found.clear()
        module = self.executor.load(HEAD + text)
        params = struct.pack("<QQQ", x, y, n)
        launch = KernelLaunch(module, "copy", params, (1, 1, 1), (THREADS, 1, 1), 0, cooperative=False)
        assert self.executor.launch(launch) is Ending.FINISHED, self.found
        assert {finding.rule for finding in self.found} <= {"racecheck"}
        return bool(self.found), not self.executor._races._state.unchanged


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Launcher:
    """One for all launches."""
    return Launcher(tmp_path_factory.mktemp("cache"))


def kernel(load: str = LOAD, store: str = STORE) -> str:
    """The kernel with other addresses: %load and %store."""
    return KERNEL.replace("LOAD", load).replace("STORE", store)


def test_loads_of_an_array_that_is_only_read_are_not_checked(launcher: Launcher) -> None:
    """The arrays are two allocations, and each address is computed from one of them."""
    assert launcher.launch(kernel(), launcher.x, launcher.y) == (False, False)


def test_arrays_in_one_allocation_race(launcher: Launcher) -> None:
    """The same code, launched with one array for both, or with two parts of one."""
    assert launcher.launch(kernel(), launcher.x, launcher.x) == (True, True)
    both = launcher.memory.allocate(2 * BYTES, MemoryKind.DEVICE)
    ctypes.memset(both, 0, 2 * BYTES)
    assert launcher.launch(kernel(), both, both + BYTES // 2) == (True, True)
    assert launcher.launch(kernel(), both, both + BYTES) == (False, True)
    launcher.memory.free(both)


ADDRESSES = {
    "an integer parameter is no pointer": ("add.s64 %c, %b, %x; add.s64 %load, %c, %n;", STORE, False),
    "cvta, mad and a bit that is set": (
        "cvta.to.global.u64 %c, %x; mad.wide.u32 %load, %u, 4, %c;",
        "add.s64 %d, %y, %a; or.b64 %store, %d, 0;",
        False,
    ),
    "either array may be loaded": ("selp.b64 %c, %x, %y, %p; add.s64 %load, %c, %b;", STORE, True),
    "either array may be stored to": (LOAD, "selp.b64 %c, %y, %x, %p; add.s64 %store, %c, %a;", True),
    "a pointer that is set twice": (LOAD, "mov.u64 %c, %y; @!%p mov.u64 %c, %x; add.s64 %store, %c, %a;", True),
    "a pointer computed in another way": (LOAD, "xor.b64 %c, %y, 0; add.s64 %store, %c, %a;", True),
}


@pytest.mark.parametrize("name", ADDRESSES)
def test_where_an_address_may_point_is_known_or_the_load_is_checked(launcher: Launcher, name: str) -> None:
    """No load is left out if it or a store may point anywhere else."""
    load, store, is_checked = ADDRESSES[name]
    assert launcher.launch(kernel(load, store), launcher.x, launcher.y) == (False, is_checked)
    assert launcher.launch(kernel(load, store), launcher.x, launcher.x) == (True, True)


def test_a_store_through_a_pointer_from_memory_may_be_to_any_array(launcher: Launcher) -> None:
    """The address of x is in y: the store goes there, and races with the load."""
    struct.Struct("<Q").pack_into((ctypes.c_char * 8).from_address(launcher.y), 0, launcher.x)
    through = kernel(store="ld.global.u64 %c, [%y]; add.s64 %store, %c, %a;")
    assert launcher.launch(through, launcher.x, launcher.y) == (True, True)


def test_a_pointer_that_advances_in_a_loop_is_known() -> None:
    """A register that is computed from itself points where it did before."""
    text = """.visible .entry k(.param .u64 x, .param .u64 y)
{
    .reg .b32 %i, %v; .reg .b64 %x, %y, %c; .reg .pred %p;
    ld.param.u64 %x, [x];
    ld.param.u64 %y, [y];
    mov.u64 %c, %x;
    mov.u32 %i, 0;
L:  ld.global.u32 %v, [%c];
    st.global.u32 [%y], %v;
    add.s64 %c, %c, 4;
    add.u32 %i, %i, 1;
    setp.lt.u32 %p, %i, 4;
    @%p bra L;
    ret;
}
"""
    module = parse(HEAD + text, "loop.ptx")
    use, loads = pointer_use([module.functions["k"]])
    assert (use.loads, use.stores) == (((0,),), ((8,),))
    assert list(loads.values()) == [0]


def test_nothing_is_known_of_a_kernel_that_calls() -> None:
    """What is called may store anywhere."""
    text = """.func f(.param .b64 p) { ret; }
.visible .entry k(.param .u64 x)
{
    .reg .b32 %v; .reg .b64 %x;
    ld.param.u64 %x, [x];
    ld.global.u32 %v, [%x];
    { .param .b64 q; st.param.b64 [q], %x; call f, (q); }
    ret;
}
"""
    module = parse(HEAD + text, "calls.ptx")
    assert pointer_use([module.functions["k"], module.functions["f"]])[1] == {}
    assert pointer_use([module.functions["k"]])[1] == {}
