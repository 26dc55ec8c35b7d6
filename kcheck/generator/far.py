"""The layout ``far``: rows so far apart that the offset of the last one does not fit in 32 bits.

A launch gets the rows in reserved address space, of which only the pages around the rows exist. Everywhere else
(:class:`~kcheck.generator.layouts.Allocation`) they lie side by side in a small buffer, each with guard bytes at
both ends: the buffer of an array with 100 rows 8 GiB apart takes a few hundred kilobytes.
"""

from __future__ import annotations

import math
import mmap
import sys
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kcheck.alignment import align_up, ceil_div
from kcheck.errors import UserError
from kcheck.model import AccessorArg, OpSpec, StrideArg, leaves
from kcheck.model.layouts import FAR_DISTANCE, PAGE, Spread, far_distance
from kcheck.rng import Xorshift128Plus

MOST_ROWS = 4096
"""The most rows of an array with the layout ``far``: each takes a page or more in the array and in each shadow."""

_DISTANCES = (FAR_DISTANCE, 2 * FAR_DISTANCE, 4 * FAR_DISTANCE)
"""If only the last row begins after 2**31 elements, a kernel that accesses few of them seldom accesses it."""
_ROOM = 2**22  # elements for the guard bytes of a row and the rounding to pages
_LEAST_GUARD, _MOST_GUARD = 256, 4096
_MAP_NORESERVE = 0x4000  # Linux: reserve address space only; pages are committed on first use
_MADV_NOHUGEPAGE = 15  # Linux: a huge page for each row would take 2 MiB

Bytes = npt.NDArray[np.uint8]


def far_rows(shape: Sequence[int], itemsize: int, axis: int, layout: str, stream: Xorshift128Plus) -> Spread:
    """Lay out rows along an axis.

    Args:
        shape: in elements; the extent along ``axis`` is at least 2.
        layout: ``far``, for which ``stream`` draws the distance, or one with a distance.
    """
    distance = far_distance(layout)
    if distance is None:
        # A stride that fits in 32 bits shows more bugs: kernels often take it as such a number.
        fits = (shape[axis] - 1) * (2**31 - _ROOM)
        distance = max(FAR_DISTANCE, min(stream.choice(_DISTANCES), fits))
    run = math.prod(shape[axis + 1 :]) * itemsize
    guard = align_up(max(_LEAST_GUARD, min(run, _MOST_GUARD)), _LEAST_GUARD)
    packed = align_up(guard + run + guard, _LEAST_GUARD)
    # Beyond the distance by more than a row, so that an offset modulo a power of two is not in the first row.
    apart = ceil_div(distance * itemsize + packed, shape[axis] - 1)
    return Spread(math.prod(shape[: axis + 1]), guard, run, packed, align_up(max(apart, packed), PAGE))


def far_axis(spec: OpSpec, name: str, shape: Sequence[int]) -> int | None:
    """The axis along which an array can have rows that are far apart: the outermost one of size 2 or more whose
    stride the kernel gets. None if there is none."""
    if 0 in shape:
        return None
    axes = passed_axes(spec, name, len(shape))
    return next((axis for axis in axes if shape[axis] > 1), None)


def passed_axes(spec: OpSpec, name: str, rank: int) -> tuple[int, ...]:
    """The axes of an array whose strides the kernel gets: all of them if it gets the array itself."""
    if spec.launch is None or spec.kernel is None or spec.kernel.kind == "numba":
        return tuple(range(rank))
    alias = {other: output.alias or other for other, output in spec.outputs.items()}
    own = alias.get(name, name)
    axes: set[int] = set()
    for argument in leaves((*spec.launch.args, *spec.variables.values())):
        if isinstance(argument, StrideArg) and alias.get(argument.array, argument.array) == own:
            axes.add(argument.axis % rank)
        elif isinstance(argument, AccessorArg) and alias.get(argument.array, argument.array) == own:
            axes.update(range(rank))
    return tuple(sorted(axes))


def no_huge_pages(pages: mmap.mmap, start: int, size: int) -> None:
    """Let each row take pages of the usual size. Only Linux has others for anonymous memory."""
    if sys.platform == "linux":
        first = start // PAGE * PAGE
        pages.madvise(_MADV_NOHUGEPAGE, first, min(start + size, len(pages)) - first)


def reserved(size: int, name: str) -> mmap.mmap:
    """Zeroed pages that use memory only when they are first accessed.

    Args:
        name: the array, for the message.

    Raises:
        NoAddressSpace: there is no address space for them.
    """
    try:
        if sys.platform == "win32":
            return mmap.mmap(-1, size)
        pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE)
    except OSError:
        raise NoAddressSpace(name, size) from None
    no_huge_pages(pages, 0, size)
    return pages


class NoAddressSpace(UserError):
    """An array cannot be reserved.

    Args:
        name: of the array.
        size: its bytes.
    """

    def __init__(self, name: str, size: int) -> None:
        super().__init__(
            f"no address space is left for {name!r}, which reserves {size / 2**30:,.1f} GiB; "
            "raise ulimit -v, remove 'far' from its layouts, or add --huge off"
        )
