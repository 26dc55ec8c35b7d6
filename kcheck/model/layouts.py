"""The names of memory layouts, and where the rows of the layout ``far`` are."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from kcheck.dataclass import dataclass

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bytes: TypeAlias = npt.NDArray[np.uint8]

LEAST_AXES: Mapping[str, int] = {
    "contiguous": 0,
    "padded": 2,
    "strided": 1,
    "transposed": 2,
    "swapped": 3,
    "offset": 0,
    "broadcast": 1,
    "reversed": 1,
    "channels_last": 3,
    "far": 1,
}
"""Every layout, the simplest first, with the number of axes that it requires."""
LAYOUTS = tuple(LEAST_AXES)

DEVICE_MEMORY = "KCHECK_DEVICE_MEMORY"
"""The variable with the memory of the cpu device in GiB: rows that lie far apart need address space only."""

PAGE = 4096
FAR = "far"
FAR_DISTANCE = 2**31
"""Elements from the first index to the last along an axis of the layout ``far``, at least."""
MOST_FAR = 2**40


def far_layout(distance: int) -> str:
    """The name of the layout ``{far: distance}``."""
    return f"{FAR}:{distance}"


def layout_kind(layout: str) -> str:
    """The layout in LAYOUTS: ``far`` for ``far:4294967296``."""
    return layout.partition(":")[0]


def is_far(layout: str) -> bool:
    """Whether it is ``far``, with or without a distance."""
    return layout_kind(layout) == FAR


def is_layout(layout: str) -> bool:
    """Whether it is the name of a layout, as a case has it."""
    kind, _, distance = layout.partition(":")
    if kind != FAR or not distance:
        return layout in LAYOUTS
    return distance.isdecimal() and 1 <= int(distance) <= MOST_FAR


def far_distance(layout: str) -> int | None:
    """The distance in elements from the first row to the last that a layout ``{far: n}`` sets; None for others."""
    _, _, distance = layout.partition(":")
    return int(distance) if distance else None


def shown_layout(layout: str) -> str:
    """The layout as a spec has it: ``{far: 4294967296}``."""
    kind, _, distance = layout.partition(":")
    return f"{{{kind}: {distance}}}" if distance else layout


@dataclass(frozen=True, slots=True)
class Spread:
    """Where the rows of an array are in the memory of a launch. In its buffer they lie side by side.

    Attributes:
        rows: how many there are: the product of the extents up to the axis along which they are far apart.
        lead: guard bytes before each row.
        run: bytes of a row.
        packed: bytes from the start of a row to that of the next in the buffer.
        apart: the same in the memory of a launch.
    """

    rows: int
    lead: int
    run: int
    packed: int
    apart: int

    @property
    def span(self) -> int:
        """Bytes from the first guard byte to the last in the memory of a launch."""
        return (self.rows - 1) * self.apart + self.packed

    def strides(self, packed: Sequence[int]) -> tuple[int, ...]:
        """The strides in the memory of a launch, given those in the buffer; both in bytes."""
        return tuple(stride // self.packed * self.apart if stride >= self.packed else stride for stride in packed)

    def view(self, memory: Any) -> Bytes:
        """The bytes of a buffer where a launch has them, shape ``(rows, packed)``.

        Args:
            memory: a buffer of at least :attr:`span` bytes.
        """
        import numpy as np  # lazy: the model is imported where no array is

        return np.ndarray((self.rows, self.packed), np.uint8, memory, 0, (self.apart, 1))

    def at(self, address: int) -> Bytes:
        """:meth:`view` of the memory at an address."""
        return self.view((ctypes.c_uint8 * self.span).from_address(address))

    def ranges(self, address: int) -> list[tuple[int, int]]:
        """The elements of each row as half-open ranges, if the first guard byte is at an address."""
        first = address + self.lead
        return [(low, low + self.run) for low in range(first, first + self.rows * self.apart, self.apart)]
