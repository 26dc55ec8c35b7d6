"""Evaluates a reference as a correct kernel might: with an array type that rounds the result of each operation.

:class:`Rounded` holds float64 (complex128), so a reference that leaves NumPy (``float(x[0])``, ``np.asarray``)
still works; operations outside NumPy are just not rounded. ``Arithmetic.uses`` shows whether any operation was
seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kcheck.oracle.arithmetic import Arithmetic

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
FUNCTION_ROUNDINGS = 2.0
"""The error of a library function, in unit roundoffs: one ulp (CUDA C++ Programming Guide, "Mathematical
Functions": most float32 functions are within 1 or 2 ulp; the constant of the tolerance covers the rest)."""


def under(arithmetic: Arithmetic, array: Array) -> Array:
    """An input of a reference, under an arithmetic: rounded or moved, and so are all results computed from it."""
    return _view(arithmetic, arithmetic.given(array))


def is_rounded(result: object) -> bool:
    """Whether each array of numbers that a reference returned is under an arithmetic.

    Others may have been computed where roundings are not seen: in a plain array to which results were assigned, or
    in Python's floats.
    """
    if isinstance(result, Mapping):
        return all(map(is_rounded, result.values()))
    if isinstance(result, tuple | list):
        return all(map(is_rounded, result))
    if isinstance(result, np.ndarray | np.generic):
        return isinstance(result, Rounded) or result.dtype.kind not in "fc"
    return isinstance(result, bool | int) or type(result).__module__.startswith(
        "torch"
    )  # seen by kcheck.oracle.tensors


def as_rounded(arithmetic: Arithmetic, array: Array) -> Array:
    """An array that was computed under an arithmetic, in another array library, and remains under it."""
    return _view(arithmetic, array) if array.dtype.kind in "fc" else array


def _view(arithmetic: Arithmetic, array: Array) -> Array:
    rounded = np.asarray(array).view(Rounded)
    rounded.arithmetic = arithmetic
    return rounded


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
            self.arithmetic.uses += 1

    def __getitem__(self, key: Any) -> Any:
        value = super().__getitem__(key)
        if isinstance(value, np.inexact):  # a scalar would leave the model
            return _view(self.arithmetic, np.asarray(value))
        return value

    def dot(self, other: Any, out: Any = None) -> Any:  # the method of ndarray bypasses np.dot
        return np.dot(self, other) if out is None else np.dot(self, other, out=out)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        arithmetic = next(
            value.arithmetic
            for value in (*inputs, *options.get("out", ()))
            if isinstance(value, Rounded) and hasattr(value, "arithmetic")
        )
        arithmetic.uses += 1
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
                return _view(found[0].arithmetic, _rounded(found[0].arithmetic, result, 1.0, normwise=True))
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
    return _view(arithmetic, array) if array.dtype.kind in "fc" else value


def _evaluate(
    arithmetic: Arithmetic, ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    name = ufunc.__name__
    if method == "reduce" and name == "add":
        return add_reduce(arithmetic, *inputs, **options)
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
    result = _numbers(getattr(ufunc, method)(*inputs, **options))
    if ufunc in _EXACT:
        return result
    roundings = 1.0 if ufunc in _BASIC else FUNCTION_ROUNDINGS
    if method in ("reduce", "accumulate", "reduceat"):
        roundings *= float(np.sqrt(max(1.0, np.size(inputs[0]) / max(1, np.size(result)))))
    return _rounded(arithmetic, result, roundings, normwise=ufunc.signature is not None)


def _numbers(result: Any) -> Any:
    """A result of ``np.vectorize`` or ``np.frompyfunc``, an array of Python objects, as an array of floats if all
    of them are floats. A Python function of an element is rounded like a library function."""
    if isinstance(result, tuple):
        return tuple(_numbers(part) for part in result)
    if not isinstance(result, np.ndarray) or result.dtype.kind != "O" or not result.size:
        return result
    return result.astype(np.float64) if all(isinstance(value, float) for value in result.flat) else result


def _rounded(arithmetic: Arithmetic, result: Any, roundings: float, normwise: bool) -> Any:
    if isinstance(result, tuple):
        return tuple(_rounded(arithmetic, part, roundings, normwise) for part in result)
    array = np.asarray(result)
    if array.dtype.kind not in "fc":
        return result
    if normwise and array.ndim:  # a transform over the last axis: its error scales with the largest element there
        scale = np.abs(array).max(axis=-1, keepdims=True, initial=0.0) * np.sqrt(max(1, array.shape[-1]))
        return arithmetic.after(array, noise=np.broadcast_to(scale, array.shape))
    return arithmetic.after(array, roundings, checked=roundings == 1.0)


def add_reduce(
    arithmetic: Arithmetic,
    array: Any,
    axis: Any = 0,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    """``np.add.reduce`` of plain arrays, rounded."""
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
    """``ufunc.at``, in place. Sums are rounded as sums in random order; other operations are not rounded."""
    index, values = _plain(index), tuple(_plain(value) for value in values)
    plain = _plain(target)
    if ufunc is not np.add or plain.dtype.kind not in "fc":
        ufunc.at(plain, index, *values)
        return
    counts, squares = np.ones(plain.shape), np.abs(plain) ** 2
    np.add.at(counts, index, 1.0)
    np.add.at(squares, index, np.abs(np.asarray(values[0])) ** 2)
    np.add.at(plain, index, values[0])
    noise = np.where(counts > 1, np.sqrt(arithmetic.expected_path(plain, counts, squares)), 0.0)
    plain[...] = arithmetic.after(plain, noise=noise)


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
        return arithmetic.after(result, roundings=FUNCTION_ROUNDINGS)
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
