"""The model of rounding: what it rounds, and that its sums err as real kernels' do."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

from kcheck.model import DTYPES
from kcheck.oracle.arithmetic import Arithmetic
from kcheck.oracle.rounded import Rounded, _view, under

FLOAT32 = DTYPES["float32"]
X = np.random.default_rng(0).normal(size=(3, 640)).astype(np.float32).astype(np.float64)

EXPRESSIONS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.sum(axis=-1),
    "sum, all axes": np.sum,
    "sum, kept": lambda x: np.sum(x, axis=(0, 1), keepdims=True),
    "sum where": lambda x: np.sum(x, axis=-1, where=np.asarray(x) > 0),
    "mean": lambda x: np.mean(x, axis=0),
    "var": lambda x: x.var(axis=1),
    "std": np.std,
    "cumsum": lambda x: np.cumsum(x, axis=1),
    "@": lambda x: x @ x.T,
    "matvec": lambda x: x @ x[0],
    "batched": lambda x: np.matmul(x[None], x.T),
    "dot": lambda x: x.dot(x.T),
    "np.dot": lambda x: np.dot(x[0], x[1]),
    "inner": lambda x: np.inner(x, x),
    "einsum": lambda x: np.einsum("ij,kj->ik", x, x),
    "tensordot": lambda x: np.tensordot(x, x, ((1,), (1,))),
    "exp": np.exp,
    "erf": special.erf,
    "power": lambda x: x**3,
    "norm": lambda x: np.linalg.norm(x, axis=1),
    "fft": lambda x: np.fft.fft(x).real,
    "prod": lambda x: np.prod(x[:, :5], axis=1),
    "outer": lambda x: np.outer(x[0], x[1]),
    "bincount": lambda x: np.bincount(np.arange(640) % 5, weights=x[0]),
    "convolve": lambda x: np.convolve(x[0], x[1]),
    "reduceat": lambda x: np.add.reduceat(x, [0, 100, 300], axis=1),
    "softmax": lambda x: special.softmax(x, axis=-1),
    "average": lambda x: np.average(x, weights=x * x, axis=1),
    "stack": lambda x: np.stack([x, x]).sum(axis=0),
    "scalar loop": lambda x: sum(x[0, k] * x[1, k] for k in range(40)),
}


def add_at(x: Any) -> Any:
    out = np.zeros(5)
    np.add.at(out, np.arange(640) % 5, x[0])
    return out


EXPRESSIONS["add.at"] = add_at
EXPRESSIONS["vectorize"] = lambda x: np.vectorize(math.erfc, otypes=[x.dtype])(x)
EXPRESSIONS["vectorize, no otypes"] = np.vectorize(math.erfc)
EXPRESSIONS["frompyfunc"] = lambda x: np.frompyfunc(math.erfc, 1, 1)(x).astype(float)


def in_place(x: Any) -> Any:
    x += 1 / 3
    x *= x
    return x


EXPRESSIONS["in place"] = in_place


@pytest.mark.parametrize("mode", ["nearest", "backwards", "random"])
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_every_way_of_writing_it_is_moved_a_little(name: str, mode: Any) -> None:
    """Each expression keeps its shape and value to float32's precision; under random rounding it moves."""
    exact = np.asarray(EXPRESSIONS[name](X.copy()))
    arithmetic = Arithmetic(FLOAT32, mode, 1)
    found = np.asarray(EXPRESSIONS[name](under(arithmetic, X.copy())))
    assert found.shape == exact.shape
    assert found.dtype == exact.dtype
    assert np.abs(found - exact).max() < 2e-4 * max(1.0, np.abs(exact).max())
    if mode == "random":
        assert (found != exact).any()


@pytest.mark.parametrize("values", [np.full(513, 0.1), np.arange(600) / 7, 1000 + X[0]])
def test_nearest_sums_are_float32_loops_bit_for_bit(values: Any) -> None:
    """A sum in nearest mode is what a float32 loop over the terms gives, from either end."""
    values = values.astype(np.float32)
    for mode, ordered in (("nearest", values), ("backwards", values[::-1])):
        total = np.float32(0)
        for value in ordered:
            total = np.float32(total + value)
        arithmetic = Arithmetic(FLOAT32, mode)
        assert float(under(arithmetic, values.astype(np.float64)).sum()) == float(total)


def test_nearest_matrix_products_are_float32_loops_bit_for_bit() -> None:
    """A matrix product in nearest mode is what a float32 loop over K with two roundings per step gives."""
    a, b = X[:, :50].astype(np.float32), X[:, 50:100].T.astype(np.float32)
    total = np.zeros((3, 3), np.float32)
    for k in range(50):
        total = total + np.outer(a[:, k], b[k])
    arithmetic = Arithmetic(FLOAT32, "nearest")
    found = under(arithmetic, a.astype(np.float64)) @ under(arithmetic, b.astype(np.float64))
    assert np.array_equal(np.asarray(found), total.astype(np.float64))


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32"])
def test_nearest_rounds_each_operation(name: str) -> None:
    """Elementwise operations in nearest mode are those of NumPy in that dtype."""
    dtype = DTYPES[name]
    x, y = (np.random.default_rng(seed).normal(size=200).astype(dtype.numpy) for seed in (1, 2))
    arithmetic = Arithmetic(dtype, "nearest")
    wide, other = under(arithmetic, x.astype(np.float64)), under(arithmetic, y.astype(np.float64))
    for found, wanted in ((wide + other, x + y), (wide * other, x * y), (wide / other, x / y)):
        assert np.array_equal(np.asarray(found), wanted.astype(np.float64))


def test_what_is_exact_does_not_move() -> None:
    """Comparisons, maxima, negation, selection and sums of small whole numbers are left alone."""
    arithmetic = Arithmetic(FLOAT32, "random", 3)
    whole = _view(arithmetic, np.arange(12.0))
    assert float((whole + whole).sum()) == 132.0
    assert float(np.maximum(whole, 5).max()) == 11.0
    assert np.array_equal(
        np.asarray(np.where(whole > 3, whole, -whole)), np.where(np.arange(12) > 3, 1, -1) * np.arange(12)
    )
    assert not isinstance(whole > 3, Rounded)


@pytest.mark.parametrize("mode", ["nearest", "random"])
def test_a_python_function_of_each_element_is_rounded_where_it_returns(mode: Any) -> None:
    """erfc(9.8) is subnormal in float32: seven times it may be off by seven half steps, and not by one."""
    x = np.linspace(9.8, 9.82, 100)
    for function in (np.vectorize(math.erfc, otypes=[float]), special.erfc):
        found = np.asarray(7.0 * function(under(Arithmetic(FLOAT32, mode, 3), x)))
        assert np.abs(found - 7.0 * function(x)).max() > 2.0 * 2.0**-149


def test_a_python_function_may_return_what_it_likes() -> None:
    """Integers, flags and pairs of an element are left as they are."""
    x = under(Arithmetic(FLOAT32, "random", 1), X[0, :4])
    assert np.vectorize(lambda v: v > 0)(x).dtype == bool
    assert np.vectorize(lambda v: int(v * 10))(x).dtype.kind == "i"
    whole, part = np.frompyfunc(lambda v: (int(v), "text"), 1, 2)(x)
    assert isinstance(whole[0], int)
    assert part[0] == "text"


def test_zero_stays_zero() -> None:
    """A zero neither moves nor becomes something to divide by."""
    arithmetic = Arithmetic(FLOAT32, "random", 3)
    zeros = under(arithmetic, np.zeros(100))
    assert not np.asarray(zeros * 3.3 + zeros).any()
    assert not np.asarray(zeros.sum(keepdims=True)).any()


def test_overflow_of_the_precision_is_infinite() -> None:
    """A product beyond float32's range is infinite under it, though float64 holds it."""
    for mode in ("nearest", "random"):
        arithmetic = Arithmetic(FLOAT32, mode, 1)
        assert np.isposinf(np.asarray(under(arithmetic, np.array([1e30])) * 1e30)).all()


def test_specials_pass_through() -> None:
    """NaN and infinities are not turned into one another by a move."""
    arithmetic = Arithmetic(FLOAT32, "random", 1)
    found = np.asarray(under(arithmetic, np.array([np.nan, np.inf, -np.inf])) * 2.0)
    assert np.isnan(found[0])
    assert found[1] == np.inf
    assert found[2] == -np.inf


@pytest.mark.parametrize("offset", [0.0, 1000.0])
@pytest.mark.parametrize("length", [64, 640])
def test_random_sums_err_as_much_as_shuffled_float32_sums(offset: float, length: int) -> None:
    """The model's spread of a sum is 1 to 8 times that of real float32 sums over random orders."""
    values = (offset + X[0, :length]).astype(np.float32)
    generator = np.random.default_rng(5)
    real = []
    for _ in range(60):
        real.append(
            float(np.cumsum(generator.permutation(values), dtype=np.float32)[-1]) - float(values.sum(dtype="f8"))
        )
    wide = values.astype(np.float64)
    model = [float(_view(Arithmetic(FLOAT32, "random", n), wide).sum()) - wide.sum() for n in range(60)]
    ratio = np.sqrt(np.mean(np.square(model))) / np.sqrt(np.mean(np.square(real)))
    assert 1.0 < ratio < 8.0


def test_the_same_seed_moves_alike() -> None:
    """A draw is a function of its seed."""
    first, again, other = (np.asarray(under(Arithmetic(FLOAT32, "random", seed), X) @ X.T) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_complex_values_are_rounded_by_component() -> None:
    """complex64 is two float32: in nearest mode both parts are rounded, in random mode both move."""
    z = np.array([1 / 3 + 2j / 3, 5 - 1j / 7])
    nearest = np.asarray(under(Arithmetic(FLOAT32, "nearest"), z))
    assert np.array_equal(nearest, z.astype(np.complex64).astype(np.complex128))
    moved = np.asarray(under(Arithmetic(FLOAT32, "random", 1), z) * (1 + 1j))
    assert (moved.real != (z * (1 + 1j)).real).all()
    assert np.allclose(moved, z * (1 + 1j), rtol=1e-6)
