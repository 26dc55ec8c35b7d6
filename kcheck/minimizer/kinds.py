"""Tries simpler dtypes, layouts and params: those that the spec declares, the simplest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from kcheck.minimizer.order import DTYPE_ORDER, number_weight
from kcheck.minimizer.search import Search
from kcheck.model import LAYOUTS, Scalar
from kcheck.model.layouts import far_distance, layout_kind


def shrink_dtypes(search: Search) -> None:
    """Try each type variable's simpler dtypes.

    Raises:
        Spent: no more runs.
    """
    for name, variable in search.spec.dtypes.items():
        _first(search, "dtypes", name, sorted(variable.choices, key=DTYPE_ORDER.index), search.best.case.dtypes)


def shrink_layouts(search: Search) -> None:
    """Try contiguous layouts for all arrays, then array by array.

    Raises:
        Spent: no more runs.
    """
    spec = search.spec
    declared = {name: array.layouts for name, array in spec.inputs.items()}
    declared |= {name: array.layouts for name, array in spec.outputs.items() if array.alias is None}
    plain = {name: "contiguous" for name, layouts in declared.items() if "contiguous" in layouts}
    if not plain or search.attempt(search.with_recipe(layouts=plain)):
        return
    for name, layouts in declared.items():
        _first(search, "layouts", name, sorted(layouts, key=_simplicity), search.best.case.layouts)


def _simplicity(layout: str) -> tuple[int, int]:
    return LAYOUTS.index(layout_kind(layout)), far_distance(layout) or 0


def shrink_params(search: Search) -> None:
    """Try each param's simpler values.

    Raises:
        Spent: no more runs.
    """
    for name, param in search.spec.params.items():
        if param.expr is None:
            simplest_first = param.values
            if not param.in_order:
                simplest_first = tuple(sorted(param.values, key=lambda value: number_weight(float(value))))
            _first(search, "params", name, simplest_first, search.best.case.params)


def _first(
    search: Search,
    kind: Literal["dtypes", "layouts", "params"],
    name: str,
    values: Sequence[str] | Sequence[Scalar],
    now: Mapping[str, str] | Mapping[str, Scalar],
) -> None:
    """Use the first of some values with which the case fails; record those before it as passing."""
    for value in values:
        if value == now[name]:
            return
        candidate = search.with_recipe(**{kind: {name: value}})  # type: ignore[arg-type]  # each by its own keyword
        if search.attempt(candidate):
            return
        if candidate is not None and search.trials.known(candidate) is False:
            search.passing.setdefault((kind, name), []).append(str(value))
