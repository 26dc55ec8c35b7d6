"""What failed in earlier runs and is to be run again, first, by this one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from kcheck.cases import Gone, check_fits, is_held, recall
from kcheck.errors import SpecError
from kcheck.model import OpSpec, SpecRefused
from kcheck.runner import Recalled
from kcheck.store import Store, StoredFailure, StoreError

MOST = 20
"""Failures of one spec that a run begins with, the newest; others are run where they are planned."""


def recalled(
    specs: Iterable[OpSpec | SpecRefused], warn: Callable[[str], None]
) -> dict[tuple[str, str], Sequence[Recalled]]:
    """By root and path of a spec, its failures that are not fixed. Those that it does not allow any more are gone.

    Args:
        warn: is told why a store cannot be asked.
    """
    found: dict[tuple[str, str], Sequence[Recalled]] = {}
    broken = set[str]()
    for spec in specs:
        if isinstance(spec, SpecRefused) or spec.root in broken:
            continue
        try:
            with Store.open(Path(spec.root)) as store:
                again = [one for failure in _failures(store, spec) if (one := _one(store, spec, failure))]
        except StoreError as error:
            broken.add(spec.root)
            warn(f"{error}; what failed before is not run first")
            continue
        if again:
            found[spec.root, spec.path] = again
    return found


def _failures(store: Store, spec: OpSpec) -> list[StoredFailure]:
    """Those of the last runs; in an order that does not depend on which of them failed last."""
    newest = store.failures(op=spec.op, states=("open", "gone"), most=MOST)
    return sorted(newest, key=lambda failure: (failure.first_seen, failure.id))


def _one(store: Store, spec: OpSpec, failure: StoredFailure) -> Recalled | None:
    try:
        case = recall(spec, failure.case)
        snapshot = store.snapshot(failure)
        if snapshot is not None:
            check_fits(spec, snapshot)
        elif is_held(case):
            raise Gone(("its inputs had to make room for newer ones",))
        return Recalled(case, snapshot)
    except (Gone, SpecError):
        if failure.state == "open":
            store.settle(failure, "gone", datetime.now(UTC))
        return None
