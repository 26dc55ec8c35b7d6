"""A change in a followed folder ends a wait at once."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from pathlib import Path

import pytest

from kcheck.cli.notices import Notices

LONG = 60.0  # seconds: a wait that takes half as long has heard nothing

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")


def heard(notices: Notices) -> bool:
    """Whether a notice ends a wait before its time."""
    begun = time.monotonic()
    assert not notices.wait(LONG)
    return time.monotonic() - begun < LONG / 2


def write(file: Path) -> None:
    file.write_text("new")


def move_into_place(file: Path) -> None:
    aside = file.parent.parent / "aside"
    aside.write_text("new")
    os.replace(aside, file)


@on_linux
@pytest.mark.parametrize("edit", [write, move_into_place, Path.unlink])
def test_every_way_to_change_a_file_is_noticed(tmp_path: Path, edit) -> None:
    """Writing, moving a file into place as editors do, deleting; a file that is only read gives no notice."""
    folder = tmp_path / "kernels"
    folder.mkdir()
    (folder / "k.py").write_text("old")
    notices = Notices()
    try:
        notices.follow([str(folder)])
        assert notices.complete
        (folder / "k.py").read_text()
        before = time.monotonic()
        notices.wait(0.05)
        assert time.monotonic() - before >= 0.05
        edit(folder / "k.py")
        assert heard(notices)
    finally:
        notices.close()


@on_linux
def test_what_others_have_to_say_ends_a_wait_too(tmp_path: Path) -> None:
    """A round tells its results through a pipe while its files are watched."""
    reads, writes = os.pipe()
    notices = Notices()
    try:
        notices.follow([str(tmp_path)])
        os.write(writes, b"done")
        assert notices.wait(LONG, (reads,))
    finally:
        notices.close()
        os.close(reads)
        os.close(writes)


def test_without_inotify_the_caller_has_to_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system gives no notices, a wait takes its time, and the folders do not count as complete."""
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    notices = Notices()
    notices.follow([str(tmp_path)])
    assert not notices.complete
    assert not notices.wait(0.01)
    notices.close()
