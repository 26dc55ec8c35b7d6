"""Every distribution of SPEC "Value distributions", for every dtype that takes it."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
import pytest
import scipy.stats

from kcheck.generator.distributions import ADVERSARIAL, DISTRIBUTIONS, Palette
from kcheck.generator.rounding import DrawError, at_least, below, component, round_to, scalar
from kcheck.generator.values import check_legal, concrete, draw, free_axes, resolve
from kcheck.model import DTYPES, INFINITE, Distribution
from kcheck.rng import Xorshift128Plus
from kcheck.specfile import distribution as specfile

FLOATS = [name for name, dtype in DTYPES.items() if dtype.is_float]
INEXACT = [name for name, dtype in DTYPES.items() if dtype.is_inexact]
WHOLE = [name for name, dtype in DTYPES.items() if not dtype.is_inexact]
SAMPLES: dict[str, Any] = {
    "constant": 1,
    "choice": (0, 1),
    "integers": (0, 1),
    "offsets": 1,
    "sorted": Distribution("integers", (0, 1)),
    "one_hot": 0,
    "probabilities": -1,
}
SHAPES = [(), (0,), (1,), (2,), (2, 0), (3, 7), (2, 3, 5)]


def sample(name: str, dtype: str, shape: tuple[int, ...], argument: Any = None, seed: int = 1) -> np.ndarray:
    return draw(Distribution(name, argument), shape, DTYPES[dtype], Xorshift128Plus(seed), {"V": 9, "scale": 0.5})


def as_float(values: np.ndarray) -> np.ndarray:
    return values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_every_distribution_fills_every_shape(name: str, dtype: str) -> None:
    """Each legal pair gives the shape and dtype asked for, the same bytes twice, nothing non-finite unasked."""
    if name in INFINITE and dtype == "float8_e4m3fn":
        with pytest.raises(DrawError, match="no infinity"):
            sample(name, dtype, (5,))
        return
    if not DTYPES[dtype].is_inexact and not DISTRIBUTIONS[name].discrete:
        with pytest.raises(DrawError, match="does not support"):
            sample(name, dtype, (5,))
        return
    for shape in SHAPES:
        if (shape == () and name in ("one_hot", "probabilities")) or (shape in ((), (1,)) and name == "offsets"):
            with pytest.raises(DrawError):
                sample(name, dtype, shape, SAMPLES.get(name))
            continue
        if name == "permutation" and dtype == "bool" and shape and shape[-1] > 2:
            continue
        drawn = sample(name, dtype, shape, SAMPLES.get(name))
        assert drawn.shape == shape
        assert drawn.dtype == DTYPES[dtype].numpy
        assert drawn.tobytes() == sample(name, dtype, shape, SAMPLES.get(name)).tobytes()
        if name not in ("nan_injected", *INFINITE):
            assert np.isfinite(as_float(drawn)).all()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("all_negative", -10, -0.5), ("all_positive", 0.5, 10), ("uniform", -1, 1)],
)
def test_ranges(name: str, low: float, high: float, dtype: str) -> None:
    """Magnitudes stay in the range that SPEC gives, also after rounding."""
    drawn = as_float(sample(name, dtype, (4000,)))
    assert drawn.min() >= low
    assert drawn.max() <= high
    assert np.ptp(drawn) > 0.9 * (high - low)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("low", "high"), [(0, 1), (-1, 1), (0.3, 0.7), (-0.7, -0.3), (1, 2)])
def test_uniform_is_half_open_after_rounding(dtype: str, low: float, high: float) -> None:
    """No draw rounds up to the upper bound or below the lower one."""
    drawn = as_float(sample("uniform", dtype, (4000,), (low, high)))
    assert drawn.min() >= low
    assert drawn.max() < high


@pytest.mark.parametrize(
    ("dtype", "most"),
    [("float16", 6e4), ("float32", 1e6), ("float64", 1e6), ("bfloat16", 1e6), ("float8_e5m2", 57344)],
)
def test_large(dtype: str, most: float) -> None:
    """``large`` has both signs and log-uniform magnitudes from 1e2 to 1e6, float16 to 6e4."""
    drawn = as_float(sample("large", dtype, (4000,)))
    u = DTYPES[dtype].unit_roundoff
    magnitudes = np.abs(drawn)
    assert magnitudes.min() >= 1e2 * (1 - u)
    assert magnitudes.max() <= most * (1 + u)
    assert 0.45 < (drawn > 0).mean() < 0.55
    assert 0.45 < (magnitudes < math.sqrt(1e2 * min(most, 0.9 * float(DTYPES[dtype].max)))).mean() < 0.55


@pytest.mark.parametrize(
    ("name", "argument"),
    [
        ("uniform", (1, 1)),
        ("uniform", (0, math.inf)),
        ("uniform", (1e5, 1e6)),
        ("uniform", (1.00001, 1.00002)),
        ("normal", (math.nan, 1)),
        ("offset", (0, math.inf)),
    ],
)
def test_laws_that_float16_cannot_follow(name: str, argument: tuple[float, float]) -> None:
    """Bounds that hold no number of the dtype, or are not finite, are refused; nothing is clipped in silence."""
    with pytest.raises(DrawError):
        sample(name, "float16", (4,), argument)


def test_both_tables_of_distributions_agree() -> None:
    """What validation accepts is what can be drawn: the same names, for the same kinds of dtype."""
    declared = {name: row.discrete for name, row in specfile.DISTRIBUTIONS.items()}
    drawn = {name: row.discrete for name, row in DISTRIBUTIONS.items()}
    assert declared == {**drawn, "adversarial": False, "from": True}


def test_tiny() -> None:
    """``tiny`` is log-uniform from 1e-6 to 1e-3, and is not rounded to zero in any dtype."""
    magnitudes = np.abs(sample("tiny", "float64", (4000,)))
    assert scipy.stats.kstest(magnitudes, scipy.stats.loguniform(1e-6, 1e-3).cdf).pvalue > 1e-3
    for dtype in FLOATS:
        assert (as_float(sample("tiny", dtype, (1000,))) != 0).all()


def test_normal_takes_mean_and_deviation() -> None:
    """``{normal: [mean, std]}`` follows that law; ``{offset: [mean, std]}`` alike."""
    for name, argument, law in [
        ("normal", None, (0, 1)),
        ("normal", (3, 2), (3, 2)),
        ("offset", (-50, 0.1), (-50, 0.1)),
    ]:
        drawn = sample(name, "float64", (20_000,), argument)
        assert scipy.stats.kstest(drawn, scipy.stats.norm(*law).cdf).pvalue > 1e-3


def test_offset_has_either_sign() -> None:
    """By default the mean is 1e3 or -1e3 (float16: 100), one sign for the array; a mean that is given is kept."""
    means = {round(float(sample("offset", "float64", (1000,), seed=seed).mean()), -2) for seed in range(20)}
    assert means == {1e3, -1e3}
    assert abs(abs(as_float(sample("offset", "float16", (1000,))).mean()) - 100) < 1
    assert all(sample("offset", "float64", (9,), (300, 1), seed=seed).min() > 0 for seed in range(20))


def places(values: np.ndarray) -> set[int]:
    return {int(place) for place in np.flatnonzero(~np.isfinite(as_float(values)))}


def test_a_palette_lets_infinities_and_nan_coincide() -> None:
    """Arrays of one size have some at the same places, with the same sign, and others elsewhere; rows, too."""
    shape, dtype = (20, 16), DTYPES["float32"]

    def injected(name: str, seed: int, shape: tuple[int, ...] = shape) -> np.ndarray:
        return draw(Distribution(name), shape, dtype, Xorshift128Plus(seed), {}, Palette(99, shares_specials=True))

    for seed in range(20):
        one, other, nan = (
            injected("inf_injected", seed),
            injected("inf_injected", 100 + seed),
            injected("nan_injected", 7),
        )
        both = places(one) & places(other)
        assert both
        assert places(one) != places(other)
        assert any(one.flat[place] == other.flat[place] for place in both)
        assert places(one) & places(nan)
        rows = places(injected("inf_injected", seed, (20,)))
        assert rows & {place // 16 for place in places(one)}
    alone = draw(Distribution("inf_injected"), shape, dtype, Xorshift128Plus(3), {})
    assert (alone == sample("inf_injected", "float32", shape, seed=3)).all()


@pytest.mark.parametrize("name", ["ties", "normal", "uniform", "integers", "all_positive"])
def test_a_palette_lets_elements_coincide(name: str) -> None:
    """Arrays of one distribution and size have a few equal elements at the same places, each at its own place in a
    case; ``ties`` has the same values everywhere. ``sorted`` has the same elements, too."""
    argument = (-(2**20), 2**20) if name == "integers" else None

    def drawn(seed: int, palette: int, *, ascending: bool = False) -> np.ndarray:
        of = Distribution(name, argument)
        of = Distribution("sorted", of) if ascending else of
        return draw(of, (400,), DTYPES["float32"], Xorshift128Plus(seed), {}, Palette(palette))

    for palette in range(10):
        one, other = drawn(1, palette), drawn(2, palette)
        equal = np.flatnonzero(one == other)
        assert 5 <= equal.size <= (300 if name == "ties" else 8)
        assert np.intersect1d(one, drawn(3, palette, ascending=True)).size >= (2 if name == "ties" else 5)
        elsewhere = np.flatnonzero(drawn(1, 99) == drawn(2, 99))
        assert name == "ties" or not np.array_equal(equal, elsewhere)
    small = [
        draw(Distribution("normal"), (3,), DTYPES["float32"], Xorshift128Plus(n), {}, Palette(1)) for n in (1, 2)
    ]
    assert not np.intersect1d(*small).size


def test_a_palette_keeps_the_law() -> None:
    """The elements that it draws are as likely as the others."""
    drawn = [
        draw(Distribution("normal"), (64,), DTYPES["float64"], Xorshift128Plus(seed), {}, Palette(seed))
        for seed in range(300)
    ]
    assert scipy.stats.kstest(np.concatenate(drawn), scipy.stats.norm.cdf).pvalue > 1e-3


def test_ties_often_contain_0() -> None:
    """So that a condition like ``x == 0`` is met, which no other default distribution does."""
    having = [bool((sample("ties", "float32", (100,), seed=seed) == 0).any()) for seed in range(200)]
    assert 120 <= sum(having) <= 175


def test_some_cases_have_ties_in_every_array_that_may_have_them() -> None:
    """One case in 10, in addition to those in which an array draws them by itself."""
    for declared in ((), (Distribution("ties"), Distribution("normal")), (Distribution("normal"),)):
        both = [
            all(
                resolve(declared, DTYPES["float32"], Xorshift128Plus(n + m), ties=Palette(n).has_ties).name
                == "ties"
                for m in (0, 9999)
            )
            for n in range(2000)
        ]
        assert (sum(both) > 150) == (declared != (Distribution("normal"),))


@pytest.mark.parametrize(("dtype", "void"), [("bool", 0), ("int32", 0), ("float32", -math.inf)])
def test_rows_and_tiles_of_a_mask_are_empty(dtype: str, void: float) -> None:
    """Of an additive mask, -inf; the other elements are ordinary ones."""
    tiles = set()
    for seed in range(40):
        rows = (sample("empty_rows", dtype, (2, 20, 70), seed=seed) == void).reshape(40, 70).all(axis=1)
        assert 1 <= rows.sum() <= 5
        empty = sample("empty_tiles", dtype, (40, 70), seed=seed) == void
        starts = range(0, 70, 8)
        whole = [empty[:, start : start + 8].all() for start in starts]
        part = [empty[top : top + 8, start : start + 8].all() for start in starts for top in range(0, 40, 8)]
        assert any(part)
        assert not all(part)
        tiles.add(any(whole))
    assert tiles == {True, False}


def test_masks_are_drawn_whole_and_empty() -> None:
    """A bool array without ``values`` is all true and all false in some of its cases."""
    chosen = {resolve((), DTYPES["bool"], Xorshift128Plus(seed)).name for seed in range(100)}
    assert chosen == {"bernoulli", "zeros", "ones", "empty_rows", "empty_tiles"}


@pytest.mark.parametrize("dtype", FLOATS)
def test_cancelling(dtype: str) -> None:
    """Each row of ``cancelling`` sums to much less than its magnitudes; its neighbors are not its pairs."""
    drawn = as_float(sample("cancelling", dtype, (50, 200)))
    assert (np.abs(drawn.sum(axis=1)) < 0.15 * np.abs(drawn).sum(axis=1)).all()
    near = np.abs(drawn[:, ::2] + drawn[:, 1::2]) < 0.2 * np.abs(drawn[:, ::2])
    assert near.mean() < 0.2


def test_outlier_and_spikes() -> None:
    """``outlier`` has exactly one large value per row, ``spikes`` a few in all."""
    drawn = np.abs(sample("outlier", "float32", (40, 30)))
    assert ((drawn >= 99) == (drawn == drawn.max(axis=1, keepdims=True))).all()
    assert ((drawn >= 99).sum(axis=1) == 1).all()
    spikes = np.abs(sample("spikes", "float32", (6400,))) >= 99
    assert 50 <= spikes.sum() <= 100


@pytest.mark.parametrize("dtype", DTYPES)
def test_ties(dtype: str) -> None:
    """``ties`` has at most four distinct values in a long array (per part of a complex one)."""
    drawn = sample("ties", dtype, (500,))
    assert len(set(np.real(drawn).tolist())) <= 4


@pytest.mark.parametrize("dtype", [*FLOATS, *WHOLE])
@pytest.mark.parametrize("nested", [None, "ties", "integers"])
def test_sorted(dtype: str, nested: str | None) -> None:
    """``sorted`` ascends along the last axis, whatever it sorts."""
    argument = None if nested is None else Distribution(nested, (0, 1) if nested == "integers" else None)
    drawn = as_float(sample("sorted", dtype, (5, 40), argument))
    assert (np.diff(drawn, axis=1) >= 0).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_extreme_and_subnormal(dtype: str) -> None:
    """``extreme`` reaches the largest number with both signs; ``subnormal`` stays below the normal ones, not 0."""
    extreme = as_float(sample("extreme", dtype, (1000,)))
    assert extreme.max() == DTYPES[dtype].max
    assert extreme.min() == DTYPES[dtype].min
    small = np.abs(as_float(sample("subnormal", dtype, (1000,))))
    assert small.min() > 0
    assert small.max() < DTYPES[dtype].smallest_normal


def test_special_constants() -> None:
    """``constant`` and ``choice`` may be infinite or NaN; a constant is real in a complex array."""
    assert np.isnan(sample("constant", "bfloat16", (3,), math.nan).astype(float)).all()
    assert (sample("constant", "float16", (3,), -math.inf) == -np.inf).all()
    drawn = sample("choice", "float32", (300,), (0, math.inf, math.nan))
    assert (drawn == 0).any()
    assert np.isinf(drawn).any()
    assert np.isnan(drawn).any()
    assert sample("ones", "complex64", (2,)).tolist() == [1, 1]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64"])
def test_injected(dtype: str) -> None:
    """A few elements are NaN or infinite of both signs, the others are not."""
    real = np.real(as_float(sample("nan_injected", dtype, (1000,))))
    assert 1 <= np.isnan(real).sum() <= 16
    real = np.real(as_float(sample("inf_injected", dtype, (1000,))))
    assert {-np.inf, np.inf} <= set(real.tolist())
    assert np.isinf(real).sum() <= 16


@pytest.mark.parametrize("dtype", [name for name in WHOLE if name != "bool"])
def test_integers_reach_both_ends(dtype: str) -> None:
    """``integers`` holds both ends; the ends of the dtype itself too; bounds may be expressions."""
    assert set(sample("integers", dtype, (200,), (2, "V - 4")).tolist()) == {2, 3, 4, 5}
    row = DTYPES[dtype]
    drawn = sample("integers", dtype, (3000,), (row.min, row.max))
    assert int(drawn.max()) - int(drawn.min()) > 0.9 * (int(row.max) - int(row.min))


@pytest.mark.parametrize(
    ("dtype", "argument", "message"),
    [
        ("int8", (0, 128), "int8 cannot represent"),
        ("uint8", (-1, 3), "uint8 cannot represent"),
        ("bool", (0, 2), "bool cannot represent"),
        ("int64", (0, "V - 10"), "there is no integer from 0 to -1"),
        ("int64", (0, "V / 2"), "must be a whole number"),
        ("int64", (0, "W"), "unknown name"),
        ("float8_e4m3fn", (0, 100), "float8_e4m3fn cannot represent"),
    ],
)
def test_integers_that_cannot_be(dtype: str, argument: Any, message: str) -> None:
    """Bounds that the dtype cannot represent, or that leave nothing, are refused with a fix."""
    with pytest.raises(DrawError, match=message) as caught:
        sample("integers", dtype, (4,), argument)
    assert caught.value.fix


def test_permutation_one_hot_bernoulli() -> None:
    """A permutation holds 0 to n - 1 once per row, one_hot a single 1 along its axis, bernoulli its share."""
    rows = sample("permutation", "int32", (6, 50))
    assert (np.sort(rows, axis=1) == np.arange(50)).all()
    assert len({tuple(row) for row in rows.tolist()}) == 6
    for axis in (0, 1, -1):
        assert (sample("one_hot", "uint8", (4, 5), axis).sum(axis=axis) == 1).all()
    assert 0.18 < sample("bernoulli", "bool", (5000,), 0.2).mean() < 0.22
    assert not sample("bernoulli", "bool", (50,), 0).any()
    assert sample("bernoulli", "bool", (50,), 1).all()
    with pytest.raises(DrawError, match="not a probability"):
        sample("bernoulli", "bool", (5,), 1.5)
    with pytest.raises(DrawError, match="int8 cannot represent"):
        sample("permutation", "int8", (200,))
    with pytest.raises(DrawError, match="axis 2"):
        sample("one_hot", "int8", (2, 2), 2)


@pytest.mark.parametrize("length", [2, 3, 65])
@pytest.mark.parametrize("total", [0, 1, 1000])
def test_offsets(length: int, total: int) -> None:
    """Offsets ascend from 0 to the total, both exact."""
    drawn = sample("offsets", "int64", (length,), total)
    assert drawn[0] == 0
    assert drawn[-1] == total
    assert (np.diff(drawn) >= 0).all()


def test_offsets_that_cannot_be() -> None:
    """One offset cannot be both 0 and the total."""
    assert sample("offsets", "int32", (1,), 0).tolist() == [0]
    with pytest.raises(DrawError, match="1 offset cannot run from 0 to 9"):
        sample("offsets", "int32", (1,), "V")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_probabilities(dtype: str, axis: int) -> None:
    """Probabilities are not negative and sum to 1 along the axis, to the rounding of their dtype."""
    drawn = as_float(sample("probabilities", dtype, (30, 40), axis))
    assert (drawn >= 0).all()
    bound = max(2 * DTYPES[dtype].unit_roundoff, 1e-14)
    assert np.abs(drawn.sum(axis=axis) - 1).max() <= bound


def test_adversarial_becomes_each_of_its_kinds() -> None:
    """``adversarial`` resolves to one of its eight, also inside ``sorted``; every one of them comes up."""
    seen = {
        resolve((Distribution("adversarial"),), DTYPES["float32"], Xorshift128Plus(n)).name for n in range(200)
    }
    assert seen == set(ADVERSARIAL)
    nested = concrete(Distribution("sorted", Distribution("adversarial")), Xorshift128Plus(0))
    assert isinstance(nested.argument, Distribution)
    assert nested.argument.name in ADVERSARIAL


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("int8", range(-8, 8)), ("int64", range(-8, 8)), ("uint16", range(16)), ("bool", range(2))],
)
def test_defaults_of_whole_numbers(dtype: str, expected: range) -> None:
    """Without ``values``, integers are drawn from a small range, bool by a fair coin."""
    default = resolve((), DTYPES[dtype], Xorshift128Plus(0))
    drawn = draw(default, (2000,), DTYPES[dtype], Xorshift128Plus(0), {})
    assert set(drawn.astype(int).tolist()) == set(expected)


def test_default_of_floats() -> None:
    """Without ``values``, floats are normal, uniform or one of the adversarial kinds."""
    seen = {resolve((), DTYPES["float16"], Xorshift128Plus(n)).name for n in range(400)}
    assert seen == {"normal", "uniform", *ADVERSARIAL}


def test_complex_is_two_draws() -> None:
    """The parts of a complex array are two draws from one stream, the real part first."""
    stream = Xorshift128Plus(8)
    expected = stream.normal(50).astype(np.float32) + 1j * stream.normal(50).astype(np.float32)
    drawn = draw(Distribution("normal"), (50,), DTYPES["complex64"], Xorshift128Plus(8), {})
    np.testing.assert_array_equal(drawn, expected.astype(np.complex64))


def test_illegal_names() -> None:
    """An unknown name, a continuous one for integers, and ``sorted`` of a function are refused."""
    for distribution, dtype in [
        (Distribution("gaussian"), "float32"),
        (Distribution("normal"), "int32"),
        (Distribution("sorted", Distribution("normal")), "int32"),
        (Distribution("sorted", Distribution("from")), "float32"),
    ]:
        with pytest.raises(DrawError):
            check_legal(distribution, DTYPES[dtype])


@pytest.mark.parametrize(
    ("distribution", "expected"),
    [
        (Distribution("normal"), (0, 1, 2)),
        (Distribution("permutation"), (0, 1)),
        (Distribution("probabilities", 0), (1, 2)),
        (Distribution("one_hot"), (0, 1)),
        (Distribution("sorted", Distribution("offsets", 3)), (0, 1)),
        (Distribution("from"), ()),
    ],
)
def test_axes_that_may_repeat(distribution: Distribution, expected: tuple[int, ...]) -> None:
    """A zero stride may run along an axis only if the distribution promises nothing along it."""
    assert free_axes(distribution, 3) == expected


def all_numbers(dtype: str) -> np.ndarray:
    """Every finite number of a 16-bit or 8-bit type, ascending."""
    row = DTYPES[dtype]
    bits = np.arange(2 ** (8 * row.itemsize), dtype=np.uint16).astype(f"u{row.itemsize}").view(row.numpy)
    with np.errstate(invalid="ignore"):  # signaling NaN
        values = bits.astype(np.float64)
    return np.unique(values[np.isfinite(values)])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_rounding_is_to_nearest_even_once(dtype: str) -> None:
    """Midpoints go to the even neighbor, a hair to either side of one to that side: every two neighbors."""
    numbers = all_numbers(dtype)
    middle = (numbers[:-1] + numbers[1:]) / 2
    for x, expected in [
        (np.nextafter(middle, -np.inf), numbers[:-1]),
        (np.nextafter(middle, np.inf), numbers[1:]),
    ]:
        np.testing.assert_array_equal(round_to(x, DTYPES[dtype]).astype(np.float64), expected)
    unsigned = f"u{DTYPES[dtype].itemsize}"
    rounded = round_to(middle, DTYPES[dtype])
    assert (rounded.view(unsigned) % 2 == 0).all()
    exact = round_to(numbers, DTYPES[dtype])
    np.testing.assert_array_equal(exact.astype(np.float64), numbers)


@pytest.mark.parametrize("dtype", FLOATS)
def test_rounding_never_overflows(dtype: str) -> None:
    """Finite values beyond the largest become the largest; infinity and NaN stay."""
    row = DTYPES[dtype]
    most = np.finfo(np.float64).max
    assert as_float(round_to(np.array([most, -most]), row)).tolist() == [row.max, row.min]
    assert np.isnan(as_float(round_to(np.array([np.nan]), row))).all()
    if dtype != "float8_e4m3fn":
        assert as_float(round_to(np.array([np.inf, -np.inf]), row)).tolist() == [np.inf, -np.inf]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_neighbours_of_a_bound(dtype: str) -> None:
    """at_least and below are exact for bounds on, and between, the numbers of the dtype."""
    numbers = all_numbers(dtype)
    for x in [0.0, 1.0, 0.3, -0.3, -1.0, 0.001]:
        assert at_least(x, DTYPES[dtype]) == numbers[numbers >= x][0]
        assert below(x, DTYPES[dtype]) == numbers[numbers < x][-1]


@pytest.mark.parametrize(
    ("value", "dtype", "fits"),
    [
        (65504, "float16", True),
        (65519, "float16", True),
        (1e5, "float16", False),
        (math.inf, "float16", True),
        (math.inf, "float8_e4m3fn", False),
        (math.nan, "int32", False),
        (2.5, "int32", False),
        (2.0, "int32", True),
        (2**64, "uint64", False),
        (2**64 - 1, "uint64", True),
        (10**400, "float64", False),
        (True, "bool", True),
        (2, "bool", False),
        (1e39, "complex64", False),
    ],
)
def test_written_numbers_are_rounded_but_not_changed(value: Any, dtype: str, fits: bool) -> None:
    """A number in a spec that its dtype cannot represent is refused, not clipped or wrapped."""
    if not fits:
        with pytest.raises(DrawError):
            scalar(value, DTYPES[dtype])
        return
    element = scalar(value, DTYPES[dtype])
    assert element.dtype == DTYPES[dtype].numpy
    if value == 2**64 - 1:
        assert int(element) == value
    if value == 65519:
        assert float(element) == 65504
    assert component(DTYPES["complex128"]).name == "float64"


def test_the_bytes_are_pinned() -> None:
    """All legal draws together have the bytes recorded when they were defined: replay stays replay."""
    digest = hashlib.blake2b(digest_size=8)
    for name in [name for name in DISTRIBUTIONS if name not in ("offset", "empty_rows", "empty_tiles")]:
        for dtype, row in DTYPES.items():
            if (row.is_inexact or DISTRIBUTIONS[name].discrete) and (name, dtype) != (
                "inf_injected",
                "float8_e4m3fn",
            ):
                drawn = sample(name, dtype, (40, 2), SAMPLES.get(name), seed=42)
                # A NaN's sign and payload are the platform's own.
                digest.update(np.where(np.isnan(as_float(drawn)), row.numpy.type(0), drawn).tobytes())
    assert digest.hexdigest() == "9d58b1b70c00153e"
