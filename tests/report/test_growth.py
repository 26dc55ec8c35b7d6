"""Reports of many cases: the work grows as the number of cases does."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import fake_events
import pytest
from writing import written

from kcheck.model import Event, RunFinished, Status
from kcheck.report import REPORTERS


def run(cases: int, one_fails_of: int) -> list[Event]:
    """A run of one spec whose cases have different sizes, and of which some fail."""
    events = [fake_events.started(1), fake_events.spec_started("op", cases=cases)]
    failed = 0
    for number in range(cases):
        fails = number % one_fails_of == 0
        failed += fails
        status = Status.FAILED if fails else Status.PASSED
        sizes = {"M": number % 127 + 1, "N": number * 7919 % 4093 + 1, "K": number}
        comparison = fake_events.mismatch(passed=not fails)
        events.append(fake_events.case("op", number, status, dims=sizes, comparisons=(comparison,)))
    return [
        *events,
        fake_events.spec_finished("op", passed=cases - failed, failed=failed),
        RunFinished(1.0, False),
    ]


def calls(form: str, events: list[Event]) -> int:
    """How many times a function of Python begins, or a generator goes on, while a report is written."""
    count = 0

    def seen(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(seen)
    try:
        written(form, events)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("form", REPORTERS)
@pytest.mark.parametrize("one_fails_of", [1, 50])
def test_four_times_the_cases_take_four_times_the_work(form: str, one_fails_of: int) -> None:
    """In every format, whether all cases fail or few."""
    few, many = (calls(form, run(cases, one_fails_of)) for cases in (250, 1_000))
    assert many < 5 * few
