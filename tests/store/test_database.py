"""A store that cannot be used says why and what to do, and the run continues; killed at any moment it is whole."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from pathlib import Path

import pytest
from stored_runs import Runs, verdict

from kcheck.model import Status
from kcheck.store import Store, StoreError
from kcheck.store import database as db
from kcheck.store.schema import TABLES, VERSION


def file(root: Path) -> Path:
    return root / ".kcheck/store.db"


def test_git_ignores_the_store(runs: Runs, tmp_path: Path) -> None:
    """The folder brings its own .gitignore, and one that is there stays."""
    runs(verdict())
    ignore = tmp_path / ".kcheck/.gitignore"
    assert ignore.read_text() == "*\n"
    ignore.write_text("# mine\n")
    runs(verdict())
    assert ignore.read_text() == "# mine\n"


def test_reading_makes_nothing(tmp_path: Path) -> None:
    """A project in which nothing was run has an empty store, and no folder for it."""
    assert Store.open(tmp_path).runs() == []
    assert list(tmp_path.iterdir()) == []


def damage_head(path: Path) -> None:
    path.write_bytes(b"\0" * 4096)


def damage_middle(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096:-4096] = b"\xa5" * (len(content) - 8192)
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


def newer(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()


def older(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 2")
    connection.close()


def foreign(path: Path) -> None:
    path.unlink()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE mine (x)")
    connection.close()


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("injure", "says"),
    [
        (damage_head, "the store is damaged"),
        (damage_middle, "the store is damaged"),
        (cut, "the store is damaged"),
        (
            newer,
            f"by a newer kcheck (store {VERSION + 1}; this kcheck supports {VERSION}); upgrade",
        ),
        (older, "by a kcheck before 1.0 (store 2); move it aside: mv "),
        (foreign, "this is another program's database; move it elsewhere"),
        (folder, "unable to open database file"),
    ],
)
def test_a_store_that_cannot_be_used_is_said_once(runs: Runs, tmp_path: Path, injure, says: str) -> None:
    """Every event is taken all the same, and what is told names the file and the fix."""
    runs(verdict())
    for beside in (".kcheck/store.db-wal", ".kcheck/store.db-shm"):
        (tmp_path / beside).unlink(missing_ok=True)
    injure(file(tmp_path))
    runs(verdict(seed=1), verdict(seed=2))
    assert len(runs.warnings) == 1
    assert says in runs.warnings[0]
    assert "store.db: " in runs.warnings[0]
    assert runs.warnings[0].endswith("; the run continues, but its results are not stored")
    if injure is not damage_middle:  # whose damage lies where only writing meets it
        with pytest.raises(StoreError, match=r"store\.db: "):
            Store.open(tmp_path).runs()


def test_a_damaged_store_can_be_moved_aside_as_it_says(runs: Runs, tmp_path: Path, monkeypatch) -> None:
    """The command in the message is one that works."""
    monkeypatch.chdir(tmp_path)
    runs(verdict())
    damage_head(file(tmp_path))
    runs(verdict())
    command = runs.warnings[0].split("move it aside: ")[1].split(";")[0]
    assert os.system(command) == 0
    runs.warnings.clear()
    runs(verdict())
    assert runs.warnings == []
    assert len(Store.open(tmp_path).failures()) == 1


def test_a_full_disk_is_said_and_what_was_stored_stays(runs: Runs, tmp_path: Path, monkeypatch) -> None:
    """SQLite's own limit on pages is a disk that fills up in the middle of a run."""
    runs(verdict(seed=1))

    def small(root: Path) -> sqlite3.Connection:
        connection = db.open_for_writing(root)
        connection.execute("PRAGMA max_page_count = 1")  # as many as there are
        return connection

    monkeypatch.setattr("kcheck.store.recorder.open_for_writing", small)
    recorder = runs(*(verdict(seed=seed) for seed in range(2, 200)))
    assert len(runs.warnings) == 1
    assert "store.db: the disk is full; free some space, or run `kcheck gc`" in runs.warnings[0]
    unstored = 198 - (sum(run.failed for run in Store.open(tmp_path).runs()) - 1)
    assert 0 < unstored <= 198
    assert recorder.lost.endswith(f"`kcheck gc`. {unstored} verdicts were not stored")
    stored = {failure.case.seed for failure in Store.open(tmp_path).failures()}
    assert 1 in stored
    assert stored == set(range(1, 1 + len(stored)))


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write anywhere")
def test_a_folder_that_cannot_be_written_is_said(runs: Runs, tmp_path: Path) -> None:
    """A read-only checkout is judged, with one line that says that nothing is stored."""
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        runs(verdict())
    finally:
        tmp_path.chmod(stat.S_IRWXU)
    assert "cannot be written: Permission denied" in runs.warnings[0]


def test_a_store_whose_folder_is_no_folder_is_said(runs: Runs, tmp_path: Path) -> None:
    """A file named .kcheck is in the way."""
    (tmp_path / ".kcheck").write_text("")
    runs(verdict())
    assert ".kcheck: cannot be written: File exists" in runs.warnings[0]


def test_a_store_that_may_be_read_alone_is_read(runs: Runs, tmp_path: Path, monkeypatch) -> None:
    """Without the right to write, what is stored is shown all the same."""
    runs(verdict())
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    store = Store.open(tmp_path)
    assert len(store.failures()) == 1
    with pytest.raises(StoreError, match="readonly"):
        store.settle(store.failures()[0], "gone", runs.at)


@pytest.mark.parametrize("attempt", range(5))
def test_two_that_make_the_store_at_once_both_land(tmp_path: Path, attempt: int) -> None:
    """Eight threads, each with a connection of its own, on a folder that is not there yet."""
    barrier = threading.Barrier(8)
    warned: list[str] = []

    def one(number: int) -> None:
        mine = Runs(tmp_path)
        barrier.wait()
        mine(*(verdict(Status.PASSED, seed=100 * number + n) for n in range(5)))
        warned.extend(mine.warnings)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert warned == []
    assert [run.passed for run in Store.open(tmp_path).runs()] == [5] * 8


def test_a_store_is_created_whole_or_not_at_all(runs: Runs, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(db, "TABLES", (*TABLES, TABLES[0]))
    runs(verdict())
    assert "table runs already exists" in runs.warnings[0]
    monkeypatch.undo()
    runs(verdict())
    (failure,) = Store.open(tmp_path).failures()
    assert failure.times == 1
    assert Store.open(tmp_path)._rows("PRAGMA user_version") == [(VERSION,)]
