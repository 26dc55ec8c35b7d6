"""The fixture of the oracle's tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from oracle_bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Makes specs, arrays and outcomes by hand; references are files under ``tmp_path``."""
    return Bench(tmp_path)
