"""Thrust's sorts for CuPy under ``kcheck exec``: its wheel has them as machine code, so NumPy sorts on the host.

Each function replaces the one of ``cupy.cuda.thrust`` with its name and parameters.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

_TO_DEVICE, _TO_HOST = 1, 2  # cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost


def sort(dtype: npt.DTypeLike, data_start: int, keys_start: int, shape: Sequence[int]) -> None:
    """Sort an array along its last axis, in place."""
    write(data_start, np.sort(_read(data_start, dtype, shape), axis=-1, kind="stable"))


def argsort(dtype: npt.DTypeLike, idx_start: int, data_start: int, keys_start: int, shape: Sequence[int]) -> None:
    """The order of an array along its last axis, in int64. The array is sorted, too."""
    data = _read(data_start, dtype, shape)
    order = np.argsort(data, axis=-1, kind="stable")
    write(idx_start, order.astype(np.int64))
    write(data_start, np.take_along_axis(data, order, axis=-1))


def lexsort(dtype: npt.DTypeLike, idx_start: int, keys_start: int, k: int, n: int) -> None:
    """The order of n elements by k keys, of which the last one decides first, in int64."""
    write(idx_start, np.lexsort(tuple(_read(keys_start, dtype, (k, n)))).astype(np.int64))


def write(address: int, values: Array) -> None:
    """Copy an array to the device."""
    if values.size:
        values = np.ascontiguousarray(values)
        _runtime().memcpy(address, values.ctypes.data, values.nbytes, _TO_DEVICE)


def _read(address: int, dtype: npt.DTypeLike, shape: Sequence[int]) -> Array:
    found = np.empty(tuple(shape), dtype)
    if math.prod(shape):
        _runtime().memcpy(found.ctypes.data, address, found.nbytes, _TO_HOST)
    return found


def _runtime() -> Any:
    return importlib.import_module("cupy_backends.cuda.api.runtime")
