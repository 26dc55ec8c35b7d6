"""A set of numbers that come nearly in order."""

from __future__ import annotations


class Numbers:
    """A set of natural numbers. It takes memory only for those after the first one that is missing."""

    def __init__(self) -> None:
        self._below = 0
        self._others: set[int] = set()

    def add(self, number: int) -> None:
        """Add a number."""
        self._others.add(number)
        while self._below in self._others:
            self._others.remove(self._below)
            self._below += 1

    def __contains__(self, number: int) -> bool:
        return number < self._below or number in self._others

    def __len__(self) -> int:
        return self._below + len(self._others)
