"""What the elements of an input from a function may become: other elements that the function returned.

A function often returns elements that belong together, such as offsets or the corners of boxes, and a change of
one of them would break them. So they may change only if the function, called with several seeds, returns arrays
whose elements look independent: each place takes several values, values repeat, and they are in no order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kcheck.generator import Support
from kcheck.minimizer.order import number_weight
from kcheck.minimizer.trials import Values

_MOST_OPTIONS = 64


def are_independent(arrays: Sequence[Values]) -> bool:
    """Whether the elements look independent.

    Args:
        arrays: what the function returned for one shape and several seeds.
    """
    first = arrays[0]
    if first.dtype.kind not in "fiub" or first.size < 2:
        return False
    stacked = np.stack([np.ascontiguousarray(array).reshape(-1) for array in arrays]).astype(np.float64)
    options = np.unique(stacked)
    if len(options) > min(_MOST_OPTIONS, first.size) or not np.isfinite(options).all():
        return False  # values hardly repeat, as in a permutation
    varies = (stacked != stacked[0]).any(axis=0)
    if varies.mean() < 0.5 or not (varies[0] and varies[-1]):
        return False  # a fixed pattern, or fixed ends
    return not any(map(_is_ordered, arrays))


def options_of(arrays: Sequence[Values]) -> Support | None:
    """The elements of some arrays as the numbers that an element may be; None if there are none."""
    found = np.unique(np.concatenate([array.reshape(-1) for array in arrays]).astype(np.float64))
    return Support(options=tuple(sorted(map(float, found), key=number_weight))) if found.size else None


def _is_ordered(array: Values) -> bool:
    """Whether the elements ascend or descend along some axis that is long enough to tell."""
    wide = array.astype(np.float64)
    steps = (np.diff(wide, axis=axis) for axis in range(wide.ndim) if wide.shape[axis] > 2)
    return any(bool((step >= 0).all() or (step <= 0).all()) for step in steps)
