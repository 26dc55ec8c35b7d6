"""What launches reach of a kernel: lines and ways out of branches, at every width and beside any sanitizer."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.executor import Ending, Executor, KernelLaunch
from kcheck.cpu.memory import Memory, MemoryKind
from kcheck.model import FileCoverage
from kcheck.ptx.abi import Checks
from kcheck.runner.reaching import Reaching

WIDTHS = [1, 8, 32]
HEAD = """
.version 8.0
.target sm_80
.address_size 64
.file 1 "/p/k.py"
.file 2 "/usr/lib/python3/site-packages/numba/lib.py"
"""
# y[i] = i if i < n else nothing; n > 100 takes line 14 instead of 13.
BRANCHES = (
    HEAD
    + """
.visible .entry kernel(.param .u64 y, .param .u32 n) {
  .reg .pred %p<3>;
  .reg .b32 %r<4>;
  .reg .b64 %d<4>;
  .loc 1 10 0
  ld.param.u64 %d1, [y];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x;
  .loc 1 11 0
  setp.ge.u32 %p1, %r2, %r1;
  @%p1 bra DONE;
  .loc 1 12 0
  setp.gt.u32 %p2, %r1, 100;
  @%p2 bra OTHER;
  .loc 1 13 0
  mul.wide.u32 %d2, %r2, 4;
  bra STORE;
OTHER:
  .loc 1 14 0
  mov.u64 %d2, 0;
STORE:
  .loc 2 99 0
  add.s64 %d3, %d1, %d2;
  .loc 1 15 0
  st.global.b32 [%d3], %r2;
DONE:
  ret;
}
"""
)
GUARDED = (
    HEAD
    + """
.visible .entry kernel(.param .u64 y, .param .u32 n) {
  .reg .pred %p<3>;
  .reg .b32 %r<4>;
  .reg .b64 %d<4>;
  .loc 1 10 0
  ld.param.u64 %d1, [y];
  ld.param.u32 %r1, [n];
  mov.pred %p2, -1;
  setp.lt.u32 %p1, %r1, 5;
  .loc 1 11 0
  @%p1 st.global.b32 [%d1], %r1;
  .loc 1 12 0
  @%p2 st.global.b32 [%d1], %r1;
  .loc 1 13 0
  ret;
}
"""
)
INLINED = (
    HEAD
    + """
.visible .entry kernel(.param .u64 y, .param .u32 n) {
  .reg .b32 %r<4>;
  .loc 1 10 0
  ld.param.u32 %r1, [n];
  .loc 2 99 0, function_name $text, inlined_at 1 11 0
  add.s32 %r2, %r1, 1;
  .loc 1 12 0
  ret;
}
.section .debug_str { $text: .b8 102,0 }
"""
)
INDEXED = (
    HEAD
    + """
.visible .entry kernel(.param .u64 y, .param .u32 n) {
  .reg .b32 %r<4>;
  .loc 1 10 0
  ld.param.u32 %r1, [n];
  .loc 1 11 0
  ways: .branchtargets A, B, C;
  brx.idx %r1, ways;
A:
  .loc 1 12 0
  bra D;
B:
  .loc 1 13 0
  bra D;
C:
  .loc 1 14 0
D:
  ret;
}
"""
)


def coverage(tmp_path: Path, text: str, width: int, cases: list[int], **checks: bool) -> FileCoverage:
    """What launches with these values of n reach, each launch a case; the array y has 32 elements."""
    memory = Memory(64 << 20)
    executor = Executor(memory, 1, ObjectCache(tmp_path), time.monotonic, lambda _: None, lambda _: None)
    executor.width = width
    executor.checks = Checks(cover=True, **checks)
    y = memory.allocate(128, MemoryKind.DEVICE)
    module = executor.load(text)
    reaching = Reaching()
    for n in cases:
        given = y.to_bytes(8, "little") + n.to_bytes(4, "little")
        launch = KernelLaunch(module, "kernel", given, (1, 1, 1), (32, 1, 1), 0, False)
        assert executor.launch(launch) is Ending.FINISHED
        reaching.add(executor.reached.take())
    found = reaching.result("/p")
    assert found is not None
    assert found.cases == len(cases)
    (file,) = found.files
    assert file.path == "k.py"
    return file


@pytest.mark.parametrize(
    ("width", "checks"), [*((width, {}) for width in WIDTHS), (8, {"race": True, "init": True, "overflow": True})]
)
def test_lines_and_ways_are_counted_by_case(tmp_path: Path, width: int, checks: dict[str, bool]) -> None:
    """n = 0 leaves at line 11, n = 20 sends some threads on, and n = 32 all; none gets to line 14."""
    found = coverage(tmp_path, BRANCHES, width, [0, 20, 32], **checks)
    assert found.lines == ((10, 3), (11, 3), (12, 2), (13, 2), (14, 0), (15, 3))
    assert found.branches == ((11, (2, 2)), (12, (0, 2)))
    assert (found.missed, found.one_sided) == ((14,), (12,))


def test_a_missed_line_is_reached_by_another_case(tmp_path: Path) -> None:
    found = coverage(tmp_path, BRANCHES, 8, [20, 101])
    assert (found.missed, found.one_sided) == ((), ())


@pytest.mark.parametrize("width", WIDTHS)
def test_an_instruction_under_a_predicate_is_reached_where_it_holds(tmp_path: Path, width: int) -> None:
    """Line 11 is reached if n < 5. Triton's predicate that always holds makes no branch of line 12."""
    found = coverage(tmp_path, GUARDED, width, [9])
    assert found.lines == ((10, 1), (11, 0), (12, 1), (13, 1))
    assert found.branches == ((11, (0, 1)),)
    found = coverage(tmp_path, GUARDED, width, [9, 4, 4])
    assert found.lines == ((10, 3), (11, 2), (12, 3), (13, 3))
    assert found.one_sided == ()


def test_the_line_of_an_inlined_call_is_reached_with_the_callee(tmp_path: Path) -> None:
    """Line 11 calls a function of a library, whose own line is left out."""
    assert coverage(tmp_path, INLINED, 8, [1]).lines == ((10, 1), (11, 1), (12, 1))


@pytest.mark.parametrize("width", [1, 8])
def test_an_indexed_branch_has_as_many_ways_as_targets(tmp_path: Path, width: int) -> None:
    """An index past the end takes the last one."""
    found = coverage(tmp_path, INDEXED, width, [0, 2, 7])
    assert found.branches == ((11, (1, 0, 2)),)
    assert found.missed == (13,)


def test_code_without_coverage_tells_nothing(tmp_path: Path) -> None:
    reaching = Reaching()
    reaching.add(())
    assert reaching.result("/p") is None


@pytest.mark.parametrize("again", [False, True])
def test_a_launch_that_does_not_count_leaves_nothing(tmp_path: Path, again: bool) -> None:
    """Repeats of a case run in the code of its first launch, which counts: they reached lines of the next spec.

    ``again``: also with the parameters renewed in the job of the launch before.
    """
    memory = Memory(64 << 20)
    executor = Executor(memory, 1, ObjectCache(tmp_path), time.monotonic, lambda _: None, lambda _: None)
    executor.lends = executor.checks = Checks(cover=True, overflow=True)
    given = memory.allocate(128, MemoryKind.DEVICE).to_bytes(8, "little") + (20).to_bytes(4, "little")
    launch = KernelLaunch(executor.load(BRANCHES), "kernel", given, (1, 1, 1), (32, 1, 1), 0, False)
    assert executor.launch(launch) is Ending.FINISHED
    assert len(executor.reached.take()) == 1
    executor.checks = Checks()
    for _ in range(1 + again):
        assert executor.launch(launch) is Ending.FINISHED
        (variants,) = executor.kernels.known.values()
        assert len(variants) == 1, "the launch was not lent the code"
        assert executor.reached.take() == ()
    executor.checks = executor.lends
    assert executor.launch(launch) is Ending.FINISHED
    (reached,) = executor.reached.take()
    assert any(reached.hits)
