"""Reads and updates the store between runs.

::

    with Store.open(root) as store:
        for failure in store.failures(op="softmax"):
            arrays = store.snapshot(failure)
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kcheck.dataclass import dataclass
from kcheck.model import (
    Captured,
    Case,
    CaseFinished,
    CodeCoverage,
    Event,
    Snapshot,
    SpecFinished,
    SpecStarted,
    Status,
    Verdict,
)
from kcheck.store import retention
from kcheck.store.database import (
    damaged,
    database_file,
    explained,
    open_for_reading,
    open_for_writing,
    transaction,
)
from kcheck.store.details import stored_events, unpacked
from kcheck.store.documents import DocumentRefused, StoreError, loads
from kcheck.store.ids import hexadecimal, letters, shortened
from kcheck.store.retention import Forgotten, Limits
from kcheck.store.rows import case_row, put_failure, put_snapshot, recipe, when
from kcheck.store.snapshots import bits, checked, decompress, digest, unpack


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A stored run.

    Attributes:
        seconds: None if the run has not ended: it is still running, or was killed.
        planned: number of cases; those without a result did not run.
    """

    id: int
    started: datetime
    command: str
    device: str
    seconds: float | None
    interrupted: bool
    specs: int
    planned: int
    passed: int
    failed: int
    errors: int


@dataclass(frozen=True)
class StoredFailure:
    """A case that failed at least once. Its verdict is read when it is first used.

    Attributes:
        op: of the case.
        state: ``open``, ``fixed``, or ``gone`` if its spec no longer has the case.
        closed: when it was fixed, or gone.
        times: how often it failed.
        bits: by output, a digest of its bits in the last failing run; empty if it had no output.
        snapshot: the id of the row of its snapshot; None if there is none.
        short: the shortest prefix of its id that no other stored failure has.
    """

    id: int
    op: str
    path: str
    device: str
    rule: str
    state: str
    first_seen: datetime
    last_seen: datetime
    closed: datetime | None
    times: int
    bits: Mapping[str, str]
    snapshot: int | None
    short: str
    _read: Callable[[], Verdict] = field(repr=False, compare=False)

    @cached_property
    def verdict(self) -> Verdict:
        """The last verdict that was a failure.

        Raises:
            StoreError: the stored text is damaged.
        """
        return self._read()

    @property
    def case(self) -> Case:
        """The case, with the label and spec of its last failing run. Raises the same errors as :attr:`verdict`."""
        return self.verdict.case


@dataclass(frozen=True, slots=True)
class StoredVerdict:
    """How a case ended in one run."""

    case: Case
    path: str
    device: str
    at: datetime
    run: int
    status: Status
    rule: str


class Store:
    """The open store of a project. It is empty if nothing has been stored yet."""

    def __init__(self, file: Path, connection: sqlite3.Connection | None) -> None:
        self._file = file
        self._connection = connection

    @classmethod
    def open(cls, root: Path, *, writing: bool = False) -> Store:
        """The store of the project with this root.

        Args:
            writing: create it if it does not exist.

        Raises:
            StoreError: it cannot be used.
        """
        return cls(database_file(root), open_for_writing(root) if writing else open_for_reading(root))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the database."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def runs(self, most: int = 20) -> list[StoredRun]:
        """The newest runs, the newest first."""
        return [
            StoredRun(
                run,
                datetime.fromisoformat(started),
                command,
                device,
                seconds,
                bool(interrupted),
                *map(int, counts),
            )
            for run, started, command, device, seconds, interrupted, *counts in self._rows(
                """SELECT runs.id, runs.started, runs.command, runs.device, runs.seconds, runs.interrupted,
                       (SELECT count(*) FROM specs WHERE run = runs.id),
                       (SELECT coalesce(sum(planned), 0) FROM specs WHERE run = runs.id),
                       coalesce(sum(verdicts.status = 'passed'), 0), coalesce(sum(verdicts.status = 'failed'), 0),
                       coalesce(sum(verdicts.status = 'error'), 0)
                   FROM runs LEFT JOIN specs ON specs.run = runs.id LEFT JOIN verdicts ON verdicts.spec = specs.id
                   GROUP BY runs.id ORDER BY runs.id DESC LIMIT ?""",
                most,
            )
        ]

    def events(self, run: int) -> list[Event]:
        """The events of a run, up to where it ended; an empty list if its details are not stored.

        A case that failed is preceded by its inputs, if they are stored; its outputs are not.

        Raises:
            StoreError: the stored bytes are damaged.
        """
        if self._connection is None:
            return []
        try:
            with explained(self._file):
                return list(self._with_inputs(stored_events(self._connection, run)))
        except DocumentRefused as error:
            raise StoreError(
                f"{self._file}: run {run} cannot be read ({error}); upgrade kcheck if a newer one wrote it"
            ) from None

    def _with_inputs(self, events: Iterable[Event]) -> Iterator[Event]:
        for event in events:
            if isinstance(event, CaseFinished) and event.verdict.status is Status.FAILED:
                snapshot = self._inputs(event.verdict.case)
                if snapshot is not None:
                    yield Captured(snapshot, {})
            yield event

    def _inputs(self, case: Case) -> Snapshot | None:
        """The stored inputs of a case that failed."""
        name = digest(recipe(case).encode())
        rows = self._rows(
            """SELECT snapshots.document FROM cases JOIN failures ON failures."case" = cases.id
               JOIN snapshots ON snapshots.id = failures.snapshot WHERE cases.digest = ?""",
            name,
        )
        return replace(unpack(rows[0][0], self._blob), case=case) if rows else None

    def failures(
        self,
        *,
        op: str = "",
        rule: str = "",
        since: datetime | None = None,
        seed: int | None = None,
        prefix: str = "",
        states: tuple[str, ...] = ("open",),
        most: int = -1,
    ) -> list[StoredFailure]:
        """The cases that failed, newest first.

        Args:
            since: only those seen failing then or later.
            prefix: of their id.
            states: any of ``open``, ``fixed``, ``gone``.
            most: the most failures to return; all of them if negative.
        """
        conditions, values = [f"state IN ({', '.join('?' * len(states))})"], list[Any](states)
        for condition, value in (
            ("cases.op = ?", op),
            ("failures.rule = ?", rule),
            ("last_seen >= ?", "" if since is None else when(since)),
            ("cases.seed = ?", "" if seed is None else str(seed)),
            ("hex(cases.digest) LIKE ?", f"{hexadecimal(prefix)}%" if prefix else ""),
        ):
            if value:
                conditions.append(condition)
                values.append(value)
        found = self._rows(
            f"""SELECT failures.id, op, path, device, rule, state, first_seen, last_seen, closed, times, verdict,
                    bits, snapshot, digest
                FROM failures JOIN cases ON cases.id = failures."case" WHERE {" AND ".join(conditions)}
                ORDER BY last_seen DESC, failures.id DESC LIMIT ?""",
            *values,
            most,
        )
        short = shortened(letters(name) for (name,) in self._rows(_DIGESTS)) if found else {}
        return [self._failure(row, short) for row in found]

    def history(self, seed: int, op: str = "", most: int = 10) -> list[StoredVerdict]:
        """How cases of a seed ended, the newest first."""
        found = self._rows(
            """SELECT cases.document, verdicts.label, specs.path, runs.device, runs.started, runs.id,
            verdicts.status,
                   verdicts.rule
               FROM verdicts JOIN cases ON cases.id = verdicts."case" JOIN specs ON specs.id = verdicts.spec
               JOIN runs ON runs.id = specs.run
               WHERE cases.seed = ? AND (? = '' OR cases.op = ?) ORDER BY verdicts.id DESC LIMIT ?""",
            str(seed),
            op,
            op,
            most,
        )
        verdicts = []
        for document, label, path, device, started, run, status, rule in found:
            case = replace(self._loaded(document, Case), spec=path, label=label)
            at = datetime.fromisoformat(started)
            verdicts.append(StoredVerdict(checked(case), path, device, at, run, Status(status), rule))
        return verdicts

    def cases(self, op: str, since: datetime | None = None) -> list[Case]:
        """The different cases of an op that were judged in the stored runs, in the order in which they first ran.

        Args:
            since: only runs that started then or later.
        """
        found = self._rows(
            """SELECT cases.document FROM verdicts JOIN cases ON cases.id = verdicts."case"
               JOIN specs ON specs.id = verdicts.spec JOIN runs ON runs.id = specs.run
               WHERE cases.op = ? AND runs.started >= ? AND verdicts.status != 'error'
               GROUP BY cases.id ORDER BY min(verdicts.id)""",
            op,
            "" if since is None else when(since),
        )
        return [checked(self._loaded(document, Case)) for (document,) in found]

    def ended(self, op: str, rule: str) -> list[tuple[Case, bool]]:
        """The cases of an op in its newest run that failed by a rule or passed, each with whether it failed."""
        found = self._rows(
            """SELECT cases.document, verdicts.status FROM verdicts JOIN cases ON cases.id = verdicts."case"
               WHERE verdicts.spec = (SELECT max(id) FROM specs WHERE op = ?)
               AND (verdicts.status = 'passed' OR verdicts.rule = ?) ORDER BY verdicts.id""",
            op,
            rule,
        )
        return [(checked(self._loaded(document, Case)), status == Status.FAILED) for document, status in found]

    def code_coverage(
        self, path: str, op: str, since: datetime | None = None
    ) -> list[tuple[CodeCoverage, Mapping[str, str]]]:
        """The code of its kernel that the stored runs of a spec have reached, the newest first, each with the
        digests of the files of the run. Runs without coverage, or whose details were deleted, are omitted.

        Args:
            since: only runs that started then or later.

        Raises:
            StoreError: the stored bytes are damaged.
        """
        rows = self._rows(
            """SELECT specs.begin, specs.finish FROM specs JOIN runs ON runs.id = specs.run
               WHERE specs.path = ? AND specs.op = ? AND runs.started >= ? AND specs.finish IS NOT NULL
               ORDER BY specs.id DESC""",
            path,
            op,
            "" if since is None else when(since),
        )
        try:
            pairs = [(unpacked(begin, SpecStarted), unpacked(finish, SpecFinished)) for begin, finish in rows]
        except DocumentRefused as error:
            raise StoreError(f"{self._file}: a run of {path} cannot be read ({error})") from None
        return [(finish.coverage, begin.sources) for begin, finish in pairs if finish.coverage is not None]

    def snapshot(self, failure: StoredFailure) -> Snapshot | None:
        """The exact inputs of a failure; None if they were too large, or deleted to make room for newer ones.

        Raises:
            StoreError: the stored bytes are damaged.
        """
        rows = self._rows("SELECT document FROM snapshots WHERE id = ?", failure.snapshot)
        if not rows:
            return None
        try:
            return replace(unpack(rows[0][0], self._blob), case=failure.case)
        except DocumentRefused as error:
            raise StoreError(
                f"{self._file}: the snapshot of {failure.case.id} is damaged ({error}); {_SEED}"
            ) from None

    def keep(self, captured: Captured, verdict: Verdict, at: datetime) -> None:
        """Store a case that failed between runs, with its inputs. It is open from now on.

        Raises:
            StoreError: it cannot be written.
            ValueError: the verdict is not a failure.
        """
        if verdict.status is not Status.FAILED or self._connection is None:
            raise ValueError(
                f"{verdict.case.id} {verdict.status}; only failures are kept, in a store that is open"
            )
        with explained(self._file), transaction(self._connection):
            put_failure(
                self._connection,
                case_row(self._connection, verdict.case),
                verdict,
                path=verdict.case.spec,
                at=when(at),
                bits=bits(captured.outputs),
                snapshot=put_snapshot(self._connection, captured, when(at))[0],
            )

    def settle(self, failure: StoredFailure, state: str, at: datetime) -> None:
        """Mark a failure as ``fixed`` or ``gone``.

        Raises:
            StoreError: it cannot be written.
        """
        if self._connection is not None:
            with explained(self._file), transaction(self._connection):
                self._connection.execute(
                    "UPDATE failures SET state = ?, closed = ? WHERE id = ?", (state, when(at), failure.id)
                )

    def keep_list(self, failures: Iterable[StoredFailure]) -> None:
        """Replace the stored list of failures, which are numbered from 1: see :meth:`listed`.

        Raises:
            StoreError: it cannot be written.
        """
        if self._connection is not None:
            rows = [(number, failure.id) for number, failure in enumerate(failures, start=1)]
            with explained(self._file), transaction(self._connection):
                self._connection.execute("DELETE FROM listed")
                self._connection.executemany(
                    """INSERT INTO listed SELECT ?, digest FROM failures JOIN cases ON cases.id = failures."case"
                       WHERE failures.id = ?""",
                    rows,
                )

    def listed(self) -> list[str]:
        """The full ids of the failures of the last list; an empty list if there is none."""
        return [letters(digest) for (digest,) in self._rows("SELECT digest FROM listed ORDER BY number")]

    def collect(self, limits: Limits) -> tuple[Forgotten, int, int]:
        """Delete old data and shrink the file.

        Returns:
            What was deleted, and the size of the file before and after, in bytes.

        Raises:
            StoreError: the store is damaged, or cannot be written.
        """
        if self._connection is None:
            return Forgotten(0, 0, 0, 0), 0, 0
        with explained(self._file):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            before = self._file.stat().st_size
            (sound,) = self._connection.execute("PRAGMA quick_check(1)").fetchone()
            if sound != "ok":
                raise damaged(self._file, sound)
            with transaction(self._connection):
                forgotten = retention.collect(self._connection, limits)
            self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return forgotten, before, self._file.stat().st_size

    def _rows(self, statement: str, *values: object) -> list[Any]:
        if self._connection is None:
            return []
        with explained(self._file):
            return self._connection.execute(statement, values).fetchall()

    def _blob(self, name: bytes) -> bytes:
        rows = self._rows("SELECT size, content FROM blobs WHERE digest = ?", name)
        if not rows:
            raise DocumentRefused("a part of it is missing")
        size, content = rows[0]
        return decompress(content, size)

    def _failure(self, row: tuple[Any, ...], short: Mapping[str, str]) -> StoredFailure:
        failure, op, path, device, rule, state, first, last, closed, times, verdict, held, snapshot, name = row
        return StoredFailure(
            failure,
            op,
            path,
            device,
            rule,
            state,
            datetime.fromisoformat(first),
            datetime.fromisoformat(last),
            None if closed is None else datetime.fromisoformat(closed),
            times,
            json.loads(held),
            snapshot,
            short[letters(name)],
            partial(self._verdict, verdict),
        )

    def _verdict(self, text: str) -> Verdict:
        judged: Verdict = self._loaded(text, Verdict)
        checked(judged.case)
        return judged

    def _loaded(self, text: str, kind: type[Any]) -> Any:
        try:
            return loads(text, kind)
        except DocumentRefused as error:
            raise StoreError(
                f"{self._file}: a row cannot be read ({error}); upgrade kcheck if a newer one wrote it"
            ) from None


_DIGESTS = 'SELECT digest FROM failures JOIN cases ON cases.id = failures."case"'

_SEED = "its seed still reproduces it"
