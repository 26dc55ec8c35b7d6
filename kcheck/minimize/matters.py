"""The conditions for a failure, in sentences: the sizes for which it fails, and what else it needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from kcheck.minimize.condition import DimCondition
from kcheck.minimize.search import Search
from kcheck.minimize.trials import Values
from kcheck.model.listing import listed

_FEW = 4  # maximum number of elements to name


def matters(
    search: Search, found: Sequence[DimCondition], failing: Sequence[Mapping[str, int]] = ()
) -> tuple[str, ...]:
    """The sentences, the sizes first.

    Args:
        found: the condition on each size, as far as it was found.
        failing: the sizes of other cases known to fail.
    """
    return (*_sizes(found, failing), *_kinds(search), *_values(search))


def _sizes(found: Sequence[DimCondition], failing: Sequence[Mapping[str, int]]) -> Iterator[str]:
    """The sizes for which it fails, and known failures that do not meet this condition."""
    if not found:
        return
    asked = [one for one in found if one.text]
    free = [one.dim for one in found if not one.text]
    if not asked:
        yield f"fails for any {listed(free)}, at every size tried"
        return
    others = [
        sizes for sizes in failing if any(one.dim in sizes and not one.holds(sizes[one.dim]) for one in asked)
    ]
    text = "fails when " + " and ".join(one.text for one in asked)
    if others:
        text += ", near the smallest case"
    elif len(asked) > 1:
        text += ", each checked with the other sizes fixed"
    yield text + (f", for any {listed(free)}" if free else "")
    if others:
        least = min(others, key=lambda sizes: sum(sizes.values()))
        shown = " ".join(f"{name}={size}" for name, size in least.items())
        count = "an open failure has" if len(others) == 1 else f"{len(others)} open failures have"
        yield f"not the only way to fail: {count} other sizes{', such as' if len(others) > 1 else ':'} {shown}"


def _kinds(search: Search) -> Iterator[str]:
    """The dtypes, layouts and params that the failure needs: simpler ones were tried and passed."""
    case = search.best.case
    for kind, now, mark in (("dtypes", case.dtypes, " = "), ("layouts", case.layouts, " laid out ")):
        for name, value in now.items():
            if passing := search.passing.get((kind, name)):
                yield f"needs {name}{mark}{value}: {listed(passing)} pass{'' if len(passing) > 1 else 'es'}"
    for name, number in case.params.items():
        if passing := search.passing.get(("params", name)):
            yield f"needs {name} = {number}: {listed(passing)} pass{'' if len(passing) > 1 else 'es'}"


def _values(search: Search) -> Iterator[str]:
    """The elements that matter, if the search has set elements."""
    if not search.best.held:
        return
    said = []
    for name in search.best.held:
        values = search.inputs()[name]
        if values.size == 0:
            continue
        places = np.argwhere(values != values.reshape(-1)[_commonest(values)])
        if not len(places):
            continue
        shown = [f"{name}[{', '.join(map(str, place))}]" for place in places[:_FEW].tolist()]
        more = f" and {len(places) - _FEW} more" if len(places) > _FEW else ""
        said.append(", ".join(shown) + more)
    if said:
        yield f"values that matter: {'; '.join(said)}"
    else:
        yield "the values do not matter: each input can be filled with one number"


def _commonest(values: Values) -> int:
    """The index, in C order, of an element with the most common value."""
    flat = np.ascontiguousarray(values).reshape(-1)
    keys = [item.tobytes() for item in flat[:4096]]
    return max(range(len(keys)), key=keys.count) if len(keys) <= 512 else 0
