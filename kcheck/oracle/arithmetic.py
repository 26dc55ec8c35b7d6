"""The roundings of a narrower precision, simulated in float64 (complex128).

An :class:`Arithmetic` defines the rounding after an operation; :mod:`kcheck.oracle.rounded` has the array type
that evaluates a reference with it. Its modes:

* ``nearest`` and ``backwards``: each result is rounded to the compute precision, and sums run in order, from
  either end, one rounding per term: the two most naive correct kernels.
* ``random``: each result that the precision cannot hold moves by about one unit roundoff up or down, at random
  (Monte Carlo arithmetic: Parker, "Monte Carlo Arithmetic: exploiting randomness in floating-point arithmetic",
  1997); a sum of n terms moves by u * sqrt(sum of its squared partial sums), the total of n independent
  roundings.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from kcheck.alignment import ceil_div
from kcheck.model import DType, TensorSum
from kcheck.oracle import tensor_sums
from kcheck.oracle.blocks import by_block, by_rows
from kcheck.oracle.rounding import Floats, half_step, round_to, truncate_to

Array: TypeAlias = npt.NDArray[Any]
Bytes: TypeAlias = npt.NDArray[np.int8]

_CHECKPOINTS = 16
_IN_ORDER_LIMIT = 2**25
"""Up to this many multiply-adds, a matrix product is rounded term by term; beyond that, only the random mode
models the rounding of its terms."""


class Arithmetic:
    """The rounding after each operation.

    Args:
        precision: a real dtype, the compute precision.
        mode: ``nearest``, ``backwards`` or ``random``.
        seed: for the random moves.
        products: the format of the operands of matrix products, if it is narrower: truncated in ``nearest`` mode,
            as tensor cores do, rounded to nearest in ``backwards`` mode.
        sums: how tensor cores add up the products of matrices, if they do; else each sum is rounded to nearest.
        flushes: numbers below the normal range become 0 in ``nearest`` mode.

    Attributes:
        uses: how often the array type that carries it was operated on, copied or returned: 0 means that a
            reference left the type at once.
        unseen: the operations of other array libraries whose roundings are only known as a whole.
    """

    def __init__(
        self,
        precision: DType,
        mode: Literal["nearest", "backwards", "random"],
        seed: int = 0,
        products: DType | None = None,
        sums: TensorSum | None = None,
        flushes: bool = False,
    ) -> None:
        self._least = precision.smallest_normal if flushes and mode == "nearest" else 0.0
        self.precision = precision
        self._products = products
        self._sums = sums
        self.mode = mode
        self.uses = 0
        self.unseen: set[str] = set()
        self._bits = np.random.PCG64(seed)
        # In float64 a move of half a unit roundoff would be rounded away again, and the reference errs as well.
        self._step = 2.0 if precision.precision == 53 else 1.0
        # float64 cannot show whether a float64 result is exact; a value that fits in float32 most likely is.
        self._exact_below = 24 if precision.precision == 53 else precision.precision

    def given(self, array: Array) -> Array:
        """An input as the kernel gets it: rounded to the precision, or in ``random`` mode each value moved by one
        unit roundoff, unless that would leave the range."""
        if self.mode != "random":
            return self._nearest(array)
        with np.errstate(all="ignore"):
            return by_block(self._given, array, self._bytes(array.shape))

    def _given(self, array: Array, signs: Bytes) -> Array:
        moved = array + self._unit(array) * _steps(signs)
        return np.where(np.abs(moved) <= self.precision.max, moved, array)

    def _bytes(self, shape: tuple[int, ...]) -> Bytes:
        """Random bytes, for :func:`_steps`."""
        count = int(np.prod(shape, dtype=np.int64))
        words = np.atleast_1d(self._bits.random_raw(ceil_div(count, 8) or 1)).astype("<u8", copy=False)
        return words.view(np.int8)[:count].reshape(shape)

    def _signs(self, shape: tuple[int, ...]) -> Floats:
        return _steps(self._bytes(shape))

    def _unit(self, array: Array) -> Floats:
        """One unit roundoff of each value, in absolute terms; below the normal range, half a subnormal step."""
        magnitude = np.abs(array)
        return np.where(magnitude == 0, 0.0, self._step * half_step(magnitude, self.precision))

    def _nearest(self, array: Array) -> Array:
        return by_block(self._block_nearest, array)

    def _block_nearest(self, array: Array) -> Array:
        if np.iscomplexobj(array):
            parts: Array = np.empty(array.shape, np.complex128)
            parts.real = self._rounded(np.ascontiguousarray(array.real))
            parts.imag = self._rounded(np.ascontiguousarray(array.imag))
            return parts
        return self._rounded(array)

    def _rounded(self, array: Floats) -> Floats:
        near = round_to(array, self.precision)
        return np.where(np.abs(near) < self._least, 0.0, near) if self._least else near

    def after(
        self, array: Array, roundings: float = 1.0, noise: Floats | None = None, checked: bool = True
    ) -> Array:
        """The rounded result of an operation whose exact result is ``array``.

        Args:
            roundings: the largest error of the operation, in unit roundoffs.
            noise: for sums, the root of the summed squares of the rounded values; replaces the magnitude of the
                result.
            checked: leave results that the precision holds exactly unchanged. Not for library functions: erf(9)
                is 1 in float64 too, but a correct result in float32 may be one ulp below.
        """
        if self.mode != "random":
            return self._nearest(array)
        signs = self._bytes(array.shape), self._bytes(array.shape) if np.iscomplexobj(array) else None
        return by_block(partial(self._moved, roundings=roundings, checked=checked), array, noise, *signs)

    def _moved(
        self,
        array: Array,
        noise: Floats | None,
        real: Bytes,
        imaginary: Bytes | None,
        *,
        roundings: float,
        checked: bool,
    ) -> Array:
        """The elements of :meth:`after` in ``random`` mode. ``real``, ``imaginary``: bytes for :func:`_steps`."""
        nearest = self._block_nearest(array)
        if noise is None:
            if not checked:
                exact = array == 0
            elif self.precision.precision == 53:
                exact = array == array.astype(np.complex64 if np.iscomplexobj(array) else np.float32)
            else:
                exact = array == nearest
            step = np.where(exact, 0.0, roundings * self._unit(array))
        else:
            step = self._step * self.precision.unit_roundoff * noise
        moved: Array = array + step * _steps(real)
        if imaginary is not None:
            moved = moved + 1j * step * _steps(imaginary)
        return np.where(np.isfinite(nearest) | ~np.isfinite(array), moved, nearest)

    # --- sums

    def total(self, array: Array) -> Array:
        """The sum over the last axis."""
        if array.shape[-1] <= 1:
            return np.asarray(array.sum(axis=-1))
        exact = np.asarray(array.sum(axis=-1))
        if self.mode != "random":
            return self._in_order(array)
        integral, path, squares, alike = by_rows(self._row_facts, array)
        squares = np.maximum(path, self.expected_path(exact, array.shape[-1], squares))
        squares = np.maximum(squares, np.where(alike, self._coherent(exact, array.shape[-1]), 0.0))
        return self.after(exact, noise=np.where(integral, 0.0, np.sqrt(squares)))

    def _row_facts(self, array: Array) -> tuple[Array, ...]:
        """For the terms of each sum: whether every partial sum is a whole number that the precision holds, the sum
        of the squared partial sums, that of the squared terms, and whether all terms are alike."""
        if not np.iscomplexobj(array):
            magnitude = np.abs(array).sum(axis=-1)
            integral = np.all(np.rint(array) == array, axis=-1) & (magnitude < 2.0**self._exact_below)
        else:
            integral = np.zeros(array.shape[:-1], np.bool_)
        sums = np.abs(np.cumsum(array, axis=-1)[..., 1:]) ** 2
        return np.asarray(integral), sums.sum(axis=-1), _square_sum(array), self._alike(array, -1)

    def running(self, array: Array) -> Array:
        """The running sum over the last axis."""
        if self.mode != "random":
            return self._running_in_order(array)
        sums = np.cumsum(array, axis=-1)
        steps = self.precision.unit_roundoff * np.abs(sums) * self._signs(sums.shape)
        steps[..., :1] = 0.0
        return np.asarray(sums + np.cumsum(steps, axis=-1))

    @staticmethod
    def expected_path(total: Array, count: Any, squares: Floats) -> Floats:
        """The expected sum of the squared partial sums of ``count`` terms in random order."""
        return np.asarray(count / 3.0 * np.abs(total) ** 2 + count / 6.0 * squares)

    def _alike(self, array: Array, axis: int) -> npt.NDArray[np.bool_]:
        """Whether the terms along an axis are all equal, except for the moves of :meth:`given`."""
        gap = np.abs(array - np.take(array, [0], axis=axis)).max(axis=axis)
        return np.asarray(gap <= 8 * self.precision.unit_roundoff * np.abs(array).max(axis=axis))

    @staticmethod
    def _coherent(total: Array, count: int) -> Floats:
        """The squared error if all terms are equal. Then every step rounds the same way, so the roundings add up
        linearly: half a unit roundoff of each partial sum, and partial sums grow linearly."""
        return np.asarray((count / 4.0 * np.abs(total)) ** 2)

    def _running_in_order(self, array: Array) -> Array:
        if self.precision.precision == 53:
            return np.cumsum(array, axis=-1)
        if self.precision.precision == 24:
            narrow = np.complex64 if np.iscomplexobj(array) else np.float32
            return np.cumsum(array.astype(narrow), axis=-1, dtype=narrow).astype(array.dtype)
        sums = np.array(array)
        for k in range(1, array.shape[-1]):
            sums[..., k] = self._nearest(sums[..., k - 1] + array[..., k])
        return sums

    def _in_order(self, array: Array) -> Array:
        return by_rows(self._rows_in_order, array)[0]

    def _rows_in_order(self, array: Array) -> tuple[Array]:
        ordered = array[..., ::-1] if self.mode == "backwards" else array
        total = np.asarray(self._running_in_order(ordered)[..., -1])
        return (self._safe(total, np.abs(array).sum(axis=-1)),)

    def _safe(self, total: Array, magnitude: Floats) -> Array:
        """The total, but infinite where the sum of magnitudes overflows: some order of summation may."""
        return np.where((magnitude >= self.precision.max) & np.isfinite(total), np.inf, total)

    def contraction(self, function: Callable[..., Array], *operands: Array) -> Array:
        """The result of ``function``, which is linear in each operand: sums of products of their elements."""
        operands = tuple(map(self._operand, operands))
        exact = np.asarray(function(*operands))
        if self.mode != "random":
            return self._safe(self.after(exact), np.abs(np.asarray(function(*map(np.abs, operands)))))
        squares = np.abs(np.asarray(function(*(np.abs(operand) ** 2 for operand in operands))))
        counts = np.asarray(function(*(np.ones(operand.shape) for operand in operands))).real
        path = np.where(counts > 1, self.expected_path(exact, counts, squares), 0)
        noise = np.sqrt(path + squares)
        sums = self._truncating(*operands)
        if sums is not None:
            net = np.abs(np.asarray(function(*map(np.sign, operands))))
            typical = np.sqrt(path / np.maximum(counts, 1))
            noise = np.maximum(noise, self._in_steps(tensor_sums.expected_loss(typical, counts, net, sums)))
        return self.after(exact, noise=noise)

    def _truncating(self, *operands: Array) -> TensorSum | None:
        """How tensor cores add up products of these, if they do. They do not support complex numbers."""
        return None if any(np.iscomplexobj(operand) for operand in operands) else self._sums

    def _in_steps(self, error: Floats) -> Floats:
        """An absolute error as the ``noise`` of :meth:`after`."""
        return error / (self._step * self.precision.unit_roundoff)

    def _operand(self, array: Array) -> Array:
        if self._products is None or array.dtype != np.float64:
            return array
        if self.mode == "nearest":
            return truncate_to(array, self._products)
        if self.mode == "backwards":
            return round_to(array, self._products)
        return array + half_step(np.abs(array), self._products) * self._signs(array.shape)

    def product(self, a: Array, b: Array) -> Array:
        """``np.matmul`` of arrays with at least two axes each."""
        a, b = self._operand(a), self._operand(b)
        exact = np.asarray(np.matmul(a, b))
        length = a.shape[-1]
        if length == 0:
            return exact
        in_order = exact.size * length <= _IN_ORDER_LIMIT
        sums = self._truncating(a, b)
        if self.mode != "random" and in_order and sums is not None:
            total = tensor_sums.in_order(a, b, sums, backwards=self.mode == "backwards")
            return self._safe(self._nearest(total), np.matmul(np.abs(a), np.abs(b)))
        if self.mode != "random" and in_order:
            total = np.zeros_like(exact)
            for k in range(length)[:: -1 if self.mode == "backwards" else 1]:
                total = self._nearest(total + self._nearest(a[..., :, k, None] * b[..., None, k, :]))
            return self._safe(total, np.matmul(np.abs(a), np.abs(b)))
        squares = np.matmul(np.abs(a) ** 2, np.abs(b) ** 2)
        summed, path, lost = np.zeros_like(exact), np.zeros(exact.shape), np.zeros(exact.shape)
        for part in np.array_split(np.arange(length), min(length, _CHECKPOINTS)):
            before = np.abs(summed) ** 2
            summed = summed + np.matmul(a[..., :, part], b[..., part, :])
            mean = (before + np.abs(summed) ** 2) / 2
            path += len(part) * mean
            if sums is not None and not in_order:
                net = np.abs(np.matmul(np.sign(a[..., :, part]), np.sign(b[..., part, :])))
                lost += tensor_sums.expected_loss(np.sqrt(mean), len(part), net, sums)
        noise = np.maximum(path, self.expected_path(exact, length, squares)) + squares
        alike = self._alike(a, -1)[..., :, None] & self._alike(b, -2)[..., None, :]
        noise = np.maximum(noise, np.where(alike, self._coherent(exact, length), 0.0))
        return self.after(exact, noise=np.maximum(np.sqrt(noise), self._in_steps(lost)))


def _steps(signs: Bytes) -> Floats:
    """Random numbers of either sign, magnitude 0.5 to 1.5: never so small that a draw moves nothing, and not all
    equal, because then two opposite moves would cancel in every second draw."""
    return _STEPS[signs.view(np.uint8)]


_STEPS: Floats = np.arange(256, dtype=np.uint8).view(np.int8) / 128.0
_STEPS += np.where(_STEPS < 0, -0.5, 0.5)


def _square_sum(array: Array) -> Floats:
    return np.asarray((np.abs(array) ** 2).sum(axis=-1))
