"""The values of one input: drawn from its distribution, and rounded to its dtype."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from kcheck.generator.distributions import (
    ADVERSARIAL,
    BOOL_DEFAULT,
    DISTRIBUTIONS,
    HELD,
    SHARED,
    Drawn,
    Palette,
    Request,
    shared_places,
)
from kcheck.generator.rounding import Array, DrawError, component, round_to
from kcheck.model import FLOAT_DEFAULT, Distribution, DType
from kcheck.rng import Xorshift128Plus
from kcheck.symbolic import ExpressionError, evaluate, parse

_PART = 1 << 20  # elements that are drawn at a time, so that a large array takes little memory
_SHARE = 4  # a palette draws at most one of these elements


def resolve(
    declared: tuple[Distribution, ...], dtype: DType, stream: Xorshift128Plus, *, ties: bool = False
) -> Distribution:
    """The one distribution that a case uses: drawn from the declared ones, or from the default of the dtype.

    Args:
        stream: the array's stream ``values/<array>``.
        ties: choose ``ties`` if the array may have them.

    Returns:
        A concrete one: ``adversarial``, also inside ``sorted``, is replaced by what it draws.
    """
    options = declared or defaults(dtype)
    for option in options if ties else ():
        if option.name in ("ties", "adversarial"):
            return Distribution("ties", None, option.span)
    return concrete(stream.choice(options), stream)


def defaults(dtype: DType) -> tuple[Distribution, ...]:
    """The distributions of an array without ``values``."""
    if dtype.is_inexact:
        return tuple(Distribution(name) for name in FLOAT_DEFAULT)
    if dtype.kind == "bool":
        return tuple(Distribution(name, 0.5 if name == "bernoulli" else None) for name in BOOL_DEFAULT)
    return (Distribution("integers", (-8, 7) if dtype.kind == "int" else (0, 15)),)


def concrete(distribution: Distribution, stream: Xorshift128Plus) -> Distribution:
    """The distribution with ``adversarial`` replaced by what it draws."""
    if distribution.name == "adversarial":
        return Distribution(stream.choice(ADVERSARIAL), None, distribution.span)
    if isinstance(distribution.argument, Distribution):
        return Distribution(distribution.name, concrete(distribution.argument, stream), distribution.span)
    return distribution


def check_legal(distribution: Distribution, dtype: DType) -> None:
    """Reject a distribution that the dtype does not support.

    Raises:
        DrawError: an unknown name, or a continuous one for integers or bool.
    """
    if distribution.name == "from":
        return
    if isinstance(distribution.argument, Distribution):
        if distribution.argument.name == "from":
            raise DrawError("sorted does not take 'from'", "sort in the function")
        check_legal(distribution.argument, dtype)
    row = DISTRIBUTIONS.get(distribution.name)
    if row is None:
        raise DrawError(f"unknown distribution {distribution.name!r}", f"one of {', '.join(DISTRIBUTIONS)}")
    if not row.discrete and not dtype.is_inexact:
        discrete = ", ".join(name for name, other in DISTRIBUTIONS.items() if other.discrete)
        raise DrawError(f"{dtype} does not support {distribution.name!r}", f"use one of {discrete}, from")


def free_axes(distribution: Distribution, rank: int) -> tuple[int, ...]:
    """The axes along which all values may be equal without breaking the structure of the distribution."""
    if distribution.name == "from":
        return ()
    if distribution.name == HELD:  # elements that may be changed one by one do not belong together
        return tuple(range(rank))
    if isinstance(distribution.argument, Distribution):
        return free_axes(distribution.argument, rank)
    structure = DISTRIBUTIONS[distribution.name].structure
    if not structure:
        return tuple(range(rank))
    axis = distribution.argument if structure == "axis" and isinstance(distribution.argument, int) else -1
    return tuple(free for free in range(rank) if free != axis % rank)


def is_by_element(distribution: Distribution) -> bool:
    """Whether the values of an array are those of its parts, drawn one after another from the same stream."""
    return distribution.name in DISTRIBUTIONS and DISTRIBUTIONS[distribution.name].by_element


def draw(
    distribution: Distribution,
    shape: tuple[int, ...],
    dtype: DType,
    stream: Xorshift128Plus,
    env: Mapping[str, int | float | bool],
    palette: Palette | None = None,
) -> Array:
    """Draw an array's values.

    Args:
        distribution: concrete, and not ``from``.
        stream: the array's stream ``data/<array>``.
        env: dims and params, for arguments that are expressions.
        palette: what arrays of the case share; None if they share nothing.

    Returns:
        A C-contiguous array of this shape and dtype. A complex one is two draws, the real part first, unless
        the imaginary part of the distribution is 0.

    Raises:
        DrawError: the values cannot be drawn for this shape and dtype.
    """
    check_legal(distribution, dtype)
    part = component(dtype)

    def rounded(drawn: Drawn) -> Array:
        if part.is_float:
            return round_to(drawn.astype(np.float64, copy=False), part)
        return drawn.astype(part.numpy, copy=False)

    def drawn_of(shape: tuple[int, ...]) -> Array:
        return rounded(_unrounded(distribution, shape, part, stream, env, palette).reshape(shape))

    def elements(name: str) -> Array:
        size = math.prod(shape)
        if size <= _PART or not is_by_element(distribution):
            whole = drawn_of(shape).reshape(-1)
        else:
            whole = np.empty(size, part.numpy)
            for start in range(0, size, _PART):
                whole[start : start + _PART] = drawn_of((min(_PART, size - start),))
        if palette is not None:
            places, shared = _shared(distribution, shape, part, palette.stream(name), env)
            whole[places] = rounded(shared)
        return whole.reshape(shape)

    drawn = elements("elements")
    if dtype.kind != "complex":
        return drawn
    both = np.zeros(shape, dtype.numpy)
    both.real = drawn
    if DISTRIBUTIONS[distribution.name].imaginary:
        both.imag = elements("imaginary")
    return both


def _shared(
    distribution: Distribution,
    shape: tuple[int, ...],
    dtype: DType,
    stream: Xorshift128Plus,
    env: Mapping[str, int | float | bool],
) -> tuple[npt.NDArray[np.int64], Drawn]:
    """The positions of the elements that a palette draws, and these elements. They follow the same law as the
    others, and are equal in arrays of the same distribution and dtype. There are none if the values of an array
    depend on each other.

    Args:
        stream: of the palette.
        shape: of the array.
    """
    is_independent = distribution.name in DISTRIBUTIONS and DISTRIBUTIONS[distribution.name].independent
    count = min(SHARED, math.prod(shape) // _SHARE) if is_independent else 0
    places = shared_places(stream, count, shape)
    return places, _unrounded(distribution, (SHARED,), dtype, stream, env, None)[:count] if count else np.empty(0)


def _unrounded(
    distribution: Distribution,
    shape: tuple[int, ...],
    dtype: DType,
    stream: Xorshift128Plus,
    env: Mapping[str, int | float | bool],
    palette: Palette | None,
) -> Drawn:
    argument = distribution.argument
    if distribution.name == "sorted":
        usual = Distribution("normal" if dtype.is_float else "integers")
        nested = argument if isinstance(argument, Distribution) else usual

        def unsorted() -> Drawn:
            values = _unrounded(nested, shape, dtype, stream, env, palette).reshape(-1)
            if palette is not None:
                places, shared = _shared(nested, shape, dtype, palette.stream("elements"), env)
                values[places] = shared
            return values

        request = Request(stream, shape, dtype, None, unsorted)
    else:
        request = Request(stream, shape, dtype, evaluated(argument, env), palette=palette)
    return DISTRIBUTIONS[distribution.name].draw(request)


def evaluated(argument: object, env: Mapping[str, int | float | bool]) -> Any:
    """The argument with its expressions replaced by their values.

    Raises:
        DrawError: an expression has no value.
    """
    if isinstance(argument, tuple):
        return tuple(evaluated(part, env) for part in argument)
    if not isinstance(argument, str):
        return argument
    try:
        return evaluate(parse(argument), env)
    except ExpressionError as error:
        raise DrawError(f"'{argument}': {error.what}", error.fix or "add a constraint on the dims") from None
