"""What the store deletes, and when, so that it stays small.

Of verdicts, those of the last RUNS runs; of snapshots, the newest that take SNAPSHOT_BYTES together. A failure is
kept until it has been fixed for as long as its runs are kept: its recipe is small and
reproduces it without a snapshot.
"""

from __future__ import annotations

import sqlite3

from kcheck.dataclass import dataclass

RUNS = 200
SNAPSHOT_BYTES = 256 << 20
"""Of blobs as they are stored, compressed."""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was deleted: rows, and bytes of blobs."""

    runs: int
    failures: int
    snapshots: int
    bytes: int


def forget_old_runs(connection: sqlite3.Connection, kept: int = RUNS) -> tuple[int, int]:
    """Delete all but the newest runs, and failures that were fixed or gone before the oldest of those.

    Returns:
        How many runs, how many failures.
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
        How many snapshots, how many bytes of blobs that no other snapshot holds.
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


def collect(connection: sqlite3.Connection, kept: int = RUNS, most: int | None = None) -> Forgotten:
    """Delete everything that may be deleted, with the snapshots of fixed failures."""
    runs, failures = forget_old_runs(connection, kept)
    before = _total(connection)
    unused = connection.execute(
        """DELETE FROM snapshots WHERE id NOT IN
           (SELECT snapshot FROM failures WHERE snapshot IS NOT NULL AND state = 'open')"""
    ).rowcount
    _drop_blobs(connection)
    old, _ = make_room(connection, most)
    return Forgotten(runs, failures, unused + old, before - _total(connection))


def _drop_blobs(connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM blobs WHERE digest NOT IN (SELECT blob FROM snapshot_blobs)")


def _total(connection: sqlite3.Connection) -> int:
    total: int = connection.execute("SELECT coalesce(sum(length(content)), 0) FROM blobs").fetchone()[0]
    return total
