"""The conditions for a failure, in sentences: the sizes for which it fails, and what else it needs.

Every sentence holds for all cases that are known: those that the search ran, and those of the op's last run. A
condition that one of them contradicts is not stated; then the case that contradicts it is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

import numpy as np

from kcheck.generator import is_held
from kcheck.minimizer.condition import DimCondition
from kcheck.minimizer.order import recipe_key
from kcheck.minimizer.search import Search
from kcheck.minimizer.trials import Values
from kcheck.model import Case
from kcheck.model.listing import listed
from kcheck.report.when import product_conditions, seen_when

_FEW = 4  # maximum number of elements to name


def matters(
    search: Search, found: Sequence[DimCondition], ran: Sequence[tuple[Case, bool]] = ()
) -> tuple[str, ...]:
    """The sentences, the sizes first.

    Args:
        found: the condition on each size, as far as it was found.
        ran: other cases of the op, each with whether it fails in this way.
    """
    known = _Known(search, ran)
    return (*_sizes(found, known), *_kinds(known), *_values(known))


class _Known:
    """The cases with a known result."""

    def __init__(self, search: Search, ran: Sequence[tuple[Case, bool]]) -> None:
        self.search, self.best = search, search.best.case
        every = [(search.start.case, True), *search.trials.ran, *ran]
        every = [(case, fails) for case, fails in every if case.dims.keys() == self.best.dims.keys()]
        self.failing = [case for case, fails in every if fails]
        self.passing = [case for case, fails in every if not fails]
        recipes = {_recipe(case) for case in self.failing}
        self.by_values = any(_recipe(case) in recipes for case in self.passing)
        """Whether cases that differ only in their values fail and pass."""

    def least(self, cases: Iterable[Case]) -> Case | None:
        """The simplest of some cases; None if there are none."""
        return min(cases, key=lambda case: recipe_key(self.search.spec, case), default=None)

    def alike(self) -> list[Case]:
        """The passing cases that have what the smallest case needs besides its sizes, with drawn values."""
        needed = [(kind, name) for kind, name in self.search.passing if self.search.passing[kind, name]]
        return [
            case
            for case in self.passing
            if not is_held(case)
            and all(getattr(case, kind).get(name) == getattr(self.best, kind)[name] for kind, name in needed)
        ]


def _recipe(case: Case) -> str:
    return repr((dict(case.dims), dict(case.dtypes), dict(case.layouts), dict(case.params)))


def _sizes(found: Sequence[DimCondition], known: _Known) -> Iterator[str]:
    """The sizes for which it fails; if a known case contradicts that, which one."""
    if not found:
        return
    asked = [one for one in found if one.text]
    free = [one.dim for one in found if not one.text and one.known]

    def meets(case: Case) -> bool:
        return all(one.holds(case.dims[one.dim]) for one in asked)

    missed = known.least(case for case in known.failing if not meets(case))
    wrong = known.least(case for case in known.alike() if meets(case))
    rest = f", for any {listed(free)}" if free else ""
    if missed is None and (wrong is None or known.by_values):
        yield _plainly(asked, free, known) + (", but only with some values" if wrong is not None else "")
        if wrong is not None:
            yield f"passes with other values: {_shown(wrong)} {_values_of(wrong)}"
        return
    together = _product(asked, known)
    if together:
        yield f"fails when {together}{_views(known)}{rest}"
        return
    seen = seen_when(known.failing, [case for case in known.passing if not is_held(case)])
    if seen:
        yield f"fails when {seen}"
    elif missed is not None:
        yield (
            f"no simple condition on the sizes fits all cases: it fails with {_shown(known.best)} and with "
            f"{_shown(missed)}"
        )
    elif wrong is not None:
        only = " and ".join(one.text for one in asked)
        yield (f"fails only when {only}{_views(known)}" if asked else "fails with sizes of every kind tried") + (
            f", but not always: {_shown(wrong)} passes"
        )


def _plainly(asked: Sequence[DimCondition], free: Sequence[str], known: _Known) -> str:
    if not asked:
        return f"fails for any {listed(free)}, at every size tried{_views(known)}" if free else "fails"
    text = "fails when " + " and ".join(one.text for one in asked) + _views(known)
    if len(asked) > 1:
        text += ", each checked with the other sizes fixed"
    return text + (f", for any {listed(free)}" if free else "")


def _views(known: _Known) -> str:
    """The layouts without which it passes, as a part of the condition: ``, with x=offset``."""
    needed = [name for kind, name in known.search.passing if kind == "layouts" and _is_needed(known, kind, name)]
    return ", with " + " ".join(f"{name}={known.best.layouts[name]}" for name in needed) if needed else ""


def _product(asked: Sequence[DimCondition], known: _Known) -> str:
    """The condition with two of the sizes as a product, if that fits all known cases; empty otherwise."""
    passing = [] if known.by_values else known.alike()
    for one, other in combinations(asked, 2):
        rest = [each for each in asked if each not in (one, other)]
        for text, holds in product_conditions(one.dim, other.dim, known.failing):

            def fits(case: Case, holds=holds, rest=rest) -> bool:  # type: ignore[no-untyped-def]
                return holds(case) and all(each.holds(case.dims[each.dim]) for each in rest)

            if all(map(fits, known.failing)) and passing and not any(map(fits, passing)):
                return " and ".join([text, *(each.text for each in rest)])
    return ""


def _is_needed(known: _Known, kind: str, name: str) -> bool:
    """Whether no known case fails with one of the values that pass in the smallest case."""
    tried = known.search.passing[kind, name]
    return bool(tried) and not any(str(getattr(case, kind).get(name)) in tried for case in known.failing)


def _kinds(known: _Known) -> Iterator[str]:
    """The dtypes, layouts and params that the failure needs: simpler ones were tried and passed."""
    for kind, mark in (("dtypes", " = "), ("layouts", " laid out "), ("params", " = ")):
        for name, value in getattr(known.best, kind).items():
            passing = known.search.passing.get((kind, name))
            if not passing:
                continue
            verb = "passes" if len(passing) == 1 else "pass"
            if _is_needed(known, kind, name):
                yield f"needs {name}{mark}{value}: {listed(passing)} {verb}"
                continue
            other = known.least(c for c in known.failing if str(getattr(c, kind).get(name)) in passing)
            assert other is not None
            yield (
                f"{listed(f'{name}{mark}{each}' for each in passing)} {verb} with the sizes and values of the "
                f"smallest case, but {getattr(other, kind)[name]} fails with {_shown(other)}"
            )


def _values(known: _Known) -> Iterator[str]:
    """The elements that matter, if the search has set elements."""
    search = known.search
    passes = (
        listed((f"{number:g}" for number in sorted(search.fills_that_pass)), "or")
        if search.fills_that_pass
        else ""
    )
    if not search.best.held:
        if passes:
            yield f"the values matter: it passes with inputs filled with {passes}"
        return
    said, filled = [], []
    for name in search.best.held:
        values = search.inputs()[name]
        if values.size == 0:
            continue
        common = values.reshape(-1)[_commonest(values)]
        places = np.argwhere(values != common)
        if not len(places):
            filled.append(
                f"{name} filled with {common:.6g}" if values.dtype.kind == "f" else f"{name} filled with {common}"
            )
            continue
        shown = [f"{name}[{', '.join(map(str, place))}]" for place in places[:_FEW].tolist()]
        more = f" and {len(places) - _FEW} more" if len(places) > _FEW else ""
        said.append(", ".join(shown) + more)
    kept = [name for name in search.spec.inputs if name not in search.best.held and search.inputs()[name].size]
    if said:
        yield f"values that matter: {'; '.join(said)}"
    elif known.by_values or passes:
        yield f"the values matter: it fails with {listed(filled)}, and passes with {passes or 'others'}"
    elif not kept:
        yield "the values do not matter: each input can be filled with one number"
    else:
        yield f"the values of {listed(search.best.held)} do not matter: each can be filled with one number"
    if kept:
        yield f"{listed(kept)} may matter: values that belong together are not changed one by one"


def _shown(case: Case) -> str:
    return " ".join(f"{name}={value}" for name, value in (*case.dims.items(), *case.dtypes.items()))


def _values_of(case: Case) -> str:
    return " ".join(f"{name}={drawn}" for name, drawn in case.values.items())


def _commonest(values: Values) -> int:
    """The index, in C order, of an element with the most common value."""
    flat = np.ascontiguousarray(values).reshape(-1)
    keys = [item.tobytes() for item in flat[:4096]]
    return max(range(len(keys)), key=keys.count) if len(keys) <= 512 else 0
