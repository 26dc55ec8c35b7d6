"""Join words as in a sentence."""

from __future__ import annotations

from collections.abc import Iterable


def listed(words: Iterable[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``; at least one word."""
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last
