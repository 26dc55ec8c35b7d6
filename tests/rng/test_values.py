"""Values made of words: their exact definition, and their distributions against SciPy."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
import pytest
import scipy.special
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from kcheck.rng import Xorshift128Plus, real


def test_floats_are_the_top_bits() -> None:
    """A float64 is the top 53 bits times 2**-53, a float32 the top 24 times 2**-24."""
    words = Xorshift128Plus(5).words(1000).tolist()
    assert Xorshift128Plus(5).floats(1000).tolist() == [(w >> 11) / 2**53 for w in words]
    single = Xorshift128Plus(5).floats(1000, np.float32)
    assert single.dtype == np.float32
    assert single.tolist() == [(w >> 40) / 2**24 for w in words]
    with pytest.raises(TypeError, match="float16"):
        Xorshift128Plus(5).floats(1, np.float16)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**64 - 1), st.integers(-(2**63), 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 200))
def test_integers_are_the_serial_rejection(seed: int, low: int, span: int, count: int) -> None:
    """integers() equals below() drawn one by one, in range, and leaves the stream at the same place."""
    high = low + span
    if high >= 2**64 or (low < 0 and high >= 2**63):
        with pytest.raises(ValueError, match="neither int64 nor uint64"):
            Xorshift128Plus(seed).integers(low, high, count)
        return
    one, many = Xorshift128Plus(seed), Xorshift128Plus(seed)
    drawn = many.integers(low, high, count)
    assert drawn.tolist() == [low + one.below(span + 1) for _ in range(count)]
    assert drawn.dtype == (np.int64 if high < 2**63 else np.uint64)
    assert one.word() == many.word()


def test_empty_ranges_are_refused() -> None:
    """No integer below 0, none from 3 to 2."""
    with pytest.raises(ValueError, match="below 0"):
        Xorshift128Plus(0).below(0)
    with pytest.raises(ValueError, match="from 3 to 2"):
        Xorshift128Plus(0).integers(3, 2, 1)


@pytest.mark.parametrize("n", [2, 3, 6, 7, 100])
def test_integers_are_unbiased(n: int) -> None:
    """Every integer is as frequent as the others (chi-square, fixed seed)."""
    counts = np.bincount(Xorshift128Plus(n).integers(0, n - 1, 50_000), minlength=n)
    assert scipy.stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize(
    ("draw", "law"),
    [
        (lambda g: g.floats(50_000), scipy.stats.uniform()),
        (lambda g: g.normal(50_000), scipy.stats.norm()),
        (lambda g: g.log_uniform(1e-3, 1e6, 50_000), scipy.stats.loguniform(1e-3, 1e6)),
    ],
)
def test_laws(draw: Callable[[Xorshift128Plus], np.ndarray], law: scipy.stats.rv_continuous) -> None:
    """Draws follow their law (Kolmogorov-Smirnov, fixed seed)."""
    assert scipy.stats.kstest(draw(Xorshift128Plus(11)), law.cdf).pvalue > 1e-3


def test_log_uniform_keeps_its_ends() -> None:
    """log_uniform stays within its ends, also at the ends of float64."""
    for low, high in [(1.0, 1.0), (2.0**-1022, np.finfo(np.float64).max), (1e2, 6e4)]:
        drawn = Xorshift128Plus(1).log_uniform(low, high, 4000)
        assert ((drawn >= low) & (drawn <= high)).all()


def test_permutation_and_choice() -> None:
    """permutation holds each number once and moves them; choice takes every option."""
    g = Xorshift128Plus(2)
    drawn = g.permutation(1000)
    assert sorted(drawn.tolist()) == list(range(1000))
    assert (drawn != np.arange(1000)).mean() > 0.9
    assert {g.choice("abc") for _ in range(100)} == set("abc")
    assert set(g.signs(100).tolist()) == {-1.0, 1.0}


def test_log_is_accurate() -> None:
    """log is within 2 ulp of libm over the whole range of normal numbers."""
    x = np.concatenate([np.ldexp(1.0, np.arange(-1022, 1024)) * 1.3, np.linspace(1e-9, 4, 100_001)])
    expected = np.log(x)
    assert np.max(np.abs(real.log(x) - expected) / np.spacing(np.abs(expected))) <= 2


def test_exp2_and_log2_are_accurate() -> None:
    """exp2 is within 2 ulp of libm, log2 within 4, and both are exact at powers of two."""
    x = np.linspace(-1022, 1023.9, 100_001)
    assert np.max(np.abs(real.exp2(x) - np.exp2(x)) / np.spacing(np.exp2(x))) <= 2
    exponents = np.arange(-1022.0, 1024.0)
    powers = np.ldexp(1.0, exponents.astype(int))
    np.testing.assert_array_equal(real.exp2(exponents), powers)
    np.testing.assert_array_equal(real.log2(powers), exponents)
    y = np.linspace(1e-9, 40, 100_000)
    assert np.max(np.abs(real.log2(y) - np.log2(y)) / np.spacing(np.abs(np.log2(y)))) <= 4


def test_normal_quantile_is_accurate() -> None:
    """The quantile agrees with SciPy's to 4e-15 relative, from the middle to the last representable tail."""
    middle = (Xorshift128Plus(9).words(100_000) >> np.uint64(12)).astype(float)
    p = np.concatenate(
        [(middle + 0.5) * 2.0**-52, (np.arange(100.0) + 0.5) * 2.0**-52, 0.5 + np.arange(9) * 2.0**-53]
    )
    np.testing.assert_allclose(real.normal_quantile(p), scipy.special.ndtri(p), rtol=4e-15, atol=0)
    np.testing.assert_array_equal(real.normal_quantile(1.0 - p), -real.normal_quantile(p))


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("normal", "e84e3d987d6a4812"),
        ("log_uniform", "8f029a3c2ef07114"),
        ("integers", "ce318dff72b9e4ad"),
    ],
)
def test_the_bits_are_pinned(name: str, digest: str) -> None:
    """The bytes of 10,000 draws are those recorded when they were defined: replay on any machine, any version."""
    g = Xorshift128Plus(42)
    drawn = {
        "normal": lambda: g.normal(10_000),
        "log_uniform": lambda: g.log_uniform(1e-6, 1e6, 10_000),
        "integers": lambda: g.integers(-5, 1000, 10_000),
    }[name]()
    assert hashlib.blake2b(drawn.tobytes(), digest_size=8).hexdigest() == digest
