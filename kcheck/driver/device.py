"""Calls about the driver and its device: ``cuInit``, ``cuDriver*``, ``cuDevice*``, ``cuGetError*``.

Attributes by which a program chooses the size of its launches are an A100's (CUDA C Programming Guide, table
"Technical Specifications per Compute Capability"), except shared memory, which depends on the compute capability.
The others are those of a device without graphs or peers.
"""

from __future__ import annotations

import ctypes
import functools

from kcheck.driver.call import DriverCall, Table, put_text, put_u32, put_u64
from kcheck.driver.machine import Machine
from kcheck.driver.result import DriverFault, Result
from kcheck.model.multiprocessor import BY_CAPABILITY, REGISTERS, RESERVED_SHARED, WARP

MULTIPROCESSORS = 108
MAX_THREADS_PER_BLOCK = 1024
MAX_THREADS_PER_MULTIPROCESSOR = 2048
MAX_BLOCKS_PER_MULTIPROCESSOR = 32
MAX_BLOCK = (1024, 1024, 64)
MAX_GRID = (2147483647, 65535, 65535)
SHARED_PER_BLOCK = 48 << 10  # without opting in
UUID = b"kcheck-cpu-00001"
"""Of the device, 16 bytes."""


def shared_per_multiprocessor(cc: tuple[int, int]) -> int:
    """Bytes of shared memory of one multiprocessor; for an unknown architecture, the largest known size."""
    known = BY_CAPABILITY.get(cc)
    return (known.shared if known is not None else max(m.shared for m in BY_CAPABILITY.values())) << 10


def attributes(cc: tuple[int, int]) -> dict[int, int]:
    """Device attributes by number (``CUdevice_attribute``); any other attribute is 0: the device does not have
    it."""
    shared = shared_per_multiprocessor(cc)
    return {
        1: MAX_THREADS_PER_BLOCK,
        2: MAX_BLOCK[0],
        3: MAX_BLOCK[1],
        4: MAX_BLOCK[2],
        5: MAX_GRID[0],
        6: MAX_GRID[1],
        7: MAX_GRID[2],
        8: SHARED_PER_BLOCK,
        9: 64 << 10,  # constant memory
        10: WARP,
        11: 2147483647,  # largest pitch
        12: REGISTERS,
        13: 1410000,  # clock, kHz
        14: 512,  # texture alignment
        15: 1,  # copies overlap with kernels
        16: MULTIPROCESSORS,
        18: 0,  # integrated
        19: 1,  # maps host memory
        20: 0,  # compute mode: default
        31: 1,  # concurrent kernels
        33: 0,  # PCI bus, device
        34: 0,
        36: 1215000,  # memory clock, kHz
        37: 5120,  # memory bus, bits
        38: 40 << 20,  # L2 cache
        39: MAX_THREADS_PER_MULTIPROCESSOR,
        40: 3,  # copy engines
        41: 1,  # unified addressing
        75: cc[0],
        76: cc[1],
        78: 1,  # stream priorities
        79: 1,  # caches globals in L1
        80: 1,  # caches locals in L1
        81: shared,
        82: REGISTERS,
        83: 1,  # managed memory
        86: 1,  # native host atomics
        87: 32,  # ratio of single to double precision performance: that of most devices (an A100's is 2)
        88: 1,  # pageable memory access
        89: 1,  # concurrent managed access
        90: 1,  # compute preemption
        91: 1,  # host pointers for registered memory
        95: 1,  # cooperative launch
        97: shared - RESERVED_SHARED,
        106: MAX_BLOCKS_PER_MULTIPROCESSOR,
        111: RESERVED_SHARED,
        115: 1,  # memory pools
    }


@functools.cache
def _result_texts() -> dict[int, ctypes.Array[ctypes.c_char]]:
    """The name of every CUresult as a C string, whose address stays valid."""
    from cuda.bindings.driver import CUresult

    return {int(row.value): ctypes.create_string_buffer(row.name.encode()) for row in CUresult}


_DRIVER = 13000


@functools.cache
def _driver_version() -> int:
    """1000 * major + 10 * minor: at least NVRTC's version, whose PTX the driver must load."""
    from cuda.bindings import nvrtc

    try:
        _, major, minor = nvrtc.nvrtcVersion()
    except RuntimeError:  # NVRTC is not installed: the program does not use it
        return _DRIVER
    return 1000 * int(major) + 10 * int(minor)


def calls(machine: Machine) -> Table:
    """The calls of this family."""
    by_number = attributes(machine.cc)

    def check(device: int) -> None:
        if device != 0:
            raise DriverFault(Result.INVALID_DEVICE)

    def init(flags: int) -> None:
        if flags:
            raise DriverFault(Result.INVALID_VALUE)
        machine.is_initialized = True

    def device_get(out: int, ordinal: int) -> None:
        check(ordinal)
        put_u32(out, 0)

    def name(out: int, size: int, device: int) -> None:
        check(device)
        put_text(out, size, machine.name)

    def uuid(out: int, device: int) -> None:
        check(device)
        ctypes.memmove(out, UUID, 16)

    def total_mem(out: int, device: int) -> None:
        check(device)
        put_u64(out, machine.memory.capacity)

    def attribute(out: int, number: int, device: int) -> None:
        check(device)
        put_u32(out, by_number.get(number, 0))

    def pci_bus_id(out: int, size: int, device: int) -> None:
        check(device)
        put_text(out, size, "0000:00:00.0")

    def by_pci_bus_id(out: int, text: int) -> None:
        if ctypes.string_at(text) != b"0000:00:00.0":
            raise DriverFault(Result.INVALID_DEVICE)
        put_u32(out, 0)

    def can_access_peer(out: int, device: int, peer: int) -> None:
        check(device)
        check(peer)
        put_u32(out, 0)

    def error_text(result: int, out: int) -> Result:
        text = _result_texts().get(result)
        put_u64(out, ctypes.addressof(text) if text else 0)
        return Result.SUCCESS if text else Result.INVALID_VALUE

    return {
        "cuInit": DriverCall("u", init),
        "cuDriverGetVersion": DriverCall("p", lambda out: put_u32(out, _driver_version())),
        "cuDeviceGetCount": DriverCall("p", lambda out: put_u32(out, 1)),
        "cuDeviceGet": DriverCall("pi", device_get),
        "cuDeviceGetName": DriverCall("pii", name),
        "cuDeviceGetUuid": DriverCall("pi", uuid),
        "cuDeviceTotalMem": DriverCall("pi", total_mem),
        "cuDeviceGetAttribute": DriverCall("pii", attribute),
        "cuDeviceGetPCIBusId": DriverCall("pii", pci_bus_id),
        "cuDeviceGetByPCIBusId": DriverCall("pp", by_pci_bus_id),
        "cuDeviceCanAccessPeer": DriverCall("pii", can_access_peer),
        "cuGetErrorName": DriverCall("ip", error_text),
        "cuGetErrorString": DriverCall("ip", error_text),
        # After SUCCESS, NVRTC would call a null pointer.
        "cuGetExportTable": DriverCall("pp", lambda out, table: Result.NOT_FOUND),
    }
