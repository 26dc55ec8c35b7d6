"""Evaluate operators, functions and methods of Python on values in
the text of a file, with limits on their size."""

from __future__ import annotations

import ast
import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kcheck.alignment import ceil_div

_MOST_ITEMS = 10_000
_MOST_BITS = 256


class Unknown(Exception):
    """A value that the text does not show."""


def items_of(value: Any) -> Sequence[Any]:
    """The items of a list, tuple, range or dict.

    Raises:
        Unknown: it is something else, or has too many items.
    """
    if not isinstance(value, (list, tuple, range, dict)) or len(value) > _MOST_ITEMS:
        raise Unknown
    return list(value)


def bounded(value: Any) -> Any:
    """The value, if it is small enough to be stored.

    Raises:
        Unknown: it is larger.
    """
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise Unknown
    if isinstance(value, (list, tuple, str, dict)) and len(value) > _MOST_ITEMS:
        raise Unknown
    return value


def apply(op: ast.operator, left: Any, right: Any) -> Any:
    """A binary operator on numbers, or on two lists.

    Raises:
        Unknown: it is not one of these, or the result is too large.
    """
    if type(op) not in _OPERATIONS:
        raise Unknown
    if isinstance(op, ast.Add) and isinstance(left, list) and isinstance(right, list):
        return bounded([*left, *right])
    if not isinstance(left, (int, float)) or not isinstance(right, (int, float)):
        raise Unknown
    if isinstance(op, (ast.Pow, ast.LShift)) and abs(right) > 64:
        raise Unknown
    return bounded(_OPERATIONS[type(op)](left, right))


def call_method(owner: Any, name: str, arguments: list[Any], named: Mapping[str, Any]) -> Any:
    """Call a method of a list or dict.

    Raises:
        Unknown: the method is not one of _METHODS.
    """
    if named or name not in _METHODS.get(type(owner), ()):
        raise Unknown
    if name == "extend":
        arguments = [items_of(arguments[0])]
    result = getattr(owner, name)(*arguments)
    bounded(owner)
    return list(result) if name in ("keys", "values", "items") else result


def _product(*lists: Any, repeat: int = 1) -> list[list[Any]]:
    items = [items_of(each) for each in lists] * min(repeat, 8)
    return [list(each) for each in itertools.islice(itertools.product(*items), _MOST_ITEMS + 1)]


_METHODS: Mapping[type, tuple[str, ...]] = {
    list: ("append", "extend", "insert", "pop", "copy", "index", "count"),
    dict: ("get", "keys", "values", "items", "update", "copy"),
}
UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.Not: operator.not_,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
_OPERATIONS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
}
COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
BUILTINS: Mapping[str, Callable[..., Any]] = {
    "abs": abs,
    "all": all,
    "any": any,
    "bool": bool,
    "dict": dict,
    "enumerate": lambda items, start=0: [[start + n, item] for n, item in enumerate(items_of(items))],
    "float": float,
    "int": int,
    "len": len,
    "list": lambda items=(): list(items_of(items)),
    "max": max,
    "min": min,
    "range": lambda *bounds: items_of(range(*bounds)),
    "sorted": sorted,
    "sum": sum,
    "tuple": lambda items=(): list(items_of(items)),
    "zip": lambda *lists: [list(each) for each in zip(*map(items_of, lists), strict=False)],
}
LIBRARY: Mapping[str, Callable[..., Any]] = {
    "triton.cdiv": ceil_div,
    "triton.next_power_of_2": lambda n: 1 << (n - 1).bit_length(),
    "itertools.product": _product,
}
NOT_SHOWN = (
    Unknown, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError,
)  # fmt: skip
"""The exceptions with which an evaluation may fail."""
