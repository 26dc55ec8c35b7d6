"""Calls find room for their frames at every depth of the stack."""

from __future__ import annotations

import resource
import sys

import pytest

from kcheck.interpreter import with_room

CALLS = 1000
DEPTHS = range(300)


def called(one: int, two: int) -> int:
    return one


def faults(depth: int) -> int:
    """Page faults of a loop of calls, at a depth below the caller."""
    if depth:
        return faults(depth - 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(CALLS):
        called(1, 2)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def test_no_depth_maps_memory_for_each_call() -> None:
    roomy = with_room(faults)
    assert max(roomy(depth) for depth in DEPTHS) < CALLS / 2


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="about CPython 3.11, where it was measured")
def test_without_room_some_depth_does() -> None:
    assert max(faults(depth) for depth in DEPTHS) >= CALLS


def test_a_function_with_room_is_called_as_before() -> None:
    @with_room
    def described(*args: int, **kwargs: int) -> str:
        """Says what it was given."""
        if not args:
            raise ValueError("nothing")
        return f"{args} {kwargs}"

    assert described(1, two=2) == "(1,) {'two': 2}"
    assert (described.__name__, described.__doc__) == ("described", "Says what it was given.")
    with pytest.raises(ValueError, match="nothing"):
        described()
