"""What is said to matter: true of every case that ran, and of those of the op's last run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from planted import Fails, Planted, failing, minimized, planted_spec

from kcheck.generator import CaseArrays, materialize, plan, restore
from kcheck.generator.condition import size_conditions
from kcheck.minimizer import Minimized, Minimizer
from kcheck.minimizer.condition import DimCondition, _nearly
from kcheck.model import Case, OpSpec
from kcheck.runner import KnownFailure
from kcheck.specfile import load_spec


def on_dims(condition: Callable[..., object]) -> Fails:
    return lambda arrays: condition(**arrays.case.dims)


def x_of(arrays: CaseArrays) -> np.ndarray:
    return arrays.allocation("x").view()


@pytest.mark.parametrize(
    ("fails", "says"),
    [
        (lambda R, C: R * C % 4 != 0, "fails when R * C % 4 != 0"),
        (lambda R, C: R * C % 4 == 0, "fails when R * C % 4 == 0"),
        (lambda R, C: R * C > 50, "fails when R * C > 50"),
        (lambda R, C: R % 4 != 0 and C % 4 != 0, "fails when R % 4 != 0 and C % 4 != 0"),
        (lambda R, C: R % 2 == 0 and C % 2 == 0, "fails when R % 2 == 0 and C % 2 == 0"),
    ],
)
def test_a_condition_of_a_product_is_told_as_such(tmp_path: Path, fails: Callable[..., object], says: str) -> None:
    """And one on each of two sizes is not."""
    found = minimized(planted_spec(tmp_path, "R: 1..60, C: 1..60", shape="R, C"), on_dims(fails))
    assert found.matters[0].startswith(says)


def judged(spec: OpSpec, device: Planted) -> Iterator[tuple[Case, bool]]:
    for case in plan(spec, count=100, master=5):
        yield case, bool(device.fails(materialize(spec, case)))


def with_run(spec: OpSpec, fails: Fails, start: Case | None = None) -> Minimized:
    """The smallest case, with what is known from a run of 100 cases."""
    device = Planted(fails)
    known = KnownFailure(start or failing(spec, device))
    minimizer = Minimizer(spec, known, device, most=400, timeout=None, tell=lambda *told: None)
    minimizer.search()
    return minimizer.end(list(judged(spec, device)))


def test_a_need_that_another_case_contradicts_is_not_stated(tmp_path: Path) -> None:
    """float32 passes at the size of the smallest case, but fails at others."""
    spec = planted_spec(tmp_path, "N: 1..90", shape="N")

    def fails(arrays: CaseArrays) -> bool:
        return arrays.case.dims["N"] > (7 if arrays.case.dtypes["T"] == "float16" else 50)

    start = next(
        c for c, bad in judged(spec, Planted(fails)) if bad and c.dims["N"] < 50 and c.dtypes["T"] == "float16"
    )
    texts = with_run(spec, fails, start).matters
    assert not any(text.startswith("needs T") for text in texts)
    assert any(
        "T = float32 passes with the sizes and values of the smallest case, but float32 fails" in t for t in texts
    )
    alone = minimized(spec, lambda arrays: fails(arrays) and arrays.case.dtypes["T"] == "float16")
    assert "needs T = float16: float32 passes" in alone.matters


def test_a_failure_that_depends_on_values_says_so(tmp_path: Path) -> None:
    """Cases that pass with other values do not contradict the condition on the sizes; one of them is named."""
    spec = planted_spec(tmp_path, "N: 1..90", shape="N", values="normal, large")
    found = with_run(spec, lambda arrays: bool((abs(x_of(arrays)) > 50).any()))
    assert found.matters[0].endswith(", but only with some values")
    assert found.matters[1].startswith("passes with other values: N=")
    assert not any("do not matter" in text for text in found.matters)


def test_one_number_that_fails_where_others_pass_matters(tmp_path: Path) -> None:
    """As in a one-pass variance, which fails for 999.4 and passes for 0, 1 and 1000."""
    spec = planted_spec(tmp_path, "N: 1..9", shape="N", values="{offset: [999.4, 0.2]}")
    found = minimized(spec, lambda arrays: bool((x_of(arrays) % 1 != 0).any()))
    assert found.matters[-1] == "the values matter: it passes with inputs filled with 0 or 1"


def test_one_number_is_named_if_all_elements_are_it(tmp_path: Path) -> None:
    spec = planted_spec(tmp_path, "N: 1..9", shape="N", values="{uniform: [0, 8]}")
    found = minimized(spec, lambda arrays: bool((x_of(arrays) > 1.5).all()))
    assert found.matters[-1].startswith("the values matter: it fails with x filled with ")
    assert found.matters[-1].endswith(", and passes with 0 or 1")


def test_values_that_belong_together_may_matter(tmp_path: Path) -> None:
    """They are not changed, so nothing is claimed about them."""
    spec = planted_spec(tmp_path, "N: 1..90", shape="N", values="{sorted: normal}")
    found = minimized(
        spec, lambda arrays: bool(np.ptp(x_of(arrays).astype(float)) > 1 if x_of(arrays).size else 0)
    )
    assert not any("do not matter" in text for text in found.matters)


def test_a_layout_that_the_failure_needs_is_part_of_the_condition(tmp_path: Path) -> None:
    """Such as a view that is not aligned."""
    spec = planted_spec(tmp_path, "N: 1..90", shape="N")
    found = minimized(spec, lambda a: a.case.dims["N"] % 4 == 0 and a.case.layouts["x"] == "strided")
    assert found.matters[0] == "fails when N % 4 == 0, with x=strided"


def test_a_view_that_is_not_aligned_is_part_of_the_condition_of_a_product(tmp_path: Path) -> None:
    planted_spec(tmp_path, "R: 1..60, C: 1..60", shape="R, C")
    file = next(path for path in tmp_path.rglob("*.yaml") if "layouts" in path.read_text())
    file.write_text(file.read_text().replace("[contiguous, strided]", "[contiguous, offset]"))

    def fails(arrays: CaseArrays) -> bool:
        sizes = arrays.case.dims
        return sizes["R"] * sizes["C"] % 4 == 0 and arrays.case.layouts["x"] == "offset"

    found = minimized(load_spec(file), fails)
    assert found.matters[0] == "fails when R * C % 4 == 0, with x=offset"


def test_nothing_is_said_of_values_that_only_a_function_makes(tmp_path: Path) -> None:
    """It fills x with one number, which no other number replaced."""
    (tmp_path / "gen.py").write_text(LABELS)
    spec = planted_spec(tmp_path, "N: 1..60", shape="N", values="{from: 'gen.py:pads'}")
    found = minimized(spec, lambda arrays: bool((x_of(arrays) == -100).any()))
    assert not any("do not matter" in text or "one number" in text for text in found.matters)


@pytest.mark.parametrize(
    ("passing", "failing_too", "text"),
    [
        ((3,), (), "G != 3"),
        ((3, 5), (), "G is not 3 or 5"),
        ((2, 4, 6, 8, 10, 12), (), "G % 2 != 0"),
        ((2, 4, 6, 7, 8, 10, 12), (), "G % 2 != 0 (except G = 7)"),
        ((2, 4, 6, 8, 10), (12,), "(G % 2 != 0 or G == 12)"),
    ],
)
def test_exceptions_can_be_read(passing: tuple[int, ...], failing_too: tuple[int, ...], text: str) -> None:
    """And the condition holds for the sizes that it names as failing only."""
    tried = {n: n not in passing for n in range(1, 13)}
    found = _nearly("G", size_conditions("G", 1, (2, 4, 8)), tried)
    assert found.text == text
    assert all(found.holds(n) is fails for n, fails in tried.items())


def test_many_exceptions_are_no_condition() -> None:
    tried = {n: n in (1, 4, 5, 9, 14, 15, 23, 24) for n in range(1, 25)}
    found = _nearly("G", size_conditions("G", 1, (2, 4, 8)), tried)
    assert isinstance(found, DimCondition)
    assert (found.text, found.known) == ("", False)


LABELS = """
import numpy as np

def labels(rng, shape, dtype, V):
    result = np.array(rng.integers(0, V - 1, shape[0]))
    result[rng.signs(shape[0]) < 0] = -100
    return result.astype(dtype)

def pads(rng, shape, dtype):
    return np.full(shape, -100, dtype)

def offsets(rng, shape, dtype, V):
    return np.sort(rng.integers(0, V, shape[0])).astype(dtype)
"""


@pytest.mark.parametrize("function", ["labels", "offsets"])
def test_elements_of_a_function_become_others_that_it_returned(tmp_path: Path, function: str) -> None:
    """At the sizes of the smaller case, and only if they look independent: sorted ones stay as they are."""
    (tmp_path / "gen.py").write_text(LABELS)
    text = f"{{from: 'gen.py:{function}'}}"
    spec = planted_spec(tmp_path, "N: 1..60, V: 2..40", shape="N", values=text)
    seen = set()

    def fails(arrays: CaseArrays) -> bool:
        x, largest = x_of(arrays).astype(int), arrays.case.dims["V"]
        seen.update(x[(x > largest) | (x < -100)].tolist())
        return bool((x == (-100 if function == "labels" else x[-1:].sum())).any()) and x.size > 2

    found = minimized(spec, fails)
    assert not seen
    assert found.case.dims["N"] == 3
    x = restore(found.captured.snapshot).allocation("x").view()
    if function == "offsets":
        assert (np.diff(x) >= 0).all()
        assert not any("do not matter" in text for text in found.matters)
    else:
        assert sorted(x.tolist()) == [-100, 0, 0]
        assert found.matters[-1].startswith("values that matter: x[")
