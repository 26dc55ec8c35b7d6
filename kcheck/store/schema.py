"""The tables of the store.

``PRAGMA user_version`` is VERSION, which changes with the tables; ``PRAGMA application_id`` marks a database as
kcheck's. Seeds are decimal text, because SQLite's integers are less than 2**63. Times are ISO 8601 in UTC.
"""

from __future__ import annotations

APPLICATION_ID = 0x6B636831  # "kch1"

VERSION = 3

TABLES = (
    # seconds stays empty until the run ends: a killed run has no value. begin and finish, and the document of a
    # verdict: its events, compressed; empty if the details of the run are gone.
    """CREATE TABLE runs (
            id INTEGER PRIMARY KEY,
            version TEXT NOT NULL,
            command TEXT NOT NULL,
            device TEXT NOT NULL,
            device_name TEXT NOT NULL,
            started TEXT NOT NULL,
            seconds REAL,
            interrupted INTEGER NOT NULL DEFAULT 0,
            begin BLOB,
            finish BLOB)""",
    """CREATE TABLE specs (
            id INTEGER PRIMARY KEY,
            run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
            path TEXT NOT NULL,
            op TEXT NOT NULL,
            seed TEXT NOT NULL,
            planned INTEGER NOT NULL,
            skipped INTEGER,
            seconds REAL,
            begin BLOB,
            finish BLOB)""",
    "CREATE INDEX specs_by_run ON specs (run)",
    # One row for each case, regardless of how often it runs: its recipe without its label.
    """CREATE TABLE cases (
            id INTEGER PRIMARY KEY,
            digest BLOB NOT NULL UNIQUE,
            op TEXT NOT NULL,
            seed TEXT NOT NULL,
            document TEXT NOT NULL)""",
    "CREATE INDEX cases_by_seed ON cases (seed)",
    """CREATE TABLE verdicts (
            id INTEGER PRIMARY KEY,
            spec INTEGER NOT NULL REFERENCES specs ON DELETE CASCADE,
            "case" INTEGER NOT NULL REFERENCES cases,
            label TEXT NOT NULL,
            status TEXT NOT NULL,
            rule TEXT NOT NULL,
            seconds REAL NOT NULL,
            document BLOB)""",
    "CREATE INDEX verdicts_by_spec ON verdicts (spec)",
    'CREATE INDEX verdicts_by_case ON verdicts ("case")',
    # verdict is empty for a finding about a spec as a whole.
    """CREATE TABLE findings (
            id INTEGER PRIMARY KEY,
            spec INTEGER NOT NULL REFERENCES specs ON DELETE CASCADE,
            verdict INTEGER REFERENCES verdicts ON DELETE CASCADE,
            rule TEXT NOT NULL,
            severity TEXT NOT NULL,
            message TEXT NOT NULL,
            file TEXT,
            line INTEGER)""",
    "CREATE INDEX findings_by_spec ON findings (spec)",
    "CREATE INDEX findings_by_verdict ON findings (verdict)",
    """CREATE TABLE metrics (
            verdict INTEGER NOT NULL REFERENCES verdicts ON DELETE CASCADE,
            output TEXT NOT NULL,
            dtype TEXT NOT NULL,
            elements INTEGER NOT NULL,
            beyond INTEGER NOT NULL,
            max_abs REAL,
            max_rel REAL,
            max_ulp REAL,
            ratio REAL,
            PRIMARY KEY (verdict, output)) WITHOUT ROWID""",
    """CREATE TABLE snapshots (
            id INTEGER PRIMARY KEY,
            digest BLOB NOT NULL UNIQUE,
            document TEXT NOT NULL,
            stored TEXT NOT NULL)""",
    # Each array is stored once, even if several snapshots have it. size: bytes before compression.
    """CREATE TABLE blobs (
            digest BLOB PRIMARY KEY,
            size INTEGER NOT NULL,
            content BLOB NOT NULL)""",
    """CREATE TABLE snapshot_blobs (
            snapshot INTEGER NOT NULL REFERENCES snapshots ON DELETE CASCADE,
            blob BLOB NOT NULL REFERENCES blobs,
            PRIMARY KEY (snapshot, blob)) WITHOUT ROWID""",
    "CREATE INDEX snapshot_blobs_by_blob ON snapshot_blobs (blob)",
    # Each case that ever failed; state is open, fixed or gone. bits: a digest by output.
    """CREATE TABLE failures (
            id INTEGER PRIMARY KEY,
            "case" INTEGER NOT NULL UNIQUE REFERENCES cases,
            path TEXT NOT NULL,
            device TEXT NOT NULL,
            rule TEXT NOT NULL,
            state TEXT NOT NULL,
            first_seen TEXT NOT NULL,
            last_seen TEXT NOT NULL,
            closed TEXT,
            times INTEGER NOT NULL,
            verdict TEXT NOT NULL,
            bits TEXT NOT NULL,
            snapshot INTEGER REFERENCES snapshots ON DELETE SET NULL)""",
    "CREATE INDEX failures_by_path ON failures (path, state)",
    "CREATE INDEX failures_by_snapshot ON failures (snapshot)",
    # Specs that were not run. after: the id of the spec before it, 0 if it was the first.
    """CREATE TABLE refused (
            id INTEGER PRIMARY KEY,
            run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
            after INTEGER NOT NULL,
            document BLOB NOT NULL)""",
    "CREATE INDEX refused_by_run ON refused (run)",
    # The open failures that `kcheck failures` listed last; a case may have been deleted since.
    "CREATE TABLE listed (number INTEGER PRIMARY KEY, digest BLOB NOT NULL)",
)
