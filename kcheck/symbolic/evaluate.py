"""The value of an expression of numbers."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from kcheck.nearest import did_you_mean
from kcheck.symbolic.ast import Binary, ExpressionError, FunctionCall, Logical, Name, Node, Number, Relation, Unary
from kcheck.symbolic.functions import FUNCTIONS
from kcheck.symbolic.lexer import MAX_BITS, shorten

Value: TypeAlias = int | float | bool

_ARITHMETIC: dict[str, Callable[[Value, Value], Value]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
}
COMPARISONS: dict[str, Callable[[Value, Value], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


def evaluate(node: Node, env: Mapping[str, Value]) -> Value:
    """The value of an expression, with Python's meaning of every operator and exact integers.

    Args:
        env: the value of each name. Values must be Python numbers.

    Raises:
        ExpressionError: an unknown name; a division by zero; a function outside its domain; a float that
            overflows; an integer of more than MAX_BITS bits, checked in advance for powers.
    """
    match node:
        case Number(value=value):
            return value
        case Name(name=name, column=column):
            if name in env:
                return env[name]
            raise unknown_name(name, column, env)
        case Binary(operator=symbol, left=left, right=right, column=column):
            return arithmetic(symbol, evaluate(left, env), evaluate(right, env), column)
        case Unary(operator=symbol, operand=operand):
            return negate(symbol, evaluate(operand, env))
        case Relation(operators=operators, operands=operands):
            left_value = evaluate(operands[0], env)
            for symbol, operand in zip(operators, operands[1:], strict=True):
                right_value = evaluate(operand, env)
                if not COMPARISONS[symbol](left_value, right_value):
                    return False
                left_value = right_value
            return True
        case Logical(operator=symbol, left=left, right=right):
            first = evaluate(left, env)
            return evaluate(right, env) if bool(first) == (symbol == "and") else first
        case FunctionCall(function=function, arguments=arguments, column=column):
            return call(function, [evaluate(argument, env) for argument in arguments], column)


def evaluate_size(node: Node, env: Mapping[str, Value]) -> int:
    """The value of an expression that counts something: elements, blocks, threads, bytes.

    Raises:
        ExpressionError: as ``evaluate``, and for a value that is negative or not whole. A float with a whole value
            is accepted, because ``log2(N)`` is one.
    """
    value = evaluate(node, env)
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise ExpressionError(
            f"a size must be a whole number, but is {value}", 1, "use '//' to divide and round down"
        )
    if value < 0:
        raise ExpressionError(f"a size must not be negative, but is {value}", 1)
    return int(value)


def unknown_name(name: str, column: int, known: Iterable[str]) -> ExpressionError:
    """The error for a name that nothing declares."""
    return ExpressionError(f"unknown name {shorten(name)!r}", column, did_you_mean(name, known))


def negate(symbol: str, value: Value) -> Value:
    """``-x``, ``+x`` or ``not x``."""
    if symbol == "not":
        return not value
    return -value if symbol == "-" else +value


def arithmetic(symbol: str, left: Value, right: Value, column: int) -> Value:
    """One arithmetic operation on numbers. The size of a power is checked before it is computed."""
    if symbol == "**" and isinstance(left, int) and isinstance(right, int) and right > 0:
        # |left| >= 2**(bits - 1), so the power has at least (bits - 1) * right bits.
        if (left.bit_length() - 1) * right > MAX_BITS:
            raise _too_wide(f"{left} ** {right}", column)
    elif symbol == "**" and left < 0 and isinstance(right, float) and not right.is_integer():
        raise ExpressionError(f"{left} ** {right} is not a real number", column)
    try:
        value = _ARITHMETIC[symbol](left, right)
    except ZeroDivisionError:
        raise ExpressionError(f"{left} {symbol} {right} divides by zero", column) from None
    except OverflowError:
        raise ExpressionError(f"{left} {symbol} {right} is too large for a float64", column) from None
    if isinstance(value, float):
        # An infinity that was passed in (a param may be .inf) is fine; one that was computed here is an overflow.
        if not math.isfinite(value) and math.isfinite(left) and math.isfinite(right):
            raise ExpressionError(f"{left} {symbol} {right} is too large for a float64", column)
    elif value.bit_length() > MAX_BITS:
        raise _too_wide(f"{left} {symbol} {right}", column)
    return value


def call(function: str, arguments: list[Value], column: int) -> Value:
    """Call a function with numbers."""
    row = FUNCTIONS[function]
    if row.number is None:
        raise ExpressionError(f"{function} is only available in invariants, for arrays", column)
    if len(arguments) < row.least:
        raise ExpressionError(f"{function} takes at least {row.least} numbers", column)
    try:
        value = row.number(*arguments)
    except (ZeroDivisionError, ValueError):
        raise ExpressionError(f"{_call(function, arguments)} is not defined", column) from None
    except OverflowError:
        raise ExpressionError(f"{_call(function, arguments)} is too large for a float64", column) from None
    except TypeError as error:
        raise ExpressionError(str(error), column, "use '//' to divide and round down") from None
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise _too_wide(_call(function, arguments), column)
    return value


def _call(function: str, arguments: list[Value]) -> str:
    return f"{function}({', '.join(str(argument) for argument in arguments)})"


def _too_wide(text: str, column: int) -> ExpressionError:
    return ExpressionError(f"{shorten(text, 80)} is an integer of more than {MAX_BITS} bits", column)
