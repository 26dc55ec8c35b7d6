"""What the tests of twins share: the process on the device, and how a pair is held against what was found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from device_child import DeviceChild

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def child(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeviceChild]:
    """A process on the device that runs twins; one that a twin ends is blamed on it, and followed by another."""
    made = DeviceChild(HERE / "on_twins.py", tmp_path_factory.mktemp("cache"))
    yield made
    made.close()
