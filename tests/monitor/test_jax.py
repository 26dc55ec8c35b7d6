"""The monitor on JAX, where it is installed: CI has none."""

from __future__ import annotations

import pytest

from kcheck.monitor import EquivalenceChecker, Mismatch

jnp = pytest.importorskip("jax.numpy")


def test_jax_arrays() -> None:
    """Nothing is copied, and a worker looks at the inputs: a call does not wait for its results."""
    found: list[Mismatch] = []
    checker = EquivalenceChecker()
    double = checker.equivalent(lambda x: x + x, found.append)(lambda x: jnp.where(x == 3, 7, 2 * x))
    with checker.start(sample_probability=0.0):
        for n in range(40):
            double(jnp.arange(8.0) / 8 + n % 2)
        double(jnp.full(8, 3.0))
    assert [mismatch.number for mismatch in found] == [41]
    assert found[0].ground_truth_result.tolist() == [6] * 8
    assert checker.stats().outliers < 10
