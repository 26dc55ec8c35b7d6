"""Instructions that touch memory or move registers, as one thread sees them, against a model of the PTX ISA."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.isa.catalogue import Batch, every_other, memory_batches
from tests.isa.differences import differs
from tests.isa.judging import complaints
from tests.isa.machines import Cpu, Gpu
from tests.isa.program import build

BATCHES = memory_batches()


@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_memory_bits(batch: Batch, cpu: Callable[[int], Cpu]) -> None:
    """What is stored, loaded, updated or moved has the bits that the ISA says, at one lane and at eight."""
    found = complaints(build(batch.cases), [cpu(1), cpu(8)])
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.parametrize("batch", every_other(BATCHES), ids=str)
def test_memory_bits_of_wide_vectors(batch: Batch, cpu: Callable[[int], Cpu]) -> None:
    """So it has with sixteen lanes."""
    found = complaints(build(batch.cases), [cpu(16)])
    assert not found, "\n".join(found)


@pytest.mark.gpu
@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_memory_bits_of_a_device(batch: Batch, gpu: Gpu) -> None:
    """So it has on a CUDA device."""
    cases = [case for case in batch.cases if case.form.cc <= gpu.capability and not differs(case.name)]
    found = complaints(build(cases, gpu.capability), [gpu])
    assert not found, "\n".join(found)
