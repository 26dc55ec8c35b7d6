"""Loops that update a word with compare-and-swap wait for no thread; loops that take a lock do."""

from __future__ import annotations

import pytest

from kcheck.ptx.analysis.spin import may_spin
from tests.ptx.test_cfg import graph

UPDATE = """L: add.u32 %y, %x, 1; atom.global.cas.b32 %n, [%a], %x, %y;
setp.ne.u32 %p, %n, %x; mov.u32 %x, %n; @%p bra L; E: ret;"""


def spins(body: str) -> bool:
    """Whether a loop may wait for another thread."""
    return bool(may_spin(graph(f"cvt.u64.u32 %a, %t; ld.relaxed.gpu.global.u32 %x, [%a]; mov.u32 %i, 0; {body}")))


def changed(old: str, new: str) -> str:
    """The update with one text replaced by another."""
    assert UPDATE.count(old) == 1
    return UPDATE.replace(old, new)


@pytest.mark.parametrize(
    "body",
    [
        UPDATE,
        changed("setp.ne.u32 %p, %n, %x;", "setp.ne.s32 %p, %x, %n;"),
        changed("@%p bra L;", "@!%p bra E; bra L;"),
        changed("setp.ne.u32", "setp.eq.b32").replace("@%p bra L;", "@!%p bra L;"),
        changed("setp.ne.u32", "setp.eq.b32").replace("@%p bra L;", "@%p bra E; bra L;"),
        # the copy is the first of the round, and passes through another register
        """mov.u32 %n, %x; L: mov.u32 %i, %n; mov.u32 %x, %i; add.u32 %y, %x, 1;
        atom.global.cas.b32 %n, [%a], %x, %y; setp.ne.u32 %p, %n, %i; @%p bra L; E: ret;""",
        # it ends early where the word is large enough, as in a maximum
        changed("add.u32 %y, %x, 1;", "setp.gt.u32 %q, %x, %t; @%q bra E; mov.u32 %y, %t;"),
        # what is swapped in may depend on a branch and on other words
        changed(
            "add.u32 %y, %x, 1;", "setp.gt.u32 %q, %x, 9; mov.u32 %y, 1; @%q bra M; ld.global.u32 %y, [%a+4]; M:"
        ),
    ],
)
def test_an_update_of_a_word_waits_for_no_thread(body: str) -> None:
    """If no other thread changes the word, the next round ends the loop."""
    assert not spins(body)


@pytest.mark.parametrize(
    "body",
    [
        # a lock is free when it holds a number, not when it is unchanged
        changed("[%a], %x, %y", "[%a], 0, 1").replace("setp.ne.u32 %p, %n, %x", "setp.ne.u32 %p, %n, 0"),
        changed("setp.ne.u32 %p, %n, %x", "setp.ne.u32 %p, %n, 7"),
        # it repeats while the word is unchanged
        changed("setp.ne.u32", "setp.eq.u32"),
        changed("@%p bra L;", "@!%p bra L;"),
        # the next round compares with the same value again, with what it swapped in, or with something else
        changed("mov.u32 %x, %n; ", ""),
        changed("mov.u32 %x, %n;", "mov.u32 %x, %y;"),
        changed("mov.u32 %x, %n;", "mov.u32 %x, %n; add.u32 %x, %x, 1;"),
        # only some lanes, or only some rounds, pass it on
        changed("mov.u32 %x, %n;", "setp.gt.u32 %q, %t, 5; @%q mov.u32 %x, %n;"),
        changed("mov.u32 %x, %n;", "setp.gt.u32 %q, %t, 5; @%q bra M; mov.u32 %x, %n; M:"),
        # only some lanes, or only some rounds, swap
        changed("atom.global", "setp.gt.u32 %q, %t, 5; @%q atom.global"),
        changed("atom.global", "setp.gt.u32 %q, %t, 5; @%q bra M; atom.global").replace(
            "setp.ne.u32 %p", "M: setp.ne.u32 %p"
        ),
        # the comparison comes after the copy, or ignores bits
        changed("setp.ne.u32 %p, %n, %x; mov.u32 %x, %n;", "mov.u32 %x, %n; setp.ne.u32 %p, %n, %x;"),
        changed("setp.ne.u32 %p, %n, %x;", "setp.ne.f32 %p, %n, %x;"),
        # another word in each round
        changed("mov.u32 %x, %n;", "mov.u32 %x, %n; add.u64 %a, %a, 4;"),
        # the loop itself may change the word
        changed("add.u32 %y, %x, 1;", "add.u32 %y, %x, 1; st.global.u32 [%a+4], %y;"),
        changed("add.u32 %y, %x, 1;", "atom.global.add.u32 %y, [%a+4], 1;"),
    ],
)
def test_other_loops_around_a_compare_and_swap_may_wait(body: str) -> None:
    """Each differs from the update in one respect."""
    assert spins(body)
