"""Specs that a kernel computing nothing would pass are found; others are left alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracle_bench import Bench, invariant

from kcheck.model import Bounds, OpSpec
from kcheck.oracle import Vacuity
from kcheck.oracle.vacuous import LEAST_CASES

SOFTMAX = "def ref(x):\n    e = np.exp(x - x.max())\n    return e / e.sum()\n"


def watched(bench: Bench, spec: OpSpec, shape: tuple[int, ...] = (64,), cases: int = 6, draw: Any = None) -> Any:
    vacuity = Vacuity()
    for seed in range(cases):
        generator = np.random.default_rng(seed)
        x = generator.normal(size=shape) if draw is None else draw(generator)
        arrays = bench.arrays(spec, dict.fromkeys(spec.inputs, x), dict.fromkeys(spec.outputs, x.shape), seed)
        vacuity.observe(spec, arrays)
    return vacuity


@pytest.mark.parametrize(
    ("source", "options", "instead"),
    [
        (SOFTMAX, {"tolerance": {"float32": Bounds(1.0, 0.0)}}, "zeros"),
        ("def ref(x):\n    return 0 * x\n", {}, "zeros"),
        ("def ref(x):\n    return 0 * x + 3\n", {}, "3.0 in every element of y"),
        ("def ref(x):\n    return x\n", {}, "a copy of x in y"),
        ("def ref(x):\n    return x * (1 + 1e-9)\n", {}, "a copy of x in y"),
    ],
)
def test_a_vacuous_spec_is_warned_about(bench: Bench, source: str, options: Any, instead: str) -> None:
    """Zeros, a constant or a copy that passes every case is named in one warning."""
    spec = bench.spec(source, {"x": "float32"}, {"y": "float32"}, **options)
    (finding,) = watched(bench, spec).findings()
    assert finding.rule == "vacuous"
    assert finding.severity == "warn"
    assert instead in finding.message
    assert "6 cases" in finding.message


@pytest.mark.parametrize("tolerance", ["conditioned", {"float32": Bounds(1e-5, 1e-5)}])
def test_a_spec_that_tests_something_is_not(bench: Bench, tolerance: Any) -> None:
    """Softmax is none of the three; its first case settles that."""
    spec = bench.spec(SOFTMAX, {"x": "float32"}, {"y": "float32"}, tolerance=tolerance)
    vacuity = watched(bench, spec, cases=1)
    assert vacuity.settled
    assert watched(bench, spec).findings() == ()


def test_a_settled_spec_costs_no_reference(bench: Bench) -> None:
    """Once all three are refuted the reference is not called again."""
    spec = bench.spec(SOFTMAX, {"x": "float32"}, {"y": "float32"})
    vacuity = watched(bench, spec, cases=1)
    vacuity.observe(spec, None)  # type: ignore[arg-type]  # would raise if it were looked at


def test_invariants_refute_too(bench: Bench) -> None:
    """A tolerance that accepts zeros is no matter where an invariant does not."""
    rules = (invariant("normalized", "y"),)
    spec = bench.spec(
        SOFTMAX, {"x": "float32"}, {"y": "float32"}, tolerance={"float32": Bounds(1.0, 0.0)}, invariants=rules
    )
    assert watched(bench, spec).findings() == ()


def test_every_output_has_to_pass(bench: Bench) -> None:
    """A flag that is always 0 beside a real result does not make a spec vacuous."""
    source = "def ref(x):\n    return {'y': x * x, 'flag': np.zeros(x.shape, int)}\n"
    spec = bench.spec(source, {"x": "float32"}, {"y": "float32", "flag": "int32"})
    assert watched(bench, spec).findings() == ()


def test_few_or_empty_cases_say_nothing(bench: Bench) -> None:
    """Fewer than LEAST_CASES cases with elements, or a reference that fails, give no warning."""
    spec = bench.spec("def ref(x):\n    return x\n", {"x": "float32"}, {"y": "float32"})
    assert watched(bench, spec, cases=LEAST_CASES - 1).findings() == ()
    assert watched(bench, spec, cases=LEAST_CASES).findings() != ()
    assert watched(bench, spec, shape=(0,)).findings() == ()
    broken = bench.spec("def ref(x):\n    raise ValueError\n", {"x": "float32"}, {"y": "float32"})
    assert watched(bench, broken).findings() == ()


def test_a_copy_that_overflows_is_tried_quietly(bench: Bench) -> None:
    """An input beyond the output's range is copied without a warning, and refuted."""
    spec = bench.spec("def ref(x):\n    return x / 3e38\n", {"x": "float32"}, {"y": "float16"})
    assert watched(bench, spec, draw=lambda g: g.uniform(1e38, 3e38, 8)).findings() == ()


def test_one_case_refutes_for_good(bench: Bench) -> None:
    """Five cases of zeros and one of numbers: doubling is not vacuous."""
    spec = bench.spec("def ref(x):\n    return 2 * x\n", {"x": "float32"}, {"y": "float32"})
    rare = iter([*(np.zeros(8) for _ in range(5)), np.arange(8.0), np.zeros(8)])
    assert watched(bench, spec, cases=7, draw=lambda _: next(rare)).findings() == ()
    zeros = watched(bench, spec, draw=lambda _: np.zeros(8))
    assert "zeros" in zeros.findings()[0].message
