"""References of elementwise ops, quantization and pooling against SciPy, published vectors and plain loops."""

import importlib.util
import math
import statistics
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.ndimage
import scipy.signal
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

Array = npt.NDArray[Any]
ROOT = Path(__file__).resolve().parents[2]


def module(name: str) -> ModuleType:
    """A file of references/, from a checkout that need not be importable."""
    spec = importlib.util.spec_from_file_location(f"reference_{name}", ROOT / "references" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def load(name: str) -> Callable[..., Any]:
    """The reference of an op."""
    function: Callable[..., Any] = getattr(module(name), name)
    return function


numbers = st.floats(-1e4, 1e4, allow_subnormal=False)
vectors = hnp.arrays(np.float64, st.integers(0, 40), elements=numbers)
matrices = hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=9), elements=numbers)


@settings(deadline=None)
@given(x=vectors, slope=st.sampled_from([0.01, 0.2, 0.0, 1.5]))
def test_relu_and_leaky_relu_are_their_two_cases(x: Array, slope: float) -> None:
    """Element by element, from the definition by cases."""
    assert load("relu")(x=x).tolist() == [value if value > 0 else 0.0 for value in x.tolist()]
    assert load("leaky_relu")(x=x, slope=slope).tolist() == [v if v > 0 else slope * v for v in x.tolist()]


def test_relu_and_leaky_relu_keep_nan() -> None:
    """A NaN is neither above nor below zero and stays what it is."""
    assert math.isnan(load("relu")(x=np.array([math.nan]))[0])
    assert math.isnan(load("leaky_relu")(x=np.array([math.nan]), slope=0.1)[0])


@settings(deadline=None)
@given(x=hnp.arrays(np.float64, st.integers(0, 40), elements=st.floats(-700, 700)))
def test_silu_is_x_times_scipys_logistic_function(x: Array) -> None:
    """SiLU agrees with x * scipy.special.expit(x) to a relative 1e-13, far into the negative tail."""
    np.testing.assert_allclose(load("silu")(x=x), x * scipy.special.expit(x), rtol=1e-13, atol=1e-300)


def test_silu_has_its_published_minimum() -> None:
    """The minimum is -0.27846 at x = -1.2785: what the invariant of specs/silu.yaml rests on."""
    x = np.linspace(-3, 1, 400_001)
    y = load("silu")(x=x)
    assert y.min() == pytest.approx(-0.2784645, abs=1e-7)
    assert x[y.argmin()] == pytest.approx(-1.2784645, abs=1e-4)


@settings(deadline=None)
@given(gate=vectors, data=st.data())
def test_swiglu_multiplies_the_second_half_of_a_row(gate: Array, data: st.DataObject) -> None:
    """SciPy's silu of the first half of a row times the second half, one pair at a time."""
    value = data.draw(hnp.arrays(np.float64, gate.shape, elements=numbers))
    expected = [g * float(scipy.special.expit(g)) * v for g, v in zip(gate.tolist(), value.tolist(), strict=True)]
    actual = load("swiglu")(x=np.concatenate([gate, value])[None])
    np.testing.assert_allclose(actual[0], expected, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize(
    ("counter", "seed", "words"),
    [
        (0, 0, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),  # Random123's known answers, kat_vectors
        (5, 0x123456789ABCDEF, None),
        (2**33 + 1, 2**64 - 1, None),
    ],
)
def test_philox_is_the_published_one(counter: int, seed: int, words: list[int] | None) -> None:
    """The published answer for zeros, and elsewhere the definition in Python's unbounded integers."""
    c, key = [counter % 2**32, counter >> 32, 0, 0], [seed % 2**32, seed >> 32]
    for _ in range(10):
        high_0, low_0 = divmod(0xD2511F53 * c[0], 2**32)
        high_1, low_1 = divmod(0xCD9E8D57 * c[2], 2**32)
        c = [high_1 ^ c[1] ^ key[0], low_1, high_0 ^ c[3] ^ key[1], low_0]
        key = [(key[0] + 0x9E3779B9) % 2**32, (key[1] + 0xBB67AE85) % 2**32]
    actual = module("dropout").philox(np.array([counter], np.uint64), np.uint64(seed))[0].tolist()
    assert actual == c
    assert words is None or actual == words


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.75])
def test_dropout_drops_its_share_and_keeps_the_mean(p: float) -> None:
    """Of 20,000 elements a share of p is 0, within five deviations, and the others are worth 1 / (1 - p)."""
    result = load("dropout")(x=np.ones(20_000), p=p, seed=np.uint64(7))
    y, mask = result["y"], result["mask"]
    assert abs((mask == 0).mean() - p) <= 5 * math.sqrt(p * (1 - p) / 20_000)
    assert set(y[mask == 1].tolist()) == {1 / (1 - p)}
    assert not y[mask == 0].any()


@pytest.mark.parametrize(("T", "H", "half", "rest"), [(1, 1, 1, 0), (4, 2, 3, 1), (5, 3, 8, 6)])
def test_rope_is_a_product_of_complex_numbers(T: int, H: int, half: int, rest: int) -> None:
    """A pair is a complex number, multiplied by one of modulus 1; what is left over is untouched."""
    draw = np.random.default_rng(T)
    x, positions = draw.normal(size=(T, H, 2 * half + rest)), draw.integers(0, 50, T)
    angles = module("rope").angles(np.arange(50), half)
    turned = load("rope")(x=x, positions=positions, cosine=np.cos(angles), sine=np.sin(angles))
    for t in range(T):
        for i in range(half):
            factor = np.exp(1j * positions[t] * 10000.0 ** (-i / half))
            pairs = (x[t, :, i] + 1j * x[t, :, i + half]) * factor
            np.testing.assert_allclose(turned[t, :, i], pairs.real, rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(turned[t, :, i + half], pairs.imag, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(turned[..., 2 * half :], x[..., 2 * half :])


halves = st.integers(-300, 300).map(lambda n: n / 2)


@settings(deadline=None)
@given(x=hnp.arrays(np.float64, (3, 7), elements=halves), clip=st.sampled_from([1.0, 0.75, 0.5]))
def test_quantize_int8_is_the_exact_quotient_rounded_half_to_even(x: Array, clip: float) -> None:
    """Python rounds exact fractions half to even: float32 differs only where its quotient meets a tie."""
    result = load("quantize_int8")(x=x, clip=clip)
    assert result["q"].dtype == np.int8
    for row, levels, step in zip(x.tolist(), result["q"].tolist(), result["scale"].tolist(), strict=True):
        largest = max(abs(value) for value in row)
        assert step == pytest.approx(largest * clip / 127 if largest else 1.0, rel=2e-7)
        for value, level in zip(row, levels, strict=True):
            quotient = Fraction(value) / Fraction(step)
            expected = min(max(round(quotient), -128), 127)
            near_tie = abs(abs(quotient - math.floor(quotient)) - Fraction(1, 2)) < Fraction(1, 10**4)
            assert level == expected or (near_tie and quotient.denominator != 2 and abs(level - expected) == 1)


def test_quantize_int8_rounds_half_to_even_and_saturates() -> None:
    """A scale of 1: ties go to the even neighbor; a scale of 1/2: 127 and -127 are too much."""
    ties = np.array([[127, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5]])
    assert load("quantize_int8")(x=ties, clip=1.0)["q"].tolist() == [[127, 0, 2, 2, 0, -2, -2]]
    assert load("quantize_int8")(x=np.array([[127.0, -127.0, 3.0]]), clip=0.5)["q"].tolist() == [[127, -128, 6]]


@settings(deadline=None)
@given(
    q=hnp.arrays(np.int8, (4, 5)),
    zero_point=hnp.arrays(np.int8, 5),
    scale=hnp.arrays(np.float64, 5, elements=numbers),
)
def test_dequantize_int8_is_the_formula(q: Array, zero_point: Array, scale: Array) -> None:
    """In Python's integers, which do not wrap at 128."""
    zeros, steps = zero_point.tolist(), scale.tolist()
    expected = [[(row[j] - zeros[j]) * steps[j] for j in range(5)] for row in q.tolist()]
    assert load("dequantize_int8")(q=q, zero_point=zero_point, scale=scale).tolist() == expected


@pytest.mark.parametrize("K", [2, 14, 16, 18, 48])
def test_int4_unpack_takes_the_low_half_of_a_byte_first(K: int) -> None:
    """Weight by weight from the bytes' hexadecimal digits."""
    draw = np.random.default_rng(K)
    packed = draw.integers(0, 256, (3, K // 2)).astype(np.uint8)
    scale, zero = draw.normal(size=(3, -(-K // 16))), draw.integers(0, 16, (3, -(-K // 16))).astype(np.uint8)
    w = load("int4_unpack")(packed=packed, scale=scale, zero=zero)
    assert w.shape == (3, K)
    for i in range(3):
        for k in range(K):
            digit = int(f"{packed[i, k // 2]:02x}"[1 - k % 2], 16)
            assert w[i, k] == (digit - int(zero[i, k // 16])) * scale[i, k // 16]


@settings(deadline=None)
@given(x=hnp.arrays(np.float64, st.integers(1, 60), elements=numbers))
def test_mean_is_that_of_the_standard_library(x: Array) -> None:
    """The mean agrees with statistics.fmean to float64 rounding of the largest partial sum."""
    expected = statistics.fmean(x.tolist())
    assert load("mean")(x=x)[0] == pytest.approx(expected, abs=1e-15 * (1 + np.abs(x).sum()))


POOLS = [(5, 6, 1, 1, 0), (5, 6, 2, 2, 0), (7, 9, 3, 2, 1), (4, 5, 4, 1, 2), (1, 1, 2, 1, 1), (8, 3, 3, 3, 1)]


@pytest.mark.parametrize(("H", "W", "K", "S", "P"), POOLS)
def test_max_pool_is_scipys_maximum_filter(H: int, W: int, K: int, S: int, P: int) -> None:
    """The filter over an image with a rim of -inf, every S-th; each index is that of the first maximum."""
    x = np.random.default_rng(K).integers(-9, 3, (2, H, W)).astype(np.float64)
    result = load("max_pool")(x=x, K=K, S=S, P=P)
    padded = np.pad(x, ((0, 0), (P, P), (P, P)), constant_values=-np.inf)
    middle = K // 2  # of its window, where the filter puts each maximum
    for c in range(2):
        whole = scipy.ndimage.maximum_filter(padded[c], size=K, mode="constant", cval=-np.inf)
        last_row, last_column = H + 2 * P - K + middle, W + 2 * P - K + middle
        expected = whole[middle : last_row + 1 : S, middle : last_column + 1 : S]
        np.testing.assert_array_equal(result["y"][c], expected)
        for i, j in np.ndindex(*expected.shape):
            inside = [
                (row, column)
                for row in range(max(0, i * S - P), min(H, i * S - P + K))
                for column in range(max(0, j * S - P), min(W, j * S - P + K))
                if x[c, row, column] == expected[i, j]
            ]
            assert result["index"][c, i, j] == inside[0][0] * W + inside[0][1]


def test_max_pool_keeps_nan_and_points_at_it() -> None:
    """A NaN is the maximum of every window that holds it, the first one where there are two."""
    x = np.array([[[5.0, math.nan, math.nan], [7.0, 1.0, 2.0]]])
    result = load("max_pool")(x=x, K=2, S=1, P=0)
    assert np.isnan(result["y"]).all()
    assert result["index"].tolist() == [[[1, 1]]]


@pytest.mark.parametrize("count_include_pad", [0, 1])
@pytest.mark.parametrize(("H", "W", "K", "S", "P"), POOLS)
@pytest.mark.parametrize("beyond", [0, 1])
def test_avg_pool_is_scipys_correlation_with_ones(
    beyond: int, H: int, W: int, K: int, S: int, P: int, count_include_pad: int
) -> None:
    """The correlation of the padded image with ones over that of the elements that count, every S-th.

    Where sizes are rounded up, zeros that are never counted lie beyond the padding.
    """
    x = np.random.default_rng(K).normal(size=(H, W, 3))
    further = beyond * (S - 1)
    rim, far, window = ((P, P), (P, P)), (0, further), np.ones((K, K))
    counted = np.pad(np.ones((H, W)), rim, constant_values=count_include_pad)
    inside = (slice(0, H + P, S), slice(0, W + P, S))  # the windows that begin before the rim at the end does
    count = scipy.signal.correlate2d(np.pad(counted, far), window, mode="valid")[inside]
    OH, OW = count.shape
    actual = load("avg_pool")(x=x, K=K, S=S, P=P, OH=OH, OW=OW, count_include_pad=count_include_pad)
    for c in range(3):
        image = np.pad(np.pad(x[..., c], rim), far)
        total = scipy.signal.correlate2d(image, window, mode="valid")[inside]
        np.testing.assert_allclose(actual[..., c], total / count, rtol=1e-12, atol=1e-14)
