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


def test_a_call_that_jax_traces_is_dropped_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    """Its arrays have no values; the transformation works, and no tracer is kept."""
    jax = pytest.importorskip("jax")
    found: list[Mismatch] = []
    checker = EquivalenceChecker()
    double = checker.equivalent(lambda x: x + x, found.append)(lambda x: 2 * x)
    with checker.start(sample_probability=1.0):
        assert jax.jit(double)(jnp.ones(3)).tolist() == [2, 2, 2]
        assert jax.grad(lambda x: double(x).sum())(jnp.ones(3)).tolist() == [2, 2, 2]
        assert jax.vmap(double)(jnp.ones((2, 3))).shape == (2, 3)
        assert jax.jit(lambda: double(jnp.ones(3)))().tolist() == [2, 2, 2]  # concrete inputs, traced result
        double(jnp.ones(3))
    stats = checker.stats()
    assert (stats.sampled, stats.checked, stats.reference_errors, stats.queue_bytes) == (5, 1, 0, 0)
    assert stats.dropped == {"traced": 4}
    assert "its arrays have no values; call it outside jit, grad and vmap" in caplog.text
    assert found == []
