"""References of reductions to places, scans, sorts and integer ops, against a second formulation."""

import importlib.util
import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.ndimage
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

Array = npt.NDArray[Any]
ROOT = Path(__file__).resolve().parents[2]


def load(name: str) -> Callable[..., Any]:
    """The reference of an op, from a checkout that need not be importable."""
    path = ROOT / "references" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"reference_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[..., Any] = getattr(module, name)
    return function


few = st.sampled_from([-math.inf, -2.0, 0.0, 1.0, math.inf, math.nan])
finite = st.floats(-1e3, 1e3, allow_subnormal=False)
with_specials = hnp.arrays(
    np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=9), elements=st.one_of(few, finite)
)
quick = settings(deadline=None, max_examples=60)


def rank(value: float) -> tuple[int, float]:
    """A key by which NaN is above every number."""
    return (1, 0.0) if math.isnan(value) else (0, value)


@quick
@given(x=with_specials)
def test_reduce_max_is_the_last_of_the_ranked(x: Array) -> None:
    """By Python's max() over keys in which NaN is largest."""
    np.testing.assert_array_equal(load("reduce_max")(x=x), [max(row, key=rank) for row in x.tolist()])


@quick
@given(x=with_specials)
def test_argmax_is_the_first_of_the_ranked(x: Array) -> None:
    """By Python's max() over places, which keeps the first of equal keys."""
    index = load("argmax")(x=x)
    assert index.dtype == np.int64
    np.testing.assert_array_equal(index, [max(range(len(row)), key=lambda i: rank(row[i])) for row in x.tolist()])


@quick
@given(x=hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=9), elements=finite))
def test_cumsum_accumulates(x: Array) -> None:
    """By itertools.accumulate."""
    expected = [list(itertools.accumulate(row)) for row in x.tolist()]
    np.testing.assert_allclose(load("cumsum")(x=x), expected, rtol=1e-12, atol=1e-9)


@quick
@given(
    x=hnp.arrays(np.int32, st.integers(0, 40), elements=st.integers(-60, 60)),
    low=st.integers(-50, 10),
    width=st.integers(1, 60),
    bins=st.integers(1, 20),
)
def test_histogram_is_that_of_scipy(x: Array, low: int, width: int, bins: int) -> None:
    """By scipy.ndimage.histogram, scaled to bins of whole numbers, whose edges are exact in float64."""
    high = low + width
    counts = load("histogram")(x=x, low=np.int32(low), high=np.int32(high), B=bins)
    scaled = (x.astype(np.float64) - low) * bins
    inside = np.where(scaled == width * bins, width * bins - 1, scaled)  # SciPy's last bin is open
    expected = scipy.ndimage.histogram(inside, 0, width * bins, width * bins)
    np.testing.assert_array_equal(counts, expected.reshape(bins, width).sum(axis=1))


def test_histogram_agrees_with_numpys_on_the_edges() -> None:
    """Elements on edges belong to the bin above, the last edge to the last bin."""
    x = np.array([0, 2, 4, 6, 8, 8, 9, -1], np.int32)
    expected, _ = np.histogram(x, bins=4, range=(0, 8))
    np.testing.assert_array_equal(load("histogram")(x=x, low=np.int32(0), high=np.int32(8), B=4), expected)
    assert expected.tolist() == [1, 1, 1, 3]


def test_histogram_does_not_wrap() -> None:
    """With a range as wide as int32 itself, the product of value and bins needs more than 32 bits."""
    x = np.array([-(2**30), 0, 2**30 - 1, 2**30], np.int32)
    counts = load("histogram")(x=x, low=np.int32(-(2**30)), high=np.int32(2**30), B=100)
    assert {i: int(n) for i, n in enumerate(counts) if n} == {0: 1, 50: 1, 99: 2}


@quick
@given(
    data=st.data(), table=hnp.arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=finite)
)
def test_embedding_is_a_product_with_one_hot_rows(data: st.DataObject, table: Array) -> None:
    """By a sparse matrix with a one at (i, ids[i]), and nothing in the rows of padding."""
    V = table.shape[0]
    ids = np.array(data.draw(st.lists(st.integers(0, V - 1), max_size=8)), np.int64)
    padding = data.draw(st.integers(-1, V - 1))
    rows = np.flatnonzero(ids != padding)
    hot = scipy.sparse.csr_matrix((np.ones(rows.size), (rows, ids[rows])), shape=(ids.size, V))
    np.testing.assert_array_equal(load("embedding")(table=table, ids=ids, padding=padding), hot @ table)


@quick
@given(
    data=st.data(), base=hnp.arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=finite)
)
def test_scatter_add_is_a_product_with_the_transposed_one_hot_rows(data: st.DataObject, base: Array) -> None:
    """By a sparse matrix with a one at (index[i], i); what lies outside has none. The base is left as it was."""
    V, D = base.shape
    index = np.array(data.draw(st.lists(st.integers(-3, V + 2), max_size=8)), np.int32)
    source = data.draw(hnp.arrays(np.float64, (index.size, D), elements=finite))
    columns = np.flatnonzero((index >= 0) & (index < V))
    hot = scipy.sparse.csr_matrix((np.ones(columns.size), (index[columns], columns)), shape=(V, index.size))
    before = base.copy()
    actual = load("scatter_add")(base=base, index=index, source=source)
    np.testing.assert_allclose(actual, base + hot @ source, rtol=1e-12, atol=1e-9)
    np.testing.assert_array_equal(base, before)


@quick
@given(data=st.data(), x=hnp.arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 6)), elements=finite))
def test_gather_is_pythons_own_indexing(data: st.DataObject, x: Array) -> None:
    """A list's element at a negative index is counted from its end."""
    M, N = x.shape
    K = data.draw(st.integers(0, 7))
    index = data.draw(hnp.arrays(np.int32, (M, K), elements=st.integers(-N, N - 1)))
    expected = [[row[i] for i in places] for row, places in zip(x.tolist(), index.tolist(), strict=True)]
    np.testing.assert_array_equal(load("gather")(x=x, index=index), np.array(expected).reshape(M, K))


@quick
@given(data=st.data(), x=with_specials)
def test_topk_is_the_head_of_a_stable_sort(data: st.DataObject, x: Array) -> None:
    """By Python's sorted() in descending order of keys, which keeps equal ones in their order."""
    K = data.draw(st.integers(1, x.shape[1]))
    made = load("topk")(x=x, K=K)
    for row, values, index in zip(x.tolist(), made["values"], made["index"], strict=True):
        places = sorted(range(len(row)), key=lambda i: rank(row[i]), reverse=True)[:K]
        np.testing.assert_array_equal(index, places)
        np.testing.assert_array_equal(values, [row[i] for i in places])


@quick
@given(x=with_specials)
def test_bitonic_sort_is_pythons_stable_sort(x: Array) -> None:
    """By Python's sorted() over keys in which NaN is largest."""
    made = load("bitonic_sort")(x=x)
    for row, values, order in zip(x.tolist(), made["y"], made["order"], strict=True):
        places = sorted(range(len(row)), key=lambda i: rank(row[i]))
        np.testing.assert_array_equal(order, places)
        np.testing.assert_array_equal(values, [row[i] for i in places])


@quick
@given(x=hnp.arrays(np.int32, st.integers(0, 30), elements=st.integers(-9, 9)), threshold=st.integers(-9, 9))
def test_compact_is_a_filter(x: Array, threshold: int) -> None:
    """By a comprehension, with zeros after it."""
    made = load("compact")(x=x, threshold=np.int32(threshold))
    kept = [value for value in x.tolist() if value > threshold]
    assert made["y"].tolist() == kept + [0] * (x.size - len(kept))
    assert made["total"].tolist() == [len(kept)]


@quick
@given(data=st.data(), x=hnp.arrays(np.float64, st.integers(0, 40), elements=finite))
def test_segment_sum_is_a_product_with_the_rows_of_a_csr_matrix(data: st.DataObject, x: Array) -> None:
    """By a sparse matrix of ones whose row pointers are the offsets; empty rows give zero."""
    cuts = data.draw(st.lists(st.integers(0, x.size), max_size=6))
    offsets = np.array([0, *sorted(cuts), x.size], np.int32)
    ones = scipy.sparse.csr_matrix((np.ones(x.size), np.arange(x.size), offsets), shape=(offsets.size - 1, x.size))
    np.testing.assert_allclose(load("segment_sum")(x=x, offsets=offsets), ones @ x, rtol=1e-12, atol=1e-9)


X = np.array([[3.0, 1.0, 2.0], [0.0, 5.0, 5.0]])
CALLS: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    ("reduce_max", {"x": X}, ()),
    ("cumsum", {"x": X}, ()),
    ("embedding", {"table": X, "ids": np.array([1, 0]), "padding": 0}, ()),
    ("scatter_add", {"base": X, "index": np.array([1, 1, 5]), "source": np.ones((3, 3))}, ()),
    ("gather", {"x": X, "index": np.array([[0], [-1]])}, ()),
    ("topk", {"x": X, "K": 2}, ("values",)),
    ("bitonic_sort", {"x": X}, ("y",)),
    ("segment_sum", {"x": X[0], "offsets": np.array([0, 1, 3])}, ()),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("name", "arguments", "outputs"), CALLS, ids=[name for name, *_ in CALLS])
def test_references_keep_the_precision_they_are_given(
    name: str, arguments: dict[str, Any], outputs: tuple[str, ...], dtype: type
) -> None:
    """Float32 in is float32 out and float64 in is float64 out; the inputs are left as they were."""
    given_ = {
        key: value.astype(dtype) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value
        for key, value in arguments.items()
    }
    before = {key: np.copy(value) for key, value in given_.items()}
    result = load(name)(**given_)
    for made in [result[output] for output in outputs] if outputs else [result]:
        assert made.dtype == dtype
    for key, value in given_.items():
        np.testing.assert_array_equal(value, before[key])
