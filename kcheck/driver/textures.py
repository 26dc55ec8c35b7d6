"""Calls about arrays, textures and surfaces: ``cuArray*``, copies of boxes, ``cuTexObject*``, ``cuSurfObject*``.

An array is a block of device memory in rows. A GPU may interleave texels, but a program cannot observe that: only
copies, textures and surfaces access an array.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable

from kcheck.alignment import align_up
from kcheck.cpu.memory import MemoryKind, OutOfMemory
from kcheck.dataclass import dataclass
from kcheck.driver.call import DriverCall, Table, get_struct, put_u64
from kcheck.driver.host_access import beyond
from kcheck.driver.machine import Handles, Machine
from kcheck.driver.result import DriverFault, Result
from kcheck.ptx.abi import Addressing, Texture, TextureFormat

Wait = Callable[[int], None]

# CUarray_format
_FORMATS = {
    0x01: (TextureFormat.UINT8, 1),
    0x02: (TextureFormat.UINT16, 2),
    0x03: (TextureFormat.UINT32, 4),
    0x08: (TextureFormat.INT8, 1),
    0x09: (TextureFormat.INT16, 2),
    0x0A: (TextureFormat.INT32, 4),
    0x10: (TextureFormat.FLOAT16, 2),
    0x20: (TextureFormat.FLOAT32, 4),
}
"""The format of a channel, and its bytes."""
_FLOATS = (TextureFormat.FLOAT16, TextureFormat.FLOAT32)
_LAYERED, _SURFACE, _GATHER = 0x01, 0x02, 0x08  # CUDA_ARRAY3D_*
_HOST, _DEVICE, _ARRAY, _UNIFIED = 1, 2, 3, 4  # CUmemorytype
_ARRAY_RESOURCE, _LINEAR_RESOURCE, _PITCH_RESOURCE = 0, 2, 3  # CUresourcetype
_READ_AS_INTEGER, _NORMALIZED_COORDINATES, _SRGB = 0x01, 0x02, 0x10  # CU_TRSF_*
_PITCH = 32  # bytes: cudaDeviceProp::texturePitchAlignment; rows of arrays and of cuMemAllocPitch use _ROW
_ROW = 512
_MOST_TEXELS = 1 << 27  # of linear memory
_ARRAY3D = "<3Q3I4x"
_ARRAY2D = "<2Q2I"
_MEMCPY2D = "<2QI4x4Q2QI4x4Q2Q"
_MEMCPY3D = "<4QI4x6Q4QI4x6Q3Q"
_BORDER = 40  # bytes: where CUDA_TEXTURE_DESC has borderColor


@dataclass(frozen=True, slots=True)
class CudaArray:
    """A CUDA array: its memory, in rows.

    Attributes:
        width, height, depth: in elements, 0 for an axis that it does not have; the depth of a layered one counts
            its layers.
        format: of a channel, as CUarray_format.
    """

    base: int
    width: int
    height: int
    depth: int
    format: int
    channels: int
    flags: int
    row_pitch: int

    @property
    def texel_bytes(self) -> int:
        return _FORMATS[self.format][1] * self.channels

    @property
    def slice_pitch(self) -> int:
        return self.row_pitch * max(self.height, 1)

    @property
    def size(self) -> int:
        return self.slice_pitch * max(self.depth, 1)


@dataclass(frozen=True, slots=True)
class _CopySide:
    """One side of the copy of a box: the address of its first byte, and its row and slice pitches in bytes."""

    address: int
    pitch: int
    slice_pitch: int
    is_device: bool


def calls(machine: Machine, wait: Wait) -> Table:
    """The calls of this family. ``wait(stream)`` waits for the callbacks of a stream."""
    arrays: Handles[CudaArray] = Handles()
    return {**_arrays(machine, arrays), **_copies(machine, arrays, wait), **_objects(machine, arrays)}


def _arrays(machine: Machine, arrays: Handles[CudaArray]) -> Table:
    def create(out: int, width: int, height: int, depth: int, kind: int, channels: int, flags: int) -> None:
        machine.require_context()
        if flags & ~(_LAYERED | _SURFACE | _GATHER):  # cubemaps, depth textures, sparse arrays ...
            raise DriverFault(Result.NOT_SUPPORTED)
        if kind not in _FORMATS or channels not in (1, 2, 4) or not width or max(width, height, depth) > 1 << 17:
            raise DriverFault(Result.INVALID_VALUE)
        if flags & _LAYERED and not depth:
            raise DriverFault(Result.INVALID_VALUE)
        pitch = align_up(width * _FORMATS[kind][1] * channels, _ROW)
        made = CudaArray(0, width, height, depth, kind, channels, flags, pitch)
        try:
            base = machine.memory.allocate(made.size, MemoryKind.ARRAY)
        except OutOfMemory:
            raise DriverFault(Result.OUT_OF_MEMORY) from None
        put_u64(out, arrays.add(CudaArray(base, width, height, depth, kind, channels, flags, pitch)))

    def create2d(out: int, described: int) -> None:
        width, height, kind, channels = get_struct(_ARRAY2D, described)
        create(out, width, height, 0, kind, channels, 0)

    def create3d(out: int, described: int) -> None:
        create(out, *get_struct(_ARRAY3D, described))

    def destroy(handle: int) -> None:
        machine.memory.free(arrays.pop(handle).base)

    def describe2d(out: int, handle: int) -> None:
        a = arrays[handle]
        _put(out, _ARRAY2D, a.width, a.height, a.format, a.channels)

    def describe3d(out: int, handle: int) -> None:
        a = arrays[handle]
        _put(out, _ARRAY3D, a.width, a.height, a.depth, a.format, a.channels, a.flags)

    def pitched(out: int, pitch: int, width: int, height: int, element: int) -> None:
        machine.require_context()
        if not width or not height or element not in (4, 8, 16):
            raise DriverFault(Result.INVALID_VALUE)
        row = align_up(width, _ROW)
        try:
            put_u64(out, machine.memory.allocate(row * height, MemoryKind.DEVICE))
        except OutOfMemory:
            raise DriverFault(Result.OUT_OF_MEMORY) from None
        put_u64(pitch, row)

    return {
        "cuArrayCreate": DriverCall("pp", create2d),
        "cuArray3DCreate": DriverCall("pp", create3d),
        "cuArrayDestroy": DriverCall("z", destroy),
        "cuArrayGetDescriptor": DriverCall("pz", describe2d),
        "cuArray3DGetDescriptor": DriverCall("pz", describe3d),
        "cuMemAllocPitch": DriverCall("ppzzu", pitched),
    }


def _put(address: int, layout: str, *values: int) -> None:
    ctypes.memmove(address, struct.pack(layout, *values), struct.calcsize(layout))


def _copies(machine: Machine, arrays: Handles[CudaArray], wait: Wait) -> Table:
    memory = machine.memory

    def side(fields: tuple[int, ...], extent: tuple[int, int, int], verb: str) -> _CopySide:
        """The side that ``fields`` describe: x in bytes, y, z, memory type, host, device, array, pitch, height."""
        x, y, z, kind, host, device, array, pitch, height = fields
        width, rows, slices = extent
        if kind == _ARRAY:
            a = arrays[array]
            row = a.width * a.texel_bytes
            if x + width > row or y + rows > max(a.height, 1) or z + slices > max(a.depth, 1):
                raise DriverFault(Result.INVALID_VALUE)
            start = a.base + z * a.slice_pitch + y * a.row_pitch + x
            return _CopySide(start, a.row_pitch, a.slice_pitch, True)
        if kind not in (_HOST, _DEVICE, _UNIFIED):
            raise DriverFault(Result.INVALID_VALUE)
        pitch = pitch or x + width
        slice_pitch = pitch * (height or y + rows)
        start = (host if kind == _HOST else device) + z * slice_pitch + y * pitch + x
        if pitch < width:
            raise DriverFault(Result.INVALID_VALUE)
        end = start + (slices - 1) * slice_pitch + (rows - 1) * pitch + width
        if kind != _HOST and memory.find(start, end - start) is None:
            raise beyond(memory, f"copies {rows * slices} rows of {width} bytes {verb}", start, end - start)
        return _CopySide(start, pitch, slice_pitch, kind != _HOST)

    def copy(source: tuple[int, ...], target: tuple[int, ...], extent: tuple[int, int, int], stream: int) -> None:
        machine.require_context()
        wait(stream)
        width, rows, slices = extent
        if not (width and rows and slices):
            return
        from_side, to_side = side(source, extent, "from"), side(target, extent, "to")
        for z in range(slices):
            for y in range(rows):
                to = to_side.address + z * to_side.slice_pitch + y * to_side.pitch
                at = from_side.address + z * from_side.slice_pitch + y * from_side.pitch
                ctypes.memmove(to, at, width)
                if from_side.is_device:
                    memory.copied(to, at, width)
                else:
                    memory.define(to, width)

    def copy2d(described: int, stream: int = 0) -> None:
        f = get_struct(_MEMCPY2D, described)
        source, target = (f[0], f[1], 0, *f[2:7], 0), (f[7], f[8], 0, *f[9:14], 0)
        copy(source, target, (f[14], f[15], 1), stream)

    def copy3d(described: int, stream: int = 0) -> None:
        f = get_struct(_MEMCPY3D, described)
        # (x, y, z, LOD, type, host, device, array, reserved, pitch, height) of each side
        source, target = (*f[0:3], *f[4:8], *f[9:11]), (*f[11:14], *f[15:19], *f[20:22])
        copy(source, target, (f[22], f[23], f[24]), stream)

    def line(address: int, array: int, offset: int, is_host: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
        plain = (0, 0, 0, _HOST if is_host else _DEVICE, address, address, 0, 0, 0)
        return plain, (offset, 0, 0, _ARRAY, 0, 0, array, 0, 0)

    def into(array: int, offset: int, source: int, size: int, stream: int = 0, *, is_host: bool = True) -> None:
        plain, there = line(source, array, offset, is_host)
        copy(plain, there, (size, 1, 1), stream)

    def out_of(target: int, array: int, offset: int, size: int, stream: int = 0, *, is_host: bool = True) -> None:
        plain, there = line(target, array, offset, is_host)
        copy(there, plain, (size, 1, 1), stream)

    return {
        "cuMemcpy2D": DriverCall("p", copy2d),
        "cuMemcpy2DUnaligned": DriverCall("p", copy2d),
        "cuMemcpy2DAsync": DriverCall("pz", copy2d),
        "cuMemcpy3D": DriverCall("p", copy3d),
        "cuMemcpy3DAsync": DriverCall("pz", copy3d),
        "cuMemcpyHtoA": DriverCall("zzpz", into),
        "cuMemcpyHtoAAsync": DriverCall("zzpzz", into),
        "cuMemcpyDtoA": DriverCall("zzpz", lambda *given: into(*given, is_host=False)),
        "cuMemcpyAtoH": DriverCall("pzzz", out_of),
        "cuMemcpyAtoHAsync": DriverCall("pzzzz", out_of),
        "cuMemcpyAtoD": DriverCall("pzzz", lambda *given: out_of(*given, is_host=False)),
    }


def _objects(machine: Machine, arrays: Handles[CudaArray]) -> Table:
    textures = machine.executor.textures

    def of_array(a: CudaArray) -> Texture:
        made = Texture(base=a.base, row_pitch=a.row_pitch, slice_pitch=a.slice_pitch, channels=a.channels)
        made.extent[:] = a.width, max(a.height, 1), max(a.depth, 1)
        made.format, made.texel_bytes = int(_FORMATS[a.format][0]), a.texel_bytes
        return made

    def of_memory(fields: tuple[int, ...], is_pitched: bool) -> tuple[Texture, int]:
        base, kind, channels = fields[:3]
        if kind not in _FORMATS or channels not in (1, 2, 4) or base % _PITCH:
            raise DriverFault(Result.INVALID_VALUE)
        texel = _FORMATS[kind][1] * channels
        width, height, pitch = fields[3:6] if is_pitched else (fields[3] // texel, 1, fields[3])
        size = pitch * (height - 1) + width * texel
        if not width or not height or width > _MOST_TEXELS or pitch < width * texel:
            raise DriverFault(Result.INVALID_VALUE)
        if (is_pitched and pitch % _PITCH and height > 1) or machine.memory.find(base, size) is None:
            raise DriverFault(Result.INVALID_VALUE)
        made = Texture(base=base, row_pitch=pitch, slice_pitch=pitch * height, channels=channels)
        made.extent[:] = width, height, 1
        made.format, made.texel_bytes = int(_FORMATS[kind][0]), texel
        made.is_linear_memory = int(not is_pitched)
        return made, size

    def resource(address: int) -> tuple[Texture, int, CudaArray | None]:
        (kind,) = get_struct("<I4x", address)
        if kind == _ARRAY_RESOURCE:
            a = arrays[get_struct("<Q", address + 8)[0]]
            return of_array(a), a.size, a
        if kind == _LINEAR_RESOURCE:
            return *of_memory(get_struct("<Q2IQ", address + 8), False), None
        if kind == _PITCH_RESOURCE:
            return *of_memory(get_struct("<Q2I3Q", address + 8), True), None
        raise DriverFault(Result.NOT_SUPPORTED)  # mipmapped arrays

    def create(out: int, described: int, sampled: int, view: int) -> None:
        machine.require_context()
        if view:
            raise DriverFault(Result.NOT_SUPPORTED)
        made, size, _ = resource(described)
        *modes, linear, flags = get_struct("<3i2I", sampled)
        is_float = made.format in _FLOATS
        is_narrow = made.format < TextureFormat.UINT32
        made.to_float = int(is_narrow and not flags & _READ_AS_INTEGER)
        if flags & _SRGB:
            raise DriverFault(Result.NOT_SUPPORTED)
        if any(mode not in tuple(Addressing) for mode in modes) or linear not in (0, 1):
            raise DriverFault(Result.INVALID_VALUE)
        if linear and not (is_float or made.to_float):  # filtered values are floats
            raise DriverFault(Result.INVALID_VALUE)
        made.addressing[:] = modes
        made.linear, made.normalized = linear, int(bool(flags & _NORMALIZED_COORDINATES))
        if is_float or made.to_float:
            made.border[:] = get_struct("<4I", sampled + _BORDER)
        put_u64(out, textures.create(made, size))

    def create_surface(out: int, described: int) -> None:
        machine.require_context()
        made, size, array = resource(described)
        if array is None or not array.flags & _SURFACE:
            raise DriverFault(Result.INVALID_VALUE)
        made.is_surface = 1
        put_u64(out, textures.create(made, size))

    def destroy(handle: int) -> None:
        if not textures.destroy(handle):
            raise DriverFault(Result.INVALID_HANDLE)

    return {
        "cuTexObjectCreate": DriverCall("pppp", create),
        "cuTexObjectDestroy": DriverCall("z", destroy),
        "cuSurfObjectCreate": DriverCall("pp", create_surface),
        "cuSurfObjectDestroy": DriverCall("z", destroy),
    }
