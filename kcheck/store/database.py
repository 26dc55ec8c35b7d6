"""The database file: found, made, brought up to date, and refused with the mend where it cannot be used.

Write-ahead log, so that runs write beside each other and readers never wait. ``synchronous=NORMAL``: what is
committed outlives the process, however it is killed, at no wait for the disk; a machine that loses power may lose
the last moments, and never more than them (https://www.sqlite.org/pragma.html#pragma_synchronous).
"""

from __future__ import annotations

import os
import shlex
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kcheck.store.documents import StoreError
from kcheck.store.schema import APPLICATION_ID, MIGRATIONS

FOLDER, FILE = ".kcheck", "store.db"
BUSY_SECONDS = 30.0
"""How long a writer waits for its turn: others hold the lock for the time of one verdict."""

_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def database_file(root: Path) -> Path:
    """Where the store of a project lies."""
    return root / FOLDER / FILE


def open_for_writing(root: Path) -> sqlite3.Connection:
    """The store of a project, made if it is not there.

    Raises:
        StoreError: it cannot be: no right to write, a full disk, a damaged or newer database.
    """
    file = database_file(root)
    with explained(file):
        try:
            file.parent.mkdir(exist_ok=True)
            ignore = file.parent / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n", "utf-8")
        except OSError as error:
            raise StoreError(f"{_shown(file.parent)}: cannot be written: {error.strerror}") from None
        connection = sqlite3.connect(file, timeout=BUSY_SECONDS, isolation_level=None)
        try:
            _prepare(connection, file)
        except BaseException:
            connection.close()
            raise
    return connection


def open_for_reading(root: Path) -> sqlite3.Connection | None:
    """The store of a project; None where there is none yet. A read-only folder will do.

    Raises:
        StoreError: it is damaged, or newer.
    """
    file = database_file(root)
    if not file.exists():
        return None
    if os.access(file, os.W_OK) and os.access(file.parent, os.W_OK):
        return open_for_writing(root)  # brings it up to date as well
    with explained(file):
        uri = f"{file.absolute().as_uri()}?immutable=1"  # a log beside it could not be shared without writing
        connection = sqlite3.connect(uri, uri=True, isolation_level=None)
        try:
            _version(connection, file)
        except BaseException:
            connection.close()
            raise
    return connection


@contextmanager
def explained(file: Path) -> Iterator[None]:
    """Turns SQLite's errors into a StoreError that says what to do."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        where = _shown(file)
        if code in _DAMAGED:
            raise damaged(file, str(error)) from error
        mends = {
            sqlite3.SQLITE_FULL: "free some space, or: kcheck gc",
            sqlite3.SQLITE_BUSY: f"another process has held it for {BUSY_SECONDS:.0f} s; end it, or try again",
            sqlite3.SQLITE_READONLY: "make it writable, or run with --no-store",
            sqlite3.SQLITE_CANTOPEN: "make its folder writable, or run with --no-store",
        }
        raise StoreError(f"{where}: {error}; {mends.get(code, 'run with --no-store')}") from error


def damaged(file: Path, why: str) -> StoreError:
    """The error of a database that SQLite cannot make sense of."""
    where = _shown(file)
    aside = shlex.quote(f"{where}.damaged")
    return StoreError(f"{where}: the store is damaged ({why}); move it aside: mv {shlex.quote(where)} {aside}")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All of it or nothing; the lock is taken at its beginning, so that two writers cannot wait for each other."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _prepare(connection: sqlite3.Connection, file: Path) -> None:
    version = _version(connection, file)
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = NORMAL")
    if version < len(MIGRATIONS):
        _use_log(connection)
        with transaction(connection):
            for steps in MIGRATIONS[_version(connection, file) :]:  # another process may have been quicker
                for statement in steps:
                    connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")


def _use_log(connection: sqlite3.Connection) -> None:
    """Switch to the write-ahead log. Two that switch at once get no busy wait, but an error: so it is done
    here."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _version(connection: sqlite3.Connection, file: Path) -> int:
    """Migrations that the database has been through; 0 if it is new."""
    # One look at all three: another process may be making the tables just now.
    version, application, tables = connection.execute(
        """SELECT (SELECT user_version FROM pragma_user_version),
               (SELECT application_id FROM pragma_application_id),
               (SELECT count(*) FROM sqlite_master)"""
    ).fetchone()
    where = _shown(file)
    if application != APPLICATION_ID and (version or tables):
        raise StoreError(f"{where}: this is another program's database; move it away")
    if version > len(MIGRATIONS):
        raise StoreError(
            f"{where}: written by a newer kcheck (store {version}, this one knows {len(MIGRATIONS)}); "
            "upgrade kcheck, or run with --no-store"
        )
    return int(version)


def _shown(path: Path) -> str:
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative
