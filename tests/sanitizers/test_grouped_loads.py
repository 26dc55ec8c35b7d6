"""racecheck of loads from shared memory that it checks as a group: it finds what it finds in each of them.

The random programs of ``grouped_programs.py`` have some of the barriers that they need.
"""

from __future__ import annotations

import re

import pytest
from grouped_programs import BLOCKS, HEAD, Bench, program

from kcheck.model import Finding
from kcheck.ptx.abi import Checks
from kcheck.ptx.compile import lower
from kcheck.ptx.sanitizers.race.hooks import RaceObserver
from kcheck.ptx.syntax.parser import parse


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """One for all programs."""
    return Bench(tmp_path_factory.mktemp("cache"), Checks(race=True))


@pytest.fixture(scope="module")
def one_by_one(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """With compiled code of its own."""
    return Bench(tmp_path_factory.mktemp("cache"), Checks(race=True))


SEEDS = [*range(5), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(5, 300))]


def both(
    bench: Bench, one_by_one: Bench, text: str, width: int, block: tuple[int, int, int], patch: pytest.MonkeyPatch
) -> tuple[list[Finding], list[Finding]]:
    """The findings with groups, and with a check of each load."""
    found = bench.run(text, width, block)
    with patch.context() as without:
        without.setattr(RaceObserver, "groups", lambda self, load: False)
        return found, one_by_one.run(text, width, block)


def places(found: list[Finding], text: str) -> set[tuple[str, tuple[int, ...]]]:
    """The severity and the two lines of each race; line 0 stands for all loads."""
    source = text.splitlines()
    races = set()
    for finding in found:
        numbers = [place.line for place in (finding.place, finding.other_place) if place is not None]
        races.add((finding.severity, tuple(sorted(0 if "ld." in source[n - 1] else n for n in numbers))))
    return races


@pytest.mark.parametrize("seed", SEEDS)
def test_groups_have_the_findings_of_their_loads(
    bench: Bench, one_by_one: Bench, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same races, between the same lines and threads, as with a check of each load."""
    text, block = program(seed, apart=True), BLOCKS[seed % len(BLOCKS)]
    for width in (4, 16):
        found, expected = both(bench, one_by_one, text, width, block, monkeypatch)
        assert found == expected, (width, block, text)


@pytest.mark.parametrize("seed", SEEDS)
def test_groups_that_overlap_race_with_the_same_stores(
    bench: Bench, one_by_one: Bench, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a lane loads an element more than once, another one of the loads may be named."""
    text, block = program(seed), BLOCKS[seed % len(BLOCKS)]
    for width in (4, 16):
        found, expected = both(bench, one_by_one, text, width, block, monkeypatch)
        assert places(found, text) == places(expected, text), (width, block, text)


def test_programs_have_groups_and_races(bench: Bench) -> None:
    """Most programs have groups of both kinds; some race, and some do not."""
    rows = elements = races = 0
    for text in (program(seed, apart=apart) for seed in range(10) for apart in (True, False)):
        ir = lower(parse(text, "t.ptx"), "program", 16, Checks(race=True), row=16).ir.text
        rows += "@kcheck.race.rows.shared" in ir
        elements += "@kcheck.race.elements.shared" in ir
        races += bool(bench.run(text, 16, BLOCKS[0]))
    assert min(rows, elements) >= 8
    assert 4 <= races <= 19


def plain(lines: list[str]) -> str:
    """A kernel of these statements."""
    return HEAD + "\n".join(lines) + "\nst.global.u32 [%out], %w;\nret;\n}\n"


def spans(text: str) -> list[int]:
    """The bytes that each group of loads of the same elements in all lanes spans."""
    ir = lower(parse(text, "t.ptx"), "program", 16, Checks(race=True), row=16).ir.text
    return [int(n) for n in re.findall(r"= call i1 @kcheck\.race\.elements\.\S+\(i64 \S+, i64 (\d+),", ir)]


BETWEEN = (
    "st.shared.u32 [%at], %n;",
    "atom.shared.add.u32 %v, [%at], 1;",
    "bar.warp.sync 0xffffffff;",
    "membar.cta;",
    "cp.async.ca.shared.global [%at], [%out], 4;",
)


@pytest.mark.parametrize("between", BETWEEN)
def test_what_loads_must_not_pass_ends_a_group(between: str) -> None:
    """Loads after it are not checked with those before it."""
    loads = [f"ld.shared.u32 %v, [%tile+{4 * k}]; add.u32 %w, %w, %v;" for k in range(12)]
    before = ["st.shared.u32 [%at], %n;", "bar.sync 0;"]  # without a store, nothing is checked
    assert spans(plain([*before, *loads])) == [48]
    assert spans(plain([*before, *loads[:6], between, *loads[6:]])) == [24]


@pytest.mark.parametrize(("first", "races"), [(0, False), (4, True)])
def test_a_store_races_with_the_loads_of_other_lanes_only(bench: Bench, first: int, races: bool) -> None:
    """Each lane stores its element of a row; a load of the same element by the same lane is no race."""
    loads = [f"ld.shared.u32 %v, [%row+{away}]; add.u32 %w, %w, %v;" for away in (first, *range(64, 384, 64))]
    text = plain(["st.shared.u32 [%at], %n;", *loads])
    ir = lower(parse(text, "t.ptx"), "program", 16, Checks(race=True), row=16).ir.text
    assert "@kcheck.race.rows.shared" in ir
    assert bool(bench.run(text, 16, (16, 1, 1))) is races
