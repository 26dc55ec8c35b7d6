"""Large arrays are judged block by block, with the results of judging them at once, and with few evaluations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracle_bench import Bench

from kcheck.model import DTYPES
from kcheck.oracle import blocks
from kcheck.oracle.arithmetic import Arithmetic
from kcheck.oracle.blocks import by_block, by_rows
from kcheck.oracle.noise import DRAWS, NoiseFloor
from kcheck.oracle.reference import Reference
from kcheck.oracle.tolerance import CONSTANT, Conditioned

LONG_SUM = "def ref(x):\n    return x.sum(axis=1) - 700\n"


def test_a_function_of_each_element_may_have_other_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are broadcast; None is passed on."""
    monkeypatch.setattr(blocks, "BLOCK", 5)
    x, y = np.arange(28.0).reshape(4, 7), np.arange(7.0)
    assert np.array_equal(by_block(lambda a, b, c: a * b + (c is None), x, y, None), x * y + 1)
    assert np.array_equal(by_block(lambda a: a > 3, x.T), x.T > 3)


def test_a_function_of_each_row_may_have_several_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 5)
    x = np.arange(84.0).reshape(3, 4, 7)
    least, most = by_rows(lambda a: (a.min(axis=-1), a.max(axis=-1)), x)
    assert np.array_equal(least, x.min(axis=-1))
    assert np.array_equal(most, x.max(axis=-1))


@pytest.mark.parametrize("mode", ["nearest", "backwards", "random"])
@pytest.mark.parametrize("precision", ["float16", "float32", "float64"])
@pytest.mark.parametrize("is_complex", [False, True])
def test_blocks_do_not_change_roundings(
    monkeypatch: pytest.MonkeyPatch, mode: Any, precision: str, is_complex: bool
) -> None:
    """Special values too, and the random moves are those of the whole array."""
    x: Any = np.random.default_rng(3).normal(size=(11, 13)) * 1000
    x = x + 1j * x[::-1] if is_complex else x
    x[0, :3] = np.inf, np.nan, 0.0

    def results() -> list[Any]:
        arithmetic = Arithmetic(DTYPES[precision], mode, seed=5)
        with np.errstate(all="ignore"):
            return [
                *(arithmetic.given(x), arithmetic.after(x), arithmetic.after(x, 2.0, checked=False)),
                *(arithmetic.after(x, noise=np.abs(x)), arithmetic.total(x)),
            ]

    whole = results()
    monkeypatch.setattr(blocks, "BLOCK", 7)
    for one, other in zip(whole, results(), strict=True):
        np.testing.assert_array_equal(one, other)


def _floor(bench: Bench) -> tuple[NoiseFloor, np.ndarray[Any, Any]]:
    spec = bench.spec(LONG_SUM, {"x": "float32"}, {"y": "float32"})
    x = np.random.default_rng(0).normal(1, 0.1, size=(40, 700)).astype(np.float32)
    reference = Reference.load(spec, bench.arrays(spec, {"x": x}, {"y": (40,)}))
    expected = reference.call()
    return NoiseFloor(reference, expected, DTYPES["float32"], seed=3), expected["y"]


def test_few_evaluations_explain_the_errors_of_a_correct_kernel(bench: Bench) -> None:
    """The floor is evaluated only as far as needed, and a larger error needs all of it."""
    floor, expected = _floor(bench)
    rule = Conditioned(DTYPES["float32"], floor)
    whole, _ = _floor(bench)
    noise = whole.noise("y")
    assert rule.allowance("y", expected, noise / 8).allowed.shape == noise.shape
    assert floor.draws < DRAWS
    allowed = rule.allowance("y", expected, noise * CONSTANT * 100).allowed
    assert floor.draws >= DRAWS
    assert np.all(allowed > noise * CONSTANT)


@pytest.mark.parametrize("factor", [0.0, 0.3, 1.0, 2.0, 3.0, 3.9, 4.5, 6.0])
def test_a_partial_floor_accepts_what_the_whole_floor_accepts(bench: Bench, factor: float) -> None:
    """And nothing else: the verdict does not depend on how far the floor is evaluated."""
    (floor, expected), (other, _) = _floor(bench), _floor(bench)
    error = factor * (_floor(bench)[0].noise("y") + 2.0**-24 * np.abs(expected))
    partial = Conditioned(DTYPES["float32"], floor).allowance("y", expected, error)
    whole = Conditioned(DTYPES["float32"], other, whole=True).allowance("y", expected, error)
    assert bool(np.all(error <= partial.allowed)) == bool(np.all(error <= whole.allowed))
