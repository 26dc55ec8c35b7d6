"""synccheck of what numba.cuda has no words for: barriers with numbers and counts, in PTX, at every width."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "ptx"))

from ptx_machine import HEAD, launch

from kcheck.ptx import abi

WIDTHS = (1, 16, 32)
PROLOGUE = """
.reg .b32 %t, %w, %r<20>; .reg .b64 %o, %a; .reg .pred %p, %q;
mov.u32 %t, %tid.x; shr.u32 %w, %t, 5; ld.param.u64 %o, [out]; mad.wide.u32 %a, %t, 4, %o; mov.u32 %r9, 0;
setp.eq.u32 %p, %w, 0;
"""


def kernel(body: str) -> str:
    """A kernel in which %t is tid.x, %w the warp and %p says whether that is the first."""
    before = ".global .align 4 .u32 flag;"
    end = "st.global.u32 [%a], %t;\nret;"
    return f"{HEAD}{before}\n.visible .entry k(.param .u64 out)\n{{{PROLOGUE}{body}\n{end}\n}}"


CLEAN = {
    # name: (threads, body)
    "a number and a count": (64, "bar.sync 1, 64;"),
    "one barrier in two branches, by its number": (
        64,
        "@%p bra A;\nbar.sync 1, 64;\nbra B;\nA: bar.sync 1, 64;\nB:",
    ),
    "a part of the block at its own barrier": (96, "setp.ge.u32 %q, %w, 2; @%q bra B;\nbar.sync 1, 64;\nB:"),
    "each warp by itself, with one number": (96, "bar.sync 1, 32;"),
    "pairs of warps with one number": (128, "bar.sync 1, 64; bar.sync 1, 64;"),
    "two barriers in one order": (64, "bar.sync 1, 64;\nbar.sync 2, 64;"),
    "a producer that goes on": (64, "@!%p bra A;\nbar.arrive 1, 64;\nbra B;\nA: bar.sync 1, 64;\nB:"),
    "arrivals that complete a phase alone, and the next": (
        128,
        "setp.ge.u32 %q, %w, 2; @%q bra A;\nbar.arrive 1, 64;\nbra B;\nA: bar.sync 1, 64;\nB:",
    ),
    "a reduction with a count": (96, "setp.ge.u32 %q, %w, 2; @%q bra B;\nbar.red.popc.u32 %r2, 1, 64, %p;\nB:"),
    "lanes of a warp apart, where that is allowed": (
        64,
        "and.b32 %r1, %t, 1; setp.eq.u32 %q, %r1, 0; @%q bra A;\nbarrier.sync 1;\nbra B;\nA: barrier.sync 1;\nB:",
    ),
    "a flag that is set behind a barrier of others": (
        96,
        "@%p bra S;\nbar.sync 1, 64;\nst.volatile.global.u32 [flag], 1;\nbra B;\n"
        "S: ld.volatile.global.u32 %r1, [flag]; setp.eq.u32 %q, %r1, 0; @%q bra S;\nB:",
    ),
}

BUGS = {
    # name: (threads, body, kind, the line that is named, threads that wait there)
    "more threads than the block has": (64, "bar.sync 1, 128;", "BARRIER_COUNT", "bar.sync 1, 128;", 64),
    "one warp too few": (96, "bar.sync 1, 64;", "BARRIER_EXITED", "bar.sync 1, 64;", 32),
    "other counts": (
        64,
        "@%p bra A;\nbar.sync 1, 64;\nbra B;\nA: bar.sync 1, 32;\nB:",
        "BARRIER_COUNT",
        "bar.sync 1, 64;",
        32,
    ),
    "barriers in another order": (
        64,
        "@%p bra A;\nbar.sync 1, 64; bar.sync 2, 64;\nbra B;\nA: bar.sync 2, 64; bar.sync 1, 64;\nB:",
        "BARRIER_DIVERGENCE",
        "bar.sync 1, 64; bar.sync 2, 64;",
        32,
    ),
    "other numbers": (
        64,
        "@%p bra A;\nbar.sync 1, 64;\nbra B;\nA: bar.sync 2, 64;\nB:",
        "BARRIER_DIVERGENCE",
        "bar.sync 1, 64;",
        32,
    ),
    "half of each warp": (
        64,
        "and.b32 %r1, %t, 1; setp.eq.u32 %q, %r1, 0; @%q bra A;\nbar.sync 1, 32;\nbra B;\nA: bar.sync 2, 32;\nB:",
        "BARRIER_SPLIT",
        "bar.sync 1, 32;",
        32,
    ),
    "a reduction against a barrier": (
        64,
        "@%p bra A;\nbar.sync 0;\nbra B;\nA: bar.red.popc.u32 %r2, 0, %p;\nB:",
        "BARRIER_DIVERGENCE",
        "bar.sync 0;",
        32,
    ),
    "a consumer without a producer": (
        96,
        "@!%p bra A;\nret;\nA: setp.eq.u32 %q, %w, 1; @%q bra B;\nbar.arrive 1, 96;\nbra C;\n"
        "B: bar.sync 1, 96;\nC:",
        "BARRIER_EXITED",
        "B: bar.sync 1, 96;",
        32,
    ),
    "a consumer that is early": (
        64,
        "@!%p bra A;\nbar.arrive 2, 64;\nbra B;\nA: bar.sync 1, 64;\nB:",
        "BARRIER_EXITED",
        "A: bar.sync 1, 64;",
        32,
    ),
}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", CLEAN)
def test_barriers_that_are_met_have_no_finding(name: str, width: int) -> None:
    """Every thread comes to its end, and nothing is said."""
    threads, body = CLEAN[name]
    out = np.zeros(threads, np.uint32)
    ended = launch(kernel(body), [out], width, block=(threads,))
    assert (ended.status, ended.faults) == (abi.FINISHED, ())
    np.testing.assert_array_equal(out, np.arange(threads))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", BUGS)
def test_barriers_that_are_missed_are_findings(name: str, width: int) -> None:
    """One finding: its kind, the line, how many threads wait there; the kernel ends all the same."""
    threads, body, kind, line, waiting = BUGS[name]
    text = kernel(body)
    out = np.zeros(threads, np.uint32)
    ended = launch(text, [out], width, block=(threads,))
    at = 1 + text.splitlines().index(line)
    assert ended.status == abi.FINISHED
    assert [(found, where, size) for found, where, _, size in ended.faults] == [(kind, at, waiting)]
