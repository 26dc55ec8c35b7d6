"""Arrays as a kernel sees them: bounds are checked, and values have the types that Numba infers.

Source of the typing rules: Numba's type inference. Arithmetic extends integers narrower than 64 bits to 64 bits;
NumPy would keep ``uint8`` and wrap. An index in ``[-n, n)`` is valid: numba-cuda wraps a negative index as Python
does (``fix_integer_index`` adds the length), so it reads the last elements on a GPU, too.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

POISON = 0xFF
"""The byte that fills uninitialized memory: NaN in every float type, -1 in signed integers."""


MOST_SHARED = 48 * 1024
MOST_LOCAL = 512 * 1024
"""Bytes of static shared memory of a block and of local memory of a thread. Source: CUDA C++ Programming Guide,
"Technical Specifications per Compute Capability"; ptxas rejects more."""
MOST_DEVICE = 4 << 30
"""The most bytes of one allocation by a launcher: device memory is host memory here."""


class TooMuchMemory(Exception):
    """An array that is too large for any device, or for this one."""


class OutOfBounds(IndexError):
    """An access outside an array.

    Attributes:
        array: its name, or a description.
        index: None for an access through a view.
    """

    def __init__(self, array: str, index: tuple[int, ...] | None, shape: tuple[int, ...], verb: str) -> None:
        self.array = array
        self.index = index
        self.shape = shape
        self.verb = verb
        super().__init__(f"{verb} {array}{'' if index is None else list(index)}, whose shape is {list(shape)}")


class KernelArray:
    """An array inside a kernel.

    Args:
        array: the memory.
        name: its name in findings.
        tick: is called at each access.
        whole: False for a view of the named array, whose indices differ.
    """

    __slots__ = ("_array", "_convert", "_name", "_tick", "_whole")

    def __init__(
        self, array: np.ndarray[Any, Any], name: str, tick: Callable[[], None], whole: bool = True
    ) -> None:
        self._array = array
        self._name = name
        self._tick = tick
        self._whole = whole
        self._convert = _as_numba_types.get(array.dtype)

    def __getitem__(self, index: Any) -> Any:
        self._tick()
        try:
            value = self._array[index]
        except IndexError as error:
            raise self.fault(index, error, "reads") from None
        if type(value) is np.ndarray:
            return KernelArray(value, self._name, self._tick, whole=False)
        return value if self._convert is None else self._convert(value)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._tick()
        if type(value) is KernelArray:
            value = value._array
        try:
            self._array[index] = value
        except IndexError as error:
            raise self.fault(index, error, "writes") from None
        except OverflowError:  # a store keeps the low bits; NumPy rejects a Python integer that does not fit
            bits = 8 * self._array.dtype.itemsize
            self._array[index] = np.array(operator.index(value) % 2**bits, f"u{bits // 8}").astype(
                self._array.dtype
            )

    def __len__(self) -> int:
        return len(self._array)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self._array)))

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._array, name)
        if type(value) is np.ndarray:
            return KernelArray(value, self._name, self._tick, whole=False)
        if callable(value):
            return self._method(value)
        return value

    def _method(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **keywords: Any) -> Any:
            value = method(*args, **keywords)
            return KernelArray(value, self._name, self._tick, whole=False) if type(value) is np.ndarray else value

        return call

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return self._array if dtype is None else self._array.astype(dtype)

    def fault(self, index: Any, error: IndexError, verb: str) -> IndexError:
        """The exception for an index that NumPy rejects."""
        parts = index if isinstance(index, tuple) else (index,)
        if "out of bounds" not in str(error) or not all(isinstance(part, int | np.integer) for part in parts):
            return error
        numbers = tuple(int(part) for part in parts)
        return OutOfBounds(self._name, numbers if self._whole else None, self._array.shape, verb)


def raw(array: Any) -> Any:
    """The memory of a KernelArray; anything else unchanged."""
    return array._array if type(array) is KernelArray else array


_as_numba_types: dict[np.dtype[Any], Callable[[Any], Any]] = {
    np.dtype(np.bool_): bool,
    **{np.dtype(f"i{size}"): np.int64 for size in (1, 2, 4)},
    **{np.dtype(f"u{size}"): np.uint64 for size in (1, 2, 4)},
}


def refuse_too_large(what: str, size: int, most: int) -> None:
    """Raise if an array is too large, before it is allocated.

    Args:
        what: the array, for the message.
        size, most: bytes requested and available.

    Raises:
        TooMuchMemory: ``size`` is larger than ``most``.
    """
    if size > most:
        raise TooMuchMemory(f"{what} takes {size:,} bytes; {most:,} are available")


def size_of(shape: Any, dtype: np.dtype[Any]) -> int:
    """The size of an array in bytes; ``shape`` is anything that NumPy accepts."""
    extents = shape if isinstance(shape, tuple | list) else (shape,)
    return math.prod(int(n) for n in extents) * dtype.itemsize


def poisoned(shape: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """An uninitialized array, with the same content in every run."""
    array = np.empty(shape, dtype)
    array.reshape(-1).view(np.uint8)[...] = 1 if dtype.kind == "b" else POISON
    return array


class Shared:
    """The shared memory of one block.

    ``cuda.shared.array`` returns the same memory to every thread of a block for the same call in the source; all
    calls with shape 0 return the dynamic shared memory.

    Args:
        dynamic: bytes of dynamic shared memory.
    """

    def __init__(self, dynamic: int) -> None:
        self._dynamic = poisoned(dynamic, np.dtype(np.uint8))
        self._static: dict[tuple[Any, int], np.ndarray[Any, Any]] = {}

    def array(self, shape: Any, dtype: np.dtype[Any], depth: int) -> np.ndarray[Any, Any]:
        """The array of the call ``depth`` frames up."""
        if shape in (0, (0,)):
            count = len(self._dynamic) // dtype.itemsize
            return self._dynamic[: count * dtype.itemsize].view(dtype)
        frame = sys._getframe(depth + 1)
        site = (frame.f_code, frame.f_lasti)
        found = self._static.get(site)
        if found is None:
            size = size_of(shape, dtype) + sum(array.nbytes for array in self._static.values())
            refuse_too_large("the static shared memory of a block", size, MOST_SHARED)
            found = self._static[site] = poisoned(shape, dtype)
        return found
