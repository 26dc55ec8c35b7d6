"""Each invariant: what holds, what breaks it and where, and whose fault that is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle_bench import HERE, Bench, invariant

from kcheck.model import Bounds, Invariant, Status
from kcheck.oracle import judge

LOOSE = {name: Bounds(1e30, 0.0) for name in ("float16", "float32", "float64", "complex64", "int32")}
NAN, INF = np.nan, np.inf


def findings(
    bench: Bench,
    rule: Invariant,
    actual: Any,
    expected: Any = None,
    dtype: str = "float32",
    x: Any = None,
    nan: str = "match",
) -> Any:
    """The verdict of a spec with one invariant and a tolerance that accepts any number."""
    expected = actual if expected is None else expected
    kind = "complex" if dtype.startswith("complex") else "float" if dtype.startswith("float") else "int"
    wanted = np.asarray(expected)
    text = "def ref(x):\n    nan, inf = np.nan, np.inf\n"
    text += f"    return np.array({wanted.tolist()}, {kind}).reshape{wanted.shape}\n"
    spec = bench.spec(text, {"x": "float32"}, {"y": dtype}, tolerance=LOOSE, invariants=(rule,), nan=nan)
    arrays = bench.arrays(spec, {"x": np.ones(np.shape(actual)) if x is None else x}, {"y": np.shape(actual)}, N=4)
    return judge(spec, arrays, bench.outcome(arrays, {"y": actual}))


NORMALIZED = invariant("normalized", "y")
SYMMETRIC = invariant("symmetric", "y")


def expression(text: str) -> Invariant:
    return invariant("expression", text=text)


HOLDS = [
    (invariant("finite"), [1.0, 2.0], [1.0, 2.0]),
    (invariant("finite"), [NAN, INF], [NAN, INF]),
    (invariant("non_negative", "y"), [0.0, -0.0, 1.0], [0.0, 0.0, 1.0]),
    (invariant("non_negative", "y"), [NAN, 1.0], [NAN, 1.0]),
    (invariant("shape_preserved"), [1.0, 2.0], [1.0, 2.0]),
    (NORMALIZED, [[0.25, 0.75], [1.0, 0.0]], [[0.25, 0.75], [1.0, 0.0]]),
    (NORMALIZED, [[0.25, 0.75], [NAN, NAN]], [[0.25, 0.75], [NAN, NAN]]),
    (SYMMETRIC, [[1.0, 2.0], [2.0, 3.0]], [[1.0, 2.0], [2.0, 3.0]]),
    (SYMMETRIC, [[1.0, NAN], [NAN, 3.0]], [[1.0, NAN], [NAN, 3.0]]),
    (expression("abs(y) <= max(abs(x)) * 3"), [1.0, -3.0], [1.0, -3.0]),
    (expression("sum(y) == N"), [1.0, 3.0], [1.0, 3.0]),
    (expression("y <= 2"), [1.0, NAN], [1.0, NAN]),
]

BREAKS = [
    (invariant("finite"), [1.0, INF], [1.0, 2.0], (1,)),
    (invariant("finite"), [NAN, 1.0], [1.0, 2.0], (0,)),
    (invariant("non_negative", "y"), [1.0, -1e-30], [1.0, 1.0], (1,)),
    (NORMALIZED, [[0.25, 0.75], [0.5, 0.5001]], [[0.25, 0.75], [0.5, 0.5]], (1, 0)),
    (SYMMETRIC, [[1.0, 2.0], [2.001, 3.0]], [[1.0, 2.0], [2.0, 3.0]], (0, 1)),
    (expression("abs(y) <= max(abs(x)) * 3"), [1.0, -3.5], [1.0, -3.0], (1,)),
    (expression("sum(y) == N"), [1.0, 3.5], [1.0, 3.0], None),
    (expression("y <= 2"), [3.0, NAN], [1.0, NAN], (0,)),
]


@pytest.mark.parametrize(("rule", "actual", "expected"), HOLDS)
def test_an_invariant_that_holds_is_no_finding(bench: Bench, rule: Invariant, actual: Any, expected: Any) -> None:
    """An output with the property has no finding; special values that the reference shares excuse themselves."""
    found = findings(bench, rule, actual, expected)
    assert found.status is Status.PASSED, found.findings


@pytest.mark.parametrize(("rule", "actual", "expected", "index"), BREAKS)
def test_a_broken_invariant_is_a_finding(
    bench: Bench, rule: Invariant, actual: Any, expected: Any, index: Any
) -> None:
    """An output without it fails with a finding that says which invariant, which element, and where it stands."""
    found = findings(bench, rule, actual, expected)
    assert found.status is Status.FAILED
    finding = next(f for f in found.findings if f.rule == "invariant")
    assert finding.index == index
    assert finding.place == HERE
    assert finding.message.startswith(str(rule))


@pytest.mark.parametrize(
    ("rule", "values"),
    [
        (NORMALIZED, [[0.25, 0.5]]),
        (expression("y <= 2"), [3.0]),
        (expression("z <= 2"), [3.0]),
        (invariant("normalized", "y", 2), [[1.0]]),
        (SYMMETRIC, [[1.0, 2.0]]),
    ],
    ids=["not normalized", "not below 2", "unknown name", "no such axis", "not square"],
)
def test_an_invariant_that_the_reference_breaks_is_the_specs_fault(
    bench: Bench, rule: Invariant, values: Any
) -> None:
    """Where the fp64 reference does not have the property either, the case is an error, not a failure."""
    assert findings(bench, rule, values).status is Status.ERROR


def test_shape_preserved_compares_with_the_first_input(bench: Bench) -> None:
    """An output whose shape is not that of the first input breaks it."""
    found = findings(bench, invariant("shape_preserved"), [1.0, 2.0], x=[1.0, 2.0, 3.0])
    assert found.findings[0].message == "shape_preserved: y has shape [2], but input x has [3]"


def test_infinity_where_the_output_dtype_overflows_is_finite_enough(bench: Bench) -> None:
    """A reference of 1e6 is infinite in float16: the kernel that says so has not broken `finite`."""
    assert findings(bench, invariant("finite"), [INF], [1e6], "float16").status is Status.PASSED
    assert findings(bench, invariant("finite"), [INF], [1e3], "float16").status is Status.FAILED


def test_infinity_where_the_output_dtype_overflows_excuses_an_expression_too(bench: Bench) -> None:
    """It holds for a reference of 1e6, and for no float16 that is next to it; elsewhere it must hold."""
    bounded = expression("abs(y) <= max(abs(x)) * 1e7")
    assert findings(bench, bounded, [INF, 1.0], [1e6, 1.0], "float16").status is Status.PASSED
    assert findings(bench, bounded, [INF, 1.0], [1e3, 1.0], "float16").status is Status.FAILED
    found = findings(bench, expression("abs(y) <= 5 * max(abs(x)) or y > 1e5"), [INF, 9.0], [1e6, 1.0], "float16")
    assert next(f for f in found.findings if f.rule == "invariant").index == (1,)
    scalar = expression("sum(y) <= 1e7")
    assert findings(bench, scalar, [INF, 1.0], [1e6, 1.0], "float16").status is Status.PASSED


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@given(seed=st.integers(0, 10**6), length=st.integers(1, 600))
@settings(deadline=None, max_examples=25)
def test_rounded_probabilities_are_normalized(tmp_path_factory: Any, dtype: str, seed: int, length: int) -> None:
    """Softmax by a float32 loop, rounded to the output's dtype, is normalized within the tolerance; a lost part in
    a hundred is not."""
    bench = Bench(tmp_path_factory.mktemp("normalized"))
    x = np.random.default_rng(seed).normal(size=length) * 4
    wide = np.exp(x) / np.exp(x).sum()
    e = np.exp(x.astype("f8" if dtype == "float64" else "f4"))
    total = e[:0].sum()
    for term in e:
        total += term
    assert findings(bench, NORMALIZED, e / total, wide, dtype).status is Status.PASSED
    assert findings(bench, NORMALIZED, e / total * 0.99, wide, dtype).status is Status.FAILED


def test_two_orders_of_summation_are_symmetric_enough(bench: Bench) -> None:
    """x @ x.T with each half summed in another order is symmetric; with a term dropped from one half it is not."""
    x = np.random.default_rng(0).normal(size=(9, 300)).astype(np.float32)
    upper, lower = (np.array([[np.cumsum(r * c)[-1] for c in y] for r in y]) for y in (x, x[:, ::-1]))
    product = np.triu(upper) + np.tril(lower, -1)
    assert findings(bench, SYMMETRIC, product, x.astype("f8") @ x.T.astype("f8"), x=x).status is Status.PASSED
    wrong = np.triu(upper) + np.tril(x[:, 1:] @ x[:, 1:].T, -1)
    assert findings(bench, SYMMETRIC, wrong, x.astype("f8") @ x.T.astype("f8"), x=x).status is Status.FAILED


def test_integers_and_complex_have_invariants_too(bench: Bench) -> None:
    """Symmetry of integers is exact; a complex output may be checked by an expression."""
    assert findings(bench, SYMMETRIC, [[1, 2], [3, 1]], [[1, 2], [2, 1]], "int32").status is Status.FAILED
    assert findings(bench, expression("abs(y) <= 5"), [3 + 4j], dtype="complex64").status is Status.PASSED
    assert findings(bench, expression("abs(y) <= 5"), [3 + 5j], [3 + 4j], "complex64").status is Status.FAILED


def test_empty_outputs_have_every_property(bench: Bench) -> None:
    """Outputs with no elements, or normalized along an axis of none, break nothing."""
    for rule in (invariant("finite"), invariant("non_negative"), NORMALIZED, SYMMETRIC, expression("y > 1")):
        assert findings(bench, rule, np.zeros((0, 0)), x=np.zeros((0, 0))).status is Status.PASSED
