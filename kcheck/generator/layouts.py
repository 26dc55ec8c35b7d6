"""How an array is laid out in memory: strides, guard bytes around it and in its gaps, poison in outputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from kcheck.alignment import align_up
from kcheck.dataclass import dataclass
from kcheck.generator.far import far_rows
from kcheck.model import DType
from kcheck.model.indexing import offset_range
from kcheck.model.layouts import Spread, is_far
from kcheck.rng import Xorshift128Plus

ALIGNMENT = 256
"""The alignment in bytes of a buffer and of the block of elements in it: that of cudaMalloc."""

POISON = 0x5A
"""The byte that outputs are filled with before a launch. It makes a large number in every floating dtype (203 in
float16, 1.5e16 in float32), so that it is not rounded away if a kernel adds to an output without clearing it."""

GUARDS = (0xFF, 0x7B)
"""The guard bytes, one per case: 0xFF is NaN in every floating dtype and -1 in signed integers; 0x7B is a huge
finite number in every floating dtype. A bug that hides one of them (a maximum that skips NaN) shows with the
other."""

_GUARD_LIMIT = 1 << 14  # bytes: the zones grow with the array up to this, because overruns are often by rows


@dataclass(frozen=True, slots=True)
class ArrayGeometry:
    """Where the elements of an array are in memory.

    Attributes:
        strides: in bytes, one per axis; may be zero or negative.
        start: bytes from the beginning of the block to element (0, 0, ...).
        span: bytes of the block, from its beginning to the end of the last element.
        far: where a launch has its rows, for the layout ``far``; the other fields are those of its buffer.
    """

    strides: tuple[int, ...]
    start: int
    span: int
    far: Spread | None = None

    @property
    def offset(self) -> int:
        """Bytes from the beginning of the buffer to element (0, 0, ...)."""
        return self.far.lead if self.far is not None else guard_zone(self.span) + self.start

    @property
    def size(self) -> int:
        """Bytes of the buffer around the block."""
        return self.far.rows * self.far.packed if self.far is not None else buffer_size(self.span)


def _row_major(extents: Sequence[int], innermost: int = 1, pads: Sequence[int] = ()) -> list[int]:
    """Strides in elements, C order, with ``pads`` unused elements after each run of an axis."""
    strides = [0] * len(extents)
    step = innermost
    for axis in reversed(range(len(extents))):
        strides[axis] = step
        step = step * max(1, extents[axis]) + (pads[axis] if pads else 0)
    return strides


def _stored(extents: Sequence[int], order: Sequence[int]) -> list[int]:
    """Strides in elements of an array whose axes are in another order in memory, the innermost last."""
    inner = _row_major([extents[axis] for axis in order])
    return [inner[order.index(axis)] for axis in range(len(extents))]


def geometry(
    shape: Sequence[int],
    itemsize: int,
    layout: str,
    stream: Xorshift128Plus,
    zero_axes: Sequence[int] = (),
    far_axis: int | None = None,
) -> ArrayGeometry:
    """Lay out an array.

    Args:
        shape: in elements; any extent may be 0.
        layout: one of LAYOUTS; the array has at least LEAST_AXES axes.
        stream: draws what the layout leaves open: widths of gaps, the offset, which axes.
        zero_axes: the axes from which ``broadcast`` chooses one; not empty for ``broadcast``.
        far_axis: the axis along which the rows of ``far`` lie far apart; None: the array is contiguous.
    """
    if far_axis is not None and is_far(layout):
        far = far_rows(shape, itemsize, far_axis, layout, stream)
        inner = [itemsize * stride for stride in _row_major(shape)]
        outer = [far.packed * stride for stride in _row_major(shape[: far_axis + 1])]
        return ArrayGeometry((*outer, *inner[far_axis + 1 :]), 0, 0, far)
    rank = len(shape)
    strides = _row_major(shape)
    offset = 0
    match layout:
        case "strided":
            pads = [1 + stream.below(3) for _ in shape]
            strides = _row_major(shape, 2 + stream.below(2), pads)
        case "padded":
            strides = _row_major(shape, 1, [*[0] * (rank - 1), 1 + stream.below(7)])
        case "transposed":
            strides = _stored(shape, [*range(rank - 2), rank - 1, rank - 2])
            if rank > 2 and all(extent == 1 for extent in shape[:-2]):
                # The stride of an axis of one element is arbitrary. With 0, Numba gives the array the same type as
                # others of this layout (A). Otherwise it is Fortran-contiguous, and Numba compiles a second time.
                strides[0] = 0
        case "swapped" | "channels_last":
            last = [2, 1, *range(3, rank)] if layout == "swapped" else [*range(2, rank), 1]
            strides = _stored(shape, [0, *last])
            if shape[0] == 1:
                strides[0] = 0  # as for transposed
        case "offset":
            offset = 1 + stream.below(15)
        case "broadcast":
            axis = stream.choice(zero_axes)
            strides = _row_major([1 if i == axis else extent for i, extent in enumerate(shape)])
            strides[axis] = 0
        case "reversed":
            chosen = 1 + stream.below(2**rank - 1)  # a bit per axis, at least one of them set
            strides = [-stride if chosen >> axis & 1 else stride for axis, stride in enumerate(strides)]
        case "contiguous":
            pass
        case _ if is_far(layout):
            pass  # no axis of two elements or more has a stride that the kernel gets
        case _:
            raise ValueError(f"unknown layout {layout!r}")
    if 0 in shape:
        return ArrayGeometry(tuple(stride * itemsize for stride in strides), 0, 0)
    low, high = offset_range(shape, strides)
    first = offset - low
    return ArrayGeometry(
        tuple(stride * itemsize for stride in strides), first * itemsize, (first + high + 1) * itemsize
    )


def guard_zone(span: int) -> int:
    """Bytes of the guard zone on either side of a block of ``span`` bytes."""
    return align_up(max(ALIGNMENT, min(span, _GUARD_LIMIT)), ALIGNMENT)


def buffer_size(span: int) -> int:
    """Bytes of the buffer around a block of ``span`` bytes."""
    return align_up(span, ALIGNMENT) + 2 * guard_zone(span)


@dataclass(frozen=True, eq=False, slots=True)
class Allocation:
    """One array of a case in the memory around it.

    Attributes:
        role: ``input``, or ``output`` (passed to the kernel poisoned).
        shape, strides: in elements, in bytes.
        offset: bytes from the beginning of ``buffer`` to element (0, 0, ...).
        buffer: 1-D uint8; aligned to 256 bytes. Guard bytes are before, after and between elements.
        guard: the guard byte.
        far: where a launch has the rows of the buffer, for the layout ``far``; None: as in the buffer.
        reserved: bytes of address space of an array of a huge case, which has no buffer: it contains zeros.
    """

    name: str
    role: Literal["input", "output"]
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    buffer: npt.NDArray[np.uint8]
    guard: int
    far: Spread | None = None
    reserved: int = 0

    @property
    def passed_strides(self) -> tuple[int, ...]:
        """The strides in bytes of the array that a launch gets."""
        return self.strides if self.far is None else self.far.strides(self.strides)

    @property
    def passed_size(self) -> int:
        """Bytes of memory from the first byte of the buffer to the last, where a launch has it."""
        return self.reserved or (self.buffer.size if self.far is None else self.far.span)

    def view(self, buffer: npt.NDArray[np.uint8] | None = None) -> npt.NDArray[Any]:
        """The array as a view of its buffer, or of another buffer of the same size.

        Raises:
            ValueError: the other buffer is not 1-D uint8 of the same size.
        """
        return np.ndarray(self.shape, self.dtype.numpy, self._checked(buffer), self.offset, self.strides)

    def bytes_view(self, buffer: npt.NDArray[np.uint8] | None = None) -> npt.NDArray[np.uint8]:
        """The bytes of the elements: uint8, shape ``(*shape, itemsize)``, as a view of this or another buffer."""
        shape = (*self.shape, self.dtype.itemsize)
        return np.ndarray(shape, np.uint8, self._checked(buffer), self.offset, (*self.strides, 1))

    def element_mask(self) -> npt.NDArray[np.bool_]:
        """For each byte of the buffer, whether it belongs to an element."""
        mask = np.zeros(self.buffer.size, np.uint8)
        self.bytes_view(mask)[...] = 1
        return mask.view(np.bool_)

    def _checked(self, buffer: npt.NDArray[np.uint8] | None) -> npt.NDArray[np.uint8]:
        if self.reserved:
            raise ValueError(f"{self.name} has no contents: it does not fit in memory")
        if buffer is None:
            return self.buffer
        if buffer.dtype != np.uint8 or buffer.shape != self.buffer.shape:
            raise ValueError(f"{self.name} needs {self.buffer.size} bytes, not {buffer.dtype} {buffer.shape}")
        return buffer


def allocate(
    name: str,
    role: Literal["input", "output"],
    dtype: DType,
    shape: tuple[int, ...],
    where: ArrayGeometry,
    guard: int,
    values: npt.NDArray[Any] | None,
) -> Allocation:
    """An array with its values, or with poison if ``values`` is None; guard bytes everywhere else."""
    buffer = aligned(where.size)
    buffer.fill(guard)
    allocation = Allocation(name, role, dtype, shape, where.strides, where.offset, buffer, guard, where.far)
    if values is None:
        allocation.bytes_view()[...] = POISON
    else:
        allocation.view()[...] = values
    return allocation


def repoison(allocation: Allocation, byte: int) -> Allocation:
    """A copy whose every element byte is ``byte``; its guards are unchanged."""
    buffer = aligned(allocation.buffer.size)
    buffer[:] = allocation.buffer
    copy = replace(allocation, buffer=buffer)
    copy.bytes_view()[...] = byte
    return copy


def aligned(size: int) -> npt.NDArray[np.uint8]:
    """``size`` uninitialized bytes, aligned to ALIGNMENT."""
    memory = np.empty(size + ALIGNMENT, np.uint8)
    skip = -memory.ctypes.data % ALIGNMENT
    return memory[skip : skip + size]


def elements(shape: Sequence[int]) -> int:
    """The number of elements of an array of this shape."""
    return math.prod(shape)
