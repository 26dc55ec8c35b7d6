"""gpuemu's generators, implemented with kcheck's: sizes at boundaries, dtypes, layouts, tensors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, overload

import numpy.typing as npt

from kcheck import api
from kcheck.compat.gpuemu.rng import SeededRng, random_seed
from kcheck.errors import UserError
from kcheck.model import DTYPES, LAYOUTS

Array: TypeAlias = npt.NDArray[Any]
Shape: TypeAlias = tuple[int, ...]
MOST_ELEMENTS = 2**20
"""The maximum number of elements of a shape that is drawn from ranges: four axes of 1,024 would take terabytes."""
_ALWAYS = 2**62


def fuzz_shapes(
    min_dims: int = 1, max_dims: int = 4, min_size: int = 1, max_size: int = 1024, **dimensions: Sequence[int]
) -> Iterator[Shape]:
    """Shapes: every combination of named sizes, or an endless stream of random ones.

    >>> from kcheck.compat import gpuemu
    >>> list(gpuemu.fuzz_shapes(batch=[1, 2], seq=[64]))
    [(1, 64), (2, 64)]

    Args:
        min_dims, max_dims: the number of axes.
        min_size, max_size: the limits of each axis; boundaries, primes and powers of two are frequent. A shape has
            at most 2**20 elements.
        dimensions: sizes by name; the order is that of the axes.
    """
    if dimensions:
        return itertools.product(*dimensions.values())
    ranges = (min_dims, max_dims, min_size, max_size)
    return (shape for _, shape in seeded_shapes(random_seed(), ranges, {}))


def fuzz_shapes_seeded(
    seed: int,
    min_dims: int = 1,
    max_dims: int = 4,
    min_size: int = 1,
    max_size: int = 1024,
    **dimensions: Sequence[int],
) -> Iterator[tuple[int, Shape]]:
    """An endless stream of (seed of the shape, shape); the same seed gives the same shapes.

    Args:
        dimensions: as for :func:`fuzz_shapes`; one size of each is drawn. gpuemu's names ``batch_sizes``,
            ``seq_lengths`` and ``hidden_dims`` are three of them.
    """
    return seeded_shapes(seed, (min_dims, max_dims, min_size, max_size), dimensions)


def seeded_shapes(
    seed: int, ranges: tuple[int, int, int, int], dimensions: Mapping[str, Sequence[int]]
) -> Iterator[tuple[int, Shape]]:
    """As :func:`fuzz_shapes_seeded`; ``ranges`` are its four numbers."""
    min_dims, max_dims, min_size, max_size = ranges
    if dimensions:
        for number in itertools.count():
            rng = SeededRng(seed).derive(f"iter_{number}")
            yield rng.seed, tuple(rng.derive(name).choice(sizes) for name, sizes in dimensions.items())
    names = [f"D{axis}" for axis in range(max_dims)]
    dims = {name: range(min_size, max_size + 1) for name in names}
    limit = [f"{' * '.join(names)} <= {max(MOST_ELEMENTS, min_size**max_dims)}"] if names else []
    for number, sizes in enumerate(api.shapes(count=_ALWAYS, seed=seed, constraints=limit, **dims)):
        rng = SeededRng(seed).derive(f"iter_{number}")
        yield rng.seed, tuple(sizes[name] for name in names[: rng.gen_range(min_dims, max_dims + 1)])


_DEFAULT_DTYPES = ("float32", "float16")


def fuzz_dtypes(include: Sequence[str] | None = None, exclude: Sequence[str] = ()) -> Iterator[str]:
    """The names of dtypes: those included, by default float32 and float16, without those excluded."""
    return api.dtypes(_DEFAULT_DTYPES if include is None else include, exclude or ())


def fuzz_dtypes_seeded(seed: int, dtypes: Sequence[str] | None = None) -> Iterator[tuple[int, str]]:
    """An endless stream of (seed, dtype); the same seed gives the same dtypes."""
    known = list(fuzz_dtypes(dtypes))
    for number in itertools.count():
        rng = SeededRng(seed).derive(f"iter_{number}")
        yield rng.seed, rng.derive("dtype").choice(known)


@overload
def fuzz_layouts() -> Iterator[str]: ...
@overload
def fuzz_layouts(
    shape: Shape,
    include_contiguous: bool = True,
    include_strided: bool = True,
    include_transposed: bool = True,
) -> Iterator[tuple[Shape, Shape]]: ...
def fuzz_layouts(
    shape: Shape | None = None,
    include_contiguous: bool = True,
    include_strided: bool = True,
    include_transposed: bool = True,
) -> Iterator[str] | Iterator[tuple[Shape, Shape]]:
    """The names of layouts; for a shape, (shape, strides in elements) of views of a contiguous array of the shape.

    The views stay inside the array, so ``x.as_strided(shape, strides)`` is valid: transposed views swap two axes,
    strided views take every second element of an axis.
    """
    if shape is None:
        return iter(LAYOUTS)
    wanted = {"contiguous": include_contiguous, "transposed": include_transposed, "strided": include_strided}
    return (view for name, included in wanted.items() if included for view in _views(shape, name))


def fuzz_layouts_seeded(
    seed: int, shape: Shape | None = None, layouts: Sequence[str] | None = None
) -> Iterator[tuple[Any, ...]]:
    """An endless stream of (seed, layout); for a shape, of (seed, layout, shape, strides in elements)."""
    known = list(layouts or ("contiguous", "strided", "transposed"))
    for number in itertools.count():
        rng = SeededRng(seed).derive(f"iter_{number}")
        layout = rng.derive("layout").choice(known)
        if shape is None:
            yield rng.seed, layout
        else:
            found = list(_views(shape, layout)) or list(_views(shape, "contiguous"))
            yield rng.seed, layout, *rng.derive("view").choice(found)


def _views(shape: Shape, layout: str) -> Iterator[tuple[Shape, Shape]]:
    strides = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
    if layout == "contiguous":
        yield shape, strides
    elif layout == "transposed":
        for axis in range(len(shape) - 1):
            order = [*range(axis), axis + 1, axis, *range(axis + 2, len(shape))]
            yield tuple(shape[at] for at in order), tuple(strides[at] for at in order)
    elif layout == "strided":
        for axis in reversed(range(len(shape))):
            if shape[axis] > 1:
                half, step = list(shape), list(strides)
                half[axis], step[axis] = (shape[axis] + 1) // 2, 2 * strides[axis]
                yield tuple(half), tuple(step)
                return
    else:
        known = "contiguous, strided and transposed"
        raise UserError(f"the layout {layout!r} has no views of a shape; use {known}, or kcheck.layouts(array)")


def generate_random_tensor(
    seed: int, shape: Shape, dtype: str = "float32", domain: tuple[float, float] | str = (-1.0, 1.0)
) -> Array:
    """An array generated from a seed: the same seed, shape, dtype and domain give the same bits.

    Args:
        domain: the range of the values, without its end for integers; or a name, for normally distributed values:
            each name gives a different array for the same seed.
    """
    if isinstance(domain, str):
        seed, domain = SeededRng(seed).derive(domain).seed, (-1.0, 1.0)
        if DTYPES[dtype].is_inexact:
            return api.values("normal", shape, dtype, seed=seed)
    low, high = domain
    if DTYPES[dtype].is_inexact:
        return api.values("uniform", shape, dtype, argument=[low, high], seed=seed)
    if dtype == "bool":
        return api.values("bernoulli", shape, dtype, argument=0.5, seed=seed)
    whole = [math.ceil(low), max(math.ceil(low), math.ceil(high) - 1)]
    return api.values("integers", shape, dtype, argument=whole, seed=seed)


@dataclass
class FuzzConfig:
    """The sizes, dtypes and so on from which a :class:`SeededFuzzer` draws.

    Attributes:
        batch_sizes, seq_lengths, hidden_dims: sizes of three axes, instead of the ranges.
    """

    iterations: int = 100
    seed: int | None = None
    min_dims: int = 1
    max_dims: int = 4
    min_size: int = 1
    max_size: int = 1024
    dtypes: list[str] = field(default_factory=lambda: ["float32"])
    layouts: list[str] = field(default_factory=lambda: ["contiguous"])
    batch_sizes: list[int] | None = None
    seq_lengths: list[int] | None = None
    hidden_dims: list[int] | None = None

    @property
    def named(self) -> dict[str, Sequence[int]]:
        """The named sizes that are given; with one of them, the others have gpuemu's defaults."""
        given = {"batch": self.batch_sizes, "seq": self.seq_lengths, "hidden": self.hidden_dims}
        if not any(given.values()):
            return {}
        usual = {"batch": [1, 2, 4, 8], "seq": [64, 128, 256], "hidden": [256, 512]}
        return {name: sizes or usual[name] for name, sizes in given.items()}


@dataclass
class TestCase:
    """One case: ``inputs`` has one array, ``input``, in the layout of the case."""

    __test__ = False  # not a test class, despite its name; for pytest

    seed: int
    shape: Shape
    dtype: str
    layout: str
    inputs: dict[str, Array]

    def generate_input(self, name: str = "input") -> Array:
        """Another array of the case's shape and dtype."""
        return generate_random_tensor(self.seed, self.shape, self.dtype, name)
