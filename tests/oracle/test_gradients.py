"""Derivatives: a correct float32 backward pass passes on difficult values, and a wrong one fails.

The backward passes below are written by hand, in float32, as the frameworks compute them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import kcheck
from kcheck.generator import cotangents, materialize, plan
from kcheck.model import Finding, OpSpec, Span
from kcheck.oracle.gradients import check_gradients
from kcheck.oracle.slope import WeightedSum
from kcheck.oracle.truth import Truth

PLACE = Span("ops.py", 1)
HARD: list[Any] = ["normal", "adversarial", {"integers": [-2, 2]}]
CASES = 16


def op(reference: Callable[..., Any], inputs: dict[str, list[str]], output: list[str]) -> OpSpec:
    spec = kcheck.Spec(
        "op",
        reference=reference,
        dims={"M": range(1, 9), "N": range(1, 41)},
        inputs={name: {"shape": shape, "values": HARD} for name, shape in inputs.items()},
        outputs={"y": output},
    )
    return spec._model


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def softmax_back(c: Any, x: Any) -> Any:
    y = softmax(x)
    return {"x": y * (c - (y * c).sum(axis=1, keepdims=True))}


def rmsnorm(x: Any, w: Any) -> Any:
    return x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-6) * w


def rmsnorm_back(c: Any, x: Any, w: Any) -> Any:
    r = 1 / np.sqrt((x * x).mean(axis=1, keepdims=True) + np.float32(1e-6))
    inner = (c * w * x).mean(axis=1, keepdims=True)
    return {"x": c * w * r - x * r**3 * inner, "w": (c * x * r).sum(axis=0)}


def matmul_back(c: Any, a: Any, b: Any) -> Any:
    return {"a": c @ b.T, "b": a.T @ c}


def tanh_back(c: Any, x: Any) -> Any:
    y = np.tanh(x)
    return {"x": c * (1 - y * y)}


def max_back(c: Any, x: Any) -> Any:
    first = np.arange(x.shape[1]) == x.argmax(axis=1)[:, None]
    return {"x": np.where(first, c[:, None], np.float32(0))}


ROW, MATRIX = ["N"], ["M", "N"]
OPS: dict[str, tuple[Any, Any, Any, Any]] = {
    "softmax": (softmax, softmax_back, {"x": MATRIX}, MATRIX),
    "rmsnorm": (rmsnorm, rmsnorm_back, {"x": MATRIX, "w": ROW}, MATRIX),
    "matmul": (lambda a, b: a @ b, matmul_back, {"a": MATRIX, "b": ["N", "M"]}, ["M", "M"]),
    "tanh": (lambda x: np.tanh(x), tanh_back, {"x": MATRIX}, MATRIX),
    "relu": (lambda x: np.maximum(x, 0), lambda c, x: {"x": c * (x > 0)}, {"x": MATRIX}, MATRIX),
    "abs": (lambda x: np.abs(x), lambda c, x: {"x": c * np.sign(x)}, {"x": MATRIX}, MATRIX),
    "max": (lambda x: x.max(axis=1), max_back, {"x": MATRIX}, ["M"]),
}

WRONG: dict[str, tuple[str, Callable[..., Any]]] = {
    "softmax without its sum": ("softmax", lambda c, x: {"x": softmax(x) * c}),
    "rmsnorm without the path through the mean": (
        "rmsnorm",
        lambda c, x, w: rmsnorm_back(c, x, w) | {"x": c * w / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-6)},
    ),
    "w not summed over the last row": (
        "rmsnorm",
        lambda c, x, w: rmsnorm_back(c, x, w) | {"w": rmsnorm_back(c[:-1], x[:-1], w)["w"]},
    ),
    "a transposed factor": ("matmul", lambda c, a, b: matmul_back(c, a, b) | {"a": c.T @ b.T}),
    "tanh squared twice": ("tanh", lambda c, x: {"x": c * (1 - np.tanh(x) ** 4)}),
    "the last column left out": ("relu", lambda c, x: {"x": c * (x > 0) * (np.arange(x.shape[1]) < 32)}),
    "NaN in one element": ("relu", lambda c, x: {"x": np.where(x == x.max(), np.nan, c * (x > 0))}),
    "no derivative at all": ("tanh", lambda c, x: {"x": np.zeros_like(x)}),
}


def checked(name: str, back: Callable[..., Any]) -> Iterator[tuple[list[Finding], list[str]]]:
    """The findings and notes of each case, with the derivatives rounded to float32."""
    reference, _, inputs, output = OPS[name]
    spec = op(reference, inputs, output)
    for case in plan(spec, count=CASES, master=1):
        arrays = materialize(spec, case)
        weights = cotangents(spec, arrays)
        given = {name: arrays.allocation(name).view().copy() for name in spec.inputs}
        with np.errstate(all="ignore"):
            found = {key: np.asarray(value, np.float32) for key, value in back(weights["y"], **given).items()}
        yield check_gradients(Truth.of(spec, arrays), weights, found, case.seed, PLACE)


@pytest.mark.parametrize("name", OPS)
def test_a_correct_backward_pass_passes(name: str) -> None:
    assert [finding.message for findings, _ in checked(name, OPS[name][1]) for finding in findings] == []


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_backward_pass_fails(wrong: str) -> None:
    finding = next((finding for found, _ in checked(*WRONG[wrong]) for finding in found), None)
    assert finding is not None
    assert finding.rule == "gradient"


def test_the_finding_names_the_element_and_both_derivatives() -> None:
    def back(c: Any, x: Any) -> Any:
        derivative = c * (x > 0)
        derivative[-1, -1] = 7
        return {"x": derivative}

    finding = next(finding for found, _ in checked("relu", back) for finding in found)
    assert finding.array == "x"
    assert finding.index is not None
    assert (
        f"with respect to x[{finding.index[0]}, {finding.index[1]}] is 7, that of the reference is"
        in finding.message
    )
    assert finding.place == PLACE


def test_zeros_are_said_to_be_cut_off_from_the_graph() -> None:
    finding = next(f for found, _ in checked(*WRONG["no derivative at all"]) for f in found)
    assert "keep x in the graph" in finding.fix


def test_no_derivative_is_wrong_at_a_jump() -> None:
    reference = lambda x: np.floor(x)  # noqa: E731
    spec = op(reference, {"x": MATRIX}, MATRIX)
    for case in plan(spec, count=10, master=1):
        arrays = materialize(spec, case)
        weights = cotangents(spec, arrays)
        zeros = {"x": np.zeros(arrays.allocation("x").shape, np.float32)}
        findings, _ = check_gradients(Truth.of(spec, arrays), weights, zeros, case.seed, PLACE)
        assert findings == []


def sum_of(reference: Callable[..., Any], x: list[float]) -> tuple[WeightedSum, Any]:
    spec = op(reference, {"x": ROW}, ROW)
    (case,) = [case for case in plan(spec, count=60, master=1) if case.dims["N"] == len(x)][:1]
    arrays = materialize(spec, case)
    truth = Truth.of(spec, arrays)
    return WeightedSum(truth.reference, {"x": np.array(x)}, {"y": np.ones(len(x))}), np.ones(len(x))


def test_a_complex_step_gives_the_last_digits() -> None:
    weighted, ones = sum_of(lambda x: np.exp(x) / x, [1.5])
    slope = weighted.slope("x", ones)
    assert slope.analytic
    assert slope.value == pytest.approx(np.exp(1.5) / 1.5 - np.exp(1.5) / 1.5**2, rel=1e-14)


def test_a_complex_step_that_loses_a_term_is_not_trusted() -> None:
    weighted, ones = sum_of(lambda x: x * x + 1e-6 * np.abs(x), [2.0])
    slope = weighted.slope("x", ones)
    assert not slope.analytic
    assert slope.value == pytest.approx(4.0 + 1e-6, rel=1e-9)
    assert abs(slope.value - 4.000001) <= slope.error


def test_a_kink_is_measured() -> None:
    weighted, ones = sum_of(lambda x: np.maximum(x, 3 * x), [0.0])
    slope = weighted.slope("x", ones, kinks=True)
    assert slope.value == pytest.approx(2.0)
    assert slope.jump == pytest.approx(2.0)
    smooth, ones = sum_of(lambda x: x * x, [0.0])
    assert smooth.slope("x", ones, kinks=True).jump == 0.0
