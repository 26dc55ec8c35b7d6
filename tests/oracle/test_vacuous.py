"""Specs that a kernel computing nothing would pass are found; others are left alone."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from oracle_bench import Bench, invariant

from kcheck.model import Bounds, OpSpec
from kcheck.oracle import Expected, Vacuity, judge
from kcheck.oracle.truth import Truth
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


def test_a_case_has_its_reference_called_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Judging a case and asking whether it tests anything share what the reference returned."""
    calls = []
    evaluate = Truth.of.__func__  # type: ignore[attr-defined]
    monkeypatch.setattr(Truth, "of", classmethod(lambda *given: calls.append(given) or evaluate(*given)))
    spec = bench.spec(SOFTMAX, {"x": "float32"}, {"y": "float32"})
    arrays = bench.arrays(spec, {"x": np.ones(8)}, {"y": (8,)}, 1)
    expected = Expected(spec, arrays)
    judge(spec, arrays, bench.outcome(arrays, {"y": np.full(8, 0.125)}), expected)
    Vacuity().observe(spec, arrays, expected)
    assert len(calls) == 1


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


@pytest.mark.parametrize(
    ("source", "inputs", "outputs", "options", "instead"),
    [
        # Each output may be got right in another way: a copy in one, zeros in the other.
        (
            "def ref(x):\n    return {'y': x, 'flag': np.zeros(x.shape, int)}\n",
            {"x": "float32"},
            {"y": "float32", "flag": "int32"},
            {},
            "a copy of x in y, zeros in flag",
        ),
        # Only integers; the copy changes the type.
        ("def ref(n):\n    return n\n", {"n": "int32"}, {"m": "int64"}, {}, "a copy of n in m"),
        ("def ref(n):\n    return n\n", {"n": "uint8"}, {"y": "float16"}, {}, "a copy of n in y"),
        ("def ref(n):\n    return 0 * n + 7\n", {"n": "int32"}, {"m": "int32"}, {}, "7 in every element of m"),
        ("def ref(x):\n    return x == x\n", {"x": "float32"}, {"b": "bool"}, {}, "True in every element of b"),
        # 0.5 is within 0.5 of every probability, and neither 0 nor any first element is.
        (
            "def ref(x):\n    y = 1 / (1 + np.exp(-8 * x))\n    y[:2] = 0, 1\n    return y\n",
            {"x": "float32"},
            {"y": "float32"},
            {"tolerance": {"float32": Bounds(0.51, 0.0)}},
            "0.5 in every element of y",
        ),
        # Each case alone suits many constants, all together one.
        (
            "def ref(x):\n    return 0 * x + np.sign(x[0]) * (np.arange(x.size) % 2)\n",
            {"x": "float32"},
            {"y": "float32"},
            {"tolerance": {"float32": Bounds(1.0, 0.0)}},
            "zeros",
        ),
        # NaN where NaN is expected.
        (
            "def ref(x):\n    return x * np.nan\n",
            {"x": "float32"},
            {"y": "float32"},
            {},
            "nan in every element of y",
        ),
    ],
)
def test_the_rule_has_power(
    bench: Bench, source: str, inputs: Any, outputs: Any, options: Any, instead: str
) -> None:
    """Mixed outputs, integers, changes of type, and a tolerance that one constant of all cases suits."""
    spec = bench.spec(source, inputs, outputs, **options)
    (finding,) = watched(bench, spec, draw=lambda g: g.integers(1, 100, 64) * g.choice([-1, 1])).findings()
    assert f"writes {instead} and" in finding.message


def test_a_constant_is_the_one_that_suits_every_case(bench: Bench) -> None:
    """No element of the first case is within tolerance of all later ones; what is between them is."""
    spec = bench.spec(
        "def ref(x):\n    return x\n", {"x": "float32"}, {"y": "float32"}, tolerance={"float32": Bounds(0.3, 0.0)}
    )
    levels = iter([0.0, 0.5, 0.25, 0.0, 0.5, 0.4])
    (finding,) = watched(
        bench, spec, draw=lambda _: np.full(9, 3.0) + next(levels) * (np.arange(9) == 4)
    ).findings()
    value = float(finding.message.split(" writes ")[1].split(" in every")[0])
    assert 3.2 <= value <= 3.3


def test_doing_nothing_in_place_is_a_copy(bench: Bench) -> None:
    """An output that is the memory of an input is right before the kernel runs, where every value is positive."""
    spec = bench.spec("def ref(x):\n    return np.maximum(x, 0)\n", {"x": "float32"}, {"y": "float32"})
    output = dataclasses.replace(spec.outputs["y"], alias="x")
    spec = dataclasses.replace(spec, outputs={"y": output})

    def seen(low: float) -> Vacuity:
        vacuity = Vacuity()
        for seed in range(6):
            x = np.random.default_rng(seed).uniform(low if seed == 3 else 0, 1, 64)
            arrays = bench.arrays(dataclasses.replace(spec, outputs={}), {"x": x}, {}, seed)
            vacuity.observe(spec, dataclasses.replace(arrays, aliases={"y": "x"}))
        return vacuity

    assert "a copy of x in y" in seen(0.0).findings()[0].message
    assert seen(-1.0).findings() == ()


@pytest.mark.parametrize(
    ("source", "draw"),
    [
        # Most cases are trivial, one is not.
        ("def ref(x):\n    return np.maximum(x, 0)\n", "abs"),
        ("def ref(x):\n    return np.clip(x, 0, 6)\n", "abs"),
        ("def ref(x):\n    return np.sort(x)\n", "sorted"),
        ("def ref(x):\n    return np.rint(x)\n", "whole"),
        ("def ref(x):\n    return np.where(np.isnan(x), 0, x)\n", "whole"),
    ],
)
def test_a_spec_that_is_trivial_in_most_cases_is_not_warned_about(bench: Bench, source: str, draw: str) -> None:
    """relu of positive values, sort of sorted ones, rint of integers: one case of another kind is enough."""
    spec = bench.spec(source, {"x": "float32"}, {"y": "float32"})
    easy = {"abs": np.abs, "sorted": np.sort, "whole": np.rint}[draw]
    hard = np.array([2.25, -1.75, np.nan, 0.25])
    values = iter([*(easy(np.random.default_rng(seed).normal(size=16)) for seed in range(7)), hard])
    assert watched(bench, spec, cases=8, draw=lambda _: next(values)).findings() == ()


def test_too_few_cases_are_told(bench: Bench) -> None:
    """Where nothing is refuted yet, and too few cases had elements, a note says that it was not checked."""
    spec = bench.spec("def ref(x):\n    return x\n", {"x": "float32"}, {"y": "float32"})
    undecided = watched(bench, spec, cases=LEAST_CASES - 1).undecided
    assert "only 4 cases have elements; at least 5 are needed" in undecided
    assert "only 1 case has elements;" in watched(bench, spec, cases=1).undecided
    assert watched(bench, spec).undecided == ""
    real = bench.spec(SOFTMAX, {"x": "float32"}, {"y": "float32"})
    assert watched(bench, real, cases=1).undecided == ""


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
