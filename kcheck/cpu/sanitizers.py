"""The sanitizers that lowered code can have checks for, beyond memcheck and synccheck, which are in all of it."""

from __future__ import annotations

from collections.abc import Iterable

from kcheck.ptx.abi import Checks

CHECKS = {"racecheck": "race", "initcheck": "init", "overflow": "overflow"}
"""Attribute of :class:`kcheck.ptx.abi.Checks` by sanitizer."""


def checks(sanitizers: Iterable[str]) -> Checks:
    """The checks of these sanitizers; memcheck, synccheck and those that need no code add none."""
    return Checks(**{CHECKS[name]: True for name in sanitizers if name in CHECKS})
