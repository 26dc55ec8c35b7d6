"""Instructions that map values to values: bits in, bits out, against a model written from the PTX ISA."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from kcheck.ptx.isa.rows import Row
from tests.isa.catalogue import Batch, batches, every_other, legal, rows
from tests.isa.differences import differs
from tests.isa.judging import complaints, run
from tests.isa.machines import Cpu, Gpu
from tests.isa.program import build

QUICK, FURTHER = batches(), batches(further=True)


@pytest.mark.parametrize(("row", "sources"), [pytest.param(*r, id=f"{r[0].opcode} {r[0].syntax}") for r in rows()])
def test_every_row_has_an_expectation(row: Row, sources: int) -> None:
    """The model knows every variant of every row, and the ISA has at least one of them."""
    assert legal(row, sources)


@pytest.mark.parametrize("batch", QUICK, ids=str)
def test_bits(batch: Batch, cpu: Callable[[int], Cpu]) -> None:
    """One lane and vectors of eight give the bits that the ISA says, on every edge of the types."""
    found = complaints(build(batch.cases), [cpu(1), cpu(8)])
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.parametrize("batch", every_other(QUICK), ids=str)
def test_sources_that_a_warp_shares(batch: Batch, cpu: Callable[[int], Cpu]) -> None:
    """Sixteen lanes give the same bits where a warp holds the only, the first or the last source once for all."""
    for place in dict.fromkeys([0, len(batch.cases[0].form.sources) - 1]):
        found = complaints(build(batch.cases, uniform=[place]), [cpu(16)])
        assert not found, "\n".join([f"source {place} is uniform", *found])


def test_a_whole_warp_is_rounded_to_halves_in_any_direction(cpu: Callable[[int], Cpu]) -> None:
    """LLVM ends the process on such a conversion of 32 lanes at once, so it is made in two parts."""
    directed = re.compile(r"cvt\.r[zm]\.f16\.[fsu]\d+$")
    chosen = [[case for case in batch.cases if directed.match(case.name)] for batch in QUICK]
    assert sum(map(len, chosen)) > 10
    for cases in filter(None, chosen):
        found = complaints(build(cases), [cpu(32)])
        assert not found, "\n".join(found)


def test_division_by_zero_is_told(cpu: Callable[[int], Cpu]) -> None:
    """Integer division by zero stops nothing, and is a finding."""
    batch = next(b for b in QUICK if any(c.name == "div.s32" for c in b.cases))
    case = next(c for c in batch.cases if c.name == "div.s32")
    assert run(cpu(8), build([case])).found == ("division",)


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("batch", FURTHER, ids=str)
def test_further_combinations(batch: Batch, cpu: Callable[[int], Cpu]) -> None:
    """So do the combinations of modifiers that cover no new pair, at sixteen lanes."""
    found = complaints(build(batch.cases), [cpu(16)])
    assert not found, "\n".join(found)


@pytest.mark.gpu
@pytest.mark.parametrize("batch", QUICK + FURTHER, ids=str)
def test_device(batch: Batch, gpu: Gpu) -> None:
    """A CUDA device gives what the model says: the same bits wherever the ISA leaves no choice."""
    cases = [case for case in batch.cases if case.form.cc <= gpu.capability and not differs(case.name)]
    if not cases:
        pytest.skip(f"needs more than sm_{gpu.capability}, or is a known difference")
    found = complaints(build(cases, gpu.capability), [gpu])
    assert not found, "\n".join(found)
