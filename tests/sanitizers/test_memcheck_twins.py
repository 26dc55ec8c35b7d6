"""memcheck on twins: accesses outside of arrays, of freed memory, of misaligned addresses."""

from __future__ import annotations

import pytest
from device_child import DeviceChild
from pairs import Pair
from twins import SAMPLE, check_twins, pairs_of

from kcheck.device.cpu import missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
PAIRS = pairs_of("memory_pairs")


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_the_access_is_found_at_its_line(child: DeviceChild, pair: Pair) -> None:
    """The buggy twin has its memcheck finding on the marked line, the clean one has none."""
    check_twins(child, pair)


@pytest.mark.parametrize("pair", list(PAIRS.values())[::SAMPLE], ids=list(PAIRS)[::SAMPLE])
def test_one_lane_at_a_time_finds_the_same_accesses(child: DeviceChild, pair: Pair) -> None:
    """Code of one lane per vector, which the wide one is compared with, finds the same."""
    check_twins(child, pair, width=1)
