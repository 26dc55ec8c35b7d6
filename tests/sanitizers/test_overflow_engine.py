"""overflow on kernels with numbers that wrap by design: no alarm about those, at any width of vectors."""

from __future__ import annotations

import pytest
from device_child import DeviceChild
from pairs import Pair
from twins import check_twins, pairs_of

from kcheck.device.cpu import missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
PAIRS = pairs_of("overflow_engine_pairs")


@pytest.mark.parametrize("width", [1, pytest.param(8, marks=pytest.mark.soak), 32])
@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_only_addresses_may_not_wrap(child: DeviceChild, pair: Pair, width: int) -> None:
    """The buggy twin has its overflow finding on the marked line, the clean one none, however many lanes run."""
    check_twins(child, pair, width)
