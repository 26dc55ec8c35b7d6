"""racecheck and what Triton replicates: several threads load one element, and lanes of a warp store one value."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.executor import Ending, Executor, KernelLaunch
from kcheck.cpu.memory import Memory, MemoryKind
from kcheck.cpu.sanitizers import checks
from kcheck.model import Finding
from kcheck.ptx.syntax.symbols import REPLICATES

# st [WHERE], VALUE of each thread, to a word that all threads share: global or shared memory
STORE = """.version 8.7
.target sm_80
.address_size 64
.visible .entry store(.param .u64 out)
{
    .reg .pred %p<2>; .reg .b32 %r<6>; .reg .b64 %rd<3>;
    .shared .align 4 .b32 word;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    shr.u32 %r3, %r1, 5;
    mov.u32 %r4, 7;
    st.PLACE.u32 [WHERE], VALUE;
    ret;
}
"""
EVEN, LANE, NEXT = "%r4", "%r1", "%r5"
UPDATE = (
    "ld.PLACE.u32 %r5, [WHERE];\n    add.u32 %r5, %r5, 1;\n    setp.eq.u32 %p1, %r1, 0;\n    @%p1 st.PLACE.u32"
)
"""Every thread loads the word, and the first one stores it: a tensor that is changed in place, with fewer elements
than a program has threads."""
BRANCH = "ld.PLACE.u32 %r5, [WHERE];\n    setp.eq.u32 %p1, %r5, 99;\n    @%p1 bra END;\nEND:\n    "


class Bench:
    """An executor with racecheck on, and one word of memory."""

    def __init__(self, folder: Path) -> None:
        self.found: list[Finding] = []
        memory = Memory(1 << 20)
        cache = ObjectCache(folder)
        self.executor = Executor(memory, 1, cache, time.perf_counter, self.found.append, lambda text: None)
        self.executor.checks = checks(["racecheck"])
        self.word = memory.allocate(4, MemoryKind.DEVICE)

    def severities(self, text: str, threads: int, blocks: int = 1) -> set[str]:
        """Of the findings of a launch; ``note`` for those that reports show as notes."""
        self.found.clear()
        content = self.word.to_bytes(8, "little")
        module = self.executor.load(text)
        launch = KernelLaunch(module, "store", content, (blocks, 1, 1), (threads, 1, 1), 0, False)
        assert self.executor.launch(launch) is Ending.FINISHED
        assert {finding.rule for finding in self.found} <= {"racecheck"}
        return {"note" if finding.note else finding.severity for finding in self.found}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("code"))


def kernel(place: str, value: str, *, replicates: bool, store: str = "st.PLACE.u32") -> str:
    where = {"global": "%rd1", "shared": "word"}[place]
    text = STORE.replace("st.PLACE.u32", store)
    text = text.replace("PLACE", place).replace("WHERE", where).replace("VALUE", value)
    return f"{text}{REPLICATES}\n" if replicates else text


@pytest.mark.parametrize("place", ["global", "shared"])
def test_copies_of_one_value_are_no_race(bench: Bench, place: str) -> None:
    """Equal ones are not reported, from several warps neither; different ones of one warp are a note. In other
    code they are what they were."""
    assert bench.severities(kernel(place, EVEN, replicates=True), 32) == set()
    assert bench.severities(kernel(place, EVEN, replicates=True), 96) == set()
    assert bench.severities(kernel(place, LANE, replicates=True), 32) == {"note"}
    assert "copies of one value that differ" in bench.found[0].message
    assert bench.severities(kernel(place, EVEN, replicates=False), 32) == {"warn"}
    assert bench.severities(kernel(place, LANE, replicates=False), 32) == {"error"}


def test_what_another_warp_loads_and_does_not_need_is_no_race(bench: Bench) -> None:
    """All threads load a word, and the first one stores it. What the others loaded is dead, unless something else
    uses it: here a branch. In code of another compiler it is a race in any case."""
    assert bench.severities(kernel("global", NEXT, replicates=True, store=UPDATE), 64) == set()
    assert bench.severities(kernel("global", NEXT, replicates=False, store=UPDATE), 32) == {"error"}
    assert bench.severities(kernel("global", NEXT, replicates=True, store=BRANCH + UPDATE), 64) == {"error"}


def test_one_lane_per_vector_finds_the_same(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.executor.width = 1
    assert bench.severities(kernel("global", NEXT, replicates=True, store=UPDATE), 64) == set()
    assert bench.severities(kernel("global", NEXT, replicates=True, store=BRANCH + UPDATE), 64) == {"error"}


def test_a_warp_may_store_what_its_lanes_have_loaded(bench: Bench) -> None:
    """Lanes of a warp that Triton compiled load before any of them stores: all may need the value."""
    assert bench.severities(kernel("global", NEXT, replicates=True, store=BRANCH + UPDATE), 32) == set()


def test_stores_of_two_warps_are_a_race(bench: Bench) -> None:
    """Within a warp the value is the same, and it differs between the two."""
    assert bench.severities(kernel("global", "%r3", replicates=True), 64) == {"error"}


def test_two_warps_may_store_copies_to_shared_memory(bench: Bench) -> None:
    """Warps that replicate a tensor reduce it each, and all lanes store the result, whose last bits differ between
    lanes. Only the compiler stores to shared memory in Triton's code. In other code it is a race."""
    assert bench.severities(kernel("shared", "%r3", replicates=True), 64) == {"note"}
    assert bench.severities(kernel("shared", "%r3", replicates=False), 64) == {"error"}


def test_stores_of_two_programs_are_a_race(bench: Bench) -> None:
    assert bench.severities(kernel("global", "%r2", replicates=True), 32, blocks=2) == {"error"}
    assert bench.severities(kernel("global", EVEN, replicates=True), 32, blocks=2) == {"warn"}
