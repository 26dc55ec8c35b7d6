"""The parts of a block: accesses to shared memory that are tested as a group, and what is between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from kcheck.ptx.lowering import interleaved, load_groups
from kcheck.ptx.lowering.function import FunctionLowering
from kcheck.ptx.syntax.ast import Operation


def parts(
    fn: FunctionLowering, body: Sequence[Operation]
) -> Iterator[tuple[Sequence[Operation], Callable[[], None] | None]]:
    """The parts of a block in order: operations, and what lowers them as a group, if they are one.

    A block with a segment of :mod:`.load_groups` has no other groups.
    """
    segment = load_groups.find_segment(fn, body)
    if segment is not None:
        yield body[: segment.begin], None
        yield body[segment.begin : segment.end], partial(load_groups.lower, fn, body, segment)
        yield body[segment.end :], None
        return
    begin = 0
    while (group := interleaved.find_group(fn, body, begin)) is not None:
        yield body[begin : group.begin], None
        yield body[group.begin : group.end], partial(interleaved.lower, fn, body, group)
        begin = group.end
    yield body[begin:], None
