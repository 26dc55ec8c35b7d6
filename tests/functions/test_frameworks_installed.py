"""Functions over torch and JAX, where they are installed: ``make frameworks`` has both, CI has neither."""

from __future__ import annotations

from typing import Any

import pytest

import kcheck

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
