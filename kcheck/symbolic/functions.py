"""The functions of the language, as rows of a table: the number of arguments, and the meaning for numbers.

``kcheck.symbolic.arrays``, which imports NumPy, has the meaning for arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from kcheck.dataclass import dataclass

Number: TypeAlias = int | float | bool


def ceildiv(numerator: Number, denominator: Number) -> Number:
    """The quotient rounded towards plus infinity; exact for integers of any size."""
    return -(-numerator // denominator)


def next_pow2(value: Number) -> int:
    """The smallest power of two that is not below ``value``; 1 for values below 1.

    Raises:
        TypeError: for a float.
    """
    if isinstance(value, float):
        raise TypeError(f"next_pow2 takes an integer, not {value!r}")
    return 1 << max(0, int(value) - 1).bit_length()


def sqrt(value: Number) -> float:
    return math.sqrt(value)


def absolute(value: Number) -> Number:
    return abs(value)


@dataclass(frozen=True, slots=True)
class BuiltinFunction:
    """One function.

    Attributes:
        least, most: how many arguments it takes for numbers; ``most`` None: any number.
        number: its meaning for numbers; None for functions that only reduce arrays. May raise ValueError
            (outside its domain), TypeError, OverflowError or ZeroDivisionError.
        sizes: whether it is allowed outside invariants.
        reduces: whether in invariants it takes one array and, optionally, ``axis``.
    """

    name: str
    least: int
    most: int | None
    number: Callable[..., Number] | None
    sizes: bool = True
    reduces: bool = False


FUNCTIONS: dict[str, BuiltinFunction] = {
    row.name: row
    for row in (
        BuiltinFunction("min", 2, None, min, reduces=True),
        BuiltinFunction("max", 2, None, max, reduces=True),
        BuiltinFunction("abs", 1, 1, absolute),
        BuiltinFunction("sqrt", 1, 1, sqrt),
        BuiltinFunction("log2", 1, 1, math.log2),
        BuiltinFunction("ceildiv", 2, 2, ceildiv),
        BuiltinFunction("next_pow2", 1, 1, next_pow2),
        BuiltinFunction("exp", 1, 1, math.exp, sizes=False),
        BuiltinFunction("log", 1, 1, math.log, sizes=False),
        BuiltinFunction("sum", 1, 1, None, sizes=False, reduces=True),
        BuiltinFunction("mean", 1, 1, None, sizes=False, reduces=True),
        BuiltinFunction("all", 1, 1, None, sizes=False, reduces=True),
        BuiltinFunction("any", 1, 1, None, sizes=False, reduces=True),
    )
}
"""Every function by name, in the order in which messages list them."""

SCALAR_FUNCTIONS: tuple[str, ...] = tuple(row.name for row in FUNCTIONS.values() if row.sizes)
"""The functions allowed outside invariants."""
