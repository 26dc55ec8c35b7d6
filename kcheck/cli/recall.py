"""Open failures of earlier runs, which this run starts with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from kcheck.errors import SpecError
from kcheck.generator import Expander, Gone, changes, check_fits, is_held, recall
from kcheck.model import OpSpec, SpecRefused
from kcheck.runner import Recalled
from kcheck.store import Store, StoredFailure, StoreError

MOST = 20
"""A run starts with at most this many failures of a spec, the newest ones.
Older ones run only if they are planned."""


def recalled(
    specs: Iterable[OpSpec | SpecRefused], warn: Callable[[str], None], *, only_open: bool = False
) -> dict[tuple[str, str], Sequence[Recalled]]:
    """The stored failures to run first, by root and path of their spec.

    Failures that the spec no longer allows are marked as gone.

    Args:
        warn: gets the reason if a store cannot be read.
        only_open: every open failure and nothing else (``--lf``). Otherwise the newest MOST of each spec that are
            open or gone: the spec may allow a case that was gone again.
    """
    found: dict[tuple[str, str], Sequence[Recalled]] = {}
    broken = set[str]()
    for spec in specs:
        if isinstance(spec, SpecRefused) or spec.root in broken:
            continue
        try:
            with Store.open(Path(spec.root)) as store:
                failures = _failures(store, spec, only_open)
                if not failures:
                    continue
                expander = Expander(spec)
                again = [one for failure in failures if (one := _one(store, spec, failure, expander))]
        except StoreError as error:
            broken.add(spec.root)
            warn(f"{error}; earlier failures are not run first")
            continue
        if again:
            found[spec.root, spec.path] = again
    return found


def _failures(store: Store, spec: OpSpec, only_open: bool) -> list[StoredFailure]:
    """The failures, sorted by when they first failed, so that their order does not depend on which failed last.

    Older ones do not run, but those that the spec no longer allows are marked as gone.
    """
    if only_open:
        newest = store.failures(op=spec.op)
    else:
        newest = store.failures(op=spec.op, states=("open", "gone"), most=MOST)
        known = {failure.id for failure in newest}
        for older in store.failures(op=spec.op) if len(newest) == MOST else ():
            if older.id not in known and changes(spec, older.case):
                store.settle(older, "gone", datetime.now(UTC))
    return sorted(newest, key=lambda failure: (failure.first_seen, failure.id))


def _one(store: Store, spec: OpSpec, failure: StoredFailure, expander: Expander) -> Recalled | None:
    try:
        case = recall(spec, failure.case, expander)
        snapshot = store.snapshot(failure)
        if snapshot is not None:
            check_fits(spec, snapshot)
        elif is_held(case):
            raise Gone(("its inputs were deleted to make room for newer ones",))
        return Recalled(case, snapshot)
    except (Gone, SpecError):
        if failure.state == "open":
            store.settle(failure, "gone", datetime.now(UTC))
        return None
