"""Texture and surface objects for a launch: created with copies of its arrays, and destroyed after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from importlib import import_module
from typing import Any

import numpy as np

from kcheck.dataclass import dataclass
from kcheck.device.modules import Modules, address, call
from kcheck.errors import SpecError
from kcheck.generator import Allocation
from kcheck.model import Fault, TextureArg

_FORMATS = {
    "uint8": 0x01,
    "uint16": 0x02,
    "uint32": 0x03,
    "int8": 0x08,
    "int16": 0x09,
    "int32": 0x0A,
    "float16": 0x10,
    "float32": 0x20,
}
"""CUarray_format, by dtype."""
_MODES = {"wrap": 0, "clamp": 1, "mirror": 2, "border": 3}
_LAYERED, _SURFACE = 0x01, 0x02  # CUDA_ARRAY3D_*
_DEVICE, _ARRAY = 2, 3  # CUmemorytype
_OF_ARRAY, _OF_LINEAR, _OF_PITCH = 0, 2, 3  # CUresourcetype
_AS_INTEGER, _NORMALIZED = 0x01, 0x02  # CU_TRSF_*


@dataclass(frozen=True, slots=True)
class _Box:
    """The sizes of an array as a texture. ``rows``: y, z and the address of each row."""

    width: int
    height: int
    depth: int
    row_bytes: int
    rows: tuple[tuple[int, int, int], ...]


@dataclass
class Objects:
    """The objects of one launch.

    Attributes:
        modules: those of the device.
    """

    modules: Modules
    _ends: list[Callable[[], None]] = field(default_factory=list)
    _results: list[Callable[[], None]] = field(default_factory=list)

    def add(self, arg: TextureArg, owner: Allocation, array: Any) -> np.uint64:
        """Create an object with a copy of an array; returns its handle, 0 if the array is empty.

        Args:
            array: the array on the device.

        Raises:
            SpecError: textures do not support the elements or the layout.
        """
        import_module("numba.cuda").current_context()
        _check(arg, owner)
        if 0 in owner.shape:
            return np.uint64(0)
        box = _box(arg, owner, address(array))
        resource = self._array(arg, owner, box) if arg.in_array else self._linear(arg, owner, box)
        driver: Any = import_module("cuda.bindings.driver")
        if arg.is_surface:
            handle = call("cuSurfObjectCreate", resource)
            self._ends.append(lambda: call("cuSurfObjectDestroy", handle))
        else:
            described = driver.CUDA_TEXTURE_DESC()
            described.addressMode = [driver.CUaddress_mode(_MODES[mode]) for mode in arg.address]
            described.filterMode = driver.CUfilter_mode(int(arg.filter == "linear"))
            described.flags = (0 if arg.as_float else _AS_INTEGER) | (_NORMALIZED if arg.normalized else 0)
            handle = call("cuTexObjectCreate", resource, described, None)
            self._ends.append(lambda: call("cuTexObjectDestroy", handle))
        self.modules.names_object(int(handle), owner.name, owner.shape, owner.dtype.name)
        return np.uint64(int(handle))

    def _array(self, arg: TextureArg, owner: Allocation, box: _Box) -> Any:
        driver: Any = import_module("cuda.bindings.driver")
        described = driver.CUDA_ARRAY3D_DESCRIPTOR()
        axes = len(owner.shape) - arg.layered - (arg.channels > 1)
        described.Width, described.Height = box.width, box.height if axes > 1 else 0
        described.Depth = box.depth if axes > 2 or arg.layered else 0
        described.Format = driver.CUarray_format(_FORMATS[owner.dtype.name])
        described.NumChannels = arg.channels
        described.Flags = (_LAYERED if arg.layered else 0) | (_SURFACE if arg.is_surface else 0)
        array = call("cuArray3DCreate", described)
        self._ends.append(lambda: call("cuArrayDestroy", array))

        def copy(*, back: bool) -> None:
            for y, z, at in box.rows:
                m = driver.CUDA_MEMCPY3D()
                m.WidthInBytes, m.Height, m.Depth = box.row_bytes, 1, 1
                if back:
                    m.srcMemoryType, m.dstMemoryType = (driver.CUmemorytype(kind) for kind in (_ARRAY, _DEVICE))
                    m.srcArray, m.srcY, m.srcZ, m.dstDevice = array, y, z, at
                else:
                    m.srcMemoryType, m.dstMemoryType = (driver.CUmemorytype(kind) for kind in (_DEVICE, _ARRAY))
                    m.srcDevice, m.dstArray, m.dstY, m.dstZ = at, array, y, z
                call("cuMemcpy3D", m)

        copy(back=False)
        if arg.is_surface:
            self._results.append(lambda: copy(back=True))
        resource = driver.CUDA_RESOURCE_DESC()
        resource.resType = driver.CUresourcetype(_OF_ARRAY)
        resource.res.array.hArray = array
        return resource

    def _linear(self, arg: TextureArg, owner: Allocation, box: _Box) -> Any:
        driver: Any = import_module("cuda.bindings.driver")
        is_pitched = len(owner.shape) - (arg.channels > 1) == 2
        pitch = box.row_bytes
        if is_pitched:
            memory, pitch = call("cuMemAllocPitch", box.row_bytes, box.height, 4)
        else:
            memory = call("cuMemAlloc", box.row_bytes)
        self._ends.append(lambda: call("cuMemFree", memory))
        for y, _, at in box.rows:
            call("cuMemcpyDtoD", int(memory) + y * pitch, at, box.row_bytes)
        resource = driver.CUDA_RESOURCE_DESC()
        resource.resType = driver.CUresourcetype(_OF_PITCH if is_pitched else _OF_LINEAR)
        chosen = resource.res.pitch2D if is_pitched else resource.res.linear
        chosen.devPtr, chosen.numChannels = memory, arg.channels
        chosen.format = driver.CUarray_format(_FORMATS[owner.dtype.name])
        if is_pitched:
            chosen.width, chosen.height, chosen.pitchInBytes = box.width, box.height, pitch
        else:
            chosen.sizeInBytes = box.row_bytes
        return resource

    def around(self, job: Callable[[], None]) -> Callable[[], None]:
        """Wrap a launch: afterwards, copy the contents of surfaces to their arrays, and destroy the objects."""
        if not self._ends:
            return job

        def run() -> None:
            try:
                job()
                for copy in self._results:
                    copy()
            finally:
                self.close()

        return run

    def close(self) -> None:
        """Destroy the objects."""
        while self._ends:
            self._ends.pop()()


def _check(arg: TextureArg, owner: Allocation) -> None:
    name, dtype = "surface" if arg.is_surface else "texture", owner.dtype.name
    if dtype not in _FORMATS:
        fix = f"use one of {', '.join(sorted(_FORMATS))}"
        raise SpecError([Fault(arg.span, f"a {name} does not support {dtype}, the dtype of {arg.array!r}", fix)])
    is_narrow = dtype in ("int8", "uint8", "int16", "uint16")
    if arg.as_float and not is_narrow:
        what = f"read: normalized is for integers of 8 and 16 bits, but {arg.array!r} is {dtype}"
        raise SpecError([Fault(arg.span, what, "remove 'read'")])
    if arg.filter == "linear" and not dtype.startswith("float") and not arg.as_float:
        what = f"filter: linear needs texels that are read as floats, but {arg.array!r} is {dtype}"
        raise SpecError([Fault(arg.span, what, "use filter: point, or read: normalized for 8 and 16 bits")])
    if arg.channels > 1 and owner.shape[-1] != arg.channels:
        what = f"the last axis of {arg.array!r} has {owner.shape[-1]} elements, but 'channels' is {arg.channels}"
        raise SpecError([Fault(arg.span, what, "make them equal")])
    texel = owner.dtype.itemsize
    inner = owner.passed_strides[-2:] if arg.channels > 1 else owner.passed_strides[-1:]
    wanted = (texel * arg.channels, texel) if arg.channels > 1 else (texel,)
    shape = owner.shape[-len(inner) :]
    if any(s != w and n > 1 for s, w, n in zip(inner, wanted, shape, strict=True)):
        what = f"the rows of {arg.array!r} are not contiguous, so they cannot be copied to a {name}"
        raise SpecError([Fault(arg.span, what, f"remove layouts such as transposed from those of {arg.array!r}")])


def _box(arg: TextureArg, owner: Allocation, start: int) -> _Box:
    shape, strides = list(owner.shape), list(owner.passed_strides)
    if arg.channels > 1:
        shape.pop()
        strides.pop()
    width = shape.pop()
    strides.pop()
    row = width * owner.dtype.itemsize * arg.channels
    if arg.layered and len(shape) == 1:  # layers of one row
        shape.append(1)
        strides.append(0)
    height, down = (shape[-1], strides[-1]) if shape else (1, 0)
    depth, behind = (shape[-2], strides[-2]) if len(shape) > 1 else (1, 0)
    rows = tuple((y, z, start + y * down + z * behind) for z in range(depth) for y in range(height))
    return _Box(width, height, depth, row, rows)
