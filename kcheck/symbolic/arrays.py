"""The value of an invariant: the same language, with arrays. NumPy is imported for the first evaluation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from kcheck.symbolic.ast import Binary, ExpressionError, FunctionCall, Logical, Name, Node, Number, Relation, Unary
from kcheck.symbolic.evaluate import COMPARISONS, arithmetic, call, negate, unknown_name

if TYPE_CHECKING:
    import numpy.typing as npt

    Array: TypeAlias = npt.NDArray[Any]
    Operand: TypeAlias = int | float | bool | Array

MAX_ELEMENTS = 2**27
"""The most elements of an array that an invariant computes: 1 GiB of float64."""


def evaluate_arrays(node: Node, env: Mapping[str, Any]) -> Any:
    """The value of an expression of numbers and arrays.

    Arrays of any real dtype are computed in float64, complex ones in complex128. Comparisons, ``and``, ``or``
    and ``not`` work elementwise and give bools; a chain ``a < b < c`` is the conjunction of its links. ``min``,
    ``max``, ``sum``, ``mean``, ``all`` and ``any`` reduce one array over all axes, or over ``axis``, which is
    removed from the shape; ``min`` and ``max`` of several arguments work elementwise. NaN propagates. For an empty
    array, ``max`` is -inf, ``min`` is inf and ``mean`` is NaN. With arrays, a division by zero or a root of a
    negative number is not an error: the result is that of IEEE 754 (infinity, NaN).

    Args:
        env: by name, Python numbers or NumPy arrays.

    Returns:
        A Python number or bool, or an array.

    Raises:
        ExpressionError: an unknown name, shapes that do not broadcast, an axis that does not exist, a result of
            more than MAX_ELEMENTS elements; for numbers as in ``evaluate``.
    """
    import numpy as np

    with np.errstate(all="ignore"):
        return _Evaluator(np, env).value(node)


class _Evaluator:
    def __init__(self, numpy: Any, env: Mapping[str, Any]) -> None:
        self.np = numpy
        self.env = env
        self.widened: dict[str, Array] = {}

    def value(self, node: Node) -> Operand:
        match node:
            case Number(value=value):
                return value
            case Name(name=name, column=column):
                return self.name(name, column)
            case Unary(operator=symbol, operand=operand):
                return self.unary(symbol, self.value(operand))
            case Binary(operator=symbol, left=left, right=right, column=column):
                return self.binary(symbol, self.value(left), self.value(right), column)
            case Relation(operators=operators, operands=operands, column=column):
                values = [self.value(operand) for operand in operands]
                links = [
                    self.compare(symbol, a, b, column)
                    for symbol, a, b in zip(operators, values[:-1], values[1:], strict=True)
                ]
                result = links[0]
                for link in links[1:]:
                    result = self.logical("and", result, link, column)
                return result
            case Logical(operator=symbol, left=left, right=right, column=column):
                return self.logical(symbol, self.value(left), self.value(right), column)
            case FunctionCall(function=function, arguments=arguments, axis=axis, column=column):
                values = [self.value(argument) for argument in arguments]
                return self.call(function, values, None if axis is None else self.value(axis), column)

    def name(self, name: str, column: int) -> Operand:
        if name not in self.env:
            raise unknown_name(name, column, self.env)
        value = self.env[name]
        if isinstance(value, (int, float)):
            return value
        if name not in self.widened:
            array = self.np.asarray(value)
            # ml_dtypes' floats have kind "V" or "f" by version; every one of them converts to float64.
            self.widened[name] = array.astype(self.np.complex128 if array.dtype.kind == "c" else self.np.float64)
        return self.widened[name]

    def is_array(self, *values: Operand) -> bool:
        return any(not isinstance(value, (int, float)) for value in values)

    def plain(self, value: Any) -> Operand:
        """A 0-d result as a Python number; complex ones stay 0-d arrays."""
        if value.ndim == 0 and value.dtype.kind != "c":
            item: int | float | bool = value.item()
            return item
        array: Array = value
        return array

    def check_shapes(self, left: Operand, right: Operand, column: int) -> None:
        shapes = [self.np.shape(value) for value in (left, right)]
        try:
            shape = self.np.broadcast_shapes(*shapes)
        except ValueError:
            what = f"shapes {_shape(shapes[0])} and {_shape(shapes[1])} cannot be broadcast together"
            raise ExpressionError(what, column) from None
        if math.prod(shape) > MAX_ELEMENTS:
            what = f"shapes {_shape(shapes[0])} and {_shape(shapes[1])} make {math.prod(shape)} elements"
            raise ExpressionError(what, column, f"at most {MAX_ELEMENTS} are computed")

    def unary(self, symbol: str, value: Operand) -> Operand:
        if not self.is_array(value):
            return negate(symbol, value)  # type: ignore[arg-type]
        return self.plain(self.np.logical_not(value) if symbol == "not" else (-value if symbol == "-" else +value))

    def binary(self, symbol: str, left: Operand, right: Operand, column: int) -> Operand:
        if not self.is_array(left, right):
            return arithmetic(symbol, left, right, column)  # type: ignore[arg-type]
        self.check_shapes(left, right, column)
        np = self.np
        ufunc = {
            "+": np.add,
            "-": np.subtract,
            "*": np.multiply,
            "/": np.true_divide,
            "//": np.floor_divide,
            "%": np.remainder,
            "**": np.power,
        }[symbol]
        return self.plain(self.apply(ufunc, column, _float(left), _float(right)))

    def compare(self, symbol: str, left: Operand, right: Operand, column: int) -> Operand:
        if not self.is_array(left, right):
            return COMPARISONS[symbol](left, right)  # type: ignore[arg-type]
        self.check_shapes(left, right, column)
        np = self.np
        if symbol not in ("==", "!=") and any(np.iscomplexobj(value) for value in (left, right)):
            raise ExpressionError(f"complex numbers have no order, so {symbol!r} is not defined", column)
        ufunc = {
            "<": np.less,
            "<=": np.less_equal,
            ">": np.greater,
            ">=": np.greater_equal,
            "==": np.equal,
            "!=": np.not_equal,
        }[symbol]
        return self.plain(self.apply(ufunc, column, _float(left), _float(right)))

    def logical(self, symbol: str, left: Operand, right: Operand, column: int) -> Operand:
        self.check_shapes(left, right, column)
        ufunc = self.np.logical_and if symbol == "and" else self.np.logical_or
        return self.plain(ufunc(left, right))

    def call(self, function: str, values: list[Operand], axis: Operand | None, column: int) -> Operand:
        np = self.np
        if function in ("sum", "mean", "all", "any") or (function in ("min", "max") and len(values) == 1):
            return self.reduce(function, np.asarray(values[0]), axis, column)
        if not self.is_array(*values):
            return call(function, values, column)  # type: ignore[arg-type]
        if function in ("min", "max"):
            result = values[0]
            for value in values[1:]:
                self.check_shapes(result, value, column)
                ufunc = np.minimum if function == "min" else np.maximum
                result = self.apply(ufunc, column, _float(result), _float(value))
            return self.plain(result)
        if function == "ceildiv":
            self.check_shapes(values[0], values[1], column)
            negated = self.apply(np.negative, column, _float(values[0]))
            return self.plain(-self.apply(np.floor_divide, column, negated, _float(values[1])))
        if function == "next_pow2":
            raise ExpressionError("next_pow2 takes an integer, not an array", column)
        ufunc = {"abs": np.abs, "sqrt": np.sqrt, "log2": np.log2, "exp": np.exp, "log": np.log}[function]
        return self.plain(self.apply(ufunc, column, values[0]))

    def apply(self, ufunc: Any, column: int, *operands: Any) -> Any:
        try:
            return ufunc(*operands)
        except TypeError:  # the only operands without a loop are complex ones: //, %, log2
            raise ExpressionError(f"{ufunc.__name__} is not defined for complex numbers", column) from None

    def reduce(self, function: str, array: Array, axis: Operand | None, column: int) -> Operand:
        np = self.np
        where: int | None = None
        if axis is not None:
            if isinstance(axis, bool) or not isinstance(axis, int):
                raise ExpressionError("axis must be an integer", column)
            if not -array.ndim <= axis < array.ndim:
                what = f"axis {axis} is out of range: the array's shape is {_shape(array.shape)}"
                raise ExpressionError(what, column)
            where = axis
        if function in ("min", "max"):
            if np.iscomplexobj(array):
                raise ExpressionError(f"complex numbers have no order, so {function} is not defined", column)
            values = array.astype(np.float64)
            empty = math.inf if function == "min" else -math.inf
            return self.plain(np.asarray(getattr(np, function)(values, axis=where, initial=empty)))
        if function == "mean":
            count = array.size if where is None else array.shape[where]
            return self.plain(np.true_divide(np.sum(array, axis=where), count))
        return self.plain(np.asarray(getattr(np, function)(array, axis=where)))


def _float(value: Any) -> Any:
    """Bools (results of comparisons) and Python integers as float64, so that all arithmetic is that of float64."""
    if isinstance(value, int):
        return float(value)
    return value.astype(float) if getattr(value, "dtype", None) is not None and value.dtype.kind == "b" else value


def _shape(shape: tuple[int, ...]) -> str:
    return "[" + ", ".join(str(size) for size in shape) + "]"
