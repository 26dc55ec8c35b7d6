"""What a second launch of a failing case saw: where special values come from, and which stores made an element."""

from __future__ import annotations

from kcheck.dataclass import dataclass
from kcheck.model.outcome import Finding, Index3
from kcheck.span import Span


@dataclass(frozen=True, slots=True)
class StoreTarget:
    """Bytes for which a launch watches the stores.

    Attributes:
        array: the array by its name in the spec.
        offset: of the first byte, from the address of the array's first element.
        size: in bytes.
    """

    array: str
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class NearStore:
    """The store of one instruction that came nearest to a target. If several reached it, the last one.

    Attributes:
        distance: the bytes between the store and the target; 0 if it stored there. None for a store to the array
            that no thread executed, which has neither block nor thread.
        offset: of the first byte that it stored, from the address of the array's first element.
        number: stores with a higher number were later.
        thread: None for a Triton program, which has no threads.
        place: None if the line is unknown.
        stack: as in :class:`kcheck.model.Finding`.
    """

    distance: int | None
    offset: int
    number: int
    kernel: str
    block: Index3 | None
    thread: Index3 | None
    place: Span | None
    stack: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class WatchedLaunch:
    """What one launch saw.

    Attributes:
        values: findings of the rule ``values`` for the operations that make a NaN or an infinity, in the order in
            which they do so first.
        gaps: findings of initcheck about values from gaps between the elements of an array.
        stores: for each target, the stores to its array, the nearest first; of those that reached it, the last
            one first. Stores that no thread executed are listed only if no other store reached the array.
    """

    values: tuple[Finding, ...] = ()
    gaps: tuple[Finding, ...] = ()
    stores: tuple[tuple[NearStore, ...], ...] = ()
