"""Short ids of cases, which ``kcheck failures`` shows and other commands accept.

An id is the digest of a case's recipe, written with the letters k to z instead of the digits f to 0, so an id
cannot be confused with a seed or a number in a list. Any prefix that is unique among the stored failures
identifies the case.
"""

from __future__ import annotations

from collections.abc import Iterable

LEAST = 4
"""The fewest letters of an id that are shown, even if fewer are unique."""

_TO_LETTERS = str.maketrans("0123456789abcdef", "zyxwvutsrqponmlk")
_TO_HEX = str.maketrans("zyxwvutsrqponmlk", "0123456789abcdef")


def letters(name: bytes) -> str:
    """A digest as letters."""
    return name.hex().translate(_TO_LETTERS)


def hexadecimal(prefix: str) -> str:
    """The digits that the prefix of an id stands for."""
    return prefix.lower().translate(_TO_HEX)


def shortened(ids: Iterable[str]) -> dict[str, str]:
    """For each id, its shortest prefix of at least LEAST letters with which no other of these ids starts."""
    ordered = sorted(set(ids))
    common = [0] * (len(ordered) + 1)  # letters that an id shares with the one before it
    for number in range(1, len(ordered)):
        pairs = zip(ordered[number - 1], ordered[number], strict=False)
        common[number] = next((place for place, (a, b) in enumerate(pairs) if a != b), len(ordered[number]))
    return {
        each: each[: max(LEAST, common[number] + 1, common[number + 1] + 1)] for number, each in enumerate(ordered)
    }
