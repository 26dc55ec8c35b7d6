"""What the floor allows for sums that tensor cores truncate: their own error, and no lost block of terms."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from oracle_bench import Bench

from kcheck.model import DTYPES, Status, TensorSum
from kcheck.model.launch_facts import LaunchFacts
from kcheck.oracle import tensor_sums
from kcheck.oracle.arithmetic import Arithmetic
from kcheck.oracle.judge import judge
from kcheck.oracle.rounded import under
from tests.isa.model.tensor import fused

AMPERE = TensorSum(kept=23, terms=8, fraction=24)
ADA_FP8 = TensorSum(kept=13, terms=16, fraction=13)
K = 4096
FORMATS = {"f16": np.dtype(np.float16), "e5m2": DTYPES["float8_e5m2"].numpy}


def on_tensor_cores(a: Any, b: Any, sums: TensorSum, kind: str) -> Any:
    """``a @ b`` in float32, by the model of mma in integers."""
    unsigned = f"u{a.itemsize}"
    rows, columns = a.view(unsigned).tolist(), b.T.copy().view(unsigned).tolist()
    return np.array([[chain(row, column, sums, kind) for column in columns] for row in rows], np.float32)


def chain(row: Sequence[int], column: Sequence[int], sums: TensorSum, kind: str) -> float:
    bits = 0
    for start in range(0, len(row), sums.terms):
        part = slice(start, start + sums.terms)
        bits = fused(row[part], column[part], bits, (kind, kind, "f32"), sums.fraction, sums.kept)
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def drawn(kind: str, low: float, k: int = K) -> tuple[Any, Any]:
    """A of 2 rows and B of 3 columns, of numbers between ``low`` and 1."""
    generator = np.random.default_rng(7)
    return tuple(generator.uniform(low, 1, shape).astype(FORMATS[kind]) for shape in ((2, k), (k, 3)))  # type: ignore[return-value]


@pytest.mark.parametrize("low", [0.0, -1.0])
@pytest.mark.parametrize(("kind", "sums"), [("f16", AMPERE), ("e5m2", ADA_FP8)])
def test_sums_have_the_bits_of_the_model(kind: str, sums: TensorSum, low: float) -> None:
    """Also where K is not a multiple of a block; subnormals of the operands are small products."""
    a, b = drawn(kind, low, 200 if low else 203)
    a[0, 3] = FORMATS[kind].type(2**-15)
    found = tensor_sums.in_order(a.astype(np.float64), b.astype(np.float64), sums)
    np.testing.assert_array_equal(found, on_tensor_cores(a, b, sums, kind))


@pytest.mark.parametrize("reference", ["a @ b", "np.einsum('mk,kn->mn', a, b)"])
@pytest.mark.parametrize("low", [0.0, 0.9])
def test_a_long_sum_of_one_sign_passes_and_one_without_a_block_fails(
    bench: Bench, low: float, reference: str
) -> None:
    """The truncations add up to more than sums that are rounded to nearest may be off by."""
    a, b = drawn("f16", low)
    spec = bench.spec(
        f"def ref(a, b):\n    return {reference}\n", {"a": "float16", "b": "float16"}, {"y": "float32"}
    )
    arrays = bench.arrays(spec, {"a": a, "b": b}, {"y": (2, 3)})

    def status(product: Any, *sums: TensorSum) -> Status:
        return judge(
            spec, arrays, bench.outcome(arrays, {"y": product}, facts=LaunchFacts(None, None, frozenset(sums)))
        ).status

    assert status(on_tensor_cores(a, b, AMPERE, "f16"), AMPERE) is Status.PASSED
    assert status(on_tensor_cores(a[:, 16:], b[16:], AMPERE, "f16"), AMPERE) is Status.FAILED
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert status(exact * (1 - 1e-3), AMPERE) is Status.FAILED


def test_sums_that_nothing_truncates_have_the_floor_of_float32(bench: Bench) -> None:
    """What tensor cores lose is an error of a kernel that does not use them."""
    a, b = drawn("f16", 0.9)
    spec = bench.spec("def ref(a, b):\n    return a @ b\n", {"a": "float16", "b": "float16"}, {"y": "float32"})
    arrays = bench.arrays(spec, {"a": a, "b": b}, {"y": (2, 3)})
    outcome = bench.outcome(arrays, {"y": on_tensor_cores(a, b, AMPERE, "f16")})
    assert judge(spec, arrays, outcome).status is Status.FAILED


@pytest.mark.parametrize("low", [0.0, 0.9])
def test_the_expected_loss_of_large_products_is_that_of_the_sum_in_order(low: float) -> None:
    """Products that are too large to be added term by term in the oracle are moved as far as they would be."""
    a, b = (side.astype(np.float64) for side in drawn("f16", low))
    lost = a @ b - tensor_sums.in_order(a, b, AMPERE)
    partial = np.cumsum(np.stack([a[:, k : k + 64] @ b[k : k + 64] for k in range(0, K, 64)]), axis=0)
    expected = sum(tensor_sums.expected_loss(part, 64, 64.0, AMPERE) for part in partial)
    np.testing.assert_allclose(expected, lost, rtol=0.35)


@pytest.mark.parametrize(("low", "least", "most"), [(-1.0, 1, 5), (0.0, 25, 40)])
def test_terms_of_one_sign_widen_the_floor_of_einsum_most(low: float, least: float, most: float) -> None:
    """Of mixed signs, what one term loses another one gives back; only the results are all truncated."""
    a, b = (side.astype(np.float64) for side in drawn("f16", low))
    plain, truncating = (
        np.asarray(np.einsum("mk,kn->mn", under(Arithmetic(DTYPES["float32"], "random", 3, sums=sums), a), b))
        for sums in (None, AMPERE)
    )
    wider = np.abs(truncating - a @ b) / np.abs(plain - a @ b)
    assert wider.min() > least
    assert wider.max() < most
