"""Stand-alone generators: sizes, dtypes, layouts, values, and the random numbers that they use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from kcheck.api.arguments import count_of, seed_of
from kcheck.api.spec import caller, caller_runs
from kcheck.api.verdict import Array
from kcheck.errors import UserError
from kcheck.frameworks import as_numpy
from kcheck.generator.distributions import Palette
from kcheck.generator.far import reserved
from kcheck.generator.layouts import GUARDS, aligned, geometry
from kcheck.generator.rounding import DrawError
from kcheck.generator.shapes import Shapes
from kcheck.generator.values import concrete, draw
from kcheck.model import DTYPES, LAYOUTS, LEAST_AXES, Distribution, Span
from kcheck.model.layouts import FAR, is_layout, layout_kind
from kcheck.nearest import did_you_mean
from kcheck.rng import Xorshift128Plus, derive
from kcheck.specfile.build import given_spec
from kcheck.specfile.distribution import DISTRIBUTIONS
from kcheck.specfile.given import dtype_name

T = TypeVar("T")


class SeededRng:
    """A stream of random numbers with the same bits on every machine: the generator of kcheck's cases.

    docs/spec.md describes the algorithm and lists its first outputs.

    >>> import kcheck
    >>> rng = kcheck.SeededRng(42)
    >>> rng.gen_u64()
    14921385303349856026
    >>> rng.derive("test").seed
    11905773293262258603

    Args:
        seed: in [0, 2**64).
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._stream = Xorshift128Plus(seed)

    def derive(self, domain: str) -> SeededRng:
        """Return an independent stream. It depends on the seed and the domain, not on earlier draws."""
        return SeededRng(derive(self.seed, domain))

    def choice(self, items: Sequence[T]) -> T:
        """Return one of the items, all with the same probability."""
        return self._stream.choice(items)

    def gen_range(self, low: int, high: int) -> int:
        """Return an integer in [low, high), without modulo bias."""
        return low + self._stream.below(high - low)

    def gen_u64(self) -> int:
        """Return the next 64 bits."""
        return self._stream.word()

    def gen_f32(self) -> float:
        """Return a float32 in [0, 1), as a Python float: the top 24 bits of a word times 2**-24."""
        return float(self._stream.floats(1, np.float32)[0])

    def randn(self, shape: int | Sequence[int], dtype: npt.DTypeLike = np.float32) -> Array:
        """Return an array of normally distributed values with mean 0 and standard deviation 1."""
        extents = (shape,) if isinstance(shape, int) else tuple(shape)
        count = int(np.prod(extents, dtype=np.int64))
        return self._stream.normal(count).astype(dtype).reshape(extents)


def shapes(
    *, count: int = 30, seed: int = 0, constraints: Sequence[str] = (), **dims: Any
) -> Iterator[dict[str, int]]:
    """Generate sizes at which kernels break: ends of ranges, neighbors of tiles and warps, primes, unequal sizes.

    >>> import kcheck
    >>> for sizes in kcheck.shapes(M=range(1, 65), N={"range": "1..512", "tile": 32}, count=3):
    ...     print(sizes)
    {'M': 33, 'N': 512}
    {'M': 1, 'N': 16}
    {'M': 27, 'N': 1}

    Args:
        count: how many sizes to generate.
        seed: the same seed gives the same sizes.
        constraints: conditions that all sizes satisfy, such as ``"M * N <= 4096"``.
        dims: by name, as in a spec: a range, a list, or ``{"range": ..., "tile": ...}``.

    Raises:
        SpecError: a dim or a constraint is wrong, or no sizes satisfy the constraints.
        UserError: the count or the seed is out of range.
    """
    wanted, master = count_of(count, "count"), seed_of(seed, "seed")
    path, line = caller()
    keys = {"op": "shapes", "dims": dims, "constraints": list(constraints), "outputs": {"output_": [1]}}
    spec = given_spec(path, Path().absolute(), {**keys, "launcher": caller_runs, "reference": _no_reference}, line)
    drawn = Shapes(spec)
    return (drawn.draw(derive(master, f"iter_{n}"), {}, Span(spec.path, line)) for n in range(wanted))


def _no_reference() -> None:
    """The reference of a spec that only generates sizes. Nothing calls it."""


def dtypes(include: Iterable[Any] | None = None, exclude: Iterable[Any] = ()) -> Iterator[str]:
    """Return the names of the dtypes that a spec can use.

    >>> import kcheck
    >>> list(kcheck.dtypes(["float32", "float16"], exclude=["float16"]))
    ['float32']

    Args:
        include: dtypes of any framework, or their names; default: all.
        exclude: dtypes to omit.

    Raises:
        UserError: one of them is unknown.
    """
    without = {_dtype(value) for value in exclude}
    wanted = list(DTYPES) if include is None else [_dtype(value) for value in include]
    return (name for name in wanted if name not in without)


def _dtype(value: Any) -> str:
    name = dtype_name(value)
    if name is None:
        fix = did_you_mean(str(value), DTYPES) or f"the dtypes are {', '.join(DTYPES)}"
        raise UserError(f"unknown dtype {value!r}; {fix}")
    return name


def layouts(array: object, names: Iterable[str] | None = None, *, seed: int = 0) -> Iterator[tuple[str, Array]]:
    """Yield an array in several memory layouts: the same elements with different strides.

    >>> import kcheck
    >>> import numpy as np
    >>> for name, view in kcheck.layouts(np.zeros((2, 3), np.float32), ["contiguous", "transposed"]):
    ...     print(name, view.strides)
    contiguous (12, 4)
    transposed (4, 8)

    Args:
        array: an array of any framework.
        names: the layouts; default: all that the array can have. ``broadcast`` repeats the first element along an
            axis, and ``far`` reserves gigabytes of address space, so these are only included by name.
        seed: the seed of the random parts of a layout: the widths of gaps, offsets, axes.

    Raises:
        UserError: a layout is unknown, or needs more axes than the array has.
    """
    source = as_numpy(array, "the array")
    every = [name for name in LAYOUTS if name not in ("broadcast", FAR) and source.ndim >= LEAST_AXES[name]]
    wanted = every if names is None else list(names)
    for name in wanted:
        if not is_layout(name):
            raise UserError(
                f"unknown layout {name!r}; {did_you_mean(name, LAYOUTS) or 'use ' + ', '.join(LAYOUTS)}"
            )
        least = LEAST_AXES[layout_kind(name)]
        if source.ndim < least:
            raise UserError(f"the layout {name} needs at least {least} axes, the array has {source.ndim}")
    return ((name, _laid_out(source, name, seed)) for name in wanted)


def _laid_out(source: Array, name: str, seed: int) -> Array:
    stream = Xorshift128Plus(derive(derive(seed, "layouts/array"), name))
    far = next((axis for axis, extent in enumerate(source.shape) if extent > 1), None) if source.size else None
    where = geometry(source.shape, source.itemsize, name, stream, tuple(range(source.ndim)), far)
    if where.far is not None:
        pages, strides = reserved(where.far.span, "the array"), where.far.strides(where.strides)
        where.far.view(pages)[...] = GUARDS[0]
        spread: Array = np.ndarray(source.shape, source.dtype, pages, where.offset, strides)
        spread[...] = source
        return spread
    buffer = aligned(where.size)
    buffer.fill(GUARDS[0])
    view: Array = np.ndarray(source.shape, source.dtype, buffer, where.offset, where.strides)
    for axis, stride in enumerate(where.strides):
        if stride == 0 and source.shape[axis] > 1:
            source = np.take(source, [0], axis)
    view[...] = source
    return view


def values(
    name: str, shape: int | Sequence[int], dtype: Any = "float32", *, argument: Any = None, seed: int = 0
) -> Array:
    """Generate an array from a value distribution, as for the inputs of a case.

    >>> import kcheck
    >>> kcheck.values("ties", 4, "float16", seed=1)
    array([ 0.     ,  0.09045,  0.09045, -0.3416 ], dtype=float16)
    >>> kcheck.values("integers", (2, 2), "int8", argument=[0, 9], seed=3).tolist()
    [[9, 8], [4, 2]]

    Args:
        name: a distribution of docs/spec.md, such as ``normal``, ``adversarial`` or ``large``.
        shape: in elements.
        dtype: a dtype of any framework, or its name.
        argument: the argument of the distribution, such as ``[low, high]`` of ``uniform`` and ``integers``.
        seed: the same seed gives the same bits on every machine.

    Raises:
        UserError: the distribution is unknown, needs a different argument, or does not support the shape and
            dtype; a size or the seed is out of range.
    """
    if name not in DISTRIBUTIONS or DISTRIBUTIONS[name].takes in ("function", "distribution"):
        known = [one for one, row in DISTRIBUTIONS.items() if row.takes not in ("function", "distribution")]
        raise UserError(f"no distribution {name!r}; {did_you_mean(name, known) or 'use ' + ', '.join(known)}")
    row = DISTRIBUTIONS[name]
    if (argument is None) != (row.takes == "nothing") and not (argument is None and row.optional):
        raise UserError(f"the distribution {name} {'takes no' if row.takes == 'nothing' else 'needs an'} argument")
    extents = (shape,) if isinstance(shape, int) else tuple(shape)
    extents = tuple(count_of(size, "a size of the shape") for size in extents)
    seed = seed_of(seed, "seed")
    held = tuple(argument) if isinstance(argument, list) else argument
    chosen = concrete(Distribution(name, held), Xorshift128Plus(derive(seed, "values/array")))
    try:
        stream, palette = Xorshift128Plus(derive(seed, "data/array")), Palette(derive(seed, "palette"))
        return draw(chosen, extents, DTYPES[_dtype(dtype)], stream, {}, palette)
    except DrawError as error:
        raise UserError(f"{name}: {error.what}" + (f"; {error.fix}" if error.fix else "")) from None
