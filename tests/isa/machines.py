"""What runs a program: kcheck's cpu at some lane width, or a CUDA device through its driver."""

from __future__ import annotations

import ctypes
import re
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.executor import Ending, Executor, KernelLaunch
from kcheck.cpu.memory import Memory, MemoryKind
from kcheck.model import Finding
from kcheck.ptx.abi import Checks


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel and the memory it is given.

    Attributes:
        buffers: the parameters: for each, the bytes of a buffer of global memory, whose address is passed.
        grid, block: blocks, and threads of each.
        last: the bytes of one more parameter, aligned to 16.
    """

    text: str
    entry: str
    buffers: Sequence[bytes]
    grid: int
    block: int
    last: bytes = b""


@dataclass(frozen=True, slots=True)
class Ran:
    """The buffers after a launch, and the rules of what was found."""

    buffers: tuple[bytes, ...]
    found: tuple[str, ...] = field(default=())


def _parameters(addresses: Sequence[int], last: bytes) -> bytes:
    """A kernel's parameters as they lie in memory."""
    packed = struct.pack(f"<{len(addresses)}Q", *addresses)
    return packed.ljust(-(-len(packed) // 16) * 16, b"\0") + last if last else packed


WIDTHS = (1, 8, 32)
DEVICE = 0
"""In the place of a number of lanes: the CUDA device of this computer."""
ON_THE_DEVICE = pytest.param(DEVICE, marks=pytest.mark.gpu, id="gpu")
ON_ALL_MACHINES = pytest.mark.parametrize("width", [1, 8, ON_THE_DEVICE])


class Machine(Protocol):
    """Something that runs PTX."""

    name: str

    def run(self, launch: Launch) -> Ran:
        """Run a kernel to its end."""


class Cpu:
    """kcheck's cpu with vectors of ``width`` lanes: quick code for eight, the better one otherwise.

    Args:
        folder: where machine code is kept while the tests run.
    """

    def __init__(self, width: int, folder: Path) -> None:
        self.name = f"cpu, {width} lanes"
        self._findings: list[Finding] = []
        self._memory = Memory(512 << 20)
        self._executor = Executor(
            self._memory, 1, ObjectCache(folder), time.monotonic, self._findings.append, lambda _: None
        )
        self._executor.width = width
        self._executor.kernels.quick = width == 8

    def run(self, launch: Launch) -> Ran:
        self._findings.clear()
        module = self._executor.load(launch.text)
        addresses = []
        for content in launch.buffers:
            addresses.append(self._memory.allocate(len(content), MemoryKind.DEVICE, fill=False))
            ctypes.memmove(addresses[-1], content, len(content))
        ending = self._executor.launch(
            KernelLaunch(
                module,
                launch.entry,
                _parameters(addresses, launch.last),
                (launch.grid, 1, 1),
                (launch.block, 1, 1),
                0,
                False,
            )
        )
        if ending is not Ending.FINISHED:
            raise AssertionError(f"{self.name}: {ending}: " + "; ".join(f.message for f in self._findings))
        after = tuple(
            ctypes.string_at(address, len(content))
            for address, content in zip(addresses, launch.buffers, strict=True)
        )
        for address in addresses:
            self._memory.free(address)
        module.unload()
        return Ran(after, tuple(sorted({f.rule for f in self._findings})))


def sanitized(folder: Path, width: int, launch: Launch, checks: Checks, undefined: int = 0) -> list[Finding]:
    """What a launch reports with some sanitizers.

    Args:
        folder: where machine code is kept.
        undefined: how many bytes at the end of the first buffer initcheck takes for uninitialized.
    """
    found: list[Finding] = []
    memory = Memory(64 << 20)
    executor = Executor(memory, 1, ObjectCache(folder), time.monotonic, found.append, lambda _: None)
    executor.width = width
    executor.checks = checks
    addresses = []
    for content in launch.buffers:
        addresses.append(memory.allocate(len(content), MemoryKind.DEVICE, fill=False))
        ctypes.memmove(addresses[-1], content, len(content))
    if checks.init:
        memory.undefine(addresses[0], len(launch.buffers[0]))
        memory.define(addresses[0], len(launch.buffers[0]) - undefined)
    module = executor.load(launch.text)
    params = _parameters(addresses, launch.last)
    grid, block = (launch.grid, 1, 1), (launch.block, 1, 1)
    executor.launch(KernelLaunch(module, launch.entry, params, grid, block, 0, False))
    return found


def _structure(content: bytes) -> ctypes.Structure:
    """Bytes as a parameter that is passed by value."""
    kind = type("Last", (ctypes.Structure,), {"_fields_": [("content", ctypes.c_char * len(content))]})
    return kind.from_buffer_copy(content)


class Gpu:
    """A CUDA device: the same text, compiled by the driver for this device.

    Raises:
        RuntimeError: the driver refuses something.
    """

    def __init__(self) -> None:
        from cuda.bindings import driver

        self._driver = driver
        self._check(driver.cuInit(0))
        device = self._check(driver.cuDeviceGet(0))
        kinds = driver.CUdevice_attribute
        major = self._check(
            driver.cuDeviceGetAttribute(kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device)
        )
        minor = self._check(
            driver.cuDeviceGetAttribute(kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device)
        )
        self.capability: int = major * 10 + minor
        self.name = f"gpu, sm_{self.capability}"
        self._context = self._check(driver.cuDevicePrimaryCtxRetain(device))
        self._check(driver.cuCtxSetCurrent(self._context))

    def _check(self, answer: tuple[Any, ...]) -> Any:
        code, *rest = answer
        if int(code):
            raise RuntimeError(f"the CUDA driver answers {code!r}")
        return rest[0] if rest else None

    def run(self, launch: Launch) -> Ran:
        driver = self._driver
        text = re.sub(r"\.target sm_\d+", f".target sm_{self.capability}", launch.text)
        library = self._check(driver.cuLibraryLoadData(text.encode() + b"\0", [], [], 0, [], [], 0))
        addresses = []
        try:
            kernel = self._check(driver.cuLibraryGetKernel(library, launch.entry.encode()))
            function = self._check(driver.cuKernelGetFunction(kernel))
            for content in launch.buffers:
                addresses.append(self._check(driver.cuMemAlloc(len(content))))
                self._check(driver.cuMemcpyHtoD(addresses[-1], content, len(content)))
            values: tuple[Any, ...] = tuple(int(a) for a in addresses)
            types: tuple[Any, ...] = (ctypes.c_uint64,) * len(values)
            if launch.last:
                values, types = (*values, _structure(launch.last)), (*types, None)
            self._check(
                driver.cuLaunchKernel(
                    function,
                    *(launch.grid, 1, 1),
                    *(launch.block, 1, 1),
                    0,
                    0,
                    (values, types),
                    0,
                )
            )
            self._check(driver.cuCtxSynchronize())
            after = []
            for address, content in zip(addresses, launch.buffers, strict=True):
                room = bytearray(len(content))
                self._check(driver.cuMemcpyDtoH(room, address, len(content)))
                after.append(bytes(room))
        finally:
            for address in addresses:
                driver.cuMemFree(address)
            driver.cuLibraryUnload(library)
        return Ran(tuple(after))
