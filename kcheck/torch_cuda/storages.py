"""Marks the storages of tensors that a program treats as device memory.

The mark is an attribute of the storage and lives as long as the storage does, because PyTorch keeps the Python
object of a storage for its whole life. So a view is on the same device as its base, and a parameter whose data is
replaced is on the device of the new data.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kcheck.driver.host_ranges import HostRanges

_MARK = "_kcheck_device_memory"


class _Held:
    """Access to the memory of one storage, until the storage is freed."""

    def __init__(self, ranges: HostRanges, address: int, size: int) -> None:
        self.place = (address, size)
        self._release = ranges.release
        self._ticket = ranges.hold(address, size) if size else 0

    def __del__(self) -> None:
        self._release(self._ticket)


class Storages:
    """The storages of one device.

    Args:
        ranges: the host memory that its kernels may access.
    """

    def __init__(self, ranges: HostRanges) -> None:
        self._ranges = ranges

    def is_on_device(self, tensor: Any) -> bool:
        """Whether the storage of a tensor is marked as device memory."""
        storage = storage_of(tensor)
        return storage is not None and hasattr(storage, _MARK)

    def place(self, tensor: Any) -> None:
        """Mark the memory of a tensor as device memory; if it has moved since, update the accessible range."""
        storage = storage_of(tensor)
        if storage is None:
            return
        place = (storage.data_ptr(), storage.nbytes())
        held = getattr(storage, _MARK, None)
        if held is None or held.place != place:
            setattr(storage, _MARK, None)  # release the old range first: the new one may overlap it
            setattr(storage, _MARK, _Held(self._ranges, *place))


def storage_of(tensor: Any) -> Any:
    """The storage of a tensor; None for a tensor without one (sparse, meta)."""
    try:
        storage = tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return None
    return None if storage.device.type == "meta" else storage


def tensors_in(torch: Any, value: Any, depth: int = 4) -> Iterator[Any]:
    """The tensors in a value, also in nested tuples, lists and dicts."""
    if isinstance(value, torch.Tensor):
        yield value
    elif depth and isinstance(value, (tuple, list)):
        for part in value:
            yield from tensors_in(torch, part, depth - 1)
    elif depth and isinstance(value, dict):
        for part in value.values():
            yield from tensors_in(torch, part, depth - 1)
