"""Writes a run into the store, event by event.

Each verdict is its own transaction, which is committed before :meth:`Recorder.handle` returns, so everything that
a report shows is stored.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import field, replace
from datetime import datetime
from pathlib import Path

from kcheck.dataclass import dataclass
from kcheck.model import (
    SANITIZERS,
    Captured,
    CaseFinished,
    Event,
    RunFinished,
    RunStarted,
    SpecFinished,
    SpecRefused,
    SpecStarted,
    Status,
    Verdict,
    is_as_strict,
)
from kcheck.store import retention
from kcheck.store.database import database_file, explained, open_for_writing, transaction
from kcheck.store.details import forget_details, packed, put_refused
from kcheck.store.documents import DocumentRefused, StoreError, StoreFull, loads
from kcheck.store.rows import case_row, put_failure, put_findings, put_snapshot, when
from kcheck.store.snapshots import bits

NEW_SNAPSHOTS = 20
"""The most snapshots that one spec may add in one run: a hundred failures have a few causes."""


@dataclass(slots=True)
class _OpenSpec:
    """The store of one project while its run is written."""

    root: Path
    connection: sqlite3.Connection
    run: int
    spec: int = 0
    path: str = ""
    added: int = 0  # snapshots that this spec added
    fixed: list[str] = field(
        default_factory=list
    )  # when each failure that this spec no longer shows was last seen


class Recorder:
    """Stores the events of a run. Feed it each event before the reports get it.

    If the store cannot be written, one warning says so and the run continues; the rest of it is not stored.

    Args:
        warn: called with one sentence that says why verdicts are no longer stored.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._started: RunStarted | None = None
        self._stores: dict[str, _OpenSpec | None] = {}  # by root; None if it cannot be written
        self._now: _OpenSpec | None = None
        self._captured: Captured | None = None
        self._refused: list[SpecRefused] = []  # not stored yet: a store is created only for a spec that runs
        self._full = ""
        self._unstored = 0

    @property
    def lost(self) -> str:
        """One sentence about verdicts that were lost because the disk was full; empty if it was not."""
        if not self._full:
            return ""
        count = "1 verdict was" if self._unstored == 1 else f"{self._unstored} verdicts were"
        return f"{self._full}. {count} not stored"

    def handle(self, event: Event) -> Event:
        """Store the event; committed when this returns.

        Returns:
            The event for the reporters: a SpecFinished also says which stored failures are fixed.
        """
        now = stored = self._now
        try:
            self._handle(event)
        except (StoreError, OSError) as error:
            self._give_up(error)
            stored = None
        self._unstored += isinstance(event, CaseFinished) and stored is None
        if isinstance(event, SpecFinished) and now is not None:
            return _with_fixed(event, now.fixed)
        return event

    def close(self) -> None:
        """Close the databases. Unfinished runs stay unfinished."""
        for store in self._stores.values():
            if store is not None:
                store.connection.close()
        self._stores, self._now = {}, None

    def _handle(self, event: Event) -> None:
        match event:
            case RunStarted():
                self._started = event
            case SpecRefused():
                self._refused.append(event)
            case SpecStarted():
                self._now = self._store(event.root)
                if self._now is not None:
                    with explained(database_file(self._now.root)), transaction(self._now.connection):
                        self._begin_spec(self._now, event)
            case Captured():
                self._captured = event
            case CaseFinished():
                captured, self._captured = self._captured, None
                if self._now is not None:
                    with explained(database_file(self._now.root)), transaction(self._now.connection):
                        self._case(self._now, event, captured)
            case SpecFinished():
                if self._now is not None:
                    with explained(database_file(self._now.root)), transaction(self._now.connection):
                        self._end_spec(self._now, event)
                self._now = None
            case RunFinished():
                for root in self._stores:
                    self._now = self._stores[root]
                    if self._now is not None:
                        self._end_run(self._now, event)
                self._now = None
            case _:
                pass  # a running compiler has no verdict

    def _store(self, root: str) -> _OpenSpec | None:
        if root not in self._stores:
            self._stores[root] = None
            started = self._started
            if not root or started is None:
                return None
            connection = open_for_writing(Path(root))
            with explained(database_file(Path(root))), transaction(connection):
                run = connection.execute(
                    """INSERT INTO runs (version, command, device, device_name, started, begin)
                       VALUES (?, ?, ?, ?, ?, ?)""",
                    (
                        started.version,
                        started.command,
                        started.device,
                        started.device_name,
                        when(started.started),
                        packed(started),
                    ),
                ).lastrowid
            self._stores[root] = _OpenSpec(Path(root), connection, int(run or 0))
        return self._stores[root]

    def _give_up(self, error: Exception) -> None:
        for root, store in self._stores.items():
            if store is self._now and store is not None:
                store.connection.close()
                self._stores[root] = None
        self._now = None
        if isinstance(error, StoreFull):
            self._full = str(error)
        self._warn(f"{error}; the run continues, but its results are not stored")

    def _begin_spec(self, store: _OpenSpec, event: SpecStarted) -> None:
        store.path, store.added, store.fixed = event.path, 0, []
        self._put_refused(store)
        store.spec = int(
            store.connection.execute(
                "INSERT INTO specs (run, path, op, seed, planned, begin) VALUES (?, ?, ?, ?, ?, ?)",
                (store.run, event.path, event.op, str(event.seed), event.cases, packed(event)),
            ).lastrowid
            or 0
        )

    def _end_spec(self, store: _OpenSpec, event: SpecFinished) -> None:
        store.connection.execute(
            "UPDATE specs SET skipped = ?, seconds = ?, finish = ? WHERE id = ?",
            (event.skipped, event.seconds, packed(_with_fixed(event, store.fixed)), store.spec),
        )
        put_findings(store.connection, store.spec, None, event.findings)

    def _end_run(self, store: _OpenSpec, event: RunFinished) -> None:
        with explained(database_file(store.root)):
            with transaction(store.connection):
                self._put_refused(store)
                store.connection.execute(
                    "UPDATE runs SET seconds = ?, interrupted = ?, finish = ? WHERE id = ?",
                    (event.seconds, event.interrupted, packed(event), store.run),
                )
                retention.forget_old_runs(store.connection)
                forget_details(store.connection)
            store.connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def _put_refused(self, store: _OpenSpec) -> None:
        for event in [event for event in self._refused if event.root == str(store.root)]:
            put_refused(store.connection, store.run, event)
            self._refused.remove(event)

    def _case(self, store: _OpenSpec, event: CaseFinished, captured: Captured | None) -> None:
        verdict = event.verdict
        case = case_row(store.connection, verdict.case)
        row = store.connection.execute(
            """INSERT INTO verdicts (spec, "case", label, status, rule, seconds, document)
               VALUES (?, ?, ?, ?, ?, ?, ?)""",
            (
                store.spec,
                case,
                verdict.case.label,
                verdict.status.value,
                verdict.rule,
                verdict.seconds,
                packed(event),
            ),
        ).lastrowid
        store.connection.executemany(
            "INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (row, c.output, c.dtype, c.elements, c.beyond, c.max_abs, c.max_rel, c.max_ulp, c.ratio)
                for c in verdict.comparisons
            ],
        )
        put_findings(store.connection, store.spec, row, verdict.findings)
        if verdict.status is Status.FAILED:
            self._failed(store, event, case, captured)
        elif verdict.status is Status.PASSED:
            self._passed(store, event, case)

    def _passed(self, store: _OpenSpec, event: CaseFinished, case: int) -> None:
        """Mark an earlier failure as fixed if it passed on the same device with the same sanitizer enabled.

        The failure is not fixed if the sanitizer still finds something, and only its level is lower than when the
        case failed.

        Nor is it fixed if it has failed earlier in this run. Then its seed now gives inputs that differ from
        the stored ones, and the stored ones fail.
        """
        verdict, started = event.verdict, self._started
        found = store.connection.execute(
            """SELECT rule, last_seen, verdict FROM failures
               WHERE "case" = ? AND state != 'fixed' AND device = ? AND (state = 'gone' OR last_seen < ?)""",
            (case, verdict.device, "" if started is None else when(started.started)),
        ).fetchone()
        if found is None:
            return
        if found[0] in SANITIZERS and (
            found[0] not in verdict.checked or _only_milder(found[0], found[2], verdict)
        ):
            return
        store.connection.execute(
            """UPDATE failures SET state = 'fixed', closed = ? WHERE "case" = ?""", (when(event.started), case)
        )
        store.fixed.append(str(found[1]))

    def _failed(self, store: _OpenSpec, event: CaseFinished, case: int, captured: Captured | None) -> None:
        snapshot = None
        if captured is not None:
            snapshot, is_new = put_snapshot(
                store.connection, captured, when(event.started), only_known=store.added >= NEW_SNAPSHOTS
            )
            store.added += is_new
        put_failure(
            store.connection,
            case,
            event.verdict,
            path=store.path,
            at=when(event.started),
            bits=bits(captured.outputs) if captured is not None else {},
            snapshot=snapshot,
        )


def _with_fixed(event: SpecFinished, fixed: list[str]) -> SpecFinished:
    """The event with the number of failures that are fixed.

    Args:
        fixed: when each of them was last seen.
    """
    return replace(event, fixed=len(fixed), fixed_since=datetime.fromisoformat(max(fixed))) if fixed else event


def _only_milder(rule: str, failed: str, passed: Verdict) -> bool:
    """Whether a sanitizer still finds something in a case, but at a lower level than when the case failed.

    Args:
        failed: the stored verdict, as a document.
    """
    try:
        before = loads(failed, Verdict).levels.get(rule, "off")
    except DocumentRefused:  # the code that reads the failure reports this
        return False
    is_milder = not is_as_strict(passed.levels.get(rule, "error"), before)
    return is_milder and any(finding.rule == rule for finding in passed.findings)
