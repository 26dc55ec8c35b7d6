"""Check numbers that a caller passes."""

from __future__ import annotations

import operator
from typing import Any

from kcheck.errors import UserError
from kcheck.rng import MASK64


def count_of(value: Any, name: str) -> int:
    """Check a number of cases.

    Raises:
        UserError: it is not a whole number, or negative.
    """
    return _whole(value, name, None, "0 or more")


def seed_of(value: Any, name: str) -> int:
    """Check a 64-bit seed.

    Raises:
        UserError: it is not a whole number in [0, 2**64).
    """
    return _whole(value, name, MASK64, "from 0 to 2**64 - 1")


def _whole(value: Any, name: str, most: int | None, bounds: str) -> int:
    try:
        found = operator.index(value)
    except TypeError:
        found = -1
    if found < 0 or (most is not None and found > most):
        raise UserError(f"{name} is {value!r}; it must be a whole number {bounds}")
    return found
