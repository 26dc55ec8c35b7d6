"""The references against SciPy and against loops: a wrong reference would excuse a wrong kernel."""

import importlib.util
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.special
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


softmax, matmul, gelu = load("softmax"), load("matmul"), load("gelu")
rmsnorm, reduce_sum, attention = load("rmsnorm"), load("reduce_sum"), load("attention")

finite = st.floats(-1e3, 1e3, allow_subnormal=False)
vectors = hnp.arrays(np.float64, st.integers(1, 40), elements=finite)
matrices = hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=12), elements=finite)


@settings(deadline=None)
@given(x=matrices)
def test_softmax_is_scipys(x: Array) -> None:
    """Softmax over the last axis agrees with scipy.special.softmax, overflow of exp included."""
    np.testing.assert_allclose(softmax(x=x), scipy.special.softmax(x, axis=-1), rtol=1e-12, atol=1e-300)


@settings(deadline=None)
@given(x=vectors)
def test_softmax_does_not_see_a_common_offset(x: Array) -> None:
    """Adding a constant to a row changes nothing but its rounding."""
    np.testing.assert_allclose(softmax(x=x + 1e3), softmax(x=x), rtol=1e-9, atol=1e-300)


@settings(deadline=None)
@given(x=hnp.arrays(np.float64, st.integers(0, 40), elements=st.floats(-30, 30)))
def test_gelu_is_x_times_the_normal_distribution_function(x: Array) -> None:
    """GELU agrees with x * scipy.special.ndtr(x) to a relative 1e-12, far into the negative tail."""
    np.testing.assert_allclose(gelu(x=x), x * scipy.special.ndtr(x), rtol=1e-12, atol=1e-300)


def test_gelu_has_its_published_minimum() -> None:
    """The minimum is -0.16997 at x = -0.7518: what the invariant of specs/gelu.yaml rests on."""
    x = np.linspace(-3, 1, 400_001)
    y = gelu(x=x)
    assert y.min() == pytest.approx(-0.1699712, abs=1e-7)
    assert x[y.argmin()] == pytest.approx(-0.7518, abs=1e-4)


@settings(deadline=None)
@given(x=matrices, eps=st.sampled_from([1e-6, 1e-5]), data=st.data())
def test_rmsnorm_is_the_definition(x: Array, eps: float, data: st.DataObject) -> None:
    """Element by element, from the published formula with math.fsum."""
    weight = data.draw(hnp.arrays(np.float64, x.shape[1], elements=finite))
    expected = np.empty_like(x)
    for i, row in enumerate(x.tolist()):
        root = math.sqrt(math.fsum(value * value for value in row) / len(row) + eps)
        expected[i] = [value / root * factor for value, factor in zip(row, weight.tolist(), strict=True)]
    np.testing.assert_allclose(rmsnorm(x=x, weight=weight, eps=eps), expected, rtol=1e-12)


@settings(deadline=None)
@given(x=hnp.arrays(np.float64, st.integers(0, 60), elements=finite))
def test_reduce_sum_is_the_exact_sum_rounded(x: Array) -> None:
    """The sum agrees with math.fsum to float64 rounding of the largest partial sum; an empty one is [0]."""
    total = reduce_sum(x=x)
    assert total.shape == (1,)
    assert total[0] == pytest.approx(math.fsum(x.tolist()), abs=1e-15 * (1 + np.abs(x).sum()) * max(1, x.size))


@pytest.mark.parametrize(("M", "N", "K"), [(1, 1, 1), (3, 5, 7), (9, 8, 17), (2, 3, 0)])
def test_matmul_is_the_triple_loop(M: int, N: int, K: int) -> None:
    """c[i, j] is the sum over k of a[i, k] * b[k, j]; zero where K is 0."""
    draw = np.random.default_rng(M * 100 + K)
    a, b = draw.normal(size=(M, K)), draw.normal(size=(K, N))
    expected = [[math.fsum(a[i, k] * b[k, j] for k in range(K)) for j in range(N)] for i in range(M)]
    np.testing.assert_allclose(matmul(a=a, b=b), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("B", "N", "D"), [(1, 1, 1), (2, 5, 3), (1, 33, 8)])
def test_attention_is_the_definition(B: int, N: int, D: int) -> None:
    """One query at a time: SciPy's softmax of the scaled scores, then the weighted mean of the values."""
    draw = np.random.default_rng(N)
    q, k, v = (draw.normal(size=(B, N, D)) for _ in range(3))
    expected = np.empty_like(v)
    for b in range(B):
        for i in range(N):
            scores = [math.fsum(q[b, i] * k[b, j]) / math.sqrt(D) for j in range(N)]
            weights = scipy.special.softmax(scores)
            expected[b, i] = sum(weights[j] * v[b, j] for j in range(N))
    actual = attention(q=q, k=k, v=v, scale=1 / math.sqrt(D))
    np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-13)


ONE = np.ones((2, 3, 4))
CALLS: list[tuple[Callable[..., Array], dict[str, Array]]] = [
    (softmax, {"x": ONE[0]}),
    (matmul, {"a": ONE[0], "b": ONE[0].T}),
    (gelu, {"x": ONE[0, 0]}),
    (rmsnorm, {"x": ONE[0], "weight": ONE[0, 0]}),
    (reduce_sum, {"x": ONE[0, 0]}),
    (attention, {"q": ONE, "k": ONE, "v": ONE}),
]
PARAMS: dict[str, dict[str, float]] = {"rmsnorm": {"eps": 1e-6}, "attention": {"scale": 0.5}}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("function", "arrays"), CALLS, ids=lambda part: getattr(part, "__name__", ""))
def test_references_keep_the_precision_they_are_given(
    function: Callable[..., Array], arrays: dict[str, Array], dtype: type
) -> None:
    """Float32 in is float32 out and float64 in is float64 out; the inputs are left as they were."""
    given_ = {name: array.astype(dtype) for name, array in arrays.items()}
    before = {name: array.copy() for name, array in given_.items()}
    result = function(**given_, **PARAMS.get(function.__name__, {}))
    assert result.dtype == dtype
    for name, array in given_.items():
        np.testing.assert_array_equal(array, before[name])
