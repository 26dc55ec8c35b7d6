"""The events of a stored run, so that any report of it can be written later.

The recipe of a case is stored once in ``cases``; the rest of each event is a document, compressed with a
dictionary of text that is common in such documents. Details of the newest RUNS_WITH_DETAILS runs are kept.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

from kcheck.model import Case, CaseFinished, Event, RunFinished, RunStarted, SpecFinished, SpecRefused, SpecStarted
from kcheck.store.documents import DocumentRefused, dumps, loads
from kcheck.store.snapshots import checked

RUNS_WITH_DETAILS = 50
_T = TypeVar("_T")
_NO_CASE = Case("", "", "", 0, {}, {}, {}, {}, {})
_MOST_BYTES = 64 << 20  # of one event
# Compressed rows depend on it: do not edit it, only add a second one.
_DICTIONARY = (
    b'{"is":"SpecFinished","path":"specs/","op":"","passed":,"failed":,"errors":,"skipped":,"findings":[],"notes":[]'
    b',"seconds":,"sanitizers":[{"is":"Sanitized","name":"racecheck","level":"error","cases":},{"is":"Sanitized","name"'
    b':"initcheck","level":"error","cases":}]{"is":"Finding","rule":"racecheck","message":"writes reads with no '
    b'synchronization between them","fix":"put cuda.syncthreads() between","array":"","index":[0],"kernel":"",'
    b'"block":[0,0,0],"thread":[0,0,0],"other":[[0,0,0],[1,0,0]],"place":{"is":"Span","file":"kernels/","line":},"count":,'
    b'"other_place":{"is":"Span","file":"kernels/","line":},"stack":[]{"is":"CaseFinished","path":"specs/","line":'
    b',"verdict":{"is":"Verdict","case":{"is":"Case","spec":"","op":"","label":"","seed":0,"dims":{},"dtypes":{},'
    b'"layouts":{},"values":{},"params":{}},"status":{"is":"Status","name":"failed"},"status":{"is":"Status","name":'
    b'"passed"},"device":"cpu","comparisons":[{"is":"Comparison","output":"y","dtype":"float32","shape":[],"method":'
    b'"conditioned","passed":true,"elements":,"worst":[0,0],"actual":0.,"expected":0.,"error":0.,"allowed":0.,"floor":'
    b'0.,"max_abs":0.,"max_rel":0.,"max_ulp":0.,"max_scaled":0.,"ratio":0.}],"seconds":0.0,"checked":["memcheck",'
    b'"racecheck","initcheck","synccheck","overflow","unwritten","mutated","nondeterministic"]},"replay":"kcheck '
    b'run specs/.yaml --case-seed ","started":{"is":"datetime","at":"2026-'
)


def packed(event: Event) -> bytes:
    """An event as stored, without the case of its verdict."""
    if isinstance(event, CaseFinished):
        event = replace(event, verdict=replace(event.verdict, case=_NO_CASE))
    squeeze = zlib.compressobj(6, zdict=_DICTIONARY)
    return squeeze.compress(dumps(event).encode()) + squeeze.flush()


def unpacked(content: bytes, kind: type[_T]) -> _T:
    """The event that was packed.

    Raises:
        DocumentRefused: the bytes are damaged, or are a different kind of event.
    """
    try:
        text = zlib.decompressobj(zdict=_DICTIONARY).decompress(content, _MOST_BYTES).decode()
    except (zlib.error, UnicodeDecodeError) as error:
        raise DocumentRefused(str(error)) from error
    return loads(text, kind)


def put_refused(connection: sqlite3.Connection, run: int, event: SpecRefused) -> None:
    """Store that a spec was not run, after the specs of the run so far."""
    connection.execute(
        "INSERT INTO refused (run, after, document) SELECT ?, coalesce(max(id), 0), ? FROM specs WHERE run = ?",
        (run, packed(event), run),
    )


def forget_details(connection: sqlite3.Connection, kept: int = RUNS_WITH_DETAILS) -> None:
    """Delete the details of all but the newest runs."""
    oldest = connection.execute(
        "SELECT id FROM runs WHERE begin IS NOT NULL ORDER BY id DESC LIMIT 1 OFFSET ?", (kept - 1,)
    ).fetchone()
    if oldest is None:
        return
    old = "SELECT id FROM runs WHERE begin IS NOT NULL AND id < ?"
    connection.execute(
        f"UPDATE verdicts SET document = NULL WHERE spec IN (SELECT id FROM specs WHERE run IN ({old}))", oldest
    )
    connection.execute(f"UPDATE specs SET begin = NULL, finish = NULL WHERE run IN ({old})", oldest)
    connection.execute(f"DELETE FROM refused WHERE run IN ({old})", oldest)
    connection.execute("UPDATE runs SET begin = NULL, finish = NULL WHERE begin IS NOT NULL AND id < ?", oldest)


def stored_events(connection: sqlite3.Connection, run: int) -> Iterator[Event]:
    """The events of a run in order, up to where it ended; nothing if its details were deleted.

    Raises:
        DocumentRefused: a row is damaged.
    """
    head = connection.execute("SELECT begin, finish FROM runs WHERE id = ?", (run,)).fetchone()
    if head is None or head[0] is None:
        return
    yield unpacked(head[0], RunStarted)
    refused = connection.execute(
        "SELECT after, document FROM refused WHERE run = ? ORDER BY after, id", (run,)
    ).fetchall()
    for spec, begin, finish in connection.execute(
        "SELECT id, begin, finish FROM specs WHERE run = ? ORDER BY id", (run,)
    ).fetchall():
        while refused and refused[0][0] < spec:
            yield unpacked(refused.pop(0)[1], SpecRefused)
        yield from _spec(connection, spec, begin, finish)
    for _, document in refused:
        yield unpacked(document, SpecRefused)
    if head[1] is not None:
        yield unpacked(head[1], RunFinished)


def _spec(connection: sqlite3.Connection, spec: int, begin: bytes, finish: bytes | None) -> Iterator[Event]:
    started = unpacked(begin, SpecStarted)
    yield started
    rows = connection.execute(
        """SELECT cases.document, verdicts.label, verdicts.document
           FROM verdicts JOIN cases ON cases.id = verdicts."case" WHERE spec = ? ORDER BY verdicts.id""",
        (spec,),
    )
    for recipe, label, document in rows.fetchall():
        event = unpacked(document, CaseFinished)
        case = replace(checked(loads(recipe, Case)), spec=event.path, label=label)
        yield replace(event, verdict=replace(event.verdict, case=case))
    if finish is not None:
        yield unpacked(finish, SpecFinished)
