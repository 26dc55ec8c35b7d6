"""dtypes, layouts, params and values of the smallest case."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays as any_array
from planted import Planted, failing, minimized, planted_spec

from kcheck.generator import CaseArrays, plan, restore
from kcheck.minimizer import Minimized, Minimizer
from kcheck.minimizer.order import recipe_key, values_key, weights
from kcheck.model import STRICT, Verdict
from kcheck.runner import KnownFailure, ReplayResult, as_judged, execute, reproduce
from kcheck.store.documents import dumps, loads


def x_of(found: Minimized) -> np.ndarray:
    return restore(found.captured.snapshot).allocation("x").view()


def test_what_does_not_matter_becomes_plain(tmp_path: Path) -> None:
    """The first dtype in the order, contiguous, 0, and values that are all 0."""
    found = minimized(planted_spec(tmp_path, "N: 1..90", shape="N"), lambda arrays: arrays.case.dims["N"] > 7)
    assert found.case.dtypes == {"T": "float32"}
    assert set(found.case.layouts.values()) == {"contiguous"}
    assert found.case.params == {"flag": 0}
    assert not x_of(found).any()
    assert "the values do not matter: each input can be filled with one number" in found.matters


def test_what_matters_stays_and_is_named(tmp_path: Path) -> None:
    """A dtype, a layout, a param and an element without which it passes."""

    def fails(arrays: CaseArrays) -> bool:
        case, x = arrays.case, arrays.allocation("x").view()
        special = case.dtypes["T"] == "float16" and case.layouts["x"] == "strided" and case.params["flag"] == 7
        return special and x.size > 4 and bool(x[4] < 0)

    found = minimized(planted_spec(tmp_path, "N: 1..90", shape="N"), fails)
    assert found.case.dims == {"N": 5}
    assert x_of(found).tolist() == [0, 0, 0, 0, -1]
    assert found.matters[1:] == (
        "needs T = float16: float32 passes",
        "needs x laid out strided: contiguous passes",
        "needs flag = 7: 0 and 1 pass",
        "values that matter: x[4]",
    )


def test_a_rare_value_is_kept_while_sizes_shrink(tmp_path: Path) -> None:
    """One NaN of a large array is enough: a single element is left, though the seed draws none for so few."""
    spec = planted_spec(tmp_path, "M: 1..20, N: 1..90", shape="M, N", values="{choice: [0.25, 0.5, 1.5, -3.5]}")

    def fails(arrays: CaseArrays) -> bool:
        x = arrays.allocation("x").view()
        return x.shape[0] * x.shape[1] > 0 and bool((x[-1, :] == -3.5).any() and (x[0, :] == 1.5).any())

    found = minimized(spec, fails)
    assert sum(found.case.dims.values()) <= 3
    assert set(x_of(found).reshape(-1).tolist()) >= {-3.5, 1.5}


@pytest.mark.parametrize(
    ("values", "least"),
    [("all_positive", [1]), ("all_negative", [-1]), ("{uniform: [0.5, 0.9]}", [0.5]), ("{choice: [3, 9]}", [3])],
)
def test_values_stay_within_what_the_spec_allows(tmp_path: Path, values: str, least: list[float]) -> None:
    """No 0 where only positive numbers are drawn: it would be another bug than the kernel's."""
    found = minimized(planted_spec(tmp_path, "N: 1..90", shape="N", values=values), lambda arrays: True)
    assert x_of(found).tolist() == least


def test_inputs_whose_elements_belong_together_are_left(tmp_path: Path) -> None:
    """Sorted stays sorted: what is drawn anew for the smallest sizes is kept as it is."""
    spec = planted_spec(tmp_path, "N: 1..90", shape="N", values="{sorted: normal}")
    found = minimized(spec, lambda arrays: arrays.case.dims["N"] > 4)
    assert found.case.dims == {"N": 5}
    assert (np.diff(x_of(found)) >= 0).all()
    assert x_of(found).any()


def test_a_wrong_number_is_not_taken_for_a_race(tmp_path: Path) -> None:
    """Smaller cases that break another rule are passed over, both ways."""

    def fails(arrays: CaseArrays) -> object:
        n = arrays.case.dims["N"]
        return "race" if n > 30 else n > 9

    spec = planted_spec(tmp_path, "N: 1..90", shape="N")
    found = minimized(spec, fails)
    assert found.executed.verdict.rule == "racecheck"
    assert found.case.dims == {"N": 31}


def test_strategies(tmp_path: Path) -> None:
    """``dims`` leaves the values to the seed, and ``values`` the sizes as they are."""
    spec = planted_spec(tmp_path, "N: 1..90", shape="N")
    device = Planted(lambda arrays: arrays.case.dims["N"] > 7)
    start = failing(spec, device)
    dims = minimized(spec, device.fails, strategy="dims")
    assert (dims.case.dims, dims.case.dtypes, dims.case.values) == ({"N": 8}, start.dtypes, start.values)
    values = minimized(spec, device.fails, strategy="values")
    assert values.case.dims == start.dims
    assert not x_of(values).any()


def test_a_failure_is_judged_at_the_levels_of_its_run(tmp_path: Path) -> None:
    """What failed by ``--sanitize racecheck=error`` alone fails again without it, and has a smallest case."""
    spec = planted_spec(tmp_path, "N: 1..90", shape="N")
    device = Planted(lambda arrays: "harmless" if arrays.case.dims["N"] > 7 else False)
    case = failing(spec, device)
    failed = execute(replace(spec, sanitize={**spec.sanitize, "racecheck": STRICT}), case, device, timeout=None)
    assert failed.verdict.rule == "racecheck"
    stored = loads(dumps(failed.verdict), Verdict)
    known = KnownFailure(case, stored.rule, levels=stored.levels)
    again = reproduce(spec, known, device, timeout=None)
    assert again.result is ReplayResult.FAILS
    assert again.notes == ("checked with --sanitize racecheck=error, as when it failed",)
    minimizer = Minimizer(as_judged(spec, known), known, device, timeout=None, tell=lambda *told: None)
    minimizer.search("dims")
    assert minimizer.end().case.dims == {"N": 8}


def test_a_failure_of_an_older_store_is_judged_as_before(tmp_path: Path) -> None:
    """Without stored levels, the sanitizer that it failed by is at its default level."""
    spec = planted_spec(tmp_path, "N: 1..90", shape="N")
    device = Planted(lambda arrays: "harmless")
    case = failing(spec, device)
    assert reproduce(spec, KnownFailure(case, "racecheck"), device, timeout=None).result is ReplayResult.PASSES
    race = Planted(lambda arrays: "race")
    off = replace(spec, sanitize={**spec.sanitize, "racecheck": "off"})
    assert reproduce(off, KnownFailure(case, "racecheck"), race, timeout=None).result is ReplayResult.FAILS


def test_nothing_is_minimized_where_nothing_fails(tmp_path: Path) -> None:
    """A case that passes has no smallest one."""
    spec = planted_spec(tmp_path, "N: 1..90", shape="N")
    (case,) = plan(spec, count=1, master=1)
    minimizer = Minimizer(spec, KnownFailure(case), Planted(lambda arrays: False), timeout=None, tell=print)
    assert not minimizer.fails
    with pytest.raises(ValueError, match="does not fail"):
        minimizer.search()


def test_every_step_is_one_down_the_order(tmp_path: Path) -> None:
    """Each case that a search goes on with comes before the one it had, in the documented order."""
    spec = planted_spec(tmp_path, "M: 1..20, N: 1..90", shape="M, N")
    device = Planted(
        lambda arrays: arrays.case.dims["N"] > 7 and bool((arrays.allocation("x").view() > 0.1).any())
    )
    minimizer = Minimizer(spec, KnownFailure(failing(spec, device)), device, timeout=None, tell=lambda *told: None)
    search = minimizer._state
    seen = []
    attempt = search.attempt

    def watched(candidate):  # type: ignore[no-untyped-def]
        accepted = attempt(candidate)
        if accepted:
            seen.append((recipe_key(spec, search.best.case), values_key(search.best.case, search.inputs())))
        return accepted

    search.attempt = watched  # type: ignore[method-assign]
    minimizer.search()
    assert len(seen) > 4
    assert all(after < before for before, after in pairwise(seen))


@settings(deadline=None, max_examples=200)
@given(any_array(np.float64, st.integers(0, 6)), st.integers(0, 5))
def test_clearing_an_element_is_simpler(values: np.ndarray, place: int) -> None:
    """Weights are not negative, 0 alone weighs nothing, and so every cleared element comes first."""
    before = weights(values)
    assert ((before > 0) == (values != 0)).all()
    if place < values.size:
        cleared = values.copy()
        cleared[place] = 0
        assert weights(cleared).sum() <= before.sum()
