"""Barriers that threads exit before, in PTX, at every width: which are errors, which warnings, who goes on.

Source: PTX ISA, ``barrier`` (waits for the non-exited threads; counts whole warps) and ``exit`` (a barrier for all
threads is released when only exiting threads have not arrived).
"""

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
mov.u32 %t, %tid.x; shr.u32 %w, %t, 5; ld.param.u64 %o, [out]; mad.wide.u32 %a, %t, 4, %o; mov.u32 %r9, 7;
"""


def kernel(body: str) -> str:
    """A kernel in which each thread that comes to the end leaves %r9; %t is tid.x, %w the warp."""
    end = "st.global.u32 [%a], %r9;\nret;"
    return f"{HEAD}.visible .entry k(.param .u64 out)\n{{{PROLOGUE}{body}\n{end}\n}}"


RETURNS = {
    # name: (threads, body, what each thread leaves; 0: it exits before that)
    "lanes of a warp": (64, "setp.ge.u32 %p, %t, 50; @%p ret;\nbar.sync 0;", lambda t: 7 * (t < 50)),
    "a whole warp": (96, "setp.ge.u32 %p, %t, 32; @%p exit;\nbar.sync 0;", lambda t: 7 * (t < 32)),
    "every other lane": (
        64,
        "and.b32 %r1, %t, 1; setp.eq.u32 %p, %r1, 0; @%p ret;\nbar.sync 0;",
        lambda t: 7 * (t & 1),
    ),
    "a count of those that are left": (
        64,
        "setp.ge.u32 %p, %t, 40; @%p ret;\nsetp.lt.u32 %q, %t, 99; bar.red.popc.u32 %r9, 0, %q;",
        lambda t: 40 * (t < 40),
    ),
    "all of those that are left": (
        64,
        "setp.ge.u32 %p, %t, 40; @%p ret;\n"
        "setp.lt.u32 %q, %t, 40; bar.red.and.pred %q, 0, %q; selp.u32 %r9, 5, 6, %q;",
        lambda t: 5 * (t < 40),
    ),
    "a barrier with a count, of warps that have exited lanes": (
        64,
        "setp.eq.u32 %p, %t, 3; @%p ret;\nbar.sync 1, 64;",
        lambda t: 7 * (t != 3),
    ),
    "two pairs of warps at one barrier with a count": (
        128,
        "setp.eq.u32 %p, %t, 3; @%p ret;\nbar.sync 1, 64; bar.sync 1, 64;",
        lambda t: 7 * (t != 3),
    ),
}

NOTHING_MISSING = {
    # name: (threads, body)
    "a count, in a block that ends in a part of a warp": (48, "bar.sync 1, 64;"),
    "all, in a block that ends in a part of a warp": (48, "bar.sync 0;"),
}

ERRORS = {
    # name: (threads, body, kind)
    "lanes that go past it": (64, "setp.ge.u32 %p, %t, 50; @%p bra A; bar.sync 0;\nA:", "BARRIER_EXITED"),
    "a warp that goes past it": (64, "setp.ge.u32 %p, %t, 32; @%p bra A; bar.sync 0;\nA:", "BARRIER_EXITED"),
    "a guarded barrier": (64, "setp.lt.u32 %p, %t, 50; @%p bar.sync 0;", "BARRIER_EXITED"),
    "a return after the barrier was skipped": (
        64,
        "setp.ge.u32 %p, %t, 50; @%p bra A; bar.sync 0;\n"
        "A: st.global.u32 [%a], 7; setp.ge.u32 %q, %t, 40; @%q ret;",
        "BARRIER_EXITED",
    ),
    "a skip in the last round of a loop": (
        64,
        "mov.u32 %r1, 0;\nL: setp.ge.u32 %p, %t, 50; setp.eq.u32 %q, %r1, 1; and.pred %p, %p, %q; @%p bra A;\n"
        "bar.sync 0;\nA: add.u32 %r1, %r1, 1; st.global.u32 [%a], %r1; setp.lt.u32 %q, %r1, 2; @%q bra L;",
        "BARRIER_EXITED",
    ),
    "a warp too few for the count": (96, "setp.ge.u32 %p, %t, 32; @%p ret;\nbar.sync 1, 64;", "BARRIER_EXITED"),
    "another barrier, and threads that return": (
        64,
        "setp.ge.u32 %p, %t, 60; @%p ret; setp.ge.u32 %p, %t, 32; @%p bra A;\n"
        "bar.sync 0; bra B;\nA: bar.sync 0;\nB:",
        "BARRIER_DIVERGENCE",
    ),
    "another number, and threads that return": (
        64,
        "setp.ge.u32 %p, %t, 60; @%p ret; setp.ge.u32 %p, %t, 32; @%p bra A;\n"
        "bar.sync 0; bra B;\nA: bar.sync 1;\nB:",
        "BARRIER_DIVERGENCE",
    ),
}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", RETURNS)
def test_a_barrier_waits_for_the_threads_that_have_not_exited(name: str, width: int) -> None:
    """One warning, and the others go on with what a GPU gives them."""
    threads, body, leaves = RETURNS[name]
    out = np.zeros(threads, np.uint32)
    ended = launch(kernel(body), [out], width, block=(threads,))
    assert ended.status == abi.FINISHED
    assert [kind for kind, *_ in ended.faults] == ["BARRIER_GONE"]
    np.testing.assert_array_equal(out, [leaves(t) for t in range(threads)])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", NOTHING_MISSING)
def test_lanes_that_a_block_does_not_have_are_not_missing(name: str, width: int) -> None:
    """PTX ISA, barrier: the count is a multiple of the warp size, whatever the last warp has."""
    threads, body = NOTHING_MISSING[name]
    out = np.zeros(threads, np.uint32)
    ended = launch(kernel(body), [out], width, block=(threads,))
    assert (ended.status, ended.faults) == (abi.FINISHED, ())
    assert set(out) == {7}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ERRORS)
def test_threads_that_skip_a_barrier_or_wait_elsewhere_are_an_error(name: str, width: int) -> None:
    """That a thread exits in the end does not excuse that it went past the barrier."""
    threads, body, kind = ERRORS[name]
    ended = launch(kernel(body), [np.zeros(threads, np.uint32)], width, block=(threads,))
    assert ended.status == abi.FINISHED
    assert [found for found, *_ in ended.faults] == [kind]


@pytest.mark.parametrize("width", WIDTHS)
def test_an_error_after_a_warning_is_still_found(width: int) -> None:
    """Of a block the first error is recorded, and before it at most one warning."""
    body = (
        "setp.ge.u32 %p, %t, 60; @%p ret;\nbar.sync 0; bar.sync 0;\n"
        "setp.ge.u32 %p, %t, 32; @%p bra A; bar.sync 0;\nA:"
    )
    ended = launch(kernel(body), [np.zeros(64, np.uint32)], width, block=(64,))
    assert [kind for kind, *_ in ended.faults] == ["BARRIER_GONE", "BARRIER_EXITED"]
