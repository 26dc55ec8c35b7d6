"""The database file: finds and creates it; errors say how to fix a file that cannot be used.

It has a write-ahead log, so that runs can write at the same time and readers never wait. ``synchronous=NORMAL``:
committed data survives the process, even if it is killed, without waiting for the disk; a power failure may lose
only the last transactions (https://www.sqlite.org/pragma.html#pragma_synchronous).
"""

from __future__ import annotations

import errno
import os
import shlex
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kcheck.span import as_typed
from kcheck.store.documents import StoreError, StoreFull
from kcheck.store.schema import APPLICATION_ID, TABLES, VERSION

FOLDER, FILE = ".kcheck", "store.db"
BUSY_SECONDS = 30.0
"""How long a writer waits for the lock. Others hold it only while they write one verdict."""

_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def database_file(root: Path) -> Path:
    """The path of a project's store."""
    return root / FOLDER / FILE


def open_for_writing(root: Path) -> sqlite3.Connection:
    """Open the store of a project; create it if it does not exist.

    Raises:
        StoreError: no permission, a full disk, or a damaged database or one of another version.
    """
    file = database_file(root)
    with explained(file):
        try:
            file.parent.mkdir(exist_ok=True)
            ignore = file.parent / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n", "utf-8")
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StoreFull(f"{as_typed(str(file.parent))}: the disk is full; free some space") from None
            raise StoreError(f"{as_typed(str(file.parent))}: cannot be written: {error.strerror}") from None
        connection = sqlite3.connect(file, timeout=BUSY_SECONDS, isolation_level=None)
        with _closed_on_error(connection):
            _prepare(connection, file)
    return connection


@contextmanager
def _closed_on_error(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise


def open_for_reading(root: Path) -> sqlite3.Connection | None:
    """Open the store of a project; None if it does not exist yet. The folder may be read-only.

    Raises:
        StoreError: it is damaged, or of another version.
    """
    file = database_file(root)
    if not file.exists():
        return None
    if os.access(file, os.W_OK) and os.access(file.parent, os.W_OK):
        return open_for_writing(root)
    with explained(file):
        uri = f"{file.absolute().as_uri()}?immutable=1"  # a write-ahead log cannot be shared without writing
        connection = sqlite3.connect(uri, uri=True, isolation_level=None)
        with _closed_on_error(connection):
            _version(connection, file)
    return connection


@contextmanager
def explained(file: Path) -> Iterator[None]:
    """Turn SQLite's errors into a StoreError that says what to do."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        where = as_typed(str(file))
        if code in _DAMAGED:
            raise damaged(file, str(error)) from error
        if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and _no_space(file.parent)):
            raise StoreFull(f"{where}: the disk is full; free some space, or run `kcheck gc`") from error
        fixes = {
            sqlite3.SQLITE_BUSY: f"another process has locked it for {BUSY_SECONDS:.0f} s; stop it, or try again",
            sqlite3.SQLITE_READONLY: "make it writable, or run with --no-store",
            sqlite3.SQLITE_CANTOPEN: "make its folder writable, or run with --no-store",
        }
        raise StoreError(f"{where}: {error}; {fixes.get(code, 'run with --no-store')}") from error


def _no_space(folder: Path) -> bool:
    """Whether a disk is full: SQLite reports this sometimes as an I/O error."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < _ROOM


_ROOM = 64 << 10


def damaged(file: Path, why: str) -> StoreError:
    """The error to raise for a database that SQLite cannot read."""
    where = as_typed(str(file))
    aside = shlex.quote(f"{where}.damaged")
    return StoreError(f"{where}: the store is damaged ({why}); move it aside: mv {shlex.quote(where)} {aside}")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """A transaction. It takes the write lock at the start, so that two writers cannot deadlock."""
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
    if version:
        return
    _use_log(connection)
    with transaction(connection):
        if _version(connection, file):
            return  # another process was faster
        for statement in TABLES:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")


def _use_log(connection: sqlite3.Connection) -> None:
    """Switch to the write-ahead log. SQLite does not wait if two processes switch at once, so this retries."""
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
    """The version of the tables of a database; 0 if it is new."""
    # One query for all three, because another process may be creating the tables.
    version, application, tables = connection.execute(
        """SELECT (SELECT user_version FROM pragma_user_version),
               (SELECT application_id FROM pragma_application_id),
               (SELECT count(*) FROM sqlite_master)"""
    ).fetchone()
    where = as_typed(str(file))
    if application != APPLICATION_ID and (version or tables):
        raise StoreError(f"{where}: this is another program's database; move it elsewhere")
    if version > VERSION:
        raise StoreError(
            f"{where}: written by a newer kcheck (store {version}; this kcheck supports {VERSION}); "
            "upgrade kcheck, or run with --no-store"
        )
    if 0 < version < VERSION:
        aside = f"mv {shlex.quote(where)} {shlex.quote(f'{where}.{version}')}"
        raise StoreError(f"{where}: written by a kcheck before 1.0 (store {version}); move it aside: {aside}")
    return int(version)
