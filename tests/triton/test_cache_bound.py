"""Triton's cache in kcheck's folder is bounded."""

from __future__ import annotations

import os
from pathlib import Path

from kcheck.triton.cache import shrink

NOW = 1_000_000.0


def test_the_oldest_kernels_go_until_three_quarters_are_left_but_no_young_one(tmp_path: Path) -> None:
    for name, age in (("old", 9000), ("older", 9999), ("young", 10)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "kernel.ptx").write_bytes(bytes(100))
        os.utime(tmp_path / name, (NOW - age, NOW - age))
    shrink(tmp_path, 300, NOW)
    assert {path.name for path in tmp_path.iterdir()} == {"old", "older", "young"}
    shrink(tmp_path, 280, NOW)
    assert {path.name for path in tmp_path.iterdir()} == {"old", "young"}
    shrink(tmp_path, 10, NOW)
    assert {path.name for path in tmp_path.iterdir()} == {"young"}
