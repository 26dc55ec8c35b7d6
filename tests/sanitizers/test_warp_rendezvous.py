"""Lanes of a warp that come to a common instruction one after another: they wait for each other, at every width.

Source: PTX ISA, ``bar.warp.sync``, ``shfl.sync``, ``vote.sync``: a thread waits until all non-exited threads that
the mask names have executed one with the same mask; it need not be the same instruction of the program.
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
.reg .b32 %t, %l, %r<20>; .reg .b64 %o, %a; .reg .pred %p, %q, %s;
mov.u32 %t, %tid.x; and.b32 %l, %t, 31; ld.param.u64 %o, [out]; mad.wide.u32 %a, %t, 4, %o; mov.u32 %r9, 7;
setp.lt.u32 %p, %l, 12; setp.eq.u32 %s, %l, 0;
"""
SPIN = "S: ld.volatile.global.u32 %r1, [flag]; setp.eq.u32 %q, %r1, 0; @%q bra S;"


def kernel(body: str) -> str:
    """A kernel that leaves %r9: %t is tid.x, %l the lane, %p says whether that is below 12, %s whether it is 0."""
    before = ".global .align 4 .u32 flag; .global .align 4 .u32 mutex; .global .align 4 .u32 total;"
    before += " .shared .align 4 .b8 buffer[256];"
    end = "st.global.u32 [%a], %r9;\nret;"
    return f"{HEAD}{before}\n.visible .entry k(.param .u64 out)\n{{{PROLOGUE}{body}\n{end}\n}}"


CLEAN = {
    # name: (body, what each lane leaves)
    "one lane spins, and the warp waits for it": (
        f"setp.ge.u32 %q, %t, 32; @%q bra SET; @!%s bra ON;\n{SPIN}\nON: bar.warp.sync -1;\n"
        "ld.volatile.global.u32 %r9, [flag]; bra END;\n"
        "SET: st.volatile.global.u32 [flag], 5; mov.u32 %r9, 5;\nEND:",
        lambda t: 5,
    ),
    "each lane takes a lock, and then all shuffle": (
        "SPIN: atom.global.cas.b32 %r1, [mutex], 0, 1; setp.ne.u32 %q, %r1, 0; @%q bra SPIN;\n"
        "ld.volatile.global.u32 %r2, [total]; add.u32 %r3, %r2, 1; st.volatile.global.u32 [total], %r3;\n"
        "membar.gl; atom.global.exch.b32 %r4, [mutex], 0;\n"
        "vote.sync.ballot.b32 %r5, %p, -1; shfl.sync.idx.b32 %r9, %l, 3, 31, -1; add.u32 %r9, %r9, %r5;",
        lambda t: 3 + 0xFFF,
    ),
    "syncwarp in both branches": (
        "@%p bra A;\nbar.warp.sync -1;\nbra B;\nA: bar.warp.sync -1;\nB:",
        lambda t: 7,
    ),
    "what one branch stores the other reads": (
        "mov.u32 %r2, buffer; mad.lo.u32 %r2, %t, 4, %r2;\n"
        "@%p bra A;\nmul.lo.u32 %r1, %t, 3; st.shared.u32 [%r2], %r1; bar.warp.sync -1;\nmov.u32 %r9, 1; bra B;\n"
        "A: bar.warp.sync -1;\nld.shared.u32 %r9, [%r2+48];\nB:",
        lambda t: 3 * (t + 12) if t % 32 < 12 else 1,
    ),
    "a shuffle in both branches": (
        "@%p bra A;\nadd.u32 %r1, %t, 100; shfl.sync.idx.b32 %r9, %r1, 2, 31, -1;\nbra B;\n"
        "A: mul.lo.u32 %r1, %t, 2; shfl.sync.idx.b32 %r9, %r1, 20, 31, -1;\nB:",
        lambda t: t // 32 * 32 + 20 + 100 if t % 32 < 12 else (t // 32 * 32 + 2) * 2,
    ),
    "halves with masks of their own in both branches": (
        "@%p bra A;\nvote.sync.ballot.b32 %r9, %p, 0xFFFFF000;\nbra B;\n"
        "A: vote.sync.ballot.b32 %r9, %p, 0xFFF;\nB:",
        lambda t: 0xFFF if t % 32 < 12 else 0,
    ),
}

BUGS = {
    # name: (body, the line that is named)
    "a branch that has none": ("@!%p bra B;\nbar.warp.sync -1;\nB:", ["bar.warp.sync -1;"]),
    "other masks in both branches": (
        "@%p bra A;\nbar.warp.sync -1;\nbra B;\nA: bar.warp.sync 0xFFF;\nB:",
        ["bar.warp.sync -1;"],
    ),
    "another instruction in the other branch": (
        "@%p bra A;\nbar.warp.sync -1;\nbra B;\nA: vote.sync.ballot.b32 %r1, %p, -1;\nB:",
        ["bar.warp.sync -1;", "A: vote.sync.ballot.b32 %r1, %p, -1;"],
    ),
}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", CLEAN)
def test_lanes_wait_for_those_that_the_mask_names(name: str, width: int) -> None:
    """No finding, and the values are those of lanes that came together."""
    body, leaves = CLEAN[name]
    out = np.zeros(64, np.uint32)
    ended = launch(kernel(body), [out], width, block=(64,))
    assert (ended.status, ended.faults) == (abi.FINISHED, ())
    np.testing.assert_array_equal(out, [leaves(t) for t in range(64)])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", BUGS)
def test_lanes_that_wait_in_vain_are_a_finding_at_their_instruction(name: str, width: int) -> None:
    """The instruction at which lanes wait in vain is named, and the kernel ends."""
    body, lines = BUGS[name]
    text = kernel(body)
    ended = launch(text, [np.zeros(64, np.uint32)], width, block=(64,))
    rows = text.splitlines()
    assert ended.status == abi.FINISHED
    assert {(kind, at) for kind, at, _, _ in ended.faults} == {
        ("WARP_MASK", 1 + rows.index(line)) for line in lines
    }


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("vote.sync.ballot.b32 %r9, %q, -1;", "WARP_MASK_GONE"),
        ("shfl.sync.idx.b32 %r1, %l, 3, 31, -1;", "SHUFFLE_GONE"),
    ],
)
def test_waiting_for_lanes_that_exited_before_is_a_warning(line: str, kind: str, width: int) -> None:
    """As in kernels whose lanes keep together; where they come one after another, all who do not come count."""
    body = f"setp.ge.u32 %q, %t, 32; @%q bra SET; @%p ret;\n{SPIN}\n{line}\nbra END;\n"
    text = kernel(body + "SET: st.volatile.global.u32 [flag], 5;\nEND:")
    ended = launch(text, [np.zeros(64, np.uint32)], width, block=(64,))
    assert ended.status == abi.FINISHED
    kind = "WARP_MASK" if width == 1 else kind
    assert {(told, at) for told, at, _, _ in ended.faults} == {(kind, 1 + text.splitlines().index(line))}
