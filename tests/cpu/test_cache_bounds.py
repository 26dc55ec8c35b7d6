"""The folders of the cache are bounded, and no run pays for their size."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.cache_bounds import LOCKS, SCANS, WEEK, CacheBounds, shrink

NOW = 1_000_000_000.0
SMALL = CacheBounds(usual=400, most=1000, entries=100)


def _entry(folder: Path, name: str, age: float, size: int = 100) -> None:
    (folder / name).write_bytes(bytes(size))
    os.utime(folder / name, (NOW - age, NOW - age))


def _kernel(folder: Path, name: str, age: float) -> None:
    """An entry that is a folder of files, as in Triton's cache."""
    (folder / name / "part").mkdir(parents=True)
    for file in ("kernel.ptx", "part/kernel.json"):
        (folder / name / file).write_bytes(bytes(50))
    os.utime(folder / name, (NOW - age, NOW - age))


@pytest.mark.parametrize("make", [_entry, _kernel])
def test_beyond_the_usual_size_what_was_unused_for_a_week_goes(
    tmp_path: Path, make: Callable[[Path, str, float], None]
) -> None:
    """The oldest first, until three quarters are left. An entry of this week stays."""
    for name, age in (("oldest", 3 * WEEK), ("older", 2 * WEEK), ("old", WEEK + 1), ("week", WEEK - 1)):
        make(tmp_path, name, age)
    shrink(tmp_path, SMALL, NOW)
    assert len(list(tmp_path.iterdir())) == 4
    make(tmp_path, "new", 10)
    shrink(tmp_path, SMALL, NOW)
    assert {path.name for path in tmp_path.iterdir()} == {"old", "week", "new"}
    for n in range(5):
        make(tmp_path, f"today {n}", n)
    shrink(tmp_path, SMALL, NOW)
    assert {path.name for path in tmp_path.iterdir()} == {"week", "new", *(f"today {n}" for n in range(5))}


@pytest.mark.parametrize("make", [_entry, _kernel])
def test_beyond_the_greatest_size_others_go_too(tmp_path: Path, make: Callable[[Path, str, float], None]) -> None:
    for n in range(11):
        make(tmp_path, str(n), 4000 * (11 - n))
    shrink(tmp_path, SMALL, NOW)
    assert {path.name for path in tmp_path.iterdir()} == {str(n) for n in range(4, 11)}


def test_a_folder_that_another_process_may_be_reading_stays(tmp_path: Path) -> None:
    for n in range(11):
        _kernel(tmp_path, str(n), 10)
    shrink(tmp_path, SMALL, NOW)
    assert len(list(tmp_path.iterdir())) == 11


def test_the_file_of_locks_stays(tmp_path: Path) -> None:
    """A process that opened another file in its place would not see the locks of others."""
    _entry(tmp_path, LOCKS, 9 * WEEK)
    for n in range(11):
        _entry(tmp_path, str(n), n)
    shrink(tmp_path, SMALL, NOW)
    assert (tmp_path / LOCKS).exists()


def test_a_project_larger_than_the_usual_size_stays_warm(tmp_path: Path) -> None:
    """Each run reads all entries in the same order; the newest ones alone would be of no use to it."""
    cache = ObjectCache(tmp_path, CacheBounds(usual=20_000, most=100_000))
    contents = {str(n): os.urandom(1000) for n in range(60)}
    for name, content in contents.items():
        cache.put(name, content)
    assert all(cache.get(name) == content for name, content in contents.items())


def test_the_folder_is_bounded(tmp_path: Path) -> None:
    """Beyond the greatest size the entries used least recently go; the last one stored stays."""
    cache = ObjectCache(tmp_path, CacheBounds(usual=10_000, most=10_000))
    for n in range(40):
        cache.put(str(n), os.urandom(1000))
        paths = sorted(tmp_path.iterdir(), key=lambda path: path.stat().st_mtime_ns, reverse=True)
        for age, path in enumerate(paths):
            os.utime(path, ns=(0, (1000 - age) * 10**9))
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 11_000
    assert cache.get("39") is not None
    assert cache.get("0") is None


def test_the_number_of_entries_is_bounded(tmp_path: Path) -> None:
    """Small entries do not fill a folder with files."""
    cache = ObjectCache(tmp_path, CacheBounds(entries=50))
    for n in range(200):
        cache.put(str(n), b"")
    assert 20 < sum(1 for _ in tmp_path.iterdir()) <= 55


def test_an_entry_in_use_outlives_older_ones(tmp_path: Path) -> None:
    """Getting an entry counts as a use."""
    cache = ObjectCache(tmp_path, CacheBounds(usual=4_000, most=40_000))
    for n in range(4):
        cache.put(str(n), os.urandom(1000))
    for path in tmp_path.iterdir():
        os.utime(path, ns=(0, 0))
    assert cache.get("1") is not None
    shrink(tmp_path, CacheBounds(usual=4_000, most=40_000), time.time())
    assert [cache.get(str(n)) is not None for n in range(4)].count(True) == 2
    assert cache.get("1") is not None


def test_storing_rarely_looks_at_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While as much is stored as the folder may hold, it is looked at about SCANS times, by however many
    processes; and that keeps it within its limit, except for what is stored between two looks."""
    scans = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda folder: scans.append(folder) or scandir(folder))
    limit = 300 * 1062
    for n in range(600):
        ObjectCache(tmp_path, CacheBounds(usual=limit, most=limit)).put(str(n), os.urandom(1000))
    assert SCANS < len(scans) < 3 * SCANS  # for twice the limit
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 1.3 * limit
