"""The sanitizers that lowered code can have in addition to memcheck and synccheck, which are in all code.

Code with such checks also records coverage, which is a small part of their cost.
"""

from __future__ import annotations

from collections.abc import Iterable

from kcheck.model import COVERAGE, NOISE, STORES, VALUES
from kcheck.ptx.abi import Checks

CHECKS = {"racecheck": "race", "initcheck": "init", "overflow": "overflow"}
"""Attribute of :class:`kcheck.ptx.abi.Checks` by sanitizer."""


def checks(sanitizers: Iterable[str]) -> Checks:
    """The checks of these sanitizers, of COVERAGE, VALUES, STORES and NOISE; the others add no code."""
    wanted = set(sanitizers)
    found = {CHECKS[name]: True for name in CHECKS if name in wanted}
    cover = bool(found) or COVERAGE in wanted
    origins = {"values": VALUES in wanted, "stores": STORES in wanted, "noise": NOISE in wanted}
    return Checks(**found, cover=cover, **origins)
