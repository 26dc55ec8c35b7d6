"""Sums of products as a tensor core computes them: truncated, so that errors of one sign do not cancel.

docs/tensor-cores.md has the rule and its sources. :func:`in_order` follows it term by term; :func:`expected_loss`
estimates the error without doing so.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kcheck.model import TensorSum
from kcheck.oracle.rounding import Floats

Array: TypeAlias = npt.NDArray[Any]

_LEAST_EXPONENT = -126
_ZERO_FACTOR = -1000
"""The exponent of a factor that is zero: its products are never the largest."""


def in_order(a: Floats, b: Floats, sums: TensorSum, *, backwards: bool = False) -> Floats:
    """``a @ b``, one block of terms after another.

    Args:
        a, b: real, at least two axes each; their products must be exact in float64.
        backwards: start with the last block.
    """
    length = a.shape[-1]
    exponents_a, exponents_b = (np.where(x == 0, _ZERO_FACTOR, _exponents(x)) for x in (a, b))
    total: Floats = np.zeros((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]))
    starts = range(0, length, sums.terms)
    for start in reversed(starts) if backwards else starts:
        part = slice(start, start + sums.terms)
        products = a[..., :, part, None] * b[..., None, part, :]
        aligned = (exponents_a[..., :, part, None] + exponents_b[..., None, part, :]).max(axis=-2)
        quantum = np.ldexp(1.0, np.maximum(aligned, _exponents(total)) - sums.fraction)
        products /= quantum[..., None, :]
        np.trunc(products, out=products)
        total = _truncated((np.trunc(total / quantum) + products.sum(axis=-2)) * quantum, sums.kept)
    return total


def expected_loss(partial: Floats, count: Any, net: Floats, sums: TensorSum) -> Floats:
    """How much truncation is expected to take from a part of a sum, as an absolute number.

    A product loses half a unit of the last bit to which it is aligned, on average; a product whose sign differs
    from the accumulator's gives that back. Each result loses the bits between that bit and its own last one.

    Args:
        partial: the magnitude of the accumulator in this part.
        count: how many products the part has.
        net: the magnitude of the number of products of one sign minus those of the other.
    """
    unit = np.ldexp(1.0, _exponents(partial))
    of_products = net * 2.0 ** -(sums.fraction + 1)
    of_results = count / sums.terms * (2.0 ** -(sums.kept + 1) - 2.0 ** -(sums.fraction + 1))
    lost: Floats = np.where(partial == 0, 0.0, unit * (of_products + of_results))
    return lost


def _exponents(values: Floats) -> npt.NDArray[np.int32]:
    """The exponents of the leading bits; -126 for zeros and for subnormals of float32."""
    _, above = np.frexp(values)
    return np.where(values == 0, _LEAST_EXPONENT, np.maximum(above - 1, _LEAST_EXPONENT))


def _truncated(values: Floats, kept: int) -> Floats:
    quantum = np.ldexp(1.0, _exponents(values) - kept)
    cut: Floats = np.trunc(values / quantum) * quantum
    return cut
