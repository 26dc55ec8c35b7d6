"""The cases of a spec in the order in which they run: open failures come first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from kcheck.dataclass import dataclass
from kcheck.errors import KernelError, SpecError
from kcheck.generator import CaseArrays, SnapshotRefused, expand, materialize, plan, restore, snapshot
from kcheck.lazy import Lazy
from kcheck.model import Case, OpSpec, Snapshot
from kcheck.runner.options import STORED, Options, Recalled
from kcheck.runner.select import Matcher


@dataclass(frozen=True, eq=False, slots=True)
class Queued:
    """A case to run.

    Attributes:
        snapshot: the inputs to run it with; None if they are made from its seed.
    """

    case: Case
    snapshot: Snapshot | None = None

    def arrays(self) -> CaseArrays | None:
        """The arrays of the snapshot; None if they are made from the seed."""
        return None if self.snapshot is None else restore(self.snapshot)


def queued_cases(
    spec: OpSpec,
    options: Options,
    selects: Matcher | None,
    more: Callable[[Sequence[Case], int], Sequence[Case]] = lambda planned, master: (),
) -> Sequence[Queued]:
    """The cases of a spec in one run, in order, of all shards.

    Args:
        selects: ``options.keyword``, parsed.
        more: makes cases that follow the planned ones, from these and the master seed.

    Raises:
        SpecError: the cases cannot be drawn from the spec.
    """
    if options.case_seed is not None:
        cases: Sequence[Case] = (expand(spec, options.case_seed),)
    else:
        count = spec.count if options.count is None else options.count
        master = spec.seed if options.seed is None else options.seed
        cases = plan(spec, count=count, master=master, huge=options.huge)
        if count and not options.only_failed and (added := more(cases, master)):
            cases = (*cases, *added)
        if options.group is not None:
            cases = tuple(filter(options.group, cases))
    recalled = options.recalled.get((spec.root, spec.path), ())
    if options.is_replay and not options.only_failed:
        recalled = ()
    queued = queue(spec, cases, recalled, only_failed=options.only_failed)
    if selects is None:
        return queued
    return [one for one in queued if selects(one.case.id, spec.tags)]


def queue(
    spec: OpSpec, planned: Sequence[Case], recalled: Sequence[Recalled], *, only_failed: bool = False
) -> Sequence[Queued]:
    """The planned cases with open failures first. Open failures that are not planned come before them.

    A planned case that failed before moves to the front: it keeps its label and runs once. If its seed now makes
    arrays that differ from those that failed, it does not move, and the stored arrays run in addition.

    Args:
        only_failed: drop the planned cases that are not open failures.
    """
    if only_failed and not recalled:
        return ()
    seeds = {one.case.seed for one in recalled}
    by_recipe = {recipe(case): place for place, case in enumerate(planned) if case.seed in seeds}
    extra, moved = list[Queued](), set[int]()
    for one in recalled:
        place = by_recipe.get(recipe(one.case))
        same = one.snapshot is None or makes(spec, one.case, one.snapshot)
        if place is not None and same:
            moved.add(place)
        else:
            case = replace(one.case, label=f"{STORED}{one.case.seed}")
            taken = None if same or one.snapshot is None else replace(one.snapshot, case=case)
            extra.append(Queued(case, taken))
    front = [*_once(extra), *(Queued(planned[place]) for place in sorted(moved))]
    if only_failed:
        return front
    rest = [place for place in range(len(planned)) if place not in moved] if moved else range(len(planned))

    def queued_at(place: int) -> Queued:
        return front[place] if place < len(front) else Queued(planned[rest[place - len(front)]])

    return Lazy(range(len(front) + len(rest)), queued_at)


def makes(spec: OpSpec, case: Case, taken: Snapshot) -> bool:
    """Whether the seed of a case still makes the exact bytes of a snapshot. Changed generators do not."""
    try:
        made, held = snapshot(materialize(spec, case)), restore(taken)
    except (SpecError, KernelError, SnapshotRefused):
        return False
    if {array.name for array in made.arrays} != held.allocations.keys():
        return False
    return all(
        (array.strides, array.offset, array.size, array.far)
        == (other.strides, other.offset, other.buffer.size, other.far)
        and (array.values is None or array.values.tobytes() == other.view().tobytes())
        for array in made.arrays
        for other in (held.allocations[array.name],)
    )


def _once(queued: Iterable[Queued]) -> Iterator[Queued]:
    seen = set()
    for one in queued:
        if one.case.id not in seen:  # reports identify a case by its id
            seen.add(one.case.id)
            yield one


def recipe(case: Case) -> str:
    """Everything that identifies a case: all but its label and the places of its distributions."""
    values = [(name, str(drawn)) for name, drawn in case.values.items()]
    return repr((case.seed, dict(case.dims), dict(case.dtypes), dict(case.layouts), values, dict(case.params)))
