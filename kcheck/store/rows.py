"""Rows of the store: cases, failures, snapshots and findings."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime

from kcheck.model import (
    Captured,
    Case,
    Distribution,
    Finding,
    FunctionRef,
    Span,
    Verdict,
)
from kcheck.store import retention
from kcheck.store.documents import dumps
from kcheck.store.snapshots import LARGEST, compress, digest, pack


def when(moment: datetime) -> str:
    """A time as text that sorts by time."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds")


def recipe(case: Case) -> str:
    """A text of everything that identifies a case: all except its label and the places in its spec."""
    values = {name: _unplaced(distribution) for name, distribution in case.values.items()}
    return dumps(replace(case, spec="", label="", values=values))


def _unplaced(distribution: Distribution) -> Distribution:
    argument = distribution.argument
    if isinstance(argument, Distribution):
        argument = _unplaced(argument)
    elif isinstance(argument, FunctionRef):
        argument = replace(argument, span=Span(argument.path))
    return Distribution(distribution.name, argument)


def case_row(connection: sqlite3.Connection, case: Case) -> int:
    """The id of the row of a case, which is added if it is new."""
    document = recipe(case)
    name = digest(document.encode())
    found = connection.execute("SELECT id FROM cases WHERE digest = ?", (name,)).fetchone()
    if found is None:
        made = connection.execute(
            "INSERT INTO cases (digest, op, seed, document) VALUES (?, ?, ?, ?)",
            (name, case.op, str(case.seed), document),
        )
        return int(made.lastrowid or 0)
    return int(found[0])


def put_failure(
    connection: sqlite3.Connection,
    case: int,
    verdict: Verdict,
    *,
    path: str,
    at: str,
    bits: dict[str, str],
    snapshot: int | None,
) -> None:
    """Store that a case failed; the failure is open from now on."""
    connection.execute(
        """INSERT INTO failures
               ("case", path, device, rule, state, first_seen, last_seen, times, verdict, bits, snapshot)
           VALUES (?, ?, ?, ?, 'open', ?, ?, 1, ?, ?, ?)
           ON CONFLICT ("case") DO UPDATE SET
               path = excluded.path, device = excluded.device, rule = excluded.rule, state = 'open', closed = NULL,
               last_seen = excluded.last_seen, times = times + 1, verdict = excluded.verdict, bits = excluded.bits,
               snapshot = coalesce(excluded.snapshot, snapshot)""",
        (case, path, verdict.device, verdict.rule, at, at, dumps(verdict), json.dumps(bits), snapshot),
    )


def put_snapshot(
    connection: sqlite3.Connection, captured: Captured, at: str, *, only_known: bool = False
) -> tuple[int | None, bool]:
    """The id of the row of a snapshot, and whether it is new. None if it was not stored: it is too large, or new
    with ``only_known``."""
    taken = captured.snapshot
    if sum(array.values.nbytes for array in taken.arrays if array.values is not None) > LARGEST:
        return None, False
    document, blobs = pack(replace(taken, case=replace(taken.case, label="")))
    name = digest(document.encode())
    find = "SELECT id FROM snapshots WHERE digest = ?"
    found = connection.execute(find, (name,)).fetchone()
    if found is not None or only_known:
        return found and int(found[0]), False
    row = connection.execute(
        "INSERT INTO snapshots (digest, document, stored) VALUES (?, ?, ?)", (name, document, at)
    ).lastrowid
    for blob, content in blobs.items():
        if connection.execute("SELECT 1 FROM blobs WHERE digest = ?", (blob,)).fetchone() is None:
            connection.execute("INSERT INTO blobs VALUES (?, ?, ?)", (blob, len(content), compress(content)))
        connection.execute("INSERT INTO snapshot_blobs VALUES (?, ?)", (row, blob))
    retention.make_room(connection)
    found = connection.execute(find, (name,)).fetchone()
    return found and int(found[0]), True


def put_findings(
    connection: sqlite3.Connection, spec: int, verdict: int | None, findings: tuple[Finding, ...]
) -> None:
    connection.executemany(
        "INSERT INTO findings (spec, verdict, rule, severity, message, file, line) VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (
                spec,
                verdict,
                finding.rule,
                finding.severity,
                finding.message,
                None if finding.place is None else finding.place.file,
                None if finding.place is None else finding.place.line,
            )
            for finding in findings
        ],
    )
