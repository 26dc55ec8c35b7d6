"""Gives kernel code that Python runs Numba's semantics: types of constants, ``math``, ``min`` and ``max``.

Python and NumPy differ from Numba in ways that affect results. A float literal is a float64 in Numba, but "weak"
in NumPy: ``0.0 + float16`` would stay float16. ``math.exp(710)`` raises in Python, but returns inf on a GPU, where
``math.exp`` of a float32 is a float32. ``max(a, b)`` of floats is ``fmax`` on a GPU: a number wins over a NaN
(numba-cuda, ``cudaimpl.ptx_max_f4``).
"""

from __future__ import annotations

import builtins
import math
import types
from collections.abc import Callable
from typing import Any

import numpy as np


def strong(function: types.FunctionType, cuda: object, fake: object) -> types.FunctionType:
    """The same function, with constants of the types that Numba gives them.

    Args:
        cuda: the real ``numba.cuda``, which a closure may contain.
        fake: its replacement.
    """
    code = function.__code__
    constants = tuple(np.float64(c) if type(c) is float else c for c in code.co_consts)
    closure = function.__closure__
    if closure is not None:
        closure = tuple(_strong_cell(cell, cuda, fake) for cell in closure)
    copy = types.FunctionType(
        code.replace(co_consts=constants), function.__globals__, function.__name__, function.__defaults__, closure
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__dict__.update(function.__dict__)
    return copy


def _strong_cell(cell: types.CellType, cuda: object, fake: object) -> types.CellType:
    try:
        value = cell.cell_contents
    except ValueError:  # assigned later, by the function that defines the kernel
        return cell
    replacement = _replacement(value, cuda, fake)
    return cell if replacement is value else types.CellType(replacement)


def _replacement(value: Any, cuda: object, fake: object) -> Any:
    """The value that a kernel sees instead of a value of its module or closure; usually the same."""
    if value is cuda:
        return fake
    if value is math:
        return _MATH
    if type(value) is float:
        return np.float64(value)
    if isinstance(value, types.BuiltinFunctionType):
        return _MATH_FUNCTIONS.get(value, value)
    return value


class Globals:
    """Replaces names in the modules of kernels during a launch.

    Args:
        cuda: the real ``numba.cuda``, which the modules import.
        fake: its replacement.
    """

    def __init__(self, cuda: object, fake: object) -> None:
        self._cuda = cuda
        self._fake = fake
        self._saved: dict[int, tuple[dict[str, Any], dict[str, Any], list[str]]] = {}

    def enter(self, names: dict[str, Any]) -> None:
        """Replace values in the globals of one module, unless that has been done."""
        if id(names) in self._saved:
            return
        before: dict[str, Any] = {}
        for key, value in list(names.items()):
            replacement = _replacement(value, self._cuda, self._fake)
            if replacement is not value:
                before[key] = value
                names[key] = replacement
        added = [key for key in _BUILTINS if key not in names]
        names.update({key: _BUILTINS[key] for key in added})
        self._saved[id(names)] = (names, before, added)

    def restore(self) -> None:
        """Restore the original values."""
        for names, before, added in self._saved.values():
            names.update(before)
            for key in added:
                names.pop(key, None)
        self._saved.clear()


def _device_max(*values: Any) -> Any:
    return _extremum(values, builtins.max)


def _device_min(*values: Any) -> Any:
    return _extremum(values, builtins.min)


def _extremum(values: tuple[Any, ...], choose: Callable[..., Any]) -> Any:
    numbers = [value for value in values if value == value]  # a NaN is not equal to itself
    return choose(numbers) if len(values) > 1 and numbers else choose(*values)


_BUILTINS = {"max": _device_max, "min": _device_min}


def _by_ufunc(ufunc: Callable[..., Any]) -> Callable[..., Any]:
    def function(*values: Any) -> Any:
        return ufunc(*(np.float64(v) if isinstance(v, int | np.integer) else v for v in values))

    return function


def _by_math(function: Callable[[float], float]) -> Callable[..., Any]:
    """Wrap a function that NumPy lacks: it computes in float64, with inf and NaN instead of exceptions."""

    def rounded(value: Any) -> Any:
        kind = type(value) if isinstance(value, np.floating) else np.float64
        try:
            return kind(function(float(value)))
        except OverflowError:
            return kind(math.inf)
        except ValueError:
            return kind(math.nan)

    return rounded


_UFUNCS = {
    **{
        name: name
        for name in ("exp", "exp2", "expm1", "log2", "log10", "log1p", "sqrt", "sin", "cos", "tan", "sinh")
    },
    **{name: name for name in ("cosh", "tanh", "fabs", "fmod", "hypot", "copysign", "degrees", "radians")},
    **{name: f"arc{name[1:]}" for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh")},
    "atan2": "arctan2",
    "pow": "power",
}


def _log(value: Any) -> Any:
    return np.log(np.float64(value) if isinstance(value, int | np.integer) else value)


def _device_math() -> types.SimpleNamespace:
    functions: dict[str, Any] = {name: getattr(math, name) for name in dir(math) if not name.startswith("_")}
    for name, ufunc in _UFUNCS.items():
        functions[name] = _by_ufunc(getattr(np, ufunc))
    for name in ("erf", "erfc", "gamma", "lgamma"):
        functions[name] = _by_math(getattr(math, name))
    functions["log"] = _log
    return types.SimpleNamespace(**{k: np.float64(v) if type(v) is float else v for k, v in functions.items()})


_MATH = _device_math()
_MATH_FUNCTIONS: dict[Any, Any] = {
    getattr(math, name): value
    for name, value in vars(_MATH).items()
    if isinstance(getattr(math, name), types.BuiltinFunctionType)
}
