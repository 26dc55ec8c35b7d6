"""The values that an expression can take when its names are in intervals.

Interval arithmetic (R. E. Moore): the result contains every value that the expression can take, and perhaps more.
Integers are kept exact; floating-point ends are moved outwards, so that rounding never loses a value. If an
expression may have no value (a division by zero), the result is EVERYTHING.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

from kcheck.symbolic.ast import Binary, ExpressionError, FunctionCall, Logical, Name, Node, Number, Relation, Unary
from kcheck.symbolic.evaluate import arithmetic
from kcheck.symbolic.functions import next_pow2
from kcheck.symbolic.lexer import MAX_BITS

End: TypeAlias = int | float
Interval: TypeAlias = tuple[End, End]

EVERYTHING: Interval = (-math.inf, math.inf)
_FALSE: Interval = (0, 0)
_TRUE: Interval = (1, 1)
_EITHER: Interval = (0, 1)
_LIMIT = 2**MAX_BITS


def interval(node: Node, box: Mapping[str, Interval]) -> Interval:
    """An interval that contains every value of ``node`` over a box. A name that is not in the box may be anything.

    Truth is 1 and 0: (0, 0) means that a comparison is false everywhere in the box.
    """
    match node:
        case Number(value=value):
            return (value, value)
        case Name(name=name):
            return box.get(name, EVERYTHING)
        case Unary(operator=symbol, operand=operand):
            low, high = interval(operand, box)
            if symbol == "not":
                return _not((low, high))
            return (-high, -low) if symbol == "-" else (low, high)
        case Binary(operator=symbol, left=left, right=right):
            return _outward(_binary(symbol, interval(left, box), interval(right, box)))
        case Relation(operators=operators, operands=operands):
            ends = [interval(operand, box) for operand in operands]
            links = [_compare(symbol, a, b) for symbol, a, b in zip(operators, ends[:-1], ends[1:], strict=True)]
            return (min(low for low, _ in links), min(high for _, high in links))
        case Logical(operator=symbol, left=left, right=right):
            return _logical(symbol, interval(left, box), interval(right, box))
        case FunctionCall(function=function, arguments=arguments):
            return _outward(_call(function, [interval(argument, box) for argument in arguments]))


def surely_false(ends: Interval) -> bool:
    """Whether every value of the interval counts as false."""
    return ends[0] == 0 == ends[1]


def _surely_true(ends: Interval) -> bool:
    return ends[0] > 0 or ends[1] < 0


def _not(ends: Interval) -> Interval:
    return _TRUE if surely_false(ends) else _FALSE if _surely_true(ends) else _EITHER


def _hull(*several: Interval) -> Interval:
    return (min(low for low, _ in several), max(high for _, high in several))


def _logical(symbol: str, left: Interval, right: Interval) -> Interval:
    """``and`` and ``or`` return one of their operands, as in Python."""
    if symbol == "and":
        return left if surely_false(left) else right if _surely_true(left) else _hull(_FALSE, right)
    return right if surely_false(left) else left if _surely_true(left) else _hull(left, right)


def _compare(symbol: str, left: Interval, right: Interval) -> Interval:
    match symbol:
        case "<":
            return _TRUE if left[1] < right[0] else _FALSE if left[0] >= right[1] else _EITHER
        case "<=":
            return _TRUE if left[1] <= right[0] else _FALSE if left[0] > right[1] else _EITHER
        case ">" | ">=":
            return _compare({">": "<", ">=": "<="}[symbol], right, left)
        case "==":
            if left[1] < right[0] or right[1] < left[0]:
                return _FALSE
            return _TRUE if left[0] == left[1] == right[0] == right[1] else _EITHER
        case _:
            return _not(_compare("==", left, right))


def _outward(ends: Interval) -> Interval:
    """Allow for rounding: floats move by a few units in the last place; an interval that is too wide is
    unbounded."""
    low, high = ends
    if low != low or high != high:
        return EVERYTHING
    if isinstance(low, float) and math.isfinite(low):
        low -= abs(low) * 2.0**-50 + 5e-324
    elif not -_LIMIT < low < _LIMIT:
        low = -math.inf if low < 0 else _LIMIT
    if isinstance(high, float) and math.isfinite(high):
        high += abs(high) * 2.0**-50 + 5e-324
    elif not -_LIMIT < high < _LIMIT:
        high = math.inf if high > 0 else -_LIMIT
    return (low, high)


def _binary(symbol: str, left: Interval, right: Interval) -> Interval:
    (a, b), (c, d) = left, right
    match symbol:
        case "+":
            return (a + c, b + d)
        case "-":
            return (a - d, b - c)
        case "*":
            products = [_times(x, y) for x in left for y in right]
            return (min(products), max(products))
        case "/" | "//":
            return _quotient(symbol, left, right)
        case "%":
            return _remainder(left, right)
        case _:
            return _power(left, right)


def _times(x: End, y: End) -> End:
    # 0 * inf is 0 here: the infinity stands for a finite value that has no bound.
    if x == 0 or y == 0:
        return 0
    try:
        return x * y
    except OverflowError:  # an int too wide for a float
        return math.inf if (x > 0) == (y > 0) else -math.inf


def _quotient(symbol: str, left: Interval, right: Interval) -> Interval:
    if right[0] <= 0 <= right[1]:
        return EVERYTHING
    ends: list[End] = []
    for x in left:
        for y in right:
            if math.isinf(x) and math.isinf(y):
                return EVERYTHING
            if math.isinf(y):
                # Tends to 0 from either side; floor division tends to 0 or to -1.
                ends.extend((0, -1) if symbol == "//" else (0.0,))
            elif math.isinf(x):
                ends.append(x if y > 0 else -x)
            else:
                try:
                    ends.append(arithmetic(symbol, x, y, 1))
                except ExpressionError:
                    return EVERYTHING
    return (min(ends), max(ends))


def _remainder(left: Interval, right: Interval) -> Interval:
    (a, b), (c, d) = left, right
    if c <= 0 <= d or not all(isinstance(end, int) for end in (c, d)):
        return EVERYTHING
    if c == d and all(isinstance(end, int) for end in (a, b)) and a // c == b // c:
        return (a % c, b % c) if c > 0 else (min(a % c, b % c), max(a % c, b % c))
    # d itself is not a remainder of integers, but min and max can put integer ends around a float.
    if c > 0:
        return (0, min(d, b) if a >= 0 else d)
    return (c, 0)


def _power(base: Interval, exponent: Interval) -> Interval:
    (a, b), (c, d) = base, exponent
    if a >= 1 and c >= 0:  # monotone in both
        return (_raise(a, c, down=True), _raise(b, d, down=False))
    if c == d and isinstance(c, int) and c >= 0:
        low, high = _raise(a, c, down=True), _raise(b, c, down=False)
        if c % 2 == 1 or a >= 0:
            return (low, high)
        return (0 if b >= 0 else _raise(b, c, down=True), max(_raise(a, c, down=False), high))
    return EVERYTHING


def _raise(x: End, y: End, *, down: bool) -> End:
    """``x ** y``; if it is too large, the bound beyond it on the safe side."""
    if math.isinf(x) or math.isinf(y):
        if y == 0 or x == 1:
            return 1
        return -math.inf if x < 0 and y % 2 == 1 else math.inf
    try:
        return arithmetic("**", x, y, 1)
    except ExpressionError:
        negative = x < 0 and y % 2 == 1
        if negative:
            return -math.inf if down else -_LIMIT
        return _LIMIT if down else math.inf


def _call(function: str, arguments: list[Interval]) -> Interval:
    match function, arguments:
        case "min", _:
            return (min(low for low, _ in arguments), min(high for _, high in arguments))
        case "max", _:
            return (max(low for low, _ in arguments), max(high for _, high in arguments))
        case "abs", [(low, high)]:
            return (0 if low <= 0 <= high else min(abs(low), abs(high)), max(abs(low), abs(high)))
        case "ceildiv", [left, right]:
            low, high = _quotient("//", (-left[1], -left[0]), right)
            return (-high, -low)
        case (("sqrt" | "log2"), [(low, high)]):
            if high < 0:
                return EVERYTHING
            return (_rising(function, max(low, 0)), _rising(function, high))
        case "next_pow2", [(low, high)] if isinstance(low, int) and isinstance(high, int):
            return (next_pow2(low), next_pow2(high))
        case _:
            return EVERYTHING


def _rising(function: str, value: End) -> End:
    if math.isinf(value):
        return math.inf
    if function == "sqrt":
        return math.sqrt(value)
    return math.log2(value) if value > 0 else -math.inf
