"""The object cache: what goes in comes out, or nothing does."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kcheck.cpu.cache import SCANS, ObjectCache


def _only_file(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def test_an_entry_comes_back(tmp_path: Path) -> None:
    """What was stored is returned under its key, by another object too, and under no other key."""
    ObjectCache(tmp_path / "new").put("a", b"code")
    assert ObjectCache(tmp_path / "new").get("a") == b"code"
    assert ObjectCache(tmp_path / "new").get("b") is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-1],
        lambda content: b"",
        lambda content: content[:20],
        lambda content: content[:-1] + bytes([content[-1] ^ 1]),
        lambda content: b"x" + content[1:],
        lambda content: content + b"more",
    ],
)
def test_a_damaged_entry_is_ignored_and_replaced(tmp_path: Path, damage) -> None:
    """A torn or changed file is as good as none, and storing again heals it."""
    cache = ObjectCache(tmp_path)
    cache.put("a", b"code")
    path = _only_file(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    assert cache.get("a") is None
    cache.put("a", b"code")
    assert cache.get("a") == b"code"


def test_the_folder_is_bounded(tmp_path: Path) -> None:
    """Beyond the bound the entries used least recently go; the last one stored stays."""
    cache = ObjectCache(tmp_path, limit=10_000)
    for n in range(40):
        cache.put(str(n), bytes(1000))
        for age, path in enumerate(
            sorted(tmp_path.iterdir(), key=lambda path: path.stat().st_mtime_ns, reverse=True)
        ):
            os.utime(path, ns=(0, (1000 - age) * 10**9))
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 10_000
    assert cache.get("39") is not None
    assert cache.get("0") is None


def test_the_number_of_entries_is_bounded(tmp_path: Path) -> None:
    """Small entries do not fill a folder with files."""
    cache = ObjectCache(tmp_path, entries=50)
    for n in range(200):
        cache.put(str(n), b"")
    assert 20 < sum(1 for _ in tmp_path.iterdir()) <= 51


def test_storing_rarely_scans_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While as much is stored as the folder may hold, it is scanned about SCANS times, by however many
    processes; and that keeps it within its limit, except for what is stored between two scans."""
    scans = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda folder: scans.append(folder) or scandir(folder))
    for n in range(600):
        ObjectCache(tmp_path, limit=300 * 1048).put(str(n), bytes(1000))
    assert SCANS < len(scans) < 3 * SCANS  # for twice the limit
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 1.2 * 300 * 1048


def test_an_entry_in_use_outlives_older_ones(tmp_path: Path) -> None:
    """Getting an entry counts as a use."""
    cache = ObjectCache(tmp_path, limit=4_000)
    for n in range(3):
        cache.put(str(n), bytes(1000))
    for path in tmp_path.iterdir():
        os.utime(path, ns=(0, 0))
    assert cache.get("1") is not None
    cache.put("3", bytes(1000))
    assert cache.get("1") is not None
    assert cache.get("0") is None


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path: Path) -> None:
    """A cache that cannot be written saves nothing and breaks nothing."""
    (tmp_path / "file").write_text("")
    cache = ObjectCache(tmp_path / "file" / "cache")
    cache.put("a", b"code")
    assert cache.get("a") is None


def _in_fork(work: Callable[[], object]) -> int:
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    return child


def _once(exists: Path) -> None:
    while not exists.exists():
        time.sleep(0.001)


def test_a_process_waits_for_another_that_makes_the_same_entry(tmp_path: Path) -> None:
    """It finds the entry there; other entries it makes at once."""
    cache, begun, goes_on = ObjectCache(tmp_path), tmp_path / "begun", tmp_path / "goes on"

    def make() -> None:
        with cache.turn("a"):
            begun.touch()
            _once(goes_on)
            cache.put("a", b"code")

    child = _in_fork(make)
    _once(begun)
    with cache.turn("b"):
        assert cache.get("a") is None
    goes_on.touch()
    with cache.turn("a"):
        assert cache.get("a") == b"code"
    os.waitpid(child, 0)


def test_a_process_that_dies_lets_others_make_its_entry(tmp_path: Path) -> None:
    cache, begun = ObjectCache(tmp_path), tmp_path / "begun"

    def die() -> None:
        with cache.turn("a"):
            begun.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    child = _in_fork(die)
    _once(begun)
    with cache.turn("a"):
        assert cache.get("a") is None
    os.waitpid(child, 0)


def test_nobody_waits_forever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that holds a turn for long, such as a stopped one, is overtaken."""
    monkeypatch.setattr("kcheck.cpu.cache._PATIENCE", 0.05)
    cache, begun, done = ObjectCache(tmp_path), tmp_path / "begun", tmp_path / "done"

    def hold() -> None:
        with cache.turn("a"):
            begun.touch()
            _once(done)

    child = _in_fork(hold)
    _once(begun)
    with cache.turn("a"):
        done.touch()
    os.waitpid(child, 0)


def test_a_turn_without_a_folder_does_not_wait(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with ObjectCache(tmp_path / "file" / "below").turn("a"):
        pass
