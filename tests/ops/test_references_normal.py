"""The references of attention, softmax and normalization against SciPy, math.fsum and loops by element."""

import importlib.util
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.special
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

Array = npt.NDArray[Any]
ROOT = Path(__file__).resolve().parents[2]


def load(name: str) -> Callable[..., Array]:
    """The reference of an op, from a checkout that need not be importable."""
    path = ROOT / "references" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"reference_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[..., Array] = getattr(module, name)
    return function


softmax_online, logsumexp, cross_entropy = load("softmax_online"), load("logsumexp"), load("cross_entropy")
layernorm, groupnorm, batchnorm, l2norm = load("layernorm"), load("groupnorm"), load("batchnorm"), load("l2norm")
attention_rows, attention_causal = load("attention_rows"), load("attention_causal")
attention_gqa = load("attention_gqa")

finite = st.floats(-1e3, 1e3, allow_subnormal=False)
special = st.one_of(finite, st.sampled_from([-math.inf, math.inf, math.nan]))


def matrices(elements: st.SearchStrategy[float], min_side: int = 1) -> st.SearchStrategy[Array]:
    shapes = hnp.array_shapes(min_dims=2, max_dims=2, min_side=min_side, max_side=12)
    return hnp.arrays(np.float64, shapes, elements=elements)


@settings(deadline=None)
@given(x=matrices(st.one_of(finite, st.just(-math.inf))))
def test_softmax_online_is_scipys(x: Array) -> None:
    """Softmax over the last axis agrees with scipy.special.softmax; a row of -inf alone is NaN in both."""
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(softmax_online(x=x), scipy.special.softmax(x, axis=-1), rtol=1e-12, atol=1e-300)


@settings(deadline=None)
@given(x=matrices(special))
def test_logsumexp_is_scipys(x: Array) -> None:
    """Agrees with scipy.special.logsumexp, infinities and NaN included."""
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(logsumexp(x=x), scipy.special.logsumexp(x, axis=-1), rtol=1e-12, atol=1e-12)


def test_logsumexp_of_nothing_is_minus_infinity() -> None:
    """The logarithm of an empty sum."""
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(logsumexp(x=np.empty((2, 0))), [-np.inf, -np.inf])


@settings(deadline=None)
@given(logits=matrices(finite), data=st.data())
def test_cross_entropy_is_minus_the_log_softmax_of_the_label(logits: Array, data: st.DataObject) -> None:
    """Row by row from scipy.special.log_softmax; a row whose label is the ignored one costs nothing."""
    rows, classes = logits.shape
    labels = data.draw(hnp.arrays(np.int64, rows, elements=st.integers(0, classes - 1)))
    ignore = data.draw(st.sampled_from([-100, 0]))
    labels[data.draw(hnp.arrays(np.bool_, rows))] = ignore
    expected = [
        0.0 if label == ignore else -scipy.special.log_softmax(row)[label]
        for row, label in zip(logits, labels.tolist(), strict=True)
    ]
    np.testing.assert_allclose(cross_entropy(logits=logits, labels=labels, ignore=ignore), expected, atol=1e-9)


@settings(deadline=None)
@given(x=matrices(finite), eps=st.sampled_from([1e-6, 1e-5]), data=st.data())
def test_layernorm_is_the_definition(x: Array, eps: float, data: st.DataObject) -> None:
    """Element by element, from the published formula with math.fsum."""
    weight, bias = (data.draw(hnp.arrays(np.float64, x.shape[1], elements=finite)) for _ in range(2))
    expected = np.empty_like(x)
    for i, row in enumerate(x.tolist()):
        mean = math.fsum(row) / len(row)
        root = math.sqrt(math.fsum((value - mean) ** 2 for value in row) / len(row) + eps)
        expected[i] = [(value - mean) / root * w + b for value, w, b in zip(row, weight, bias, strict=True)]
    actual = layernorm(x=x, weight=weight, bias=bias, eps=eps)
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize(("B", "G", "S", "L"), [(1, 1, 1, 2), (2, 3, 1, 5), (2, 2, 3, 4), (1, 1, 4, 7)])
def test_groupnorm_is_scipys_zscore_by_group(B: int, G: int, S: int, L: int) -> None:
    """With eps 0, each sample and group of channels is its z-score (scipy.stats), scaled and moved by channel."""
    draw = np.random.default_rng(B + 10 * G + 100 * S)
    x, weight, bias = draw.normal(3, 2, (B, G * S, L)), draw.normal(size=G * S), draw.normal(size=G * S)
    expected = np.empty_like(x)
    for b in range(B):
        for first in range(0, G * S, S):
            part = slice(first, first + S)
            expected[b, part] = scipy.stats.zscore(x[b, part], axis=None)
    expected = expected * weight[None, :, None] + bias[None, :, None]
    np.testing.assert_allclose(groupnorm(x=x, weight=weight, bias=bias, G=G, eps=0.0), expected, rtol=1e-10)


def test_batchnorm_is_the_definition() -> None:
    """Element by element, in Python floats, with every size different from the others."""
    B, C, L, eps = 2, 3, 4, 1e-3
    draw = np.random.default_rng(3)
    x, mean, weight, bias = draw.normal(size=(B, C, L)), *draw.normal(size=(3, C))
    variance = draw.uniform(0, 2, C)
    actual = batchnorm(x=x, mean=mean, variance=variance, weight=weight, bias=bias, eps=eps)
    for b, c, i in np.ndindex(B, C, L):
        expected = (x[b, c, i] - mean[c]) / math.sqrt(variance[c] + eps) * weight[c] + bias[c]
        assert actual[b, c, i] == pytest.approx(expected, rel=1e-12)


@settings(deadline=None)
@given(x=matrices(finite), eps=st.sampled_from([1e-6, 0.5, 1e3]))
def test_l2norm_divides_by_the_hypotenuse_or_eps(x: Array, eps: float) -> None:
    """The norm is math.hypot's; where that is below eps, eps takes its place."""
    expected = [[value / max(math.hypot(*row), eps) for value in row] for row in x.tolist()]
    np.testing.assert_allclose(l2norm(x=x, eps=eps), expected, rtol=1e-12, atol=1e-300)


def one_query(query: Array, keys: Array, values: Array, scale: float) -> Array:
    """Attention of one query [D] to keys [n, D] and values [n, E], by SciPy's softmax and plain sums."""
    scores = [scale * math.fsum(query * key) for key in keys]
    return np.asarray(sum(w * value for w, value in zip(scipy.special.softmax(scores), values, strict=True)))


@pytest.mark.parametrize(("B", "M", "N", "D", "E"), [(1, 1, 1, 1, 1), (3, 2, 7, 4, 5), (2, 3, 9, 6, 2)])
def test_attention_rows_is_the_definition(B: int, M: int, N: int, D: int, E: int) -> None:
    """One query at a time over the keys that count; no key gives zeros, and NaN in the padding is not seen."""
    draw = np.random.default_rng(N)
    q, k, v = draw.normal(size=(B, M, D)), draw.normal(size=(B, N, D)), draw.normal(size=(B, N, E))
    lengths = draw.integers(0, N + 1, B)
    lengths[0] = 0
    v[np.arange(N) >= lengths[:, None]] = np.nan
    actual = attention_rows(q=q, k=k, v=v, lengths=lengths, scale=0.4)
    assert actual.shape == (B, M, E)
    for b, n in enumerate(lengths):
        for i in range(M):
            expected = one_query(q[b, i], k[b, :n], v[b, :n], 0.4) if n else np.zeros(E)
            np.testing.assert_allclose(actual[b, i], expected, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize(("B", "M", "past", "D"), [(1, 1, 0, 1), (2, 5, 0, 3), (1, 4, 6, 2)])
def test_attention_causal_is_the_definition(B: int, M: int, past: int, D: int) -> None:
    """Query i attends to the first past + i + 1 keys and to no other."""
    draw = np.random.default_rng(M)
    q, k, v = (draw.normal(size=(B, n, D)) for n in (M, past + M, past + M))
    actual = attention_causal(q=q, k=k, v=v, scale=0.7, past=past)
    for b, i in np.ndindex(B, M):
        n = past + i + 1
        np.testing.assert_allclose(actual[b, i], one_query(q[b, i], k[b, :n], v[b, :n], 0.7), rtol=1e-10)


@pytest.mark.parametrize(
    ("B", "H", "G", "N", "D"), [(1, 1, 1, 1, 1), (2, 6, 3, 4, 5), (1, 4, 1, 7, 2), (1, 3, 3, 5, 2)]
)
def test_attention_gqa_is_the_definition(B: int, H: int, G: int, N: int, D: int) -> None:
    """Head h attends to head h // (H / G) of keys and values: neighbors share."""
    draw = np.random.default_rng(H)
    q, k, v = draw.normal(size=(B, H, D)), draw.normal(size=(B, N, G, D)), draw.normal(size=(B, N, G, D))
    actual = attention_gqa(q=q, k=k, v=v, scale=0.7)
    for b, h in np.ndindex(B, H):
        g = [g for g in range(G) for _ in range(H // G)][h]
        np.testing.assert_allclose(actual[b, h], one_query(q[b, h], k[b, :, g], v[b, :, g], 0.7), rtol=1e-10)
