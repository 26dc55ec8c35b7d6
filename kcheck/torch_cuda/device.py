"""The cuda device in the C++ part of PyTorch: tensors whose device is ``cuda``, in host memory.

``native/`` registers an allocator, a device guard, and for every operator of PyTorch an implementation for CUDA
that runs the one for the CPU on the same memory. It is loaded before PyTorch, which asks only once whether there
is a GPU.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from pathlib import Path

from kcheck.driver.host_ranges import HostRanges
from kcheck.errors import DeviceUnavailable
from kcheck.torch_cuda.build import NativeLibrary, built, installed_torch

LIBRARY = NativeLibrary("libkcheck_torch.so", ("tensors.cpp", "fallback.cpp", "device.cpp", "generator.cpp"))
_MANY = 4096


class _Change(ctypes.Structure):
    """A range of host memory that kernels may access from now on; with size 0, no longer."""

    _fields_ = (("ticket", ctypes.c_int64), ("address", ctypes.c_uint64), ("size", ctypes.c_size_t))


class TorchDevice:
    """The loaded library."""

    def __init__(self, cache: Path, environment: Mapping[str, str]) -> None:
        """Load the library, compiled if necessary. PyTorch must not be imported yet.

        Raises:
            DeviceUnavailable: it does not compile or load.
        """
        path = built(LIBRARY, installed_torch(), cache, environment)
        try:
            self._library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        except OSError as fault:
            raise DeviceUnavailable(f"kcheck's device for PyTorch does not load ({fault})") from fault
        self._taken = (_Change * _MANY)()

    def install(self, ranges: HostRanges) -> None:
        """Register the device with PyTorch, which has been imported.

        Args:
            ranges: the host memory that kernels may access; all tensors on ``cuda`` are in it.

        Raises:
            DeviceUnavailable: this PyTorch does not accept the device.
        """
        start = self._library.kcheck_torch_install
        start.restype = ctypes.c_char_p
        fault = start()
        if fault:
            raise DeviceUnavailable(f"PyTorch does not accept kcheck's device: {fault.decode()}")
        pending = ctypes.c_uint32.in_dll(self._library, "kcheck_torch_pending")
        ranges.follow(lambda: bool(pending.value), self._changes)

    def _changes(self) -> Iterator[tuple[int, int, int]]:
        """Ticket, address and size of each change since the last call."""
        take = self._library.kcheck_torch_take
        take.restype = ctypes.c_size_t
        while count := take(self._taken, ctypes.c_size_t(_MANY)):
            for change in self._taken[:count]:
                yield change.ticket, change.address, change.size
