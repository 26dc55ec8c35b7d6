"""A reference evaluated as a correct kernel might: with the roundings of a narrower precision.

:class:`Rounded` is a float64 (complex128) array whose every operation is followed by a rounding:

* ``nearest`` and ``backwards``: each result is rounded to the compute precision, and sums run in order, from
  either end, one rounding per term: two correct kernels, the most naive.
* ``random``: each result that the precision cannot hold moves by about one unit roundoff up or down, at random
  (Monte Carlo arithmetic: Parker, "Monte Carlo Arithmetic: exploiting randomness in floating-point arithmetic",
  1997); a sum of n terms moves by u * sqrt(sum of its squared partial sums), what n independent roundings add
  up to.

Values stay float64, so a reference that leaves NumPy (a scalar loop, ``np.asarray``) still works: what it does
there is merely not rounded, and ``Arithmetic.operations`` tells whether anything was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from kcheck.model import DType
from kcheck.oracle.rounding import Floats, half_step, round_to

Array: TypeAlias = npt.NDArray[Any]

_EXACT = frozenset(
    getattr(np, name)
    for row in (
        "positive negative absolute fabs conjugate sign copysign maximum minimum fmax fmin heaviside",
        "floor ceil rint trunc nextafter spacing frexp ldexp modf fmod remainder",
    )
    for name in row.split()
)
_BASIC = frozenset((np.add, np.subtract, np.multiply, np.divide, np.square, np.sqrt, np.reciprocal))
_FUNCTION_ROUNDINGS = 2.0
"""What a library function may be off by, in unit roundoffs: one ulp (CUDA C++ Programming Guide, "Mathematical
Functions": most float32 functions are within 1 or 2 ulp; the constant of the tolerance covers the rest)."""

_CHECKPOINTS = 16
_IN_ORDER_LIMIT = 2**25
"""Multiply-adds up to which a matrix product is rounded term by term; beyond, only the random model speaks."""


class Arithmetic:
    """The rounding that operations are followed by.

    Args:
        precision: a real dtype, the compute precision.
        mode: ``nearest``, ``backwards`` or ``random``.
        seed: of the random signs.
    """

    def __init__(self, precision: DType, mode: Literal["nearest", "backwards", "random"], seed: int = 0) -> None:
        self.precision = precision
        self.mode = mode
        self.operations = 0
        self._bits = np.random.PCG64(seed)
        # In float64 a move of half a unit roundoff would be rounded away again, and the reference errs as well.
        self._step = 2.0 if precision.precision == 53 else 1.0
        # Whether a float64 result is exact cannot be seen in float64; what float32 can hold most likely is.
        self._exact_below = 24 if precision.precision == 53 else precision.precision

    def wrap(self, array: Array) -> Array:
        """The array under this arithmetic: rounded to the precision, or in ``random`` mode each value moved by one
        unit roundoff, unless that would leave the range."""
        if self.mode != "random":
            return self.view(self._nearest(array))
        with np.errstate(all="ignore"):
            moved = array + self._unit(array) * self._signs(array.shape)
            return self.view(np.where(np.abs(moved) <= self.precision.max, moved, array))

    def view(self, array: Array) -> Array:
        rounded = np.asarray(array).view(Rounded)
        rounded.arithmetic = self
        return rounded

    def _signs(self, shape: tuple[int, ...]) -> Floats:
        """Random numbers of either sign, magnitude 0.5 to 1.5: never so small that a draw moves nothing, and not
        all alike, or two opposite moves would cancel in every second draw."""
        count = int(np.prod(shape, dtype=np.int64))
        words = np.atleast_1d(self._bits.random_raw(-(-count // 8) or 1)).astype("<u8")
        steps: Floats = words.view(np.int8)[:count] / 128.0
        return (steps + np.where(steps < 0, -0.5, 0.5)).reshape(shape)

    def _unit(self, array: Array) -> Floats:
        """One unit roundoff of each value, in absolute terms; below the normal range half a subnormal step."""
        magnitude = np.abs(array)
        return np.where(magnitude == 0, 0.0, self._step * half_step(magnitude, self.precision))

    def _nearest(self, array: Array) -> Array:
        if np.iscomplexobj(array):
            parts: Array = np.empty(array.shape, np.complex128)
            parts.real = round_to(np.ascontiguousarray(array.real), self.precision)
            parts.imag = round_to(np.ascontiguousarray(array.imag), self.precision)
            return parts
        return round_to(array, self.precision)

    def after(
        self, array: Array, roundings: float = 1.0, spread: Floats | None = None, checked: bool = True
    ) -> Array:
        """What an operation gives whose exact result is ``array``.

        Args:
            roundings: how many unit roundoffs the operation may be off by.
            spread: of sums, the root of the summed squares of what was rounded; takes the place of the result's
                own magnitude.
            checked: leave alone what the precision holds exactly. Not for library functions: erf(9) is 1 in
                float64 too, and a correct float32 one may be an ulp below.
        """
        self.operations += 1
        nearest = self._nearest(array)
        if self.mode != "random":
            return nearest
        if spread is None:
            if not checked:
                exact = array == 0
            elif self.precision.precision == 53:
                exact = array == array.astype(np.complex64 if np.iscomplexobj(array) else np.float32)
            else:
                exact = array == nearest
            step = np.where(exact, 0.0, roundings * self._unit(array))
        else:
            step = self._step * self.precision.unit_roundoff * spread
        moved: Array = array + step * self._signs(array.shape)
        if np.iscomplexobj(array):
            moved = moved + 1j * step * self._signs(array.shape)
        return np.where(np.isfinite(nearest) | ~np.isfinite(array), moved, nearest)

    # --- sums

    def total(self, array: Array) -> Array:
        """The sum over the last axis."""
        if array.shape[-1] <= 1:
            return np.asarray(array.sum(axis=-1))
        exact = np.asarray(array.sum(axis=-1))
        if self.mode != "random":
            return self._in_order(array)
        if not np.iscomplexobj(array):
            magnitude = np.abs(array).sum(axis=-1)
            integral = np.all(np.rint(array) == array, axis=-1) & (magnitude < 2.0**self._exact_below)
        else:
            integral = np.zeros(exact.shape, np.bool_)
        partial = np.abs(np.cumsum(array, axis=-1)[..., 1:]) ** 2
        squares = np.maximum(partial.sum(axis=-1), self._expected(exact, array.shape[-1], _square_sum(array)))
        squares = np.maximum(
            squares, np.where(self._alike(array, -1), self._coherent(exact, array.shape[-1]), 0.0)
        )
        return self.after(exact, spread=np.where(integral, 0.0, np.sqrt(squares)))

    def running(self, array: Array) -> Array:
        """The running sum over the last axis."""
        self.operations += 1
        if self.mode != "random":
            return self._running_in_order(array)
        sums = np.cumsum(array, axis=-1)
        steps = self.precision.unit_roundoff * np.abs(sums) * self._signs(sums.shape)
        steps[..., :1] = 0.0
        return np.asarray(sums + np.cumsum(steps, axis=-1))

    @staticmethod
    def _expected(total: Array, count: Any, squares: Floats) -> Floats:
        """The expected sum of the squared partial sums of ``count`` terms that come in random order."""
        return np.asarray(count / 3.0 * np.abs(total) ** 2 + count / 6.0 * squares)

    def _alike(self, array: Array, axis: int) -> npt.NDArray[np.bool_]:
        """Whether the terms along an axis are all the same, but for the moves made here."""
        gap = np.abs(array - np.take(array, [0], axis=axis)).max(axis=axis)
        return np.asarray(gap <= 8 * self.precision.unit_roundoff * np.abs(array).max(axis=axis))

    @staticmethod
    def _coherent(total: Array, count: int) -> Floats:
        """Equal terms are rounded alike, step by step: the square of a sum of roundings, no sum of squares. Half
        a roundoff of each partial sum, which grow in proportion."""
        return np.asarray((count / 4.0 * np.abs(total)) ** 2)

    def _running_in_order(self, array: Array) -> Array:
        if self.precision.precision == 53:
            return np.cumsum(array, axis=-1)
        if self.precision.precision == 24:
            narrow = np.complex64 if np.iscomplexobj(array) else np.float32
            return np.cumsum(array.astype(narrow), axis=-1, dtype=narrow).astype(array.dtype)
        sums = np.array(array)
        for k in range(1, array.shape[-1]):
            sums[..., k] = self._nearest(sums[..., k - 1] + array[..., k])
        return sums

    def _in_order(self, array: Array) -> Array:
        self.operations += 1
        ordered = array[..., ::-1] if self.mode == "backwards" else array
        return self._safe(np.asarray(self._running_in_order(ordered)[..., -1]), np.abs(array).sum(axis=-1))

    def _safe(self, total: Array, magnitude: Floats) -> Array:
        """The total, infinite where some order of summation overflows, by the sum of the terms' magnitudes."""
        return np.where((magnitude >= self.precision.max) & np.isfinite(total), np.inf, total)

    def contraction(self, function: Callable[..., Array], *operands: Array) -> Array:
        """``function`` is linear in each operand: sums of products of their elements."""
        exact = np.asarray(function(*operands))
        if self.mode != "random":
            return self._safe(self.after(exact), np.abs(np.asarray(function(*map(np.abs, operands)))))
        squares = np.abs(np.asarray(function(*(np.abs(operand) ** 2 for operand in operands))))
        counts = np.asarray(function(*(np.ones(operand.shape) for operand in operands))).real
        return self.after(
            exact, spread=np.sqrt(np.where(counts > 1, self._expected(exact, counts, squares), 0) + squares)
        )

    def product(self, a: Array, b: Array) -> Array:
        """``np.matmul`` of arrays with at least two axes each."""
        exact = np.asarray(np.matmul(a, b))
        length = a.shape[-1]
        if length == 0:
            return exact
        if self.mode != "random" and exact.size * length <= _IN_ORDER_LIMIT:
            self.operations += 1
            total: Array = np.zeros_like(exact)
            for k in range(length)[:: -1 if self.mode == "backwards" else 1]:
                total = self._nearest(total + self._nearest(a[..., :, k, None] * b[..., None, k, :]))
            return self._safe(total, np.matmul(np.abs(a), np.abs(b)))
        squares = np.matmul(np.abs(a) ** 2, np.abs(b) ** 2)
        partial, path = np.zeros_like(exact), np.zeros(exact.shape)
        for part in np.array_split(np.arange(length), min(length, _CHECKPOINTS)):
            before = np.abs(partial) ** 2
            partial = partial + np.matmul(a[..., :, part], b[..., part, :])
            path += len(part) * (before + np.abs(partial) ** 2) / 2
        spread = np.maximum(path, self._expected(exact, length, squares)) + squares
        alike = self._alike(a, -1)[..., :, None] & self._alike(b, -2)[..., None, :]
        spread = np.maximum(spread, np.where(alike, self._coherent(exact, length), 0.0))
        return self.after(exact, spread=np.sqrt(spread))


def _square_sum(array: Array) -> Floats:
    return np.asarray((np.abs(array) ** 2).sum(axis=-1))


def _plain(value: Any) -> Any:
    if isinstance(value, Rounded):
        return value.view(np.ndarray)
    if isinstance(value, tuple | list):
        return type(value)(_plain(part) for part in value)
    return value


class Rounded(np.ndarray[Any, Any]):
    """A float64 or complex128 array under an :class:`Arithmetic`."""

    arithmetic: Arithmetic

    def __array_finalize__(self, source: Any) -> None:
        if isinstance(source, Rounded) and hasattr(source, "arithmetic"):
            self.arithmetic = source.arithmetic

    def __getitem__(self, key: Any) -> Any:
        value = super().__getitem__(key)
        if isinstance(value, np.inexact):  # a scalar would leave the model
            return self.arithmetic.view(np.asarray(value))
        return value

    def dot(self, other: Any, out: Any = None) -> Any:  # the method of ndarray bypasses np.dot
        return np.dot(self, other) if out is None else np.dot(self, other, out=out)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        arithmetic = next(
            value.arithmetic
            for value in (*inputs, *options.get("out", ()))
            if isinstance(value, Rounded) and hasattr(value, "arithmetic")
        )
        out = options.pop("out", None)
        with np.errstate(all="ignore"):
            if method == "at":
                return _scatter(arithmetic, ufunc, *inputs)
            result = _evaluate(arithmetic, ufunc, method, _plain(inputs), _plain_options(options))
        if isinstance(result, tuple):
            pairs = zip(result, out or (None,) * len(result), strict=True)
            return tuple(_deliver(arithmetic, part, target) for part, target in pairs)
        return _deliver(arithmetic, result, out[0] if out else None)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        found = [value for value in (*args, *kwargs.values(), *_parts(args)) if isinstance(value, Rounded)]
        special = _FUNCTIONS.get(function)
        if special is None or not found:
            result = super().__array_function__(function, types, args, kwargs)
            if not found or isinstance(result, Rounded) or not isinstance(result, np.ndarray | np.inexact):
                return result
            if (getattr(function, "__module__", "") or "").startswith(("numpy.fft", "numpy.linalg")):
                return found[0].arithmetic.view(_rounded(found[0].arithmetic, result, 1.0, normwise=True))
            return _deliver(found[0].arithmetic, result, None)  # np.concatenate and others make plain arrays
        with np.errstate(all="ignore"):
            options = _plain_options(kwargs)
            target = options.pop("out", None)
            result = special(found[0].arithmetic, function, *_plain(args), **options)
        return _deliver(found[0].arithmetic, result, target)


def _parts(values: Any) -> tuple[Any, ...]:
    return tuple(part for value in values if isinstance(value, tuple | list) for part in value)


def _plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _plain(value) for name, value in options.items()}


def _deliver(arithmetic: Arithmetic, value: Any, out: Any) -> Any:
    if out is not None:
        _plain(out)[...] = value
        return out
    array = np.asarray(value)
    return arithmetic.view(array) if array.dtype.kind in "fc" else value


def _evaluate(
    arithmetic: Arithmetic, ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    name = ufunc.__name__
    if method == "reduce" and name == "add":
        return _add_reduce(arithmetic, *inputs, **options)
    if method == "accumulate" and name == "add":
        axis = options.get("axis", inputs[1] if len(inputs) > 1 else 0)
        return np.moveaxis(arithmetic.running(np.moveaxis(np.asarray(inputs[0]), axis, -1)), -1, axis)
    if name == "matmul" and all(np.ndim(value) >= 2 for value in inputs) and not options:
        return arithmetic.product(np.asarray(inputs[0]), np.asarray(inputs[1]))
    if name in ("matmul", "vecdot", "matvec", "vecmat") or (name == "add" and method == "reduceat"):
        function = getattr(ufunc, method)
        linear = inputs[:2] if name != "add" else inputs[:1]
        rest = inputs[len(linear) :]
        return arithmetic.contraction(
            lambda *parts: function(*parts, *rest, **options), *(np.asarray(value) for value in linear)
        )
    result = getattr(ufunc, method)(*inputs, **options)
    if ufunc in _EXACT:
        return result
    roundings = 1.0 if ufunc in _BASIC else _FUNCTION_ROUNDINGS
    if method in ("reduce", "accumulate", "reduceat"):
        roundings *= float(np.sqrt(max(1.0, np.size(inputs[0]) / max(1, np.size(result)))))
    return _rounded(arithmetic, result, roundings, normwise=ufunc.signature is not None)


def _rounded(arithmetic: Arithmetic, result: Any, roundings: float, normwise: bool) -> Any:
    if isinstance(result, tuple):
        return tuple(_rounded(arithmetic, part, roundings, normwise) for part in result)
    array = np.asarray(result)
    if array.dtype.kind not in "fc":
        return result
    if normwise and array.ndim:  # a transform over the last axis: its error goes with the largest element there
        scale = np.abs(array).max(axis=-1, keepdims=True, initial=0.0) * np.sqrt(max(1, array.shape[-1]))
        return arithmetic.after(array, spread=np.broadcast_to(scale, array.shape))
    return arithmetic.after(array, roundings, checked=roundings == 1.0)


def _add_reduce(
    arithmetic: Arithmetic,
    array: Any,
    axis: Any = 0,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    array = np.asarray(array)
    if array.dtype.kind not in "fc":
        return np.sum(array, axis=axis, dtype=dtype, keepdims=keepdims, where=where)
    if where is not True:
        array = np.where(where, array, 0.0)
    axes = tuple(range(array.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    axes = tuple(sorted(one % max(1, array.ndim) for one in axes)) if array.ndim else ()
    if not axes:
        return array
    kept = [one for one in range(array.ndim) if one not in axes]
    shape = [array.shape[one] for one in kept]
    length = int(np.prod([array.shape[one] for one in axes], dtype=np.int64))
    total = arithmetic.total(array.transpose(*kept, *axes).reshape(*shape, length))
    if initial is not None and not isinstance(initial, type(np._NoValue)):
        total = arithmetic.after(total + initial)
    return total.reshape([1 if one in axes else n for one, n in enumerate(array.shape)]) if keepdims else total


def _scatter(arithmetic: Arithmetic, ufunc: np.ufunc, target: Any, index: Any, *values: Any) -> None:
    """``ufunc.at``: in place. Sums are rounded as sums in random order, any other operation once."""
    index, values = _plain(index), tuple(_plain(value) for value in values)
    plain = _plain(target)
    if ufunc is not np.add or plain.dtype.kind not in "fc":
        ufunc.at(plain, index, *values)
        return
    counts, squares = np.ones(plain.shape), np.abs(plain) ** 2
    np.add.at(counts, index, 1.0)
    np.add.at(squares, index, np.abs(np.asarray(values[0])) ** 2)
    np.add.at(plain, index, values[0])
    spread = np.where(counts > 1, np.sqrt(arithmetic._expected(plain, counts, squares)), 0.0)
    plain[...] = arithmetic.after(plain, spread=spread)


# --- functions of NumPy that compute in C without going through a ufunc


def _dot(arithmetic: Arithmetic, function: Any, a: Any, b: Any) -> Any:
    a, b = np.asarray(a), np.asarray(b)
    if a.ndim == 0 or b.ndim == 0:
        return arithmetic.after(np.asarray(a * b))
    if a.ndim == 2 and b.ndim == 2 and function is np.dot:
        return arithmetic.product(a, b)
    return arithmetic.contraction(function, a, b)


def _einsum(arithmetic: Arithmetic, function: Any, *args: Any, **options: Any) -> Any:
    if not isinstance(args[0], str):
        result = np.asarray(function(*args, **options))  # operands and index lists alternate
        return arithmetic.after(result, roundings=_FUNCTION_ROUNDINGS)
    operands = [np.asarray(operand) for operand in args[1:]]
    return arithmetic.contraction(lambda *parts: function(args[0], *parts, **options), *operands)


def _bincount(arithmetic: Arithmetic, function: Any, x: Any, weights: Any = None, minlength: int = 0) -> Any:
    if weights is None:
        return function(x, minlength=minlength)
    return arithmetic.contraction(
        lambda part: function(x, weights=part, minlength=minlength), np.asarray(weights, np.float64)
    )


def _convolve(arithmetic: Arithmetic, function: Any, a: Any, v: Any, mode: str = "full") -> Any:
    return arithmetic.contraction(lambda *parts: function(*parts, mode=mode), np.asarray(a), np.asarray(v))


def _tensordot(arithmetic: Arithmetic, function: Any, a: Any, b: Any, axes: Any = 2) -> Any:
    return arithmetic.contraction(lambda *parts: function(*parts, axes=axes), np.asarray(a), np.asarray(b))


def _once(arithmetic: Arithmetic, function: Any, *args: Any) -> Any:
    return arithmetic.after(np.asarray(function(*args)))


def _norm(arithmetic: Arithmetic, function: Any, x: Any, *args: Any, **options: Any) -> Any:
    result = np.asarray(function(x, *args, **options))
    return arithmetic.after(result, roundings=float(np.sqrt(max(1.0, np.size(x) / max(1, result.size)))))


_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.dot: _dot,
    np.inner: _dot,
    np.vdot: _dot,
    np.einsum: _einsum,
    np.bincount: _bincount,
    np.convolve: _convolve,
    np.tensordot: _tensordot,
    np.outer: _once,
    np.kron: _once,
    np.linalg.norm: _norm,
}
