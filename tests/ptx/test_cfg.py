"""Blocks, their order, loops, postdominators, liveness, and which registers are uniform."""

from __future__ import annotations

import pytest

from kcheck.errors import PtxError
from kcheck.ptx.analysis import cfg, liveness, uniformity
from kcheck.ptx.analysis.cfg import Cfg
from kcheck.ptx.analysis.spin import may_spin
from kcheck.ptx.syntax.parser import parse

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def graph(body: str) -> Cfg:
    """The control flow of a body over a few registers; ``%t`` differs between lanes, ``%n`` does not."""
    text = f"""{HEAD}.entry k(.param .u32 n) {{ .reg .b32 %t, %n, %i, %x, %y; .reg .pred %p, %q; .reg .b64 %a;
    mov.u32 %t, %tid.x; ld.param.u32 %n, [n];
    {body}
    }}"""
    return cfg.build(parse(text, "t.ptx").functions["k"], "t.ptx")


def check_order(c: Cfg) -> None:
    """Every loop is contiguous and begins with its header; edges that go back lead to a header around them."""
    position = {n: k for k, n in enumerate(c.order)}
    for loop in c.loops:
        places = sorted(position[n] for n in loop.blocks)
        assert places == list(range(places[0], places[0] + len(places)))
        assert places[0] == position[loop.header]
    for n in c.order:
        for s in c.blocks[n].successors:
            assert position[s] > position[n] or any(h.header == s and n in h.blocks for h in c.loops)


BODIES = {
    "straight": "ret;",
    "branch": "setp.lt.u32 %p, %t, 9; @%p bra A; mov.u32 %x, 1; A: ret;",
    "loop": "L: add.u32 %i, %i, 1; setp.lt.u32 %p, %i, %n; @%p bra L; ret;",
    "nested": """O: mov.u32 %i, 0; I: add.u32 %i, %i, 1; setp.lt.u32 %p, %i, %n; @%p bra I;
        setp.lt.u32 %q, %i, %t; @%q bra O; ret;""",
    "two_exits": """L: setp.eq.u32 %p, %i, %t; @%p bra X; add.u32 %i, %i, 1; setp.lt.u32 %q, %i, %n; @%q bra L;
        mov.u32 %x, 1; X: ret;""",
    "two_entries": "setp.lt.u32 %p, %t, 9; @%p bra B; A: add.u32 %i, %i, 1; B: add.u32 %i, %i, 2; @%p bra A; ret;",
    "table": "T: .branchtargets A, B, C; brx.idx %n, T; A: mov.u32 %x, 1; B: mov.u32 %y, 1; C: ret;",
    "endless": "L: bra L;",
}


@pytest.mark.parametrize("name", BODIES)
def test_loops_are_contiguous_in_the_order(name: str) -> None:
    """Also where a loop has two entries."""
    c = graph(BODIES[name])
    check_order(c)
    assert set(c.order) == set(cfg.postdominators(c))


def test_loops_know_their_nesting_and_entries() -> None:
    """The outer loop comes before the inner; a loop entered in two places says so."""
    outer, inner = graph(BODIES["nested"]).loops
    assert inner.blocks < outer.blocks
    assert inner.parent == 0
    assert outer.single_entry
    assert inner.single_entry
    (loop,) = graph(BODIES["two_entries"]).loops
    assert not loop.single_entry


def test_a_barrier_a_branch_and_a_trap_end_a_block() -> None:
    """What follows is a block of its own; a guarded return goes on."""
    c = graph("bar.sync 0; setp.lt.u32 %p, %t, 1; @%p ret; trap; mov.u32 %x, 1; ret;")
    kinds = [b.terminator.opcode if b.terminator else None for b in c.blocks]
    assert kinds[:4] == ["bar", "ret", "trap", "ret"]
    assert c.blocks[1].successors == (2,)
    assert c.blocks[2].successors == ()


def test_a_branch_to_nowhere_names_its_line() -> None:
    """``file:line:`` of the branch."""
    with pytest.raises(PtxError, match=r"t\.ptx:6: no label NOWHERE in k"):
        graph("bra NOWHERE;")


def test_a_write_under_a_guard_does_not_end_a_life() -> None:
    """Where the guard is false the old value is read later."""
    c = graph("mov.u32 %x, 1; setp.lt.u32 %p, %t, 1; bra A; A: @%p mov.u32 %x, 2; mov.u32 %y, %x; ret;")
    live = liveness.analyze(c)
    assert "%x" in live.names(1)
    assert "%y" not in live.names(1)


def uniform(body: str, suspended: frozenset[int] = frozenset()) -> frozenset[str]:
    """The uniform registers of a body."""
    c = graph(body)
    return uniformity.analyze(c, liveness.analyze(c), lambda name: False, suspended, 16).uniform


@pytest.mark.parametrize(
    ("body", "register", "expected"),
    [
        ("add.u32 %x, %n, 1; ret;", "%x", True),
        ("add.u32 %x, %t, 1; ret;", "%x", False),
        ("mov.u32 %x, %ctaid.x; ret;", "%x", True),
        ("mov.u32 %x, %laneid; ret;", "%x", False),
        # a guarded loop whose counter is the same for all that are in it
        (
            """setp.lt.u32 %p, %t, 9; @%p bra X; mov.u32 %i, 0;
            L: add.u32 %i, %i, 1; setp.lt.u32 %q, %i, %n; @%q bra L; X: ret;""",
            "%i",
            True,
        ),
        # lanes leave at different rounds, and what they counted is read behind the loop
        (
            """mov.u32 %i, 0; L: add.u32 %i, %i, 1; setp.lt.u32 %q, %i, %t; @%q bra L;
            cvt.u64.u32 %a, %i; st.global.u32 [%a], %i; ret;""",
            "%i",
            False,
        ),
        # … and where it is not read, it may stay one scalar
        ("mov.u32 %i, 0; L: add.u32 %i, %i, 1; setp.lt.u32 %q, %i, %t; @%q bra L; ret;", "%i", True),
        # two values meet behind a divergent branch
        (
            """setp.lt.u32 %p, %t, 9; mov.u32 %x, 1; @%p bra A; mov.u32 %x, 2; A: cvt.u64.u32 %a, %x;
            st.global.u32 [%a], %x; ret;""",
            "%x",
            False,
        ),
        # … but not behind one that all lanes take alike
        (
            """setp.lt.u32 %p, %n, 9; mov.u32 %x, 1; @%p bra A; mov.u32 %x, 2; A: cvt.u64.u32 %a, %x;
            st.global.u32 [%a], %x; ret;""",
            "%x",
            True,
        ),
        # lanes that go on wait at the header while others still write
        (
            """mov.u32 %x, 0; mov.u32 %i, 0; L: add.u32 %i, %i, 1; add.u32 %y, %x, 1; cvt.u64.u32 %a, %y;
            st.global.u32 [%a], %y; setp.lt.u32 %p, %t, %i; @%p bra L; mov.u32 %x, %i;
            setp.lt.u32 %q, %i, %n; @%q bra L; ret;""",
            "%x",
            False,
        ),
        ("vote.sync.ballot.b32 %x, %p, -1; ret;", "%x", True),
        ("vote.sync.ballot.b32 %x, %p, %t; ret;", "%x", False),
        ("cvt.u64.u32 %a, %n; ld.global.u32 %x, [%a]; ret;", "%x", True),
        ("cvt.u64.u32 %a, %n; atom.global.add.u32 %x, [%a], 1; ret;", "%x", False),
    ],
)
def test_a_register_is_uniform_if_all_lanes_have_one_value(body: str, register: str, expected: bool) -> None:
    """By what they are computed from, and by which lanes wait while they are written."""
    assert (register in uniform(body)) is expected


def test_what_lives_where_lanes_are_put_aside_is_not_uniform() -> None:
    """A lane put aside at a loop that may spin keeps its own values."""
    body = """cvt.u64.u32 %a, %n; mov.u32 %i, 7;
    L: atom.global.cas.b32 %x, [%a], 0, 1; setp.ne.u32 %p, %x, 0; @%p bra L; add.u32 %y, %i, %n; ret;"""
    c = graph(body)
    headers = may_spin(c)
    assert len(headers) == 1
    assert "%i" in uniform(body)
    assert "%i" not in uniform(body, headers)


@pytest.mark.parametrize(
    "row", ["ld.volatile.global.u32 %x, [%a];", "nanosleep.u32 20;", "ld.acquire.gpu.u32 %x, [%a];"]
)
def test_loops_that_may_wait_for_another_thread(row: str) -> None:
    """Those with an atomic, a strong load or a sleep; a plain load in a loop sees no other thread."""
    body = "cvt.u64.u32 %a, %n; L: {} setp.ne.u32 %p, %x, 0; @%p bra L; ret;"
    assert may_spin(graph(body.format(row)))
    assert not may_spin(graph(body.format("ld.global.u32 %x, [%a];")))


@pytest.mark.parametrize(
    ("body", "spins"),
    [
        ("atom.global.add.u32 %x, [%a], 1; add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 9;", False),
        ("atom.global.add.u32 %x, [%a], 1; setp.lt.u32 %p, %x, 9;", True),
        ("atom.global.add.u32 %x, [%a], 1; add.u32 %y, %x, %y; add.u32 %i, %i, %y; setp.lt.u32 %p, %i, 9;", True),
        ("atom.global.add.u32 %x, [%a], 1; ld.global.u32 %y, [%a]; setp.ne.u32 %p, %y, 0;", True),
        ("atom.global.add.u32 %x, [%a], 1; ld.global.nc.u32 %y, [%a]; setp.ne.u32 %p, %y, 0;", False),
        (
            "atom.global.cas.b32 %x, [%a], 0, 1; setp.eq.u32 %q, %x, 0; @%q bra E;"
            " add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 9;",
            True,
        ),
        ("atom.global.add.u32 %x, [%a], 1; nanosleep.u32 20; add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 9;", True),
        (  # what is counted is drawn from memory, the rounds are not
            "ld.global.u32 %y, [%a]; setp.lt.u32 %q, %y, 5; @%q bra N; atom.global.add.u32 %x, [%a], 1;"
            " N: add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 9;",
            False,
        ),
        (  # a round is counted only where memory says so
            "atom.global.cas.b32 %x, [%a], 0, 1; setp.ne.u32 %q, %x, 0; @%q bra N; add.u32 %i, %i, 1;"
            " N: setp.lt.u32 %p, %i, 9;",
            True,
        ),
        (
            "atom.global.cas.b32 %x, [%a], 0, 1; setp.ne.u32 %q, %x, 0; @%q add.u32 %i, %i, 1;"
            " setp.lt.u32 %p, %i, 9;",
            True,
        ),
        (  # all vote that they are done, and each is by a branch of its own
            "atom.global.cas.b32 %x, [%a], 0, 1; setp.ne.u32 %q, %x, 0; @%q bra N; mov.u32 %y, 1;"
            " N: setp.eq.u32 %q, %y, 0; vote.sync.any.pred %p, %q, -1;",
            True,
        ),
        (
            "atom.global.add.u32 %x, [%a], 1; setp.lt.u32 %q, %i, 8; add.u32 %i, %i, 1;"
            " vote.sync.any.pred %p, %q, -1;",
            False,
        ),
        ("atom.global.add.u32 %x, [%a], 1; activemask.b32 %y; setp.ne.u32 %p, %y, -1;", True),
    ],
)
def test_loops_with_atomics_that_only_count(body: str, spins: bool) -> None:
    """A loop waits for nobody if what ends it does not come from memory that others write."""
    text = f"cvt.u64.u32 %a, %n; mov.u32 %i, 0; mov.u32 %y, 0; L: {body} @%p bra L; E: ret;"
    assert bool(may_spin(graph(text))) is spins


def test_a_loop_around_one_that_waits_waits_only_if_it_counts_its_rounds() -> None:
    """Each loop by itself: what the inner one counts, or another register, decides the outer one's end."""
    text = """cvt.u64.u32 %a, %n; mov.u32 %i, 0; mov.u32 %y, 0; L: add.u32 %y, %y, 1;
    M: add.u32 %i, %i, 1; ld.volatile.global.u32 %x, [%a]; setp.ne.u32 %q, %x, 0; @%q bra M;
    setp.lt.u32 %p, {}, 9; @%p bra L; ret;"""
    assert len(may_spin(graph(text.format("%i")))) == 2
    assert len(may_spin(graph(text.format("%y")))) == 1
