"""A device in this process with CUDA arrays, textures and surfaces, by the driver's calls."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np

from kcheck.cpu.cache import ObjectCache
from kcheck.cpu.executor import Executor
from kcheck.cpu.memory import Memory
from kcheck.driver.install import calls
from kcheck.driver.machine import Machine
from kcheck.driver.result import Result
from kcheck.model import Finding
from kcheck.ptx.abi import Checks
from tests.isa.model.texture import Sampler

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
_FORMATS = {"u1": 0x01, "u2": 0x02, "u4": 0x03, "i1": 0x08, "i2": 0x09, "i4": 0x0A, "f2": 0x10, "f4": 0x20}
_MODES = {"wrap": 0, "clamp": 1, "mirror": 2, "border": 3}
LAYERED, SURFACE = 0x01, 0x02


class Refused(Exception):
    """A call that did not succeed."""


class Device:
    """A cpu device. ``width``: lanes per vector."""

    def __init__(self, folder: Path, width: int, checks: Checks | None = None) -> None:
        self.findings: list[Finding] = []
        executor = Executor(
            Memory(64 << 20), 1, ObjectCache(folder), lambda: 0.0, self.findings.append, lambda text: None
        )
        executor.width = width
        if checks is not None:
            executor.checks = checks
        self.machine = Machine((8, 0), executor, clock=iter(range(1 << 30)).__next__)
        table = calls(self.machine, ObjectCache(folder))
        self._begin(lambda name: table[name].callback(name, _crash))

    def _begin(self, call_of: Callable[[str], Callable[..., int]]) -> None:
        self._call_of = call_of
        self("cuInit", 0)
        self("cuCtxSetCurrent", self.u64("cuDevicePrimaryCtxRetain", 0))

    def __call__(self, name: str, *arguments: int) -> None:
        result = self._call_of(name)(*arguments)
        if result:
            raise Refused(f"{name}: {Result(result).name}")

    def u64(self, name: str, *arguments: int) -> int:
        """A call whose first argument is where its result goes."""
        out = ctypes.c_uint64(0)
        self(name, ctypes.addressof(out), *arguments)
        return out.value

    def upload(self, array: np.ndarray) -> int:
        """A copy of an array in device memory."""
        array = np.ascontiguousarray(array)
        address = self.u64("cuMemAlloc", max(array.nbytes, 1))
        self("cuMemcpyHtoD", address, array.ctypes.data, array.nbytes)
        return address

    def download(self, address: int, like: np.ndarray) -> np.ndarray:
        """The content of device memory."""
        out = np.empty_like(like)
        self("cuMemcpyDtoH", out.ctypes.data, address, out.nbytes)
        return out

    def array(self, content: np.ndarray, flags: int = 0, *, filled: bool = True) -> int:
        """A CUDA array with the content ``[..., y, x, channel]``; with LAYERED the first axis are layers."""
        content = np.ascontiguousarray(content)
        *outer, width, channels = content.shape
        if flags & LAYERED:
            layers, *rest = outer
            height, depth = (rest[0] if rest else 0), layers
        else:
            depth, height = [0, 0, *outer][-2:]
        kind = _FORMATS[content.dtype.str[1:]]
        described = struct.pack("<3Q3I4x", width, height, depth, kind, channels, flags)
        handle = self.u64("cuArray3DCreate", _pointer(described))
        if filled:
            self._copy(handle, content, depth, height, into=True)
        return handle

    def read_array(self, handle: int, like: np.ndarray, flags: int = 0) -> np.ndarray:
        """What is in a CUDA array."""
        out = np.zeros_like(like)
        outer = like.shape[:-2]
        depth, height = [0, 0, *outer][-2:]
        if flags & LAYERED and len(outer) == 1:
            depth, height = outer[0], 0
        self._copy(handle, out, depth, height, into=False)
        return out

    def _copy(self, handle: int, host: np.ndarray, depth: int, height: int, *, into: bool) -> None:
        row = host.shape[-2] * host.shape[-1] * host.itemsize
        plain = (0, 0, 0, 0, 1, host.ctypes.data, 0, 0, 0, row, max(height, 1))
        array = (0, 0, 0, 0, 3, 0, 0, handle, 0, 0, 0)
        sides = (plain, array) if into else (array, plain)
        side = "4QI4x6Q"
        described = struct.pack(f"<{side}{side}3Q", *sides[0], *sides[1], row, max(height, 1), max(depth, 1))
        self("cuMemcpy3D", _pointer(described))

    def texture(self, resource: bytes, sampler: Sampler, integers: bool = False) -> int:
        """A texture object."""
        modes = [_MODES[mode] for mode in (*sampler.modes, "clamp", "clamp")][:3]
        flags = (0x02 if sampler.normalized else 0) | (0 if sampler.read_normalized else 0x01)
        described = struct.pack("<3i2I", *modes, sampler.linear, flags)
        return self.u64("cuTexObjectCreate", _pointer(resource), _pointer(described), 0)

    def surface(self, array: int) -> int:
        """A surface object of a CUDA array."""
        return self.u64("cuSurfObjectCreate", _pointer(of_array(array)))

    def launch(self, ptx: str, *params: int, threads: int = 32) -> int:
        """Launch the kernel ``k``; returns the CUresult."""
        library = self.u64("cuLibraryLoadData", _pointer((HEAD + ptx).encode()), 0, 0, 0, 0, 0, 0)
        kernel = self.u64("cuLibraryGetKernel", library, _pointer(b"k"))
        values = [ctypes.c_uint64(value) for value in params]
        slots = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        call = self._call_of("cuLaunchKernel")
        return int(call(kernel, 1, 1, 1, threads, 1, 1, 0, 0, ctypes.addressof(slots), 0))


class Gpu(Device):
    """A CUDA device, by the calls of its driver.

    Raises:
        OSError: there is no driver.
    """

    def __init__(self) -> None:
        self.findings = []
        self._library = ctypes.CDLL("libcuda.so.1")
        self._begin(self._function)

    def _function(self, name: str) -> Callable[..., int]:
        """The newest version of a call; every argument is a whole number."""
        function = getattr(self._library, f"{name}_v2", None) or getattr(self._library, name)
        return lambda *arguments: function(*map(ctypes.c_uint64, arguments))


_KEPT: list[object] = []


def _pointer(content: bytes) -> int:
    """The address of a copy, with zeros behind it as the driver's structures have."""
    buffer = ctypes.create_string_buffer(content, len(content) + 256)
    _KEPT.append(buffer)
    return ctypes.addressof(buffer)


def of_array(handle: int) -> bytes:
    """A CUDA_RESOURCE_DESC of a CUDA array."""
    return struct.pack("<I4xQ", 0, handle)


def of_linear(address: int, content: np.ndarray) -> bytes:
    """One of linear memory."""
    channels = content.shape[-1]
    return struct.pack("<I4xQ2IQ", 2, address, _FORMATS[content.dtype.str[1:]], channels, content.nbytes)


def of_pitch(address: int, content: np.ndarray, pitch: int) -> bytes:
    """One of rows of memory."""
    height, width, channels = content.shape
    kind = _FORMATS[content.dtype.str[1:]]
    return struct.pack("<I4xQ2I3Q", 3, address, kind, channels, width, height, pitch)


def _crash(name: str, error: BaseException) -> None:
    raise AssertionError(f"{name}: {error!r}") from error
