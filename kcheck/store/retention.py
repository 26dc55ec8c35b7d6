"""Deletes old data, so that the store stays small.

The store keeps the verdicts of the last RUNS runs, and the newest snapshots up to SNAPSHOT_BYTES in total. It
keeps open failures, and fixed ones for as long as it keeps a run that started before the fix: the recipe of a
failure is small and reproduces it without a snapshot.
"""

from __future__ import annotations

import sqlite3

from kcheck.dataclass import dataclass

RUNS = 200
SNAPSHOT_BYTES = 256 << 20
"""Bytes of blobs as they are stored, compressed."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much the store keeps.

    Attributes:
        runs: how many of the newest runs; the newest one is always kept.
        snapshots: bytes of blobs, compressed.
        since: runs that started earlier are deleted, as text of :func:`kcheck.store.rows.when`; empty: any time.
        size: bytes of the database; None for no limit. The oldest runs are deleted first, then the oldest
            snapshots.
    """

    runs: int = RUNS
    snapshots: int = SNAPSHOT_BYTES
    since: str = ""
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Forgotten:
    """How many rows, and how many bytes of blobs, were deleted."""

    runs: int
    failures: int
    snapshots: int
    bytes: int


def forget_old_runs(connection: sqlite3.Connection, kept: int = RUNS) -> tuple[int, int]:
    """Delete all but the newest runs, and failures that were fixed or gone before the oldest of those.

    Returns:
        How many runs and failures were deleted.
    """
    oldest = connection.execute(
        "SELECT id, started FROM runs ORDER BY id DESC LIMIT 1 OFFSET ?", (max(kept, 1) - 1,)
    ).fetchone()
    if oldest is None:
        return 0, 0
    runs = connection.execute("DELETE FROM runs WHERE id < ?", (oldest[0],)).rowcount
    if not runs:
        return 0, 0
    failures = connection.execute(
        "DELETE FROM failures WHERE state != 'open' AND closed < ?", (oldest[1],)
    ).rowcount
    connection.execute(
        """DELETE FROM cases WHERE NOT EXISTS (SELECT 1 FROM verdicts WHERE "case" = cases.id)
           AND NOT EXISTS (SELECT 1 FROM failures WHERE "case" = cases.id)"""
    )
    return runs, failures


def make_room(connection: sqlite3.Connection, most: int | None = None) -> tuple[int, int]:
    """Delete the oldest snapshots until the rest takes at most ``most`` bytes.

    Returns:
        How many snapshots, and how many bytes of blobs, were deleted.
    """
    most = SNAPSHOT_BYTES if most is None else most
    before = total = _total(connection)
    gone = 0
    while total > most:
        oldest = connection.execute("SELECT id FROM snapshots ORDER BY stored, id LIMIT 1").fetchone()
        if oldest is None:
            break
        connection.execute("DELETE FROM snapshots WHERE id = ?", oldest)
        _drop_blobs(connection)
        total = _total(connection)
        gone += 1
    return gone, before - total


def collect(connection: sqlite3.Connection, limits: Limits) -> Forgotten:
    """Delete everything that may be deleted, with the snapshots of fixed failures."""
    (young,) = connection.execute("SELECT count(*) FROM runs WHERE started >= ?", (limits.since,)).fetchone()
    runs, failures = forget_old_runs(connection, min(limits.runs, young))
    before = _total(connection)
    unused = connection.execute(
        """DELETE FROM snapshots WHERE id NOT IN
           (SELECT snapshot FROM failures WHERE snapshot IS NOT NULL AND state = 'open')"""
    ).rowcount
    _drop_blobs(connection)
    old, _ = make_room(connection, limits.snapshots)
    if limits.size is not None:
        more = _shrink_to(connection, limits.size)
        runs, failures, old = runs + more[0], failures + more[1], old + more[2]
    return Forgotten(runs, failures, unused + old, before - _total(connection))


def _shrink_to(connection: sqlite3.Connection, size: int) -> tuple[int, int, int]:
    """Delete the oldest runs, then the oldest snapshots, until the rest takes at most ``size`` bytes.

    Returns:
        How many runs, failures and snapshots were deleted.
    """
    runs = failures = snapshots = 0
    while _used(connection) > size:
        (left,) = connection.execute("SELECT count(*) FROM runs").fetchone()
        gone = forget_old_runs(connection, left - 1) if left > 1 else (0, 0)
        runs, failures = runs + gone[0], failures + gone[1]
        if not gone[0]:
            held = _total(connection)
            deleted, _ = make_room(connection, held - 1) if held else (0, 0)
            if not deleted:
                break
            snapshots += deleted
    return runs, failures, snapshots


def _used(connection: sqlite3.Connection) -> int:
    """The size of the file in bytes after the next VACUUM."""
    pages, free, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)


def _drop_blobs(connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM blobs WHERE digest NOT IN (SELECT blob FROM snapshot_blobs)")


def _total(connection: sqlite3.Connection) -> int:
    total: int = connection.execute("SELECT coalesce(sum(length(content)), 0) FROM blobs").fetchone()[0]
    return total
