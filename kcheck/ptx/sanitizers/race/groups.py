"""The functions that check a group of loads from shared memory at once (:mod:`kcheck.ptx.lowering.load_groups`).

They do what a check of each load does, without a call for each. If there may be a race, they say so, and each load
is checked when it executes. A load that is checked twice leaves the same records as one that is checked once.

The order of the loads does not matter: the same lanes read, with no synchronization between them. So W loads of
one element for all lanes are checked as one vector if their elements are adjacent, as in a row of a tile. If lanes
load an element several times, a race with it may name another one of these loads.
"""

from __future__ import annotations

from collections.abc import Sequence

from kcheck.dataclass import dataclass
from kcheck.ptx.ir.function import Array, FunctionBuilder, Term
from kcheck.ptx.ir.signature import Definition, Signature
from kcheck.ptx.runtime.lookup import CONTEXT
from kcheck.ptx.sanitizers.race.cells import Cells, check_lanes, check_two, times
from kcheck.ptx.sanitizers.race.checked_access import find_window
from kcheck.ptx.sanitizers.race.facts import RaceFacts
from kcheck.ptx.sanitizers.race.layout import READ, THREAD_BITS
from kcheck.ptx.sanitizers.race.sync import state_of

GROUP_CONTEXT = ("launch", "worker", "t0")


@dataclass(frozen=True, slots=True)
class CheckedGroup:
    """Plain loads of a granule of shared memory by each of ``width`` lanes.

    Attributes:
        is_row: whether lanes access adjacent granules; otherwise, all lanes access the same one.
    """

    granule: int
    width: int
    is_row: bool

    @property
    def signature(self) -> Signature:
        """The function that checks it; returns whether no load needs another check.

        ``a``: the lowest address of the first lane; ``span``: the bytes from there to the end of the last access;
        ``m``: the active lanes; ``words``: :meth:`steps` one after another, and ``count`` how many.
        """
        name = f"@kcheck.race.{'rows' if self.is_row else 'elements'}.shared.{self.granule}.v{self.width}"
        given = {"a": "i64", "span": "i64", "m": f"i{self.width}", "words": "ptr", "count": "i32"}
        return Signature(name, "i1", given | {key: CONTEXT[key] for key in GROUP_CONTEXT})

    @property
    def words_of_step(self) -> int:
        """The length of each of :meth:`steps`."""
        return 2 if self.is_row else 2 + self.width

    def steps(self, loads: Sequence[tuple[int, int]]) -> list[list[int]]:
        """What the function checks at once, in words. A load of a row: its distance from the lowest in granules,
        and its site. Otherwise W adjacent granules: the distance of the first, which ones are loaded, as bits, and
        W sites.

        Args:
            loads: the distance of each in bytes, and the number of its site.
        """
        places = [(distance // self.granule, site) for distance, site in loads]
        if self.is_row:
            return [[place, site] for place, site in places]
        found: dict[int, dict[int, int]] = {}
        for place, site in places:
            found.setdefault(place // self.width, {}).setdefault(place % self.width, site)
        return [
            [n * self.width, sum(1 << k for k in sites), *(sites.get(k, 0) for k in range(self.width))]
            for n, sites in sorted(found.items())
        ]

    def span(self, loads: Sequence[tuple[int, int]]) -> int:
        """The bytes from the lowest address to the end of the last access."""
        return max(distance for distance, _ in loads) + self.granule * (self.width if self.is_row else 1)


def group_ir(group: CheckedGroup, facts: RaceFacts, declarations: dict[str, str]) -> Definition:
    """The definition of a group's function."""
    f = FunctionBuilder(group.signature, "noinline", group.width, declarations)
    window, span, bits = find_window(f, "shared"), f.argument("span"), f.argument("m")
    distance = f.argument("a") - window.base
    with f.if_((distance > window.size) | (window.size - distance < span)):
        f.ret(0)
    with f.if_(bits.eq(0)):
        f.ret(1)
    index, words = distance >> (group.granule.bit_length() - 1), f.array("words", "i32")
    size, number = group.words_of_step, f.variable("i32", 0)
    with f.loop():  # a load that may be in a race leaves it
        n = number.value
        with f.if_(n >= f.argument("count")):
            f.ret(1)
        number.value = n + 1
        (_check_row if group.is_row else _check_elements)(f, facts, index, f.array(words.at(n * size), "i32"))
    f.ret(0)
    return f.definition()


def _check_row(f: FunctionBuilder, facts: RaceFacts, index: Term, step: Array) -> None:
    """Check one load of a row. ``index``: of the lowest granule; ``step``: of :meth:`CheckedGroup.steps`."""
    state, first = state_of(f), f.argument("t0")
    mask = f.term(f.bits_mask(f.argument("m"), f.width))
    me = f.term(f.splat(step[1] << THREAD_BITS | first)) + f.lanes_const("i32", range(f.width))
    cells = Cells(f, state, "shared", facts, times(state, facts, first >> 5), index + step[0].to("i64"), me, mask)
    with f.if_(cells.any(~cells.is_settled(READ))):
        check_lanes(cells, READ, None)


def _check_elements(f: FunctionBuilder, facts: RaceFacts, index: Term, step: Array) -> None:
    """Check loads of one element each for all lanes. As for one load, the first and the last active lane leave
    records."""
    state, bits, t0 = state_of(f), f.argument("m"), f.argument("t0")
    mask = f.term(f.bits_mask(step[1].to(f"i{f.width}"), f.width))
    sites = f.load("i32", step.at(2), 4, f.width) << THREAD_BITS
    first = t0 + f.trailing_zeros(bits).to("i32")
    last = t0 + (f.width - 1) - f.leading_zeros(bits).to("i32")
    infos = (sites | f.splat(first), sites | f.splat(last))
    t, index = times(state, facts, t0 >> 5), index + step[0].to("i64")
    check_two(Cells(f, state, "shared", facts, t, index, infos[0], mask), READ, infos, f.continue_)
    for info in infos:
        check_lanes(Cells(f, state, "shared", facts, t, index, info, mask), READ, None)
