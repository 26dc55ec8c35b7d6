"""``gradients:`` in a spec: derivatives from a function's framework reach the judge.

No framework is needed here: NumPy gets a mode of differentiation of its own. The frameworks' modes are tested in
test_frameworks_installed.py, the judge's arithmetic in tests/oracle/test_gradients.py.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kcheck
from kcheck.errors import SpecError
from kcheck.specfile import load_spec

FRAMEWORKS = importlib.import_module("kcheck.frameworks.derivatives")


def square(x: Any) -> Any:
    return x * x


def spec(**keys: Any) -> kcheck.Spec:
    given: dict[str, Any] = {
        "dims": {"N": range(1, 40)},
        "inputs": {"x": ["N"]},
        "outputs": {"y": ["N"]},
        "reference": lambda x: x * x,
        "function": square,
        "gradients": ["x"],
        "cases": {"count": 6},
    }
    return kcheck.Spec("square", **{**given, **keys})


@pytest.fixture
def numpy_mode(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., Any]], None]:
    """Let a function of c and x be the derivative of every NumPy function."""

    def install(back: Callable[..., Any]) -> None:
        def mode(function: Any, given: Any, by: Any, weights: Any, named: Any, framework: Any) -> Any:
            named(function(**given))
            return {name: back(weights["y"], given[name]) for name in by}

        monkeypatch.setitem(FRAMEWORKS._MODES, "numpy", mode)

    return install


def test_a_correct_derivative_passes(numpy_mode: Any) -> None:
    numpy_mode(lambda c, x: 2 * c * x)
    report = kcheck.check(spec())
    assert report.ok
    assert report.cases == 6


def test_a_wrong_derivative_of_a_correct_function_fails(numpy_mode: Any) -> None:
    numpy_mode(lambda c, x: c * x)
    report = kcheck.check(spec())
    assert {failure.rule for failure in report.failures} == {"gradient"}


def test_a_function_with_wrong_values_fails_by_its_values_alone(numpy_mode: Any) -> None:
    numpy_mode(lambda c, x: c * x)
    report = kcheck.check(spec(function=lambda x: x * x + x))
    assert {failure.rule for failure in report.failures} == {"mismatch"}


def test_a_backward_pass_that_raises_fails_its_case(numpy_mode: Any) -> None:
    def back(c: Any, x: Any) -> Any:
        raise ValueError("no derivative")

    numpy_mode(back)
    failure = kcheck.check(spec()).failures[0]
    assert failure.rule == "gradient"
    assert "the backward pass raised ValueError: no derivative" in str(failure)


def test_a_derivative_of_another_shape_fails(numpy_mode: Any) -> None:
    numpy_mode(lambda c, x: (2 * c * x).sum(keepdims=True).astype(np.float64))
    failure = kcheck.check(spec()).failures[0]
    assert "the derivative by x is float64 [1], but the input is float32" in " ".join(str(failure).split())


def test_numpy_has_no_derivatives() -> None:
    failure = kcheck.check(spec()).failures[0]
    assert "gradients are not supported for framework numpy" in str(failure)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"gradients": ["z"]}, "z"),
        ({"framework": "numpy"}, "gradients are not supported for framework numpy"),
        ({"inputs": {"x": {"shape": ["N"], "dtype": "int32"}}}, "input 'x' is int32, which has no derivatives"),
    ],
)
def test_what_cannot_be_differentiated_is_an_error_of_the_spec(keys: Any, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        spec(**keys)


def test_kernels_have_no_gradients(tmp_path: Path) -> None:
    (tmp_path / "kcheck.yaml").write_text("")
    (tmp_path / "ops.py").write_text("def reference(x):\n    return x\n\n\ndef launch(x, y):\n    pass\n")
    file = tmp_path / "op.yaml"
    file.write_text(
        "kcheck: 1\nop: copy\ndims: {N: 1..4}\ninputs: {x: [N]}\noutputs: {y: [N]}\n"
        "launcher: ops.py:launch\nreference: ops.py:reference\ngradients: [x]\n"
    )
    with pytest.raises(SpecError, match="'gradients' needs 'function'"):
        load_spec(file)
