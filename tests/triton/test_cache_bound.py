"""Triton's cache in kcheck's folder is bounded."""

from __future__ import annotations

import os
from pathlib import Path

from kcheck.triton.cache import shrink, use_folder

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


def test_a_process_gets_a_folder_of_its_own_if_there_can_be_none_in_the_cache(tmp_path: Path) -> None:
    """Triton does not compile without one, and a correct kernel must not fail because of it."""
    (tmp_path / "file").write_text("")
    variables: dict[str, str] = {}
    use_folder(variables, tmp_path / "file" / "below")
    folder = Path(variables["TRITON_CACHE_DIR"])
    assert folder.is_dir()
    assert tmp_path not in folder.parents
