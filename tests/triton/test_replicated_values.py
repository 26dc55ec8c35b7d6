"""racecheck and what Triton replicates: several lanes of a warp store one value by one instruction."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.executor import Ending, Executor, KernelLaunch
from kcheck.cpu.memory import Kind, Memory
from kcheck.cpu.module import REPLICATES
from kcheck.cpu.sanitizers import checks
from kcheck.model import Finding

# st [WHERE], VALUE of each thread, to a word that all threads share: global or shared memory
STORE = """.version 8.7
.target sm_80
.address_size 64
.visible .entry store(.param .u64 out)
{
    .reg .b32 %r<6>; .reg .b64 %rd<3>;
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
EVEN, LANE = "%r4", "%r1"


class Bench:
    """An executor with racecheck on, and one word of memory."""

    def __init__(self, folder: Path) -> None:
        self.found: list[Finding] = []
        memory = Memory(1 << 20)
        cache = ObjectCache(folder)
        self.executor = Executor(memory, 1, cache, time.perf_counter, self.found.append, lambda text: None)
        self.executor.checks = checks(["racecheck"])
        self.word = memory.allocate(4, Kind.DEVICE)

    def severities(self, text: str, threads: int, blocks: int = 1) -> set[str]:
        """Of the findings of a launch."""
        self.found.clear()
        content = self.word.to_bytes(8, "little")
        module = self.executor.load(text)
        launch = KernelLaunch(module, "store", content, (blocks, 1, 1), (threads, 1, 1), 0, False)
        assert self.executor.launch(launch) is Ending.FINISHED
        assert {finding.rule for finding in self.found} <= {"racecheck"}
        return {finding.severity for finding in self.found}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("code"))


def kernel(place: str, value: str, *, replicates: bool) -> str:
    where = {"global": "%rd1", "shared": "word"}[place]
    text = STORE.replace("PLACE", place).replace("WHERE", where).replace("VALUE", value)
    return f"{text}{REPLICATES}\n" if replicates else text


@pytest.mark.parametrize("place", ["global", "shared"])
def test_copies_of_one_value_are_no_race(bench: Bench, place: str) -> None:
    """Equal ones are not reported, and different ones are a warning; in other code they are what they were."""
    assert bench.severities(kernel(place, EVEN, replicates=True), 32) == set()
    assert bench.severities(kernel(place, LANE, replicates=True), 32) == {"warn"}
    assert "copies of one value that differ" in bench.found[0].message
    assert bench.severities(kernel(place, EVEN, replicates=False), 32) == {"warn"}
    assert bench.severities(kernel(place, LANE, replicates=False), 32) == {"error"}


def test_stores_of_two_warps_are_a_race(bench: Bench) -> None:
    """Within a warp the value is the same, and it differs between the two."""
    assert bench.severities(kernel("global", "%r3", replicates=True), 64) == {"error"}


def test_stores_of_two_programs_are_a_race(bench: Bench) -> None:
    assert bench.severities(kernel("global", "%r2", replicates=True), 32, blocks=2) == {"error"}
