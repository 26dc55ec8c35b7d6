"""Specs of twins: outputs that are unwritten, inputs that are mutated, results that depend on the order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from device_child import DeviceChild
from pairs import Pair
from twins import HERE, check_spec_twins, pairs_of

from kcheck.device.cpu import missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
OUTPUTS, ORDERS = pairs_of("output_pairs"), pairs_of("order_pairs")


@pytest.fixture(scope="module")
def child(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeviceChild]:
    """A process that runs specs."""
    made = DeviceChild(HERE / "on_specs.py", tmp_path_factory.mktemp("cache"))
    yield made
    made.close()


@pytest.mark.parametrize("pair", OUTPUTS.values(), ids=OUTPUTS)
def test_what_is_written_or_not_is_found(child: DeviceChild, pair: Pair) -> None:
    """The buggy twin leaves its output unwritten, or changes its input; the clean one passes."""
    check_spec_twins(child, pair)


@pytest.mark.parametrize("pair", ORDERS.values(), ids=ORDERS)
def test_a_result_that_depends_on_the_order_is_found(child: DeviceChild, pair: Pair) -> None:
    """The buggy twin gives other bits under another schedule; the clean one gives the same, and passes."""
    check_spec_twins(child, pair)
