"""The runs of a project and their results: SQLite in ``.kcheck/`` of the project's root.

:class:`Recorder` writes a run as it proceeds; :class:`Store` reads it afterwards, and is updated between runs.
"""

from kcheck.store.details import RUNS_WITH_DETAILS
from kcheck.store.documents import StoreError
from kcheck.store.kcase import Kcase, read_kcase, write_kcase
from kcheck.store.recorder import Recorder
from kcheck.store.retention import RUNS, SNAPSHOT_BYTES, Forgotten
from kcheck.store.snapshots import bits
from kcheck.store.store import Store, StoredFailure, StoredRun, StoredVerdict

__all__ = [
    "RUNS",
    "RUNS_WITH_DETAILS",
    "SNAPSHOT_BYTES",
    "Forgotten",
    "Kcase",
    "Recorder",
    "Store",
    "StoreError",
    "StoredFailure",
    "StoredRun",
    "StoredVerdict",
    "bits",
    "read_kcase",
    "write_kcase",
]
