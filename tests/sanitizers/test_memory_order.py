"""What orders memory accesses, and what does not: shuffles, votes, volatile, scopes and locks, in CUDA C++."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kcheck.device.kinds.nvrtc import Source, compile_source
from kcheck.model import Finding
from kcheck.ptx.abi import Checks
from tests.isa.machines import Launch, sanitized

FILE = Path(__file__).with_name("memory_order.cu")
LINES = FILE.read_text().splitlines()
STARTS = {m[1]: n for n, line in enumerate(LINES) if (m := re.search(r"__global__ void (\w+)\(", line))}
WIDTHS = (1, 32)


def _marks(name: str, mark: str) -> set[int]:
    """The marked lines of a kernel, counted from 1."""
    end = min((n for n in STARTS.values() if n > STARTS[name]), default=len(LINES))
    return {n + 1 for n in range(STARTS[name], end) if LINES[n].endswith(f"// {mark}")}


def found(folder: Path, name: str, width: int) -> list[Finding]:
    """The findings of racecheck in a launch of a kernel."""
    source = Source(str(FILE), FILE.read_text(), name, (), (), ())
    launch = Launch(
        compile_source(source, "sm_80").ptx, name, (bytes(512),) * 3, 2 if name.endswith("_blocks") else 1, 64
    )
    return sanitized(folder, width, launch, Checks(race=True))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", STARTS)
def test_what_does_not_order_memory_is_a_race(tmp_path: Path, name: str, width: int) -> None:
    """The lines of all errors and warnings are the marked ones."""
    findings = found(tmp_path, name, width)
    lines: dict[str, set[int]] = {"error": set(), "warn": set()}
    for finding in findings:
        assert finding.rule == "racecheck", finding
        for place in (finding.place, finding.other_place):
            assert place is not None
            lines[finding.severity].add(place.line)
    assert lines == {"error": _marks(name, "race"), "warn": _marks(name, "warn")}, findings


@pytest.mark.parametrize(
    ("name", "message", "fix"),
    [
        (
            "vote_between",
            "with only a shuffle, vote or match between them, which does not order memory",
            "put __syncwarp() between the write and the read: a shuffle, vote or match does not order memory",
        ),
        (
            "volatile_in_global_blocks",
            "with no synchronization between them; volatile does not order accesses",
            "blocks run in any order: use an atomic function such as atomicAdd(), "
            "or do the rest in a second launch",
        ),
        (
            "atomic_of_a_block_blocks",
            "an atomic with the scope of a block is not atomic for other blocks",
            "use an atomic with the scope of the device: without _block in its name, or thread_scope_device",
        ),
        (
            "lock_with_a_fence_of_the_block_blocks",
            "the fence or atomic in between has the scope of a block",
            "use a fence and atomics with the scope of the device: __threadfence()",
        ),
        (
            "lock_without_a_fence_after_it_blocks",
            "no fence follows where the lock is taken",
            "put __threadfence() after the loop that takes the lock, and before the atomic that releases it",
        ),
    ],
)
def test_the_message_says_what_is_missing(tmp_path: Path, name: str, message: str, fix: str) -> None:
    findings = found(tmp_path, name, 32)
    assert findings
    for finding in findings:
        assert finding.message.endswith(message)
        assert finding.fix == fix
