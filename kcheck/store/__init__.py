"""The runs of a project and their results: an SQLite database in ``.kcheck/`` in the project's root.

:class:`Recorder` writes a run while it proceeds; :class:`Store` reads and updates the database between runs.
Cases as files are in :mod:`kcheck.store.kcase`, which must be imported separately: it imports the code that makes
the arrays of cases.
"""

from kcheck.store.details import RUNS_WITH_DETAILS
from kcheck.store.documents import StoreError
from kcheck.store.recorder import Recorder
from kcheck.store.retention import RUNS, SNAPSHOT_BYTES, Forgotten, Limits
from kcheck.store.snapshots import bits
from kcheck.store.store import Store, StoredFailure, StoredRun, StoredVerdict

__all__ = [
    "RUNS",
    "RUNS_WITH_DETAILS",
    "SNAPSHOT_BYTES",
    "Forgotten",
    "Limits",
    "Recorder",
    "Store",
    "StoreError",
    "StoredFailure",
    "StoredRun",
    "StoredVerdict",
    "bits",
]
