"""The object cache: what goes in comes out, or nothing does."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kcheck.cpu.cache import ObjectCache
from kcheck.dataclass import dataclass


def _only_file(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def test_an_entry_comes_back(tmp_path: Path) -> None:
    """What was stored is returned under its key, by another object too, and under no other key."""
    ObjectCache(tmp_path / "new").put("a", b"code")
    assert ObjectCache(tmp_path / "new").get("a") == b"code"
    assert ObjectCache(tmp_path / "new").get("b") is None


def test_what_repeats_takes_little_space(tmp_path: Path) -> None:
    """Object files and PTX are stored compressed."""
    ObjectCache(tmp_path).put("a", b"mov.u32 %r1, %tid.x;" * 1000)
    assert _only_file(tmp_path).stat().st_size < 1000
    assert ObjectCache(tmp_path).get("a") == b"mov.u32 %r1, %tid.x;" * 1000


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


@dataclass(frozen=True, slots=True)
class Stored:
    """A value with one field."""

    number: int


def test_a_value_is_read_back_unless_its_class_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a checkout that is edited, a stored value may be of a class that is gone or has other fields."""
    cache = ObjectCache(tmp_path)
    cache.store("key", (Stored(3), b"code"))
    assert cache.load("key") == (Stored(3), b"code")
    assert cache.load("another") is None
    monkeypatch.delattr(sys.modules[__name__], "Stored")
    assert cache.load("key") is None
