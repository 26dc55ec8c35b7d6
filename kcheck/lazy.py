"""Sequences whose items take too much memory to be kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar, overload

T_co = TypeVar("T_co", covariant=True)


class Lazy(Sequence[T_co]):
    """A sequence whose items are made each time they are used.

    Args:
        places: a number for each item, in order.
        make: makes the item with a number; always an equal one.
    """

    def __init__(self, places: range, make: Callable[[int], T_co]) -> None:
        self._places = places
        self._make = make

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> T_co: ...
    @overload
    def __getitem__(self, index: slice) -> Lazy[T_co]: ...
    def __getitem__(self, index: int | slice) -> T_co | Lazy[T_co]:
        if isinstance(index, slice):
            return Lazy(self._places[index], self._make)
        return self._make(self._places[index])

    def __iter__(self) -> Iterator[T_co]:
        return map(self._make, self._places)
