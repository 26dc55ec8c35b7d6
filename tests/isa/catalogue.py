"""Every form of every row of the instruction table, with what the ISA says of it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import pytest

from kcheck.ptx.isa import ROWS
from kcheck.ptx.isa.rows import Row
from tests.isa.memory_cases import atomics, loads_and_stores
from tests.isa.model import Illegal, expectation
from tests.isa.move_cases import moves
from tests.isa.program import Case

BATCH = 40
"""Cases in one kernel: enough to share its prologue, few enough to find a culprit in."""

THIN = 100
"""Of a row with more forms than this, a selection that covers every pair of modifiers goes into the quick batches.
``cvt`` is spared: there every pair of types rounds in its own way. Rows of video instructions are always thinned,
since they differ in types only."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Cases that share a kernel: their forms have the same sources."""

    name: str
    cases: tuple[Case, ...]

    def __str__(self) -> str:
        return self.name


def rows() -> Iterator[tuple[Row, int]]:
    """Every row, with its count of source operands."""
    for table in ROWS.values():
        for row in table:
            yield row, sum(not slot.result for slot in row.slots)


def legal(row: Row, sources: int) -> dict[tuple[str, ...], tuple[Case, ...]]:
    """The forms of a row by modifiers, without those that the ISA does not have.

    Raises:
        NoExpectation: the model does not know one.
    """
    found = {}
    for modifiers in row.variants():
        try:
            forms = expectation(row.opcode, modifiers, sources)
        except Illegal:
            continue
        found[modifiers] = tuple(
            Case(".".join((row.opcode, *modifiers)), form, _signed(row.opcode, modifiers)) for form in forms
        )
    return found


def _signed(opcode: str, modifiers: tuple[str, ...]) -> tuple[str, ...]:
    """How a form whose last modifier stands for signs of operands is written; empty for others."""
    operands = (
        {"-ab": "{d0}, {a}, -{b}, {c}", "-c": "{d0}, {a}, {b}, -{c}"}.get(modifiers[-1]) if modifiers else None
    )
    return (f"{'.'.join((opcode, *modifiers[:-1]))} {operands}",) if operands else ()


def _thinned(variants: list[tuple[str, ...]]) -> set[tuple[str, ...]]:
    """Variants that between them hold every pair of modifiers that some variant holds."""
    shuffled = list(variants)
    random.Random("kcheck variants").shuffle(shuffled)
    covered: set[tuple[str, ...]] = set()
    chosen = set()
    for variant in shuffled:
        pairs = set(itertools.combinations(variant, 2))
        if not pairs <= covered:
            covered |= pairs
            chosen.add(variant)
    return chosen


@cache
def _catalogue() -> tuple[list[Case], list[Case]]:
    """The quick and the further cases, each once."""
    quick: dict[tuple[object, ...], Case] = {}
    further: dict[tuple[object, ...], Case] = {}
    for row, sources in rows():
        found = legal(row, sources)
        few = row.opcode == "cvt" or (len(found) <= THIN and not row.opcode.startswith("v"))
        chosen = set(found) if few else _thinned(list(found))
        for modifiers, cases in found.items():
            for case in cases:
                form = case.form
                key = (case.name, form.sources, form.results, form.immediate)
                (quick if modifiers in chosen else further).setdefault(key, case)
    return list(quick.values()), [case for key, case in further.items() if key not in quick]


def batches(further: bool = False) -> list[Batch]:
    """The quick cases, or the further ones, by kernel."""
    groups: dict[tuple[str, ...], list[Case]] = {}
    for case in _catalogue()[further]:
        groups.setdefault(case.form.sources, []).append(case)
    return [
        Batch(f"{' '.join(sources)} {start // BATCH}", tuple(cases[start : start + BATCH]))
        for sources, cases in groups.items()
        for start in range(0, len(cases), BATCH)
    ]


def memory_batches() -> list[Batch]:
    """Cases that go through memory, by family and kernel."""
    found = []
    for family, cases in (("atomics", atomics()), ("ld st", loads_and_stores()), ("mov", moves())):
        groups: dict[tuple[str, ...], list[Case]] = {}
        for case in cases:
            groups.setdefault(case.form.sources, []).append(case)
        found += [
            Batch(f"{family} {' '.join(sources)} {start // BATCH}", tuple(group[start : start + BATCH]))
            for sources, group in groups.items()
            for start in range(0, len(group), BATCH)
        ]
    return found


def every_other(found: Sequence[Batch]) -> list[object]:
    """Every other batch is for every day, the rest for ``make soak``."""
    return [pytest.param(batch, marks=(pytest.mark.soak,) if n % 2 else ()) for n, batch in enumerate(found)]
