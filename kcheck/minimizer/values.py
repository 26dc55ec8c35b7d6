"""Tries simpler values: of whole inputs, then of single elements, until none can be made simpler.

An element may only become a number that its distribution could have drawn (``kcheck.generator.support``): an index
stays within its table, and a positive number stays positive. Inputs whose elements depend on each other (offsets,
a permutation, the result of a function) keep the values that were drawn.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kcheck.generator import Support
from kcheck.minimizer.search import Search
from kcheck.minimizer.trials import Candidate, Values

_ONE_BY_ONE = 12  # if at most this many elements are left, they are tried one by one


def shrink_values(search: Search) -> None:
    """Make the inputs of the best case as simple as possible.

    Raises:
        Spent: no more runs.
    """
    names = [name for name in search.spec.inputs if search.support(name, search.best.case) is not None]
    if not names or _fill(search, names, 0):
        return
    _fill(search, names, 1)
    names.sort(key=lambda name: -search.inputs()[name].size)
    for name in names:
        if any(_fill(search, [name], place) for place in (0, 1)):
            continue
        _simpler_distribution(search, name)
    for name in names:
        _clear_elements(search, name)
    for name in names:
        _plain_elements(search, name)


def _fill(search: Search, names: list[str], place: int) -> bool:
    """Try to fill inputs with their plainest numbers (``place`` 0) or the next ones (1); note those that pass."""
    filled = search.with_values({name: _plain(search, name, place) for name in names})
    if search.attempt(filled):
        return True
    if search.trials.known(filled) is False:
        search.fills_that_pass |= {
            float(np.real(filled.held[name].flat[0])) for name in names if filled.held[name].size
        }
    return False


def _simpler_distribution(search: Search, name: str) -> None:
    """Try the other distributions that the spec declares; the values are drawn again."""
    for declared in search.spec.inputs[name].values:
        if declared.name != "adversarial" and search.attempt(search.with_recipe(values={name: declared})):
            return


def _clear_elements(search: Search, name: str) -> None:
    """Set elements that do not matter to the plainest number: halves, quarters and so on (Zeller's ddmin)."""
    allowed = _allowed(search, name)
    base = allowed.plain()[0]
    left = _others(search, name, base)
    size = len(left)
    while left and size >= 1:
        chunks = [left[at : at + size] for at in range(0, len(left), size)]
        for chunk in chunks:
            if search.attempt(_with(search, name, _set(search, name, chunk, base))):
                left = [place for place in left if place not in set(chunk)]
        if size == 1:
            return
        size = min(size // 2, max(1, len(left)))


def _plain_elements(search: Search, name: str) -> None:
    """Replace the other elements with ones or small whole numbers."""
    allowed = _allowed(search, name)
    base, *others = allowed.plain()
    left = _others(search, name, base)
    if not left:
        return
    for number in others[:1]:
        if search.attempt(_with(search, name, _set(search, name, left, number))):
            return
    if search.attempt(_with(search, name, _whole(search, name, left, allowed))):
        left = _others(search, name, base)
    if len(left) > _ONE_BY_ONE:
        return
    for place in left:
        for number in others[:3]:
            if search.attempt(_with(search, name, _set(search, name, [place], number))):
                break
        else:
            search.attempt(_with(search, name, _whole(search, name, [place], allowed)))


def _allowed(search: Search, name: str) -> Support:
    allowed = search.support(name, search.best.case)
    assert allowed is not None  # the callers pass only such inputs
    return allowed


def _with(search: Search, name: str, values: Values) -> Candidate:
    return search.with_values({name: values})


def _plain(search: Search, name: str, place: int) -> Values:
    """An input filled with one plain number. ``place``: 0 for the simplest allowed number, 1 for the next."""
    now, plain = search.inputs()[name], _allowed(search, name).plain()
    return np.full(now.shape, plain[min(place, len(plain) - 1)]).astype(now.dtype)


def _others(search: Search, name: str, base: float) -> list[int]:
    """The places, in C order, of elements that are not ``base``."""
    flat = np.ascontiguousarray(search.inputs()[name]).reshape(-1)
    return [int(place) for place in np.flatnonzero(flat != np.array(base).astype(flat.dtype))]


def _set(search: Search, name: str, places: list[int], number: float) -> Values:
    values = search.inputs()[name].copy(order="C")
    values.reshape(-1)[places] = np.array(number).astype(values.dtype)
    return values


def _whole(search: Search, name: str, places: list[int], allowed: Support) -> Values:
    """An input with the elements at some places replaced by allowed whole numbers nearby, except 0."""
    values = search.inputs()[name].copy(order="C")
    flat = values.reshape(-1)
    for place in places:
        if flat.dtype.kind == "c" or not np.isfinite(flat[place]):
            continue
        found = next((number for number in _near(float(flat[place])) if number in allowed), None)
        if found is not None:
            flat[place] = np.array(found).astype(flat.dtype)
    return values


def _near(number: float) -> Iterator[float]:
    """Whole numbers to replace a number: rounded and at most 64, then only rounded; not 0."""
    sign = -1.0 if number < 0 else 1.0
    yield sign * float(min(max(1, round(abs(number))), 64))
    yield sign * float(max(1, round(abs(number))))
