"""racecheck against a judge that shares nothing with it, over random programs of two blocks of two warps."""

from __future__ import annotations

import ctypes
import struct
import time
from dataclasses import replace
from pathlib import Path

import pytest
from happens_before import BLOCKS, BYTES, THREADS, Step, draw, draw_scattered, draw_values, is_error, ptx, racing

from kcheck.cpu import races
from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.executor import Ending, Executor, KernelLaunch
from kcheck.cpu.memory import Memory, MemoryKind, OutOfMemory
from kcheck.cpu.races import Races
from kcheck.model import Finding
from kcheck.ptx.abi import Checks
from kcheck.ptx.compile import lower
from kcheck.ptx.sanitizers.race import accesses
from kcheck.ptx.sanitizers.race.layout import LAST_STAMP
from kcheck.ptx.syntax.parser import parse

PROGRAMS = [*range(5), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(5, 40))]
"""Seeds, of each test and width: compiling a program takes a second."""
WIDTHS = (1, 8, 16, 32)


class Bench:
    """An executor with racecheck, and what it found."""

    def __init__(self, folder: Path) -> None:
        self.found: list[Finding] = []
        self.memory = Memory(64 << 20)
        self.executor = Executor(
            self.memory, 1, ObjectCache(folder), time.monotonic, self.found.append, lambda _: None
        )
        self.executor.checks = Checks(race=True)

    def launch(self, text: str, width: int) -> None:
        """Run the kernel ``program`` on an array of BYTES bytes."""
        self.found.clear()
        self.executor.width = width
        module = self.executor.load(text)
        address = self.memory.allocate(BYTES, MemoryKind.DEVICE)
        ctypes.memset(address, 0, BYTES)
        launch = KernelLaunch(
            module, "program", struct.pack("<Q", address), (BLOCKS, 1, 1), (THREADS, 1, 1), 0, cooperative=False
        )
        assert self.executor.launch(launch) is Ending.FINISHED, self.found
        self.memory.free(address)

    def races(self, steps: list[Step], width: int) -> set[tuple[int, int]]:
        """The pairs of steps that race."""
        self.launch(ptx(steps), width)
        pairs = set()
        for finding in self.found:
            assert finding.rule == "racecheck", finding
            assert finding.place is not None
            other = finding.other_place or finding.place
            first, last = sorted((finding.place.line - 1, other.line - 1))
            pairs.add((first, last))
        return pairs


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """One for all programs: time goes on from launch to launch."""
    return Bench(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def lane_by_lane(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """With compiled code of its own."""
    return Bench(tmp_path_factory.mktemp("cache"))


def _true(steps: list[Step]) -> set[tuple[int, int]]:
    return {pair for pairs in racing(steps).values() for pair in pairs}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("seed", PROGRAMS)
def test_a_race_is_found_if_and_only_if_there_is_one(bench: Bench, seed: int, width: int) -> None:
    """What is found races in truth; where anything races, something is found."""
    steps = draw(1000 + seed)
    found, true = bench.races(steps, width), _true(steps)
    assert found <= true, steps
    assert bool(found) == bool(true), steps


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("seed", PROGRAMS)
def test_two_records_are_as_good_as_all(bench: Bench, seed: int, width: int) -> None:
    """Where all accesses are of one element, whichever came first: no race is lost that is the only one."""
    steps = draw(2000 + seed, is_one_place=True)
    found, true = bench.races(steps, width), _true(steps)
    assert found <= true, steps
    assert bool(found) == bool(true), steps


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("seed", PROGRAMS)
def test_scattered_lanes_are_checked_at_once_as_they_are_one_by_one(
    bench: Bench, lane_by_lane: Bench, monkeypatch: pytest.MonkeyPatch, seed: int, width: int
) -> None:
    """What is found races in truth, and is what the code finds that checks lane after lane."""
    steps = draw_scattered(6000 + seed)
    found, true = bench.races(steps, width), _true(steps)
    assert found <= true, steps
    assert bool(found) == bool(true), steps
    monkeypatch.setattr(accesses, "MOST_PARTS", 0)
    assert found == lane_by_lane.races(steps, width), steps


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("space", ["shared", "global"])
@pytest.mark.parametrize("what", ["read", "atomic", "write"])
def test_lanes_in_one_place_among_scattered_lanes_are_all_remembered(
    bench: Bench, what: str, space: str, width: int
) -> None:
    """Lanes 3 and 11 access one element, lane 4 another; later lane 11 alone writes the element.

    Of writes, which race at once, the last one is remembered.
    """
    both = Step(what, space, stride=8, warps=1, lanes=1 << 3 | 1 << 4 | 1 << 11, blocks=1, span=BYTES)
    steps = [both, replace(both, what="write", lanes=1 << 11)]
    assert (0, 1) in _true(steps)
    assert bench.races(steps, width) == {(0, 0) if what == "write" else (0, 1)}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("stride", [0, 5])
def test_a_read_of_another_block_is_remembered_after_a_barrier(bench: Bench, stride: int, width: int) -> None:
    """A write of block 1 races with the read of block 0 alone: barriers order it with the reads of block 1."""
    first = Step("read", "global", stride=stride, blocks=1, span=BYTES)
    again = replace(first, blocks=2)
    steps = [first, again, Step("barrier"), again, Step("barrier"), replace(again, what="write", warps=1, lanes=1)]
    assert bench.races(steps, width) == {(0, 5)}


@pytest.mark.parametrize("width", [1, 16])
@pytest.mark.parametrize("seed", PROGRAMS)
def test_parts_of_a_warp_that_synchronise_raise_no_false_alarm(bench: Bench, seed: int, width: int) -> None:
    """With masks of parts of a warp what is found races in truth."""
    steps = draw(3000 + seed, has_partial=True)
    assert bench.races(steps, width) <= _true(steps), steps


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("seed", PROGRAMS)
def test_a_race_is_an_error_if_and_only_if_it_can_be_seen(bench: Bench, seed: int, width: int) -> None:
    """A read beside a write that does not change the value is a warning, whichever was executed first."""
    steps = draw_values(4000 + seed)
    found = bench.races(steps, width)
    errors = [finding for finding in bench.found if finding.severity == "error"]
    assert found <= _true(steps), steps
    assert bool(errors) == is_error(steps), steps
    assert bool(found) == bool(_true(steps)), steps


COUNTED = """.version 8.7
.target sm_80
.address_size 64
.visible .entry program(.param .u64 memory)
{
    .reg .pred %p; .reg .b32 %t;
    mov.u32 %t, %tid.x;
    setp.ge.u32 %p, %t, 32;
    @%p bra DONE;
    bar.sync 1, THREADS;
DONE:
    bar.sync 0;
    ret;
}
"""


@pytest.mark.parametrize("width", WIDTHS)
def test_a_barrier_of_some_threads_is_said_to_be_taken_for_one_of_all(bench: Bench, width: int) -> None:
    """Where order is assumed that a barrier does not give, a warning says so; there is none where it does."""
    bench.launch(COUNTED.replace("THREADS", "32"), width)
    (warning,) = bench.found
    assert (warning.rule, warning.severity) == ("racecheck", "warn")
    assert "a race may be missed" in warning.message
    bench.launch(COUNTED.replace("bar.sync 1, THREADS;", ""), width)
    assert bench.found == []


RACY = [Step("write", "global"), Step("barrier"), Step("write", "shared"), Step("barrier"), Step("read", "shared")]


def test_time_begins_anew_before_it_runs_out(bench: Bench) -> None:
    """A launch that finds the clock far on forgets all that was and finds the same."""
    expected = bench.races(RACY, 16)
    state = bench.executor._races._state
    state.now = LAST_STAMP - 5
    assert bench.races(RACY, 16) == expected == _true(RACY)
    assert state.now < 100


def test_a_launch_in_which_time_runs_out_says_so(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where stamps are used up within a launch nothing false is told, and that it gave up is."""
    monkeypatch.setattr(races, "_RENEW", 1 << 32)
    bench.executor._races._state.now = LAST_STAMP - 2
    bench.launch(ptx(RACY), 16)
    assert "stopped checking this launch" in bench.found[-1].message
    assert bench.found[-1].severity == "warn"


def test_code_without_the_check_knows_nothing_of_it() -> None:
    """Where racecheck is off it leaves no trace in the code."""
    module = parse(ptx(RACY), "program.ptx")
    assert "kcheck.race" in lower(module, "program", 16, Checks(race=True)).ir.text
    assert "race" not in lower(module, "program", 16).ir.text
    assert lower(module, "program", 16).ir == lower(module, "program", 16, Checks()).ir


def test_no_address_space_for_the_shadow_is_no_memory(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a limit forbids the shadow the launch fails as one without memory does."""

    def refuse(size: int) -> None:
        raise OSError(12, "Cannot allocate memory")

    fresh = Races(bench.memory)
    monkeypatch.setattr(races, "reserve_pages", refuse)
    with pytest.raises(OutOfMemory):
        fresh.prepare(0)
