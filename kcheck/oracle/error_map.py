"""Where the wrong elements of an output are: the worst of them, and a small map."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kcheck.model import Element, ErrorMap

Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]

WORST = 8
"""How many of the worst elements are kept, at most."""
ROWS, COLUMNS = 16, 64
"""The maximum number of parts of the map, so that it fits in a terminal of 80 columns."""


LEAST, MOST = -8, 64
"""The powers of two between which errors are counted."""


def error_map(
    shape: Sequence[int], refused: Mask, rank: Floats, element: Callable[[int], Element], units: Floats
) -> ErrorMap:
    """Where an output is wrong, and how wrong.

    Args:
        shape: of the output, in elements.
        refused: which elements are wrong, flat, in C order; at least one is.
        rank: how wrong an element is, infinite for special values that do not match.
        element: makes the record of an element from its flat index.
        units: the errors of elements that have one, in units of the noise floor.
    """
    where = np.flatnonzero(refused)
    ranks = rank[where]
    if where.size > WORST:
        least = np.partition(ranks, -WORST)[-WORST]
        chosen = np.concatenate([np.flatnonzero(ranks > least), np.flatnonzero(ranks == least)])[:WORST]
        where, ranks = where[chosen], ranks[chosen]
    order = np.argsort(-ranks, kind="stable")
    return ErrorMap(tuple(element(int(at)) for at in where[order]), grid(refused, shape), sizes(units))


def sizes(units: Floats) -> tuple[tuple[int, int], ...]:
    """The number of errors of each size, as :class:`kcheck.model.ErrorMap` has them."""
    powers = np.floor(np.log2(np.clip(units, 2.0**LEAST, 2.0**MOST))).astype(np.int64)
    return tuple(
        (int(power), int(count)) for power, count in zip(*np.unique(powers, return_counts=True), strict=True)
    )


def grid(refused: Mask, shape: Sequence[int]) -> tuple[str, ...]:
    """Rows of digits, as :class:`kcheck.model.ErrorMap` has them."""
    columns = shape[-1] if shape else 1
    rows = math.prod(shape[:-1])
    counts: npt.NDArray[Any] = refused.reshape(rows, columns)
    row_starts, column_starts = _starts(rows, ROWS), _starts(columns, COLUMNS)
    counts = np.add.reduceat(counts, column_starts, axis=1, dtype=np.int64)
    counts = np.add.reduceat(counts, row_starts, axis=0)
    sizes = np.outer(np.diff([*row_starts, rows]), np.diff([*column_starts, columns]))
    digits = np.where(counts == sizes, 9, -(-8 * counts // sizes))
    return tuple("".join(map(str, row)) for row in digits)


def _starts(extent: int, most: int) -> list[int]:
    parts = min(extent, most)
    return [part * extent // parts for part in range(parts)]
