"""Fixtures for the tests of the store."""

from __future__ import annotations

from pathlib import Path

import pytest
from stored_runs import Runs


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    """Writes runs into the store of an empty folder."""
    return Runs(tmp_path)
