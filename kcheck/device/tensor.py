"""Makes Triton's launches accept Numba's device arrays, by adding the methods of a tensor."""

from __future__ import annotations

import math
from typing import Any


def answer_as_tensor(kind: Any) -> None:
    """Add the methods of a tensor to a class of arrays that have a shape, strides in bytes and a dtype."""

    def data_ptr(self: Any) -> int:
        """The address of the first element."""
        return int(self.device_ctypes_pointer.value or 0)

    def stride(self: Any, axis: int | None = None) -> Any:
        """The strides, or one of them, in elements."""
        strides = tuple(step // self.dtype.itemsize for step in self.strides)
        return strides if axis is None else strides[axis]

    def numel(self: Any) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def element_size(self: Any) -> int:
        """Bytes of an element."""
        return int(self.dtype.itemsize)

    for method in (data_ptr, stride, numel, element_size):
        setattr(kind, method.__name__, method)
