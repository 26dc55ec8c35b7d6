"""racecheck at the level of the executor: small kernels, each with a race or without, at every width."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from device_child import DeviceChild

HERE = Path(__file__).parent
SECONDS = 60.0
WIDTHS = (1, pytest.param(8, marks=pytest.mark.soak), 16, pytest.param(32, marks=pytest.mark.soak))
SOURCE = (HERE / "racing.py").read_text()


def _kernels() -> dict[str, dict[str, set[int]]]:
    """By kernel the marked lines: ``race`` and ``benign``."""
    lines = SOURCE.splitlines()
    found = {}
    for node in ast.parse(SOURCE).body:
        if isinstance(node, ast.FunctionDef) and any("row(" in ast.unparse(d) for d in node.decorator_list):
            span = range(node.lineno, (node.end_lineno or 0) + 1)
            found[node.name] = {
                mark: {n for n in span if re.search(rf"# {mark}$", lines[n - 1])} for mark in ("race", "benign")
            }
    return found


KERNELS = _kernels()


@pytest.fixture(scope="module")
def child(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeviceChild]:
    """A process on the device."""
    made = DeviceChild(HERE / "on_races.py", tmp_path_factory.mktemp("cache"))
    yield made
    made.close()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", KERNELS)
def test_a_race_is_found_at_its_two_lines_and_nowhere_else(child: DeviceChild, name: str, width: int) -> None:
    """The lines of all findings are the marked ones; a kernel without a mark has no finding."""
    told = child.ask({"kernel": name, "width": width}, SECONDS)
    marked = KERNELS[name]
    lines: dict[str, set[Any]] = {"race": set(), "benign": set()}
    for finding in told:
        assert finding["rule"] == "racecheck", finding
        kind = {"error": "race", "warn": "benign"}[finding["severity"]]
        lines[kind] |= {finding["line"], finding["other_line"]}
    assert lines == marked, told


@pytest.mark.parametrize("name", [name for name, marked in KERNELS.items() if any(marked.values())])
def test_races_that_do_not_fit_are_counted_unless_they_write_the_same_value(child: DeviceChild, name: str) -> None:
    """Writes of the same value fail no kernel, also if a launch has more kinds of races than are kept."""
    kept = child.ask({"kernel": name, "width": 16}, SECONDS)
    told = child.ask({"kernel": name, "width": 16, "capacity": 0}, SECONDS)
    assert bool(told) == any("same value" not in finding["message"] for finding in kept)
    if any("does not change the value" in finding["message"] for finding in kept):
        assert "warn" in {finding["severity"] for finding in told}
    for finding in told:
        assert re.fullmatch(r"[\d,]+ more races? on other lines", finding["message"])


def test_both_sides_are_named(child: DeviceChild) -> None:
    """The writer comes first, with thread, block and line of both, and what to do."""
    (told,) = child.ask({"kernel": "neighbour_without_barrier", "width": 16}, SECONDS)
    first, second = sorted(KERNELS["neighbour_without_barrier"]["race"])
    assert (told["line"], told["other_line"]) == (first, second)
    assert told["message"].startswith("writes 0 to s[")
    assert "reads" in told["message"]
    writer, reader = told["thread"][0], told["other"][1][0]
    assert writer == 63 - reader
    assert told["block"] == told["other"][0] == [0, 0, 0]
    assert told["fix"] == "put cuda.syncthreads() between the write and the read"


def test_a_shared_array_of_one_element_keeps_its_name(child: DeviceChild) -> None:
    """LLVM makes a variable of its element."""
    (told,) = child.ask({"kernel": "one_element", "width": 16}, SECONDS)
    assert told["message"].startswith("writes 1 to carry[0], which thread (")


def test_a_line_that_races_with_itself_is_told_how_to_stop(child: DeviceChild) -> None:
    """Threads that update one element need an atomic; threads that read what others write need a barrier between
    the read and the write, which an atomic does not replace."""
    (told,) = child.ask({"kernel": "updates_of_one_element", "width": 16}, SECONDS)
    assert told["fix"].startswith("to update one element, use cuda.atomic")
    told, *_ = (
        one
        for one in child.ask({"kernel": "update_on_two_lines", "width": 16}, SECONDS)
        if one["line"] != one["other_line"]
    )
    assert told["fix"].startswith("to update one element, use cuda.atomic")
    (told,) = child.ask({"kernel": "scan_on_one_line", "width": 16}, SECONDS)
    assert "read into a variable, put cuda.syncthreads() after it, where all threads of" in told["fix"]
    assert "atomic" not in told["fix"]


def test_lanes_of_one_warp_are_told_to_use_a_barrier_of_the_warp(child: DeviceChild) -> None:
    """Whatever the size of the block. Threads that skip a branch would miss a barrier of the block in it."""
    (told,) = child.ask({"kernel": "neighbor_in_the_warp", "width": 16}, SECONDS)
    assert told["fix"].startswith(
        "put cuda.syncwarp() between the write and the read, or cuda.syncthreads() if other"
    )
    (told,) = child.ask({"kernel": "neighbor_in_the_warp_in_a_branch", "width": 16}, SECONDS)
    assert told["fix"].startswith("put cuda.syncwarp() between the write and the read")
    assert "syncthreads" not in told["fix"]


def test_a_loop_of_each_lane_has_no_place_for_a_barrier(child: DeviceChild) -> None:
    """Lanes leave it at different iterations. tests/sanitizers/test_uneven_loops.py has the whole words."""
    found = child.ask({"kernel": "flags_of_others_in_a_loop_of_each_lane", "width": 16}, SECONDS)
    assert found
    for told in found:
        assert told["fix"].startswith("write to another array than the loop reads, or put cuda.sync"), told["fix"]


def test_one_element_of_all_threads_is_written_by_one(child: DeviceChild) -> None:
    """An atomic would keep the last value instead of the right one."""
    (told,) = child.ask({"kernel": "all_write_one_element", "width": 16}, SECONDS)
    assert told["fix"] == "let one thread write it, or give each thread its own element"


@pytest.mark.parametrize("name", ["a_lock_without_the_fence_before_it_is_left", "last_block_sums_without_a_fence"])
def test_where_an_atomic_orders_nothing_the_fence_is_named(child: DeviceChild, name: str) -> None:
    """A lock or a ticket is there, and what is missing is neither a barrier nor another atomic."""
    for told in child.ask({"kernel": name, "width": 16}, SECONDS):
        assert told["fix"].endswith("; if an atomic is a lock or a flag, add cuda.threadfence() on both sides")


def test_blocks_are_told_apart(child: DeviceChild) -> None:
    """A race between blocks names both."""
    (told,) = child.ask({"kernel": "blocks_write_one_element", "width": 16}, SECONDS)
    assert {told["block"][0], told["other"][0][0]} == {0, 1}
    assert told["thread"] == told["other"][1]


def test_nothing_is_checked_where_it_is_off(child: DeviceChild) -> None:
    """Without the check the code finds nothing."""
    assert child.ask({"kernel": "neighbour_without_barrier", "width": 16, "race": False}, SECONDS) == []
