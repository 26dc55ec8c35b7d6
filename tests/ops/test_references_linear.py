"""The references of linear algebra and neighborhoods against SciPy and against loops."""

import importlib.util
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.ndimage
import scipy.signal
import scipy.sparse
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


gemv, transpose, spmv_csr, stencil = load("gemv"), load("transpose"), load("spmv_csr"), load("stencil")
conv1d, conv2d, resample = load("conv1d"), load("conv2d"), load("resample")
matmul_batched, matmul_grouped = load("matmul_batched"), load("matmul_grouped")

finite = st.floats(-1e3, 1e3, allow_subnormal=False)
matrices = hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=12), elements=finite)


@pytest.mark.parametrize("name", ["matmul_naive", "matmul_splitk", "matmul_half"])
@pytest.mark.parametrize(("M", "N", "K"), [(1, 1, 1), (3, 5, 7), (9, 8, 17), (2, 3, 0)])
def test_products_of_matrices_are_the_triple_loop(name: str, M: int, N: int, K: int) -> None:
    """c[i, j] is the sum over k of a[i, k] * b[k, j]; zero where K is 0."""
    draw = np.random.default_rng(M * 100 + K)
    a, b = draw.normal(size=(M, K)), draw.normal(size=(K, N))
    expected = [[math.fsum(a[i, k] * b[k, j] for k in range(K)) for j in range(N)] for i in range(M)]
    np.testing.assert_allclose(load(name)(a=a, b=b), expected, rtol=1e-12, atol=1e-12)


@settings(deadline=None)
@given(
    sizes=st.tuples(*[st.integers(1, 5)] * 4), room=st.tuples(*[st.integers(0, 3)] * 4), seed=st.integers(0, 99)
)
def test_batched_products_follow_the_addresses(sizes: tuple[int, ...], room: tuple[int, ...], seed: int) -> None:
    """Element (r, k) of matrix i lies at i * stride + r * ld + k, as BLAS counts: added up by flat index."""
    B, M, N, K = sizes
    lda, ldb = K + room[0], N + room[1]
    stride_a, stride_b = M * lda + room[2], K * ldb + room[3]
    draw = np.random.default_rng(seed)
    a, b = draw.normal(size=B * stride_a), draw.normal(size=B * stride_b)
    result = matmul_batched(a=a, b=b, B=B, M=M, N=N, K=K, lda=lda, ldb=ldb, stride_a=stride_a, stride_b=stride_b)
    assert result.shape == (B, M, N)
    for i, r, c in np.ndindex(B, M, N):
        terms = [a[i * stride_a + r * lda + k] * b[i * stride_b + k * ldb + c] for k in range(K)]
        assert result[i, r, c] == pytest.approx(math.fsum(terms), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("counts", [[3], [0], [2, 0, 4], [0, 0, 1, 5]])
def test_grouped_products_are_sums_of_outer_products(counts: list[int]) -> None:
    """Each row adds the outer product of its two parts to the gradient of its expert."""
    draw = np.random.default_rng(len(counts))
    rows = sum(counts)
    x, dy = draw.normal(size=(rows, 3)), draw.normal(size=(rows, 5))
    expected = np.zeros((len(counts), 3, 5))
    for row, expert in enumerate(e for e, count in enumerate(counts) for _ in range(count)):
        expected[expert] += np.multiply.outer(x[row], dy[row])
    offsets = np.cumsum([0, *counts]).astype(np.int32)
    np.testing.assert_allclose(matmul_grouped(x=x, dy=dy, offsets=offsets), expected, rtol=1e-12, atol=1e-13)


@settings(deadline=None)
@given(a=matrices, alpha=st.sampled_from([1.0, -2.0]), beta=st.sampled_from([0.0, 0.75]), seed=st.integers(0, 99))
def test_gemv_is_the_definition(a: Array, alpha: float, beta: float, seed: int) -> None:
    """Row by row with math.fsum, to float64 rounding of the largest term."""
    draw = np.random.default_rng(seed)
    x, y = draw.normal(size=a.shape[1]), draw.normal(size=a.shape[0])
    expected = [alpha * math.fsum(row * x) + beta * value for row, value in zip(a, y, strict=True)]
    np.testing.assert_allclose(gemv(a=a, x=x, y=y, alpha=alpha, beta=beta), expected, rtol=1e-12, atol=1e-10)


@settings(deadline=None)
@given(x=matrices)
def test_transpose_exchanges_indices(x: Array) -> None:
    """Element by element."""
    assert transpose(x=x).tolist() == [[row[j] for row in x.tolist()] for j in range(x.shape[1])]


@settings(deadline=None)
@given(M=st.integers(1, 8), N=st.integers(1, 8), NNZ=st.integers(0, 30), seed=st.integers(0, 99))
def test_spmv_is_scipys(M: int, N: int, NNZ: int, seed: int) -> None:
    """Agrees with scipy.sparse, empty rows and columns that come twice included."""
    draw = np.random.default_rng(seed)
    offsets = np.sort(np.r_[0, draw.integers(0, NNZ + 1, M - 1), NNZ]).astype(np.int32)
    columns = draw.integers(0, N, NNZ).astype(np.int32)
    values, x = draw.normal(size=NNZ), draw.normal(size=N)
    expected = scipy.sparse.csr_matrix((values, columns, offsets), shape=(M, N)) @ x
    actual = spmv_csr(offsets=offsets, columns=columns, values=values, x=x)
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)


@settings(deadline=None)
@given(
    sizes=st.tuples(*[st.integers(1, 3)] * 3),
    L=st.integers(1, 20),
    R=st.integers(1, 5),
    stride=st.integers(1, 3),
    pad=st.integers(0, 3),
    seed=st.integers(0, 99),
)
def test_conv1d_is_scipys_correlation(
    sizes: tuple[int, ...], L: int, R: int, stride: int, pad: int, seed: int
) -> None:
    """scipy.signal.correlate of the padded signal, channels summed, every stride-th output kept."""
    B, C, F = sizes
    pad = max(pad, (R - L + 1) // 2)
    draw = np.random.default_rng(seed)
    x, w = draw.normal(size=(B, C, L)), draw.normal(size=(F, C, R))
    actual = conv1d(x=x, w=w, stride=stride, pad=pad)
    assert actual.shape == (B, F, (L + 2 * pad - R) // stride + 1)
    for b, f in np.ndindex(B, F):
        rows = [scipy.signal.correlate(np.pad(x[b, c], pad), w[f, c], mode="valid") for c in range(C)]
        np.testing.assert_allclose(actual[b, f], sum(rows)[::stride], rtol=1e-11, atol=1e-12)


@settings(deadline=None, max_examples=60)
@given(
    sizes=st.tuples(*[st.integers(1, 2)] * 3),
    extents=st.tuples(*[st.integers(1, 9)] * 2),
    taps=st.tuples(*[st.integers(1, 3)] * 2),
    step=st.tuples(st.integers(1, 3), st.integers(1, 2)),
    pads=st.tuples(*[st.integers(0, 3)] * 2),
    seed=st.integers(0, 99),
)
def test_conv2d_is_the_sevenfold_loop(
    sizes: tuple[int, ...],
    extents: tuple[int, int],
    taps: tuple[int, int],
    step: tuple[int, int],
    pads: tuple[int, int],
    seed: int,
) -> None:
    """Each output is the sum over what its window sees of the unpadded image, zero outside."""
    (B, C, F), (H, W), (R, S), (stride, dilation) = sizes, extents, taps, step
    pad_y, pad_x = max(pads[0], dilation * (R - 1)), max(pads[1], dilation * (S - 1))
    draw = np.random.default_rng(seed)
    x, w = draw.normal(size=(B, C, H, W)), draw.normal(size=(F, C, R, S))
    actual = conv2d(x=x, w=w, stride=stride, dilation=dilation, pad_y=pad_y, pad_x=pad_x)
    rows = (H + 2 * pad_y - dilation * (R - 1) - 1) // stride + 1
    columns = (W + 2 * pad_x - dilation * (S - 1) - 1) // stride + 1
    assert actual.shape == (B, F, rows, columns)
    for b, f, i, j in np.ndindex(actual.shape):
        total = 0.0
        for c, r, s in np.ndindex(C, R, S):
            down, across = i * stride + r * dilation - pad_y, j * stride + s * dilation - pad_x
            if 0 <= down < H and 0 <= across < W:
                total += x[b, c, down, across] * w[f, c, r, s]
        assert actual[b, f, i, j] == pytest.approx(total, rel=1e-11, abs=1e-12)


@settings(deadline=None)
@given(u=matrices, rate=st.sampled_from([0.25, 0.1]))
def test_stencil_is_scipys_laplacian(u: Array, rate: float) -> None:
    """u + rate * scipy.ndimage's correlation with the 5-point star, constant zero outside."""
    star = np.array([[0, 1, 0], [1, -4, 1], [0, 1, 0]], float)
    expected = u + rate * scipy.ndimage.correlate(u, star, mode="constant", cval=0.0)
    np.testing.assert_allclose(stencil(u=u, rate=rate), expected, rtol=1e-11, atol=1e-10)


@settings(deadline=None)
@given(x=hnp.arrays(np.float64, st.integers(1, 30), elements=finite), M=st.integers(1, 40))
def test_resample_is_numpys_interpolation(x: Array, M: int) -> None:
    """np.interp at M places that are evenly spread from the first element to the last."""
    places = np.linspace(0, len(x) - 1, M) if M > 1 else np.zeros(1)
    expected = np.interp(places, np.arange(len(x)), x)
    np.testing.assert_allclose(resample(x=x, M=M), expected, rtol=1e-9, atol=1e-9)


def test_resample_is_exact_where_32_bits_are_not_enough() -> None:
    """A ramp stays a ramp from one rate of sound to another, though index times length passes 2**31."""
    ramp = resample(x=np.arange(96_000.0), M=44_100)
    np.testing.assert_allclose(ramp, np.arange(44_100) * (95_999 / 44_099), rtol=1e-14)


ONE = np.ones((2, 3))
OFFSETS = np.array([0, 2], np.int32)
CALLS: list[tuple[str, dict[str, Array], dict[str, Any]]] = [
    ("matmul_naive", {"a": ONE, "b": ONE.T}, {}),
    ("matmul_splitk", {"a": ONE, "b": ONE.T}, {}),
    ("matmul_half", {"a": ONE, "b": ONE.T}, {}),
    (
        "matmul_batched",
        {"a": np.ones(2), "b": np.ones(2)},
        {"B": 1, "M": 1, "N": 1, "K": 2, "lda": 2, "ldb": 1, "stride_a": 2, "stride_b": 2},
    ),
    ("matmul_grouped", {"x": ONE, "dy": ONE}, {"offsets": OFFSETS}),
    ("gemv", {"a": ONE, "x": ONE[0], "y": ONE[:, 0]}, {"alpha": 0.5, "beta": 2.0}),
    ("transpose", {"x": ONE}, {}),
    ("spmv_csr", {"values": ONE[:, 0], "x": ONE[0]}, {"offsets": OFFSETS, "columns": OFFSETS}),
    ("conv1d", {"x": ONE[None], "w": ONE[None]}, {"stride": 1, "pad": 1}),
    (
        "conv2d",
        {"x": ONE[None, None], "w": ONE[None, None]},
        {"stride": 1, "dilation": 1, "pad_y": 1, "pad_x": 0},
    ),
    ("stencil", {"u": ONE}, {"rate": 0.25}),
    ("resample", {"x": ONE[0]}, {"M": 5}),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("name", "arrays", "others"), CALLS, ids=[name for name, *_ in CALLS])
def test_references_keep_the_precision_they_are_given(
    name: str, arrays: dict[str, Array], others: dict[str, Any], dtype: type
) -> None:
    """Float32 in is float32 out and float64 in is float64 out; the inputs are left as they were."""
    given_ = {key: array.astype(dtype) for key, array in arrays.items()}
    before = {key: array.copy() for key, array in given_.items()}
    result = load(name)(**given_, **others)
    assert result.dtype == dtype
    for key, array in given_.items():
        np.testing.assert_array_equal(array, before[key])
