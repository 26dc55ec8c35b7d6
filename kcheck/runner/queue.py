"""The cases of a spec in the order in which they are run: what failed before comes first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from kcheck.cases import CaseArrays, SnapshotRefused, materialize, restore, snapshot
from kcheck.errors import KernelError, SpecError
from kcheck.model import Case, OpSpec, Snapshot
from kcheck.runner.options import STORED, Recalled


@dataclass(frozen=True, eq=False, slots=True)
class Queued:
    """A case to be run.

    Attributes:
        snapshot: what it is run with; None where its arrays are made from its seed.
    """

    case: Case
    snapshot: Snapshot | None = None

    def arrays(self) -> CaseArrays | None:
        """Its arrays, where no seed makes them."""
        return None if self.snapshot is None else restore(self.snapshot)


def queue(spec: OpSpec, planned: Iterable[Case], recalled: Sequence[Recalled]) -> list[Queued]:
    """The planned cases, those that failed before in front; before them what failed and is not planned.

    A planned case is moved, not added: it keeps its label, and counts once. It stays in its place where its seed
        makes
    other arrays than those that failed: then these are run as well.
    """
    cases = list(planned)
    if not recalled:
        return [Queued(case) for case in cases]
    by_recipe = {_recipe(case): case for case in cases}
    extra, moved = list[Queued](), list[Case]()
    for one in recalled:
        planned_case = by_recipe.get(_recipe(one.case))
        same = one.snapshot is None or makes(spec, one.case, one.snapshot)
        if planned_case is not None and same:
            moved.append(planned_case)
        else:
            case = replace(one.case, label=f"{STORED}{one.case.seed}")
            taken = None if same or one.snapshot is None else replace(one.snapshot, case=case)
            extra.append(Queued(case, taken))
    front = {case.id for case in moved}
    return [
        *_once(extra),
        *(Queued(case) for case in cases if case.id in front),
        *(Queued(case) for case in cases if case.id not in front),
    ]


def makes(spec: OpSpec, case: Case, taken: Snapshot) -> bool:
    """Whether the seed of a case makes the very bytes of a snapshot: no generator has changed since."""
    try:
        made, held = snapshot(materialize(spec, case)), restore(taken)
    except (SpecError, KernelError, SnapshotRefused):
        return False
    if {array.name for array in made.arrays} != held.allocations.keys():
        return False
    return all(
        (array.strides, array.offset, array.size) == (other.strides, other.offset, other.buffer.size)
        and (array.values is None or array.values.tobytes() == other.view().tobytes())
        for array in made.arrays
        for other in (held.allocations[array.name],)
    )


def _once(queued: Iterable[Queued]) -> Iterator[Queued]:
    seen = set()
    for one in queued:
        if one.case.id not in seen:  # reports know a case by its id
            seen.add(one.case.id)
            yield one


def _recipe(case: Case) -> str:
    """All that makes a case but its label; where a distribution stands is not part of its text."""
    values = [(name, str(drawn)) for name, drawn in case.values.items()]
    return repr((case.seed, dict(case.dims), dict(case.dtypes), dict(case.layouts), values, dict(case.params)))
