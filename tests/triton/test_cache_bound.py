"""Triton's cache in kcheck's folder is bounded."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from kcheck.cpu.cache_bounds import WEEK, CacheBounds
from kcheck.triton.cache import limit_size, use_folder


class _FileCacheManager:
    """What Triton's class of this name does, in short."""

    def __init__(self, folder: Path, key: str) -> None:
        self.key, self.cache_dir = key, str(folder / key)

    def get_group(self, filename: str) -> dict[str, str]:
        return {path: path for path in os.listdir(self.cache_dir)}

    def put_group(self, filename: str, group: dict[str, str]) -> str:
        os.makedirs(self.cache_dir)
        path = Path(self.cache_dir, filename)
        path.write_bytes(bytes(100))
        return str(path)


def _managers(folder: Path) -> type[_FileCacheManager]:
    class FileCacheManager(_FileCacheManager):
        pass

    limit_size(folder, CacheBounds(usual=1000, most=4000), SimpleNamespace(FileCacheManager=FileCacheManager))
    return FileCacheManager


def test_old_kernels_go_when_others_are_stored(tmp_path: Path) -> None:
    """A kernel that was found counts as used."""
    kind = _managers(tmp_path)
    for n in range(8):
        kind(tmp_path, f"old {n}").put_group("kernel", {})
        os.utime(tmp_path / f"old {n}", (WEEK, WEEK + n))
    assert kind(tmp_path, "old 0").get_group("kernel")
    for n in range(8):
        kind(tmp_path, f"new {n}").put_group("kernel", {})
    assert {path.name for path in tmp_path.iterdir()} >= {"old 0", *(f"new {n}" for n in range(8))}
    assert not (tmp_path / "old 1").exists()


def test_a_folder_of_the_user_is_left_alone(tmp_path: Path) -> None:
    """kcheck deletes nothing in a folder that TRITON_CACHE_DIR names, and does not change times there."""
    kind = _managers(tmp_path / "ours")
    for n in range(60):
        kind(tmp_path / "theirs", f"old {n}").put_group("kernel", {})
        os.utime(tmp_path / "theirs" / f"old {n}", (WEEK, WEEK))
    assert kind(tmp_path / "theirs", "old 0").get_group("kernel")
    assert {path.stat().st_mtime for path in (tmp_path / "theirs").iterdir()} == {WEEK}
    variables = {"TRITON_CACHE_DIR": str(tmp_path / "theirs")}
    use_folder(variables, tmp_path / "ours")
    assert variables == {"TRITON_CACHE_DIR": str(tmp_path / "theirs")}


def test_triton_still_has_what_is_changed() -> None:
    """The methods that count a use and a store belong to the class of Triton's cache."""
    cache = pytest.importorskip("triton.runtime.cache")
    assert callable(cache.FileCacheManager.get_group)
    assert callable(cache.FileCacheManager.put_group)


def test_a_process_gets_a_folder_of_its_own_if_there_can_be_none_in_the_cache(tmp_path: Path) -> None:
    """Triton does not compile without one, and a correct kernel must not fail because of it."""
    (tmp_path / "file").write_text("")
    variables: dict[str, str] = {}
    use_folder(variables, tmp_path / "file" / "below")
    folder = Path(variables["TRITON_CACHE_DIR"])
    assert folder.is_dir()
    assert tmp_path not in folder.parents
