"""NumPy arrays as the tensors that Triton, and its interpreter, expect."""

from __future__ import annotations

from typing import Any


class HostTensor:
    """A NumPy array with what Triton, and its interpreter, ask of a tensor."""

    def __init__(self, array: Any) -> None:
        self.array, self.dtype, self.shape = array, array.dtype, array.shape
        self._address = int(array.ctypes.data)

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self._address

    def stride(self) -> tuple[int, ...]:
        """In elements."""
        return tuple(step // self.array.itemsize for step in self.array.strides)

    def size(self) -> tuple[int, ...]:
        """The shape."""
        return self.array.shape

    def numel(self) -> int:
        """The number of elements."""
        return int(self.array.size)

    def storage_offset(self) -> int:
        """Each tensor has its own memory."""
        return 0

    def untyped_storage(self) -> HostTensor:
        """The interpreter copies storages to the host and back: this one is there."""
        return self

    def nbytes(self) -> int:
        """From the first element to the end of the last."""
        steps = (step * (size - 1) for step, size in zip(self.array.strides, self.array.shape, strict=True))
        return int(self.array.itemsize + sum(steps)) if self.array.size else 0

    def cpu(self) -> HostTensor:
        """Itself."""
        return self

    def new_empty(self, *_: Any, **__: Any) -> HostTensor:
        """Something to call :meth:`set_` of."""
        return self

    def set_(self, storage: HostTensor, *_: Any) -> HostTensor:
        """The tensor of a storage."""
        return HostTensor(self.array)

    def copy_(self, other: HostTensor) -> None:
        """Nothing: it is the same memory."""
