"""initcheck on kernels that make it follow values: the same findings at every width of vectors."""

from __future__ import annotations

import pytest
from device_child import DeviceChild
from pairs import Pair
from twins import check_twins, pairs_of

from kcheck.device.cpu import missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
PAIRS = pairs_of("init_engine_pairs")


@pytest.mark.parametrize(
    "width", [1, pytest.param(8, marks=pytest.mark.soak), 16, pytest.param(32, marks=pytest.mark.soak)]
)
@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_uninitialized_memory_is_followed_to_its_use(child: DeviceChild, pair: Pair, width: int) -> None:
    """The buggy twin has its initcheck finding on the marked line, the clean one none, however many lanes run."""
    check_twins(child, pair, width)
