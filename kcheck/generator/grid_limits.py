"""Limits of a grid that no case reaches: ``grid: min(ceildiv(N, 64), 4096)`` with small sizes.

A kernel with such a grid strides over it, and one block more than needed per element never lets it do so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kcheck.model import Choices, Expression, OpSpec, Range
from kcheck.symbolic import FunctionCall, Node, Number, parse
from kcheck.symbolic.ast import walk
from kcheck.symbolic.derive import derived_order
from kcheck.symbolic.interval import Interval, interval


def unreached_limits(spec: OpSpec) -> Iterator[str]:
    """A sentence for each limit that the sizes of the spec cannot reach, with what to write."""
    if spec.launch is None:
        return
    box = _box(spec)
    for axis, size in enumerate(spec.launch.grid):
        for node in walk(parse(size.text)):
            found = _limit(node, box)
            if found is not None:
                limit, most = found
                yield (
                    f"{spec.op}: grid.{'xyz'[axis]} = {size.text} never has its limit of {limit:,} blocks, since "
                    f"the sizes need at most {most:,}: a loop over the grid is not tested; add "
                    f"`blocks: [1, 2, 64]` to dims, and write blocks instead of {limit}"
                )


def _limit(node: Node, box: Mapping[str, Interval]) -> tuple[int, int] | None:
    """A constant of a ``min`` that its other arguments never exceed, and their maximum; None if there is none."""
    if not isinstance(node, FunctionCall) or node.function != "min":
        return None
    constants = [part.value for part in node.arguments if isinstance(part, Number)]
    others = [interval(part, box)[1] for part in node.arguments if not isinstance(part, Number)]
    if not constants or not others or not isinstance(min(constants), int):
        return None
    limit, most = int(min(constants)), min(others)
    return (limit, int(most)) if most <= limit else None


def _box(spec: OpSpec) -> dict[str, Interval]:
    """The interval of each dim and param."""
    box: dict[str, Interval] = {}
    for name, dim in spec.dims.items():
        if isinstance(dim.domain, Choices):
            box[name] = (min(dim.domain.values), max(dim.domain.values))
        elif isinstance(dim.domain, Range):
            box[name] = (dim.domain.low, dim.domain.high)
    for name, expression in derived_order(spec.dims):
        assert isinstance(expression, Expression)
        box[name] = interval(parse(expression.text), box)
    for name, param in spec.params.items():
        if param.values:
            box[name] = (min(param.values), max(param.values))
    return box
