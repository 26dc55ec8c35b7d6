"""The cases of a spec in the order in which they run: open failures come first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import overload

from kcheck.cases import CaseArrays, SnapshotRefused, expand, materialize, plan, restore, snapshot
from kcheck.dataclass import dataclass
from kcheck.errors import KernelError, SpecError
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


class Queue(Sequence[Queued]):
    """The cases to run, in order. A plan may have 100,000, so it makes the later ones when they are used.

    Args:
        first: those that run first.
        planned: the plan.
        rest: the indices in the plan of those that follow.
    """

    def __init__(self, first: Sequence[Queued], planned: Sequence[Case], rest: Sequence[int]) -> None:
        self._first = first
        self._planned = planned
        self._rest = rest

    def __len__(self) -> int:
        return len(self._first) + len(self._rest)

    @overload
    def __getitem__(self, index: int) -> Queued: ...
    @overload
    def __getitem__(self, index: slice) -> Queue: ...
    def __getitem__(self, index: int | slice) -> Queued | Queue:
        count = len(self._first)
        if isinstance(index, slice):
            begin, end, _ = index.indices(len(self))
            rest = self._rest[max(begin - count, 0) : max(end - count, 0)]
            return Queue(self._first[begin:end], self._planned, rest)
        place = range(len(self))[index]
        if place < count:
            return self._first[place]
        return Queued(self._planned[self._rest[place - count]])

    def __iter__(self) -> Iterator[Queued]:
        return map(self.__getitem__, range(len(self)))


class QueuedCases(Sequence[Case]):
    """The cases of a queue, without their snapshots."""

    def __init__(self, queue: Sequence[Queued]) -> None:
        self._queue = queue

    def __len__(self) -> int:
        return len(self._queue)

    @overload
    def __getitem__(self, index: int) -> Case: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Case]: ...
    def __getitem__(self, index: int | slice) -> Case | Sequence[Case]:
        if isinstance(index, slice):
            return QueuedCases(self._queue[index])
        return self._queue[index].case

    def __iter__(self) -> Iterator[Case]:
        return (one.case for one in self._queue)


def queued_cases(spec: OpSpec, options: Options, selects: Matcher | None) -> Queue:
    """The cases of a spec in one run, in order, of all shards.

    Args:
        selects: ``options.keyword``, parsed.

    Raises:
        SpecError: the cases cannot be drawn from the spec.
    """
    if options.case_seed is not None:
        cases: Sequence[Case] = (expand(spec, options.case_seed),)
    else:
        count = spec.count if options.count is None else options.count
        master = spec.seed if options.seed is None else options.seed
        cases = plan(spec, count=count, master=master)
        if options.group is not None:
            cases = tuple(filter(options.group, cases))
    recalled = options.recalled.get((spec.root, spec.path), ())
    if options.is_replay and not options.only_failed:
        recalled = ()
    queued = queue(spec, cases, recalled, only_failed=options.only_failed)
    if selects is None:
        return queued
    return Queue([one for one in queued if selects(one.case.id, spec.tags)], (), ())


def queue(
    spec: OpSpec, planned: Sequence[Case], recalled: Sequence[Recalled], *, only_failed: bool = False
) -> Queue:
    """The planned cases with open failures first. Open failures that are not planned come before them.

    A planned case that failed before moves to the front: it keeps its label and runs once. If its seed now makes
    arrays that differ from those that failed, it does not move, and the stored arrays run in addition.

    Args:
        only_failed: drop the planned cases that are not open failures.
    """
    places: Sequence[int] = range(len(planned))
    if not recalled:
        return Queue((), planned, () if only_failed else places)
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
    return Queue(front, planned, () if only_failed else [place for place in places if place not in moved])


def makes(spec: OpSpec, case: Case, taken: Snapshot) -> bool:
    """Whether the seed of a case still makes the exact bytes of a snapshot. Changed generators do not."""
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
        if one.case.id not in seen:  # reports identify a case by its id
            seen.add(one.case.id)
            yield one


def recipe(case: Case) -> str:
    """Everything that identifies a case: all but its label and the places of its distributions."""
    values = [(name, str(drawn)) for name, drawn in case.values.items()]
    return repr((case.seed, dict(case.dims), dict(case.dtypes), dict(case.layouts), values, dict(case.params)))
