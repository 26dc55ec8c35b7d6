"""initcheck of loads from shared memory that it tests as a group: it finds what it finds in each of them.

The random programs of ``grouped_programs.py``: most fill the tile first, and some store undefined values to it.
"""

from __future__ import annotations

import random

import pytest
from grouped_programs import BLOCKS, HEAD, Bench, program

from kcheck.model import Finding
from kcheck.ptx.abi import Checks
from kcheck.ptx.compile import lower
from kcheck.ptx.isa.events import AccessGroup
from kcheck.ptx.sanitizers.init.groups import spans
from kcheck.ptx.sanitizers.init.observer import ShadowObserver
from kcheck.ptx.syntax.parser import parse

CHECKS = Checks(init=True)
SEEDS = [*range(12), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(12, 300))]
DECLARATIONS = ".local .align 4 .b8 unset[4]; .reg .b64 %unset; .reg .pred %z; mov.u64 %unset, unset;"
FILL = "\n".join([*(f"st.shared.u32 [%at+{far}], %n;" for far in range(0, 2048, 256)), "bar.sync 0;"])
"""Write every element of the tile, if the block has 64 threads."""

LEAK = "setp.eq.u32 %z, %n, 5; @%z ld.local.u32 %v, [%unset]; @%z st.shared.u32 [%at], %v;"
"""Thread 5 copies an undefined value to its element."""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """One for all programs."""
    return Bench(tmp_path_factory.mktemp("cache"), CHECKS)


@pytest.fixture(scope="module")
def one_by_one(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """With compiled code of its own."""
    return Bench(tmp_path_factory.mktemp("cache"), CHECKS)


def drawn(seed: int) -> str:
    """A program. Most fill the tile first, and some store an undefined value somewhere."""
    draw = random.Random(seed)
    lines = program(seed, apart=seed % 2 == 1)[len(HEAD) :].splitlines()
    if draw.random() < 0.5:
        place = draw.randrange(1, len(lines) - 3)
        lines[place:place] = [LEAK, "bar.sync 0;"] if draw.random() < 0.3 else [LEAK]
    return HEAD + "\n".join([DECLARATIONS, *([FILL] if draw.random() < 0.8 else []), *lines]) + "\n"


def findings(bench: Bench, one_by_one: Bench, text: str, width: int, block: tuple[int, int, int]) -> list[Finding]:
    """What initcheck finds with groups: it must be what it finds in each load."""
    found = bench.run(text, width, block)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ShadowObserver, "groups", lambda self, load: False)
        assert found == one_by_one.run(text, width, block), (width, block, text)
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_groups_have_the_findings_of_their_loads(bench: Bench, one_by_one: Bench, seed: int) -> None:
    """The same uses of undefined values, in the same lines and threads, as with a check of each load."""
    for width in (4, 16):
        findings(bench, one_by_one, drawn(seed), width, BLOCKS[seed % len(BLOCKS)])


def test_programs_have_groups_and_undefined_values(bench: Bench) -> None:
    """Nearly all programs have groups; some use undefined values, and some do not."""
    grouped = used = 0
    for text in map(drawn, range(20)):
        grouped += "@kcheck.initialized." in lower(parse(text, "t.ptx"), "program", 16, CHECKS, row=16).ir.text
        used += bool(bench.run(text, 16, (16, 4, 1)))
    assert grouped >= 15
    assert 4 <= used <= 16


LOADS = "\n".join(f"ld.shared.u32 %v, [%row+{64 * k}]; add.u32 %w, %w, %v;" for k in range(8))
END = "st.global.u32 [%out], %w;\nret;\n}\n"


@pytest.mark.parametrize(
    ("between", "found"),
    [
        ("bar.sync 0;", False),
        (f"bar.sync 0; {LEAK} bar.sync 0;", True),
        ("bar.sync 0; cp.async.ca.shared.global [%at], [%out], 4;", True),
    ],
    ids=("nothing", "a store", "a copy"),
)
def test_what_is_written_between_two_groups_is_seen(
    bench: Bench, one_by_one: Bench, between: str, found: bool
) -> None:
    """The first group reads initialized elements; the second one reads the same addresses."""
    text = "\n".join(
        [HEAD, DECLARATIONS, FILL, LOADS, between, LOADS, "st.global.u32 [%out], %w;", "ret;", "}", ""]
    )
    assert bool(findings(bench, one_by_one, text, 16, (16, 4, 1))) is found


def test_each_block_begins_with_an_uninitialized_tile(bench: Bench, one_by_one: Bench) -> None:
    """Only block 0 fills the tile; block 1 runs on the same memory."""
    skip = "setp.eq.u32 %p, %c, %n; @!%p bra S;"  # %c - %n is 64 times the number of the block
    text = "\n".join([HEAD, DECLARATIONS, skip, FILL, "S:", LOADS, END])
    found = findings(bench, one_by_one, text, 16, (16, 4, 1))
    assert {finding.block for finding in found} == {(1, 0, 0)}


@pytest.mark.parametrize(
    ("size", "is_row", "distances", "expected"),
    [
        (4, True, [0, 64, 128], ((0, 192),)),
        (4, True, [128, 0], ((0, 64), (128, 192))),
        (4, False, [0, 4, 12, 4], ((0, 8), (12, 16))),
        (2, True, [0, 2, 4], ((0, 36),)),
    ],
)
def test_the_bytes_of_a_group(
    size: int, is_row: bool, distances: list[int], expected: tuple[tuple[int, int], ...]
) -> None:
    """Of 16 lanes, as few ranges."""
    group = AccessGroup(None, size, is_row, [(distance, 0) for distance in distances])
    assert spans(group, 16) == expected
