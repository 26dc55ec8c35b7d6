"""The references of kernels in Triton and CUDA C++ that no kernel of numba.cuda shares."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.special

from kcheck.rng import Xorshift128Plus

Array = npt.NDArray[Any]
ROOT = Path(__file__).resolve().parents[2]


def load(name: str, function: str = "") -> Callable[..., Any]:
    """The reference of an op, or another function of its file, from a checkout that need not be importable."""
    spec = importlib.util.spec_from_file_location(f"reference_{name}", ROOT / "references" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Callable[..., Any] = getattr(module, function or name)
    return found


def test_vector_add_adds() -> None:
    assert load("vector_add")(x=np.array([1.0, 2.0]), y=np.array([0.5, -2.0])).tolist() == [1.5, 0.0]


def test_layernorm_forward_normalizes() -> None:
    """Without weight and bias a row has mean 0, variance 1 and the rstd of its standard deviation."""
    x = np.random.default_rng(1).normal(3.0, 2.0, (4, 50))
    made = load("layernorm_forward")(x=x, weight=np.ones(50), bias=np.zeros(50), eps=0.0)
    np.testing.assert_allclose(made["y"].mean(axis=1), 0.0, atol=1e-12)
    np.testing.assert_allclose(made["y"].std(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(made["mean"], x.mean(axis=1), rtol=1e-12)
    np.testing.assert_allclose(made["rstd"], 1 / x.std(axis=1), rtol=1e-12)


def test_histogram_of_bytes_counts_each_value() -> None:
    counts = load("histogram_bytes")(x=np.array([0, 255, 255, 7], np.uint8))
    assert {value: int(n) for value, n in enumerate(counts) if n} == {0: 1, 7: 1, 255: 2}


def slope(function: Callable[[Array], Array], at: Array, along: Array) -> Array:
    """The derivative of an array's function at ``at`` along a direction, by central differences."""
    step = 1e-5
    return (function(at + step * along) - function(at - step * along)) / (2 * step)


def test_layernorm_backward_is_the_derivative_of_the_forward_pass() -> None:
    """Along random directions of x, weight and bias."""
    rng = np.random.default_rng(2)
    x, dy, w = rng.normal(size=(4, 9)), rng.normal(size=(4, 9)), rng.normal(size=9)
    eps = 1e-5
    made = load("layernorm_forward")(x=x, weight=w, bias=np.zeros(9), eps=eps)
    found = load("layernorm_backward")(dy=dy, x=x, weight=w, mean=made["mean"], rstd=made["rstd"])
    y = lambda x, w, b: load("layernorm_forward")(x=x, weight=w, bias=b, eps=eps)["y"]  # noqa: E731
    for name, at, of in (
        ("dx", x, lambda x: y(x, w, np.zeros(9))),
        ("dweight", w, lambda w: y(x, w, np.zeros(9))),
        ("dbias", np.zeros(9), lambda b: y(x, w, b)),
    ):
        along = rng.normal(size=at.shape)
        np.testing.assert_allclose((found[name] * along).sum(), (dy * slope(of, at, along)).sum(), rtol=1e-6)
    stored = [load("layernorm_backward", name)(None, (4,), np.float64, x) for name in ("means", "rstds")]
    np.testing.assert_allclose(stored, [made["mean"], made["rstd"]], rtol=1e-12)


@pytest.mark.parametrize("causal", [True, False])
def test_attention_is_softmax_by_rows(causal: bool) -> None:
    """By SciPy's softmax and logsumexp, one query after the other."""
    rng = np.random.default_rng(3)
    q, k, v = rng.normal(size=(3, 2, 7, 4))
    found = load("attention_forward")(q=q, k=k, v=v, scale=0.5, CAUSAL=causal)
    for b in range(2):
        for i in range(7):
            seen = slice(i + 1) if causal else slice(None)
            scores = 0.5 * k[b, seen] @ q[b, i]
            np.testing.assert_allclose(found["out"][b, i], scipy.special.softmax(scores) @ v[b, seen], rtol=1e-12)
            assert found["lse"][b, i] == pytest.approx(scipy.special.logsumexp(scores))


def test_attention_backward_is_the_derivative_of_the_forward_pass() -> None:
    rng = np.random.default_rng(4)
    q, k, v, dout = rng.normal(size=(4, 2, 5, 4))
    found = load("attention_forward", "attention_backward")(q=q, k=k, v=v, dout=dout, scale=0.5)
    out = lambda q, k, v: load("attention_forward")(q=q, k=k, v=v, scale=0.5)["out"]  # noqa: E731
    for name, at, of in (
        ("dq", q, lambda q: out(q, k, v)),
        ("dk", k, lambda k: out(q, k, v)),
        ("dv", v, lambda v: out(q, k, v)),
    ):
        along = rng.normal(size=at.shape)
        np.testing.assert_allclose((found[name] * along).sum(), (dout * slope(of, at, along)).sum(), rtol=1e-6)


def test_products_of_narrow_numbers_are_exact() -> None:
    """int8 in integers, scaled by row and column; 8-bit floats by one scale."""
    a, b = np.array([[-128, 127], [1, 2]], np.int8), np.array([[-128, 1], [-128, 3]], np.int8)
    found = load("matmul_int8")(a=a, b=b, row_scale=np.array([1.0, 0.5]), column_scale=np.array([2.0, 4.0]))
    assert found.tolist() == [[2.0 * 128, 4.0 * 253], [-384.0, 14.0]]
    assert load("matmul_fp8")(a=np.array([[1.5, 2.0]]), b=np.array([[2.0], [4.0]]), scale=0.125).tolist() == [
        [1.375]
    ]


def test_experts_get_their_rows() -> None:
    x, weight = np.arange(6.0).reshape(3, 2), np.stack([np.eye(2), 2 * np.eye(2), 3 * np.eye(2)])
    found = load("matmul_experts")(x=x, weight=weight, offsets=np.array([0, 1, 1, 3]))
    np.testing.assert_array_equal(found, x * np.array([[1.0], [3.0], [3.0]]))


def test_the_words_of_philox_are_those_that_its_authors_publish() -> None:
    """Random123's known answers (kat_vectors, philox4x32 10) for zeros; and p is a share."""
    word = load("dropout_rand", "first_word")(np.zeros(1, np.uint32), 0)
    assert word.tolist() == [0x6627E8D5]
    y = load("dropout_rand")(x=np.ones(20_000), p=np.float32(0.25), seed=np.int64(7))
    assert set(np.unique(y)) == {0.0, 1 / 0.75}
    assert np.mean(y == 0) == pytest.approx(0.25, abs=0.01)


def test_sorts_and_counts() -> None:
    assert load("sort")(x=np.array([[2.0, -np.inf, 1.0]])).tolist() == [[-np.inf, 1.0, 2.0]]
    counts = load("histogram_added")(x=np.array([1, 1, 3]), counts=np.array([5, 0, 0, 1], np.int32))
    assert (counts.tolist(), counts.dtype) == ([5, 2, 0, 2], np.int32)
    keys = np.array([0x21, 0x12, 0x31, 0xF0000000], np.uint32)
    made = load("radix_step")(keys=keys, values=np.arange(4, dtype=np.uint32), shift=np.int32(0))
    assert made["sorted_values"].tolist() == [3, 0, 2, 1]
    assert load("radix_step")(keys=keys, values=keys, shift=np.int32(28))["sorted_keys"].tolist()[-1] == 0xF0000000


def test_logits_that_are_ruled_out_leave_a_class() -> None:
    """Half of the logits are -inf, and every row has a loss that is a number for its last class."""
    logits = load("cross_entropy", "ruled_out")(Xorshift128Plus(3), (20, 9), np.float64)
    assert 0.3 < np.isneginf(logits).mean() < 0.6
    loss = load("cross_entropy")(logits=logits, labels=np.full(20, 8), ignore=-100)
    np.testing.assert_allclose(loss, -scipy.special.log_softmax(logits, axis=-1)[:, 8], rtol=1e-12)
