"""Device memory that a program shares with its device process: the same bytes at the same address in both."""

from __future__ import annotations

import ctypes
import mmap
import os

from kcheck.errors import DeviceUnavailable

ADDRESS = 0x2000_0000_0000
"""Where it begins: far from the heap, the stacks and the libraries of any process, below 2**47."""
SCRATCH = 256 << 10
"""Bytes in which one thread of the program passes what arguments point to."""
THREADS = 256

_MADV_REMOVE = 9
_MAP_FIXED, _MAP_NORESERVE, _MAP_FIXED_NOREPLACE = 0x10, 0x4000, 0x100000
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_uint64
_libc.mmap.argtypes = [ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64]
_libc.munmap.argtypes = [ctypes.c_uint64, ctypes.c_uint64]
_FAILED = 2**64 - 1


class SharedPages:
    """A file in memory, mapped at :data:`ADDRESS`: the scratch areas, then ``size`` bytes of device memory.

    Raises:
        OSError: there is no such address space.
    """

    def __init__(self, size: int) -> None:
        self.scratch = ADDRESS
        self.size = THREADS * SCRATCH + size
        self.file = os.memfd_create("kcheck-device")
        os.ftruncate(self.file, self.size)
        map_shared(self.file, ADDRESS, self.size, 0)
        self._arena = _arena_type(size).from_address(ADDRESS + THREADS * SCRATCH)

    @property
    def arena(self) -> ctypes.Array[ctypes.c_char]:
        """The device memory, as :class:`kcheck.cpu.memory.Memory` takes it."""
        return self._arena


def replaced_pages(address: int, size: int) -> ctypes.Array[ctypes.c_char]:
    """Pages in the place of others, as :meth:`kcheck.cpu.memory.Memory.share` takes them.

    Raises:
        OSError: there is no such memory.
    """
    file = os.memfd_create("kcheck-shared")
    try:
        os.ftruncate(file, size)
        flags = mmap.MAP_SHARED | _MAP_FIXED | _MAP_NORESERVE
        placed = _libc.mmap(address, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, file, 0)
    finally:
        os.close(file)
    if placed != address:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return _arena_type(size).from_address(address)


def map_shared(file: int, address: int, size: int, offset: int) -> None:
    """Map pages of a file at an address that nothing else uses.

    Raises:
        OSError: something else uses it.
    """
    flags = mmap.MAP_SHARED | _MAP_FIXED_NOREPLACE | _MAP_NORESERVE
    placed = _libc.mmap(address, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, file, offset)
    if placed != address:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def unmap(address: int, size: int) -> None:
    """Undo :func:`map_shared`."""
    _libc.munmap(address, size)


def _arena_type(size: int) -> type[ctypes.Array[ctypes.c_char]]:
    class Arena(ctypes.Array):  # type: ignore[type-arg]
        """Pages of a shared file. Pages that are not needed return to the system, and are zero afterwards."""

        _type_ = ctypes.c_char
        _length_ = size

        def madvise(self, option: int, start: int = 0, length: int | None = None) -> None:
            begin = ctypes.addressof(self) + start
            chosen = _MADV_REMOVE if option == mmap.MADV_DONTNEED else option
            _libc.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(size if length is None else length), chosen)

    return Arena


def shared_pages(size: int) -> SharedPages:
    """Pages for ``size`` bytes.

    Raises:
        DeviceUnavailable: there is no such address space.
    """
    try:
        return SharedPages(size)
    except OSError as fault:
        raise DeviceUnavailable(
            f"the device process cannot reserve {size >> 20} MiB at {ADDRESS:#x} ({fault.strerror}); "
            "raise ulimit -v, or set KCHECK_DEVICE_MEMORY"
        ) from fault
