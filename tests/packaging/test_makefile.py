"""The Makefile reads without an error, and each of its targets is defined once."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_the_makefile_reads_without_a_warning() -> None:
    """``make`` warns where a second recipe replaces the first, and stops at what it cannot read."""
    done = subprocess.run(
        ["make", "--dry-run", "help", "check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
