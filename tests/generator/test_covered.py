"""What cases have covered of a spec."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kcheck.generator import covered, plan
from kcheck.model import OpSpec

SPEC = """\
kcheck: 1
op: double
kernel: k.py:double
reference: r.py:double
dtypes: {T: [float32, float16]}
dims: {M: [1, 2], N: [1, 2, 5]}
inputs: {x: {shape: [M, N], dtype: T, layouts: [contiguous, transposed]}}
params: {flag: {dtype: bool, values: [true, false]}}
outputs: {y: {shape: [M, N], dtype: T}}
launch: {args: [x, flag, y], grid: [1], block: [8]}
"""
KERNEL = "@cuda.jit\ndef double(x, flag, y):\n    pass\n"
REFERENCE = "def double(x, flag):\n    return x\n"


@pytest.fixture
def spec(project: Any) -> OpSpec:
    """Two dims, two dtypes, two layouts, a flag."""
    loaded: OpSpec = project.spec(SPEC, KERNEL, REFERENCE)
    return loaded


def test_nothing_is_covered_without_cases(spec: OpSpec) -> None:
    """Every value that can be drawn is missing."""
    found = covered(spec, [])
    missing = {factor.name: set(factor.missing) for factor in found.factors}
    assert missing["dim M"] == {"1", "2"}
    assert missing["dim N"] == {"1", "2", "5"}
    assert missing["dtype T"] == {"float32", "float16"}
    assert missing["layout x"] == {"contiguous", "transposed"}
    assert missing["param flag"] == {"True", "False"}
    assert (found.cases, found.pairs) == (0, 0)
    assert found.possible > 40


def test_one_case_covers_its_own_values_and_pairs(spec: OpSpec) -> None:
    """One value of each factor, and one pair of each two factors."""
    (case,) = plan(spec, count=1, master=0)
    found = covered(spec, [case])
    assert all(len(factor.run) == 1 for factor in found.factors)
    factors = len(found.factors)
    assert found.pairs == factors * (factors - 1) // 2
    assert covered(spec, [case, case]).pairs == found.pairs


def test_a_planned_run_covers_every_value(spec: OpSpec) -> None:
    """The plan takes the cases that add the most pairs; missing pairs are those that it left out."""
    found = covered(spec, plan(spec, count=40, master=0), most=10_000)
    assert all(not factor.missing for factor in found.factors)
    assert len(found.missing) == found.possible - found.pairs
    assert found.pairs / found.possible > 0.9


def test_cases_that_the_spec_no_longer_allows_do_not_count(spec: OpSpec) -> None:
    """They say nothing about the spec as it is."""
    (case,) = plan(spec, count=1, master=0)
    assert covered(spec, [replace(case, dims={"M": 3, "N": 1})]).cases == 0
    assert covered(spec, [replace(case, dims={"N": 1})]).cases == 0


def test_a_listed_value_that_no_case_can_have_is_impossible(project: Any) -> None:
    """A constraint excludes one of the sizes that the spec lists."""
    loaded = project.spec(SPEC.replace("inputs:", 'constraints: ["N != 5"]\ninputs:'), KERNEL, REFERENCE)
    never = {factor.name: factor.never for factor in covered(loaded, []).factors}
    assert {name: found for name, found in never.items() if found} == {"dim N": ("5",)}
