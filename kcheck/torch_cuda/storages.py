"""The storages of tensors that a program takes for device memory. They are marked here.

A storage is marked by an attribute, which lives as long as the storage does: PyTorch keeps the Python object of a
storage for its whole life. So views of a tensor, and parameters whose data is exchanged, are where their memory
is.
"""

from __future__ import annotations

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
        ranges: host memory that its kernels may access.
    """

    def __init__(self, ranges: HostRanges) -> None:
        self._ranges = ranges

    def is_on_device(self, tensor: Any) -> bool:
        """Whether a tensor says that it is on the device."""
        storage = storage_of(tensor)
        return storage is not None and hasattr(storage, _MARK)

    def place(self, tensor: Any) -> None:
        """Make the memory of a tensor device memory, or follow it where it was moved."""
        storage = storage_of(tensor)
        if storage is None:
            return
        place = (storage.data_ptr(), storage.nbytes())
        held = getattr(storage, _MARK, None)
        if held is None or held.place != place:
            setattr(storage, _MARK, None)  # release first: the memory may be part of what it was
            setattr(storage, _MARK, _Held(self._ranges, *place))


def storage_of(tensor: Any) -> Any:
    """The storage of a tensor; None for a tensor without one (sparse, meta)."""
    try:
        storage = tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return None
    return None if storage.device.type == "meta" else storage
