"""Functions over torch and JAX, where they are installed: ``make frameworks`` has both, CI has neither."""

from __future__ import annotations

from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kcheck

if find_spec("tensorflow") and find_spec("triton"):
    import triton  # noqa: F401  # torch's compiler imports it, which crashes after TensorFlow

DTYPES = ["float32", "float16", "bfloat16", "float64"]


def spec(function: Any, **keys: Any) -> kcheck.Spec:
    given = {
        "dims": {"M": range(1, 9), "N": range(1, 40)},
        "dtypes": DTYPES,
        "inputs": {"x": {"shape": ["M", "N"], "layouts": ["contiguous", "transposed", "reversed"]}},
        "outputs": {"y": ["M", "N"]},
        "reference": lambda x: 1 / (1 + x * x),
        "cases": {"count": 24},
    }
    return kcheck.Spec("bell", function=function, **{**given, **keys})


def test_torch_functions_by_their_annotation() -> None:
    torch = pytest.importorskip("torch")

    def good(x: torch.Tensor):
        wide = x.to(torch.float64 if x.dtype == torch.float64 else torch.float32)
        return (1 / (1 + wide * wide)).to(x.dtype)

    def writes(x: torch.Tensor):
        return good(x.mul_(1.0).add_(0.5))

    class Module(torch.nn.Module):
        def forward(self, x: torch.Tensor):
            return good(x)

    assert kcheck.check(spec(good)).ok
    assert kcheck.check(spec(Module())).ok
    assert {failure.rule for failure in kcheck.check(spec(writes)).failures} == {"mutated"}


def test_jax_functions_by_framework() -> None:
    jnp = pytest.importorskip("jax.numpy")

    def good(x: Any):
        wide = x.astype(jnp.float64 if x.dtype == jnp.float64 else jnp.float32)
        return (1 / (1 + wide * wide)).astype(x.dtype)

    assert kcheck.check(spec(good, framework="jax")).ok
    assert not kcheck.check(spec(lambda x: good(x) * 1.5, framework="jax")).ok


def test_tensorflow_functions_by_framework() -> None:
    tf = pytest.importorskip("tensorflow")

    def good(x: Any):
        wide = tf.cast(x, tf.float64 if x.dtype == tf.float64 else tf.float32)
        return tf.cast(1 / (1 + wide * wide), x.dtype)

    assert kcheck.check(spec(good, framework="tensorflow")).ok
    assert kcheck.check(spec(tf.function(good), framework="tensorflow")).ok
    assert not kcheck.check(spec(lambda x: good(x) * 1.5, framework="tensorflow")).ok


@pytest.mark.parametrize("framework", ["jax", "tensorflow", "torch"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_assert_close_and_judge_take_arrays_of_the_framework(framework: str, dtype: str) -> None:
    """Views that are not contiguous, scalars, and arrays without elements among them."""
    module = pytest.importorskip(framework)

    def array(values: list[Any]) -> Any:
        make = {"jax": "numpy.array", "tensorflow": "constant", "torch": "tensor"}[framework]
        return attrgetter(make)(module)(values, dtype=dtype if framework == "jax" else getattr(module, dtype))

    x = array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    kcheck.assert_close(x, x + 0)
    kcheck.assert_close(x[:, ::2], x[:, ::2] + 0)
    kcheck.assert_close(x[0, 0], array(1.0))  # type: ignore[arg-type]
    kcheck.assert_close(x[:0], x[:0] + 0)
    kcheck.assert_close(2 * x, reference=lambda x: x + x, inputs={"x": x})
    with pytest.raises(AssertionError, match="6 of 6 elements"):
        kcheck.assert_close(x, x * 1.5)
    with pytest.raises(AssertionError, match="6 of 6 elements"):
        kcheck.assert_close(3 * x, reference=lambda x: x + x, inputs={"x": x})
    assert kcheck.validate("twice", {"x": x}, (2 * x, x), lambda x: (x + x, x)).passed


@pytest.mark.parametrize("framework", ["jax", "tensorflow", "torch"])
def test_a_framework_may_take_subnormal_numbers_for_zero(framework: str) -> None:
    """JAX and TensorFlow do on a CPU: each softmax has such numbers where inputs are far apart."""
    module = pytest.importorskip(framework)
    softmax = {"jax": "nn.softmax", "tensorflow": "nn.softmax", "torch": "softmax"}[framework]
    function = attrgetter(softmax)(module)

    def reference(x: Any):
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    for run, is_right in ((lambda x: function(x, -1), True), (lambda x: function(x * 1.001, -1), False)):
        given = spec(run, framework=framework, dtypes=["float32"], inputs={"x": ["M", "N"]}, reference=reference)
        assert kcheck.check(given, cases=40).ok is is_right
    x = np.linspace(-95, 0, 40, dtype=np.float32)
    array = module.from_numpy(x) if framework == "torch" else x
    y = function(array, -1)
    assert kcheck.validate("softmax", {"x": x}, y, reference).passed
    if framework == "torch":
        assert kcheck.validate("softmax", {"x": x}, np.asarray(y), reference).passed
        return
    told = kcheck.validate("softmax", {"x": x}, np.asarray(y), reference)
    assert "pass their array itself, or flushes_subnormals=True" in told.notes[0]
    assert kcheck.validate("softmax", {"x": x}, np.asarray(y), reference, flushes_subnormals=True).passed
    own = module.numpy.asarray(x) if framework == "jax" else module.constant(x)
    assert kcheck.validate("softmax", {"x": own}, np.asarray(y), reference).passed
    converting = spec(
        lambda x: np.asarray(function(x, -1)), dtypes=["float32"], inputs={"x": ["M", "N"]}, reference=reference
    )
    assert not kcheck.check(converting, cases=40).ok
    returning = spec(lambda x: function(x, -1), dtypes=["float32"], inputs={"x": ["M", "N"]}, reference=reference)
    assert kcheck.check(returning, cases=40).ok


def torch_bell() -> Any:
    torch = pytest.importorskip("torch")

    class Bell(torch.autograd.Function):
        factor = -2.0

        @staticmethod
        def forward(ctx, x):
            wide = x.to(torch.float64 if x.dtype == torch.float64 else torch.float32)
            y = 1 / (1 + wide * wide)
            ctx.save_for_backward(wide, y)
            return y.to(x.dtype)

        @classmethod
        def backward(cls, ctx, dy):
            wide, y = ctx.saved_tensors
            return (cls.factor * wide * y * y * dy.to(y.dtype)).to(dy.dtype)

    return Bell


def test_torch_gradients_of_functions_and_modules() -> None:
    torch = pytest.importorskip("torch")
    right = torch_bell()
    wrong = type("Wrong", (right,), {"factor": -1.0})

    class Module(torch.nn.Module):
        def __init__(self, function: Any) -> None:
            super().__init__()
            self.function = function
            self.scale = torch.nn.Parameter(torch.tensor(1.0))

        def forward(self, x: torch.Tensor):
            return self.function.apply(x) * self.scale.to(x.dtype)

    assert kcheck.check(spec(lambda x: right.apply(x), framework="torch", gradients=["x"])).ok
    assert kcheck.check(spec(Module(right), gradients=["x"])).ok
    for function in (lambda x: wrong.apply(x), Module(wrong)):
        report = kcheck.check(spec(function, framework="torch", gradients=["x"]))
        assert {failure.rule for failure in report.failures} == {"gradient"}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, while its compiler is imported
def test_torch_compiled_functions_and_their_gradients() -> None:
    torch = pytest.importorskip("torch")

    def good(x: torch.Tensor):
        wide = x.to(torch.float64 if x.dtype == torch.float64 else torch.float32)
        return (1 / (1 + wide * wide)).to(x.dtype)

    small = {"dims": {"M": [3], "N": [8, 33]}, "dtypes": ["float32"], "cases": {"count": 6}}
    inputs = {"x": {"shape": ["M", "N"]}}
    for backend in ("inductor", "aot_eager"):
        compiled = torch.compile(good, backend=backend)
        report = kcheck.check(spec(compiled, framework="torch", gradients=["x"], inputs=inputs, **small))
        assert report.ok, str(report.failures[0])
        detached = torch.compile(lambda x: good(x.detach()), backend=backend)
        report = kcheck.check(spec(detached, framework="torch", gradients=["x"], inputs=inputs, **small))
        assert "keep x in the graph" in str(report.failures[0])


def test_jax_gradients() -> None:
    jax = pytest.importorskip("jax")
    small = {"dims": {"M": [3], "N": [8, 33]}, "dtypes": ["float32"], "cases": {"count": 6}}

    def good(x: Any):
        return 1 / (1 + x * x)

    def cut(x: Any):
        return 1 / (1 + x * jax.lax.stop_gradient(x))

    assert kcheck.check(spec(jax.jit(good), framework="jax", gradients=["x"], **small)).ok
    report = kcheck.check(spec(cut, framework="jax", gradients=["x"], **small))
    assert {failure.rule for failure in report.failures} == {"gradient"}


SPECS = Path(__file__).resolve().parents[2] / "specs" / "gradients"


@pytest.mark.parametrize("file", sorted(SPECS.glob("*.yaml")), ids=lambda file: file.stem)
def test_correct_backward_passes_of_the_corpus_pass(file: Path) -> None:
    pytest.importorskip(file.stem.rpartition("_")[2])
    report = kcheck.check(file, cases=16)
    assert report.ok, str(report)


@pytest.mark.parametrize("file", sorted(SPECS.glob("buggy/*.yaml")), ids=lambda file: file.stem)
def test_wrong_backward_passes_of_the_corpus_are_caught(file: Path) -> None:
    pytest.importorskip("torch" if "_torch_" in file.stem else "jax")
    report = kcheck.check(file, cases=16)
    assert {failure.rule for failure in report.failures} == {"gradient"}
