"""From an op spec to seeded cases, and from a case to arrays.

``plan`` and ``expand`` make recipes and touch no array; ``materialize`` makes a case's arrays in guarded memory.
Everything is a pure function of the spec and a 64-bit seed.
"""

from kcheck.cases.expand import expand, shape_of
from kcheck.cases.layouts import GUARDS, POISON, Allocation, repoison
from kcheck.cases.materialize import MEMORY_LIMIT, CaseArrays, materialize
from kcheck.cases.plan import plan
from kcheck.cases.recall import HELD, Gone, check_fits, differences, is_held, recall
from kcheck.cases.snapshot import SnapshotRefused, restore, snapshot

__all__ = [
    "GUARDS",
    "HELD",
    "MEMORY_LIMIT",
    "POISON",
    "Allocation",
    "CaseArrays",
    "Gone",
    "SnapshotRefused",
    "check_fits",
    "differences",
    "expand",
    "is_held",
    "materialize",
    "plan",
    "recall",
    "repoison",
    "restore",
    "shape_of",
    "snapshot",
]
