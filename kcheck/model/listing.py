"""Join words as in a sentence."""

from __future__ import annotations

from collections.abc import Iterable


def listed(words: Iterable[object], conjunction: str = "and") -> str:
    """``a``, ``a and b``, ``a, b and c``; at least one word."""
    *others, last = map(str, words)
    return f"{', '.join(others)} {conjunction} {last}" if others else last
