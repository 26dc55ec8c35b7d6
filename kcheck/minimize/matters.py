"""What matters about a smallest case, in sentences: when it fails by size, and what else it needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kcheck.minimize.condition import Found
from kcheck.minimize.search import Search
from kcheck.minimize.trials import Values

_FEW = 4  # elements that are named


def matters(search: Search, found: Sequence[Found]) -> tuple[str, ...]:
    """The sentences, the sizes first.

    Args:
        found: the condition of each size, as far as it was found.
    """
    return (*_sizes(search, found), *_kinds(search), *_values(search))


def _sizes(search: Search, found: Sequence[Found]) -> Iterator[str]:
    if not found:
        return
    asked = [one for one in found if one.text]
    free = [one.dim for one in found if not one.text]
    if not asked:
        yield f"fails for any {_listed(free)}: at every size tried"
        return
    text = "fails when " + " and ".join(one.text for one in asked)
    if len(asked) > 1:
        text += ", each with the others as small as here"
    yield text + (f", for any {_listed(free)}" if free else "")


def _kinds(search: Search) -> Iterator[str]:
    """What a simpler dtype, layout or param does not show: each was tried and passed."""
    case = search.best.case
    for kind, now, mark in (("dtypes", case.dtypes, " = "), ("layouts", case.layouts, " laid out ")):
        for name, value in now.items():
            if passing := search.passing.get((kind, name)):
                yield f"needs {name}{mark}{value}: {_listed(passing)} pass{'' if len(passing) > 1 else 'es'}"
    for name, number in case.params.items():
        if passing := search.passing.get(("params", name)):
            yield f"needs {name} = {number}: {_listed(passing)} pass{'' if len(passing) > 1 else 'es'}"


def _values(search: Search) -> Iterator[str]:
    """Which elements matter, where single ones were set."""
    if not search.best.held:
        return
    telling = []
    for name in search.best.held:
        values = search.inputs()[name]
        if values.size == 0:
            continue
        places = np.argwhere(values != values.reshape(-1)[_commonest(values)])
        if not len(places):
            continue
        shown = [f"{name}[{', '.join(map(str, place))}]" for place in places[:_FEW].tolist()]
        more = f" and {len(places) - _FEW} more" if len(places) > _FEW else ""
        telling.append(", ".join(shown) + more)
    if telling:
        yield f"values that matter: {'; '.join(telling)}"
    else:
        yield "the values do not matter: each input can be filled with one number"


def _commonest(values: Values) -> int:
    """The place, in C order, of an element whose value is the commonest."""
    flat = np.ascontiguousarray(values).reshape(-1)
    keys = [item.tobytes() for item in flat[:4096]]
    return max(range(len(keys)), key=keys.count) if len(keys) <= 512 else 0


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
