"""The exact inputs of a launch, for the time when its seed no longer generates them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from kcheck.dataclass import dataclass
from kcheck.model.case import Case
from kcheck.model.layouts import Spread

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Values: TypeAlias = npt.NDArray[Any]
    Number: TypeAlias = np.generic


@dataclass(frozen=True, eq=False, slots=True)
class ArraySnapshot:
    """One array and its memory layout.

    Attributes:
        dtype: by name, as in DTYPES.
        shape, strides: in elements, in bytes; of the buffer.
        offset: bytes from the start of the buffer to element (0, 0, ...).
        size: bytes of the buffer.
        guard: the value of every byte of the buffer that is not part of an element.
        values: the array or a view of it, with this shape and dtype; None for an output, which is poisoned before
            the launch. Along an axis of stride 0 all values are equal.
        far: where a launch has the rows of the buffer, for the layout ``far``.
    """

    name: str
    role: Literal["input", "output"]
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    size: int
    guard: int
    values: Values | None
    far: Spread | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Snapshot:
    """Everything that a launch of a case needs, without running a generator.

    Attributes:
        arrays: inputs, then the outputs that have their own memory, in the order of the spec.
        params: by name, rounded to their dtype.
        aliases: for each output computed in place, the input whose memory it uses.
    """

    case: Case
    arrays: tuple[ArraySnapshot, ...]
    params: Mapping[str, Number]
    aliases: Mapping[str, str]

    @property
    def size(self) -> int:
        """Bytes of all buffers."""
        return sum(array.size for array in self.arrays)
