"""The value distributions of the spec language, as rows of a table (docs/spec.md, "Value
distributions").

A row draws float64 or whole numbers of the array's shape; ``kcheck.generator.values`` rounds them to the dtype.
Every operation is exact or correctly rounded and every sum runs in one fixed order, so the bits are the same
everywhere.
``per row`` means along the last axis. ``DTypeLimits`` has the limits on magnitudes in narrow dtypes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kcheck.alignment import ceil_div
from kcheck.dataclass import dataclass
from kcheck.generator.rounding import DrawError, DTypeLimits, at_least, below, scalar
from kcheck.model import DType
from kcheck.rng import Xorshift128Plus, derive, real

Drawn: TypeAlias = npt.NDArray[Any]

ADVERSARIAL = ("all_negative", "large", "tiny", "offset", "cancelling", "spikes", "ties", "outlier")
"""The distributions that ``adversarial`` chooses from."""

BOOL_DEFAULT = ("bernoulli", "zeros", "ones", "empty_rows", "empty_tiles")
"""The distributions of a bool array without ``values``: kernels that take a mask break where all of it, a row or a
tile is false."""

SHARED = 8
"""Places at which elements of several arrays coincide."""

_TIES_IN = 10  # one of these cases has ties in every array that may have them

HELD = "held"
"""The distribution of an input whose values come from a snapshot: they were found by a search."""


@dataclass(frozen=True, slots=True)
class Palette:
    """What the arrays of a case have in common, as far as their distributions allow: each array makes the same
    draws from a stream of the palette, in addition to those from its own.

    Attributes:
        seed: of the streams.
        shares_specials: infinities and NaN are at the same places.
    """

    seed: int
    shares_specials: bool = False

    def stream(self, name: str) -> Xorshift128Plus:
        """A stream at its beginning."""
        return Xorshift128Plus(derive(self.seed, name))

    @property
    def has_ties(self) -> bool:
        """Whether every array that may have ``ties`` has them in this case, because equal elements of two arrays
        are rare otherwise."""
        return self.stream("ties").below(_TIES_IN) == 0


def shared_places(stream: Xorshift128Plus, count: int, shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """At most SHARED positions in a flat array. Each is at a fraction of the rows and of the columns, so it is the
    same element of arrays of one shape. In arrays with one axis, it is that of a row and that of a column in turn.

    Args:
        stream: of a palette.
        count: how many of them; shape: of the array.
    """
    down, across = stream.floats(SHARED)[:count], stream.floats(SHARED)[:count]
    columns = shape[-1] if shape else 1
    if len(shape) < 2:
        across = np.where(np.arange(count) % 2, across, down)
    rows = math.prod(shape) // columns if columns else 0
    places: npt.NDArray[np.int64] = (down * rows).astype(np.int64) * columns + (across * columns).astype(np.int64)
    return places


@dataclass(frozen=True, slots=True)
class Request:
    """What to draw.

    Attributes:
        stream: the array's stream, ``data/<array>``.
        shape: in elements.
        dtype: real; for a complex array, that of its parts.
        argument: the evaluated argument: a number, a tuple of numbers, or None.
        nested: for ``sorted``: draws the values to be sorted.
        palette: what arrays of the case share; None if they share nothing.
    """

    stream: Xorshift128Plus
    shape: tuple[int, ...]
    dtype: DType
    argument: Any = None
    nested: Callable[[], Drawn] | None = None
    palette: Palette | None = None

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def row(self) -> int:
        """Elements along the last axis; 1 for a 0-d array."""
        return self.shape[-1] if self.shape else 1

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.size // self.row if self.row else 0

    def pair(self, first: float, second: float) -> tuple[float, float]:
        """The two numbers of the argument, or the given default.

        Raises:
            DrawError: one of them is not finite.
        """
        if self.argument is None:
            return first, second
        low, high = (float(number) for number in self.argument)
        if not (math.isfinite(low) and math.isfinite(high)):
            raise DrawError(f"[{low}, {high}] is not finite", "use finite numbers; 'choice' accepts .inf and .nan")
        return low, high

    def axis(self) -> int:
        """The argument as an axis, default -1, from 0 to rank - 1.

        Raises:
            DrawError: there is no such axis.
        """
        axis = -1 if self.argument is None else int(self.argument)
        if not -len(self.shape) <= axis < len(self.shape):
            raise DrawError(f"axis {axis} is out of range for {len(self.shape)} axes", "use an axis of its shape")
        return axis % len(self.shape)

    def few(self) -> npt.NDArray[np.int64]:
        """A few random positions in the flat array: one in 64, at least one unless it is empty; may repeat."""
        count = ceil_div(self.size, 64)
        return self.stream.integers(0, self.size - 1, count) if count else np.empty(0, np.int64)


def _normal(r: Request) -> Drawn:
    mean, deviation = r.pair(0.0, 1.0)
    return mean + deviation * r.stream.normal(r.size)


def _uniform(r: Request) -> Drawn:
    """Half-open after rounding too: nothing rounds up to ``high`` or down below ``low``."""
    low, high = r.pair(-1.0, 1.0)
    if not low < high:
        raise DrawError(f"uniform is empty: there are no numbers in [{low}, {high})", "put the lower bound first")
    first, last = at_least(low, r.dtype), below(high, r.dtype)
    if not low <= first <= last < high:
        raise DrawError(f"there is no {r.dtype} in [{low}, {high})", "widen the bounds")
    u = r.stream.floats(r.size)
    return np.clip((1.0 - u) * low + u * high, first, last)


def _magnitude(r: Request) -> Drawn:
    return 0.5 + 9.5 * r.stream.floats(r.size)


def _both_signs(r: Request, ends: tuple[float, float]) -> Drawn:
    return r.stream.log_uniform(*ends, r.size) * r.stream.signs(r.size)


def _offset(r: Request) -> Drawn:
    """Without an argument, all elements have the same random sign."""
    mean, deviation = r.pair(DTypeLimits(r.dtype).common, 1.0)
    values = mean + deviation * r.stream.normal(r.size)
    return values if r.argument is not None else values * r.stream.signs(1)


def sign_of_offset(stream: Xorshift128Plus, size: int) -> float:
    """The sign of all elements that ``offset`` without an argument draws, -1.0 or 1.0, without drawing them.

    Args:
        stream: at the beginning of the array's values.
        size: in elements; of a complex array, only the sign of the real parts is known.
    """
    stream.skip(size)  # the normal values, a word each
    return float(stream.signs(1)[0])


def _cancelling(r: Request) -> Drawn:
    """Per row, in random order: pairs of a and -a (1 - d). abs(a) is log-uniform from 1 to 100, d is log-uniform
    from a few units of roundoff to 1/8."""
    least = 2.0 ** (2 - r.dtype.precision)
    half = ceil_div(r.row, 2)
    a = r.stream.log_uniform(1.0, 100.0, r.rows * half) * r.stream.signs(r.rows * half)
    d = r.stream.log_uniform(least, max(least, 0.125), r.rows * half)
    pairs = np.stack([a, -a * (1.0 - d)], axis=-1).reshape(r.rows, 2 * half)[:, : r.row]
    return np.take_along_axis(pairs, _orders(r), axis=1)


def _orders(r: Request) -> npt.NDArray[np.intp]:
    """A random order for each row, shape (rows, row): the stable argsort of one word per element."""
    return np.argsort(r.stream.words(r.size).reshape(r.rows, r.row), axis=1, kind="stable")


def _spikes(r: Request) -> Drawn:
    values, places = r.stream.normal(r.size), r.few()
    values[places] = r.stream.log_uniform(*DTypeLimits(r.dtype).large, places.size) * r.stream.signs(places.size)
    return values


def _outlier(r: Request) -> Drawn:
    values = r.stream.normal(r.size).reshape(r.rows, r.row)
    if values.size:
        places = r.stream.integers(0, r.row - 1, r.rows)
        large = r.stream.log_uniform(*DTypeLimits(r.dtype).large, r.rows) * r.stream.signs(r.rows)
        values[np.arange(r.rows), places] = large
    return values


def _ties(r: Request) -> Drawn:
    """Two to four distinct values, as the dtype's default draws them, and 0 is often one of them. A palette gives
    arrays of one dtype the same values."""
    stream = r.stream if r.palette is None else r.palette.stream("values")
    few = Request(stream, (2 + stream.below(3),), r.dtype)
    options = _normal(few) if r.dtype.is_float else _small(few)
    if stream.below(8):
        options[0] = 0
    picked: Drawn = options[r.stream.integers(0, options.size - 1, r.size)]
    return picked


def _sorted(r: Request) -> Drawn:
    """Each row ascending, NaN last."""
    assert r.nested is not None
    nested = r.nested()
    ascending: Drawn = np.sort(nested.reshape(r.rows, r.row), axis=1)
    return ascending


def _extreme(r: Request) -> Drawn:
    """Log-uniform from the square root of the largest finite number up to it, both signs; one in 16 is the
    largest."""
    largest = float(r.dtype.max)
    values = r.stream.log_uniform(math.sqrt(largest), largest, r.size)
    values[r.stream.floats(r.size) < 1 / 16] = largest
    return values * r.stream.signs(r.size)


def _subnormal(r: Request) -> Drawn:
    """Uniform over all subnormal numbers except 0, both signs."""
    counts = r.stream.integers(1, 2 ** (r.dtype.precision - 1) - 1, r.size)
    step = int(math.log2(r.dtype.smallest_normal)) + 1 - r.dtype.precision
    return np.ldexp(counts.astype(np.float64), step) * r.stream.signs(r.size)


def _constant(r: Request, value: Any) -> Drawn:
    element = scalar(value, r.dtype)
    return np.full(r.size, float(element) if r.dtype.is_float else element)


def _choice(r: Request) -> Drawn:
    if not r.argument:
        raise DrawError("choice needs values to choose from", "write {choice: [a, b]}")
    options = np.concatenate([_constant(Request(r.stream, (1,), r.dtype), value) for value in r.argument])
    picked: Drawn = options[r.stream.integers(0, options.size - 1, r.size)]
    return picked


def _injected(*specials: float) -> Callable[[Request], Drawn]:
    def draw(r: Request) -> Drawn:
        values, places = r.stream.normal(r.size), r.few()
        values[places] = np.array(specials)[r.stream.integers(0, len(specials) - 1, places.size)]
        if r.palette is not None and r.palette.shares_specials:
            stream, count = r.palette.stream("specials"), min(places.size, SHARED)
            shared, words = shared_places(stream, count, r.shape), stream.integers(0, 1, SHARED)
            values[shared] = np.array(specials)[words[:count] % len(specials)]
        return values

    return draw


def _empty_rows(r: Request) -> Drawn:
    """A few rows are empty: one in eight, at least one."""
    values = _background(r)
    if values.size:
        values[r.stream.integers(0, r.rows - 1, ceil_div(r.rows, 8))] = _void(r.dtype)
    return values


def _empty_tiles(r: Request) -> Drawn:
    """An aligned tile is empty: 8 to 128 columns of all rows, or of as many rows."""
    values = _background(r)
    if values.size:
        width = r.stream.choice([size for size in (8, 16, 32, 64, 128) if size < r.row] or [1])
        first = width * r.stream.below(ceil_div(r.row, width))
        top = width * r.stream.below(ceil_div(r.rows, width))
        rows = slice(None) if r.stream.below(2) else slice(top, top + width)
        values[rows, first : first + width] = _void(r.dtype)
    return values


def _background(r: Request) -> Drawn:
    """Shape (rows, row): the values between empty ones."""
    return (r.stream.normal(r.size) if r.dtype.is_float else _small(r)).reshape(r.rows, r.row)


def _void(dtype: DType) -> float:
    """What a mask has for an element that does not count: -inf if it is added, otherwise false."""
    return -math.inf if dtype.is_float else 0


def _small(r: Request) -> Drawn:
    """The small range of a dtype: -8 to 7, 0 to 15 if unsigned, a fair coin for bool."""
    low, high = {"bool": (0, 1), "uint": (0, 15)}.get(r.dtype.kind, (-8, 7))
    return r.stream.integers(low, high, r.size)


def _integers(r: Request) -> Drawn:
    if r.argument is None:
        return _small(r)
    low, high = (_whole(bound, "a bound of integers") for bound in r.argument)
    if r.size == 0:
        return np.empty(0, np.int64)
    if low > high:
        raise DrawError(
            f"there is no integer from {low} to {high}",
            "add a constraint that keeps the lower bound below the upper",
        )
    _check_range(low, high, r.dtype)
    return r.stream.integers(low, high, r.size)


def _permutation(r: Request) -> Drawn:
    """Per row: a random permutation of the numbers from 0."""
    if r.size:
        _check_range(0, r.row - 1, r.dtype)
    return _orders(r)


def _one_hot(r: Request) -> Drawn:
    axis = r.axis()
    values = np.zeros(r.shape, np.int64)
    if values.size:
        lines = (*r.shape[:axis], 1, *r.shape[axis + 1 :])
        hot = r.stream.integers(0, r.shape[axis] - 1, math.prod(lines)).reshape(lines)
        np.put_along_axis(values, hot, 1, axis)
    return values


def _bernoulli(r: Request) -> Drawn:
    """1 with probability p, where a float in [0, 1) is below p; otherwise 0."""
    p = 0.5 if r.argument is None else float(r.argument)
    if not 0.0 <= p <= 1.0:
        raise DrawError(f"{p} is not a probability", "use a number from 0 to 1")
    return (r.stream.floats(r.size) < p).astype(np.int64)


def _offsets(r: Request) -> Drawn:
    """Per row: 0, random cuts in ascending order, ``total``."""
    total = _whole(r.argument, "the total of offsets")
    if r.size == 0:
        return np.empty(0, np.int64)
    if total < 0 or (r.row == 1 and total > 0):
        what = f"{r.row} offset{'' if r.row == 1 else 's'} cannot run from 0 to {total}"
        raise DrawError(what, "add a constraint that excludes such sizes")
    _check_range(0, total, r.dtype)
    inner = r.stream.integers(0, total, r.rows * max(0, r.row - 2)).reshape(r.rows, -1)
    ends = np.zeros((r.rows, 1), np.int64)
    return np.concatenate([ends, np.sort(inner, axis=1), ends + total], axis=1)[:, -r.row :]


def _probabilities(r: Request) -> Drawn:
    """Exponential draws divided by their sum along the axis: uniform over the simplex (Dirichlet(1))."""
    axis = r.axis()
    if r.size == 0:
        return np.empty(r.size)
    u = ((r.stream.words(r.size) >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    weights = -real.log(u).reshape(r.shape)
    # np.add.accumulate adds one by one from the first; np.sum's order depends on strides.
    total = np.take(np.add.accumulate(weights, axis=axis), [-1], axis=axis)
    shares: Drawn = weights / total
    return shares


def _whole(value: Any, what: str) -> int:
    if value is None or (isinstance(value, float) and not value.is_integer()):
        raise DrawError(f"{what} must be a whole number, but is {value}", "use '//' to divide and round down")
    return int(value)


def _check_range(low: int, high: int, dtype: DType) -> None:
    """Raise DrawError if a dtype cannot hold the whole numbers exactly."""
    most = 2**dtype.precision if dtype.is_float else dtype.max
    least = -most if dtype.is_float else dtype.min
    if low < least or high > most:
        raise DrawError(
            f"{dtype} cannot represent every integer from {low} to {high}",
            "use a wider dtype, or add a constraint that limits the dims",
        )


@dataclass(frozen=True, slots=True)
class Sampler:
    """One distribution.

    Attributes:
        draw: values of ``Request.size`` elements in C order, float64 or whole.
        discrete: integer and bool arrays may use it.
        imaginary: the imaginary part of a complex array is a second draw; otherwise it is 0.
        structure: the axis along which values belong together, so that repeating one of them would break it:
            ``""`` for no axis, ``"row"`` for the last one, ``"axis"`` for the axis of the argument.
        by_element: the values are drawn one after another, so that an array can be drawn piece by piece.
        independent: an element says nothing about the others, so that a palette may draw some of them.
    """

    name: str
    draw: Callable[[Request], Drawn]
    discrete: bool = False
    imaginary: bool = True
    structure: str = ""
    by_element: bool = False
    independent: bool = False


DISTRIBUTIONS: dict[str, Sampler] = {
    row.name: row
    for row in (
        Sampler("normal", _normal, by_element=True, independent=True),
        Sampler("uniform", _uniform, by_element=True, independent=True),
        Sampler("all_negative", lambda r: -_magnitude(r), by_element=True, independent=True),
        Sampler("all_positive", _magnitude, by_element=True, independent=True),
        Sampler("large", lambda r: _both_signs(r, DTypeLimits(r.dtype).large), independent=True),
        Sampler("tiny", lambda r: _both_signs(r, DTypeLimits(r.dtype).tiny), independent=True),
        Sampler("offset", _offset),
        Sampler("cancelling", _cancelling),
        Sampler("spikes", _spikes),
        Sampler("outlier", _outlier),
        Sampler("ties", _ties, discrete=True),
        Sampler("sorted", _sorted, discrete=True),
        Sampler("extreme", _extreme, independent=True),
        Sampler("subnormal", _subnormal, independent=True),
        Sampler(
            "zeros", lambda r: _constant(r, 0), discrete=True, imaginary=False, by_element=True, independent=True
        ),
        Sampler(
            "ones", lambda r: _constant(r, 1), discrete=True, imaginary=False, by_element=True, independent=True
        ),
        Sampler(
            "constant",
            lambda r: _constant(r, r.argument),
            discrete=True,
            imaginary=False,
            by_element=True,
            independent=True,
        ),
        Sampler("choice", _choice, discrete=True, by_element=True, independent=True),
        Sampler("nan_injected", _injected(math.nan)),
        Sampler("inf_injected", _injected(math.inf, -math.inf)),
        Sampler("empty_rows", _empty_rows, discrete=True, imaginary=False, structure="row"),
        Sampler("empty_tiles", _empty_tiles, discrete=True, imaginary=False, structure="row"),
        Sampler("integers", _integers, discrete=True, by_element=True, independent=True),
        Sampler("permutation", _permutation, discrete=True, imaginary=False, structure="row"),
        Sampler("one_hot", _one_hot, discrete=True, imaginary=False, structure="axis"),
        Sampler("bernoulli", _bernoulli, discrete=True, by_element=True, independent=True),
        Sampler("offsets", _offsets, discrete=True, imaginary=False, structure="row"),
        Sampler("probabilities", _probabilities, imaginary=False, structure="axis"),
    )
}
"""Every distribution except ``adversarial`` (one of those here) and ``from`` (a user's function)."""
