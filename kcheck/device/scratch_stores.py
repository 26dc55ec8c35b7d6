"""Stores in scratch memory of results computed from uninitialized memory: errors only if they are used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from kcheck.model import Finding
from kcheck.ptx.abi import SCRATCH


def with_scratch(found: Sequence[Finding], garbled: Callable[[], bool]) -> list[Finding]:
    """The findings of the launches of a case.

    A store in scratch memory is left out, unless an output is computed from uninitialized memory and no other
    finding says where. A use of what one line stored in scratch memory also names that line.

    Args:
        garbled: whether an output is computed from uninitialized memory.
    """
    stores = [finding for finding in found if finding.rule == SCRATCH]
    others = [finding for finding in found if finding.rule != SCRATCH]
    if not stores:
        return others
    if any(finding.rule == "initcheck" for finding in others):
        return [_with_store(finding, stores) for finding in others]
    if garbled():
        others += [replace(finding, rule="initcheck") for finding in stores]
    return others


def _with_store(finding: Finding, stores: Sequence[Finding]) -> Finding:
    places = {store.place for store in stores}
    place = stores[0].place
    if finding.rule != "initcheck" or len(places) > 1 or place is None:
        return finding
    return finding.adding(f"before, line {place.line} {stores[0].message}, in scratch memory")
