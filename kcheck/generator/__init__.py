"""Expands an op spec to seeded cases, and a case to arrays.

``plan`` and ``expand`` make recipes without arrays; ``materialize`` makes a case's arrays in guarded memory.
Everything is a pure function of the spec and a 64-bit seed.
"""

from kcheck.generator.called import sizes_of_call
from kcheck.generator.cotangents import cotangents
from kcheck.generator.covered import TRIES, Covered, Factor, ShapeClasses, covered
from kcheck.generator.distributions import HELD
from kcheck.generator.expand import Expander, element_type, expand, shape_of
from kcheck.generator.layouts import GUARDS, POISON, Allocation, repoison
from kcheck.generator.materialize import MEMORY_LIMIT, CaseArrays, materialize
from kcheck.generator.plan import case_of_seed, plan
from kcheck.generator.recall import MINIMIZED, Gone, changes, check_fits, differences, is_held, recall, restated
from kcheck.generator.shapes import block_tiles
from kcheck.generator.snapshot import SnapshotRefused, restore, snapshot
from kcheck.generator.support import Support, support

__all__ = [
    "GUARDS",
    "HELD",
    "MEMORY_LIMIT",
    "MINIMIZED",
    "POISON",
    "TRIES",
    "Allocation",
    "CaseArrays",
    "Covered",
    "Expander",
    "Factor",
    "Gone",
    "ShapeClasses",
    "SnapshotRefused",
    "Support",
    "block_tiles",
    "case_of_seed",
    "changes",
    "check_fits",
    "cotangents",
    "covered",
    "differences",
    "element_type",
    "expand",
    "is_held",
    "materialize",
    "plan",
    "recall",
    "repoison",
    "restated",
    "restore",
    "shape_of",
    "sizes_of_call",
    "snapshot",
    "support",
]
