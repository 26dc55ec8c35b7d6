"""The exact bytes that a case was launched with, for when its seed alone does not tell any more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from kcheck.model.case import Case

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Values: TypeAlias = npt.NDArray[Any]
    Number: TypeAlias = np.generic


@dataclass(frozen=True, eq=False, slots=True)
class ArraySnapshot:
    """One array and how it lies in memory.

    Attributes:
        dtype: by name, as in DTYPES.
        shape, strides: in elements, in bytes.
        offset: bytes from the beginning of the buffer to element (0, 0, ...).
        size: bytes of the buffer.
        guard: the byte that every byte of the buffer holds which belongs to no element.
        values: of this shape and dtype, the array itself or a view of it; None for an output, which is handed over
            poisoned. Along an axis of stride 0, all values are the same.
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


@dataclass(frozen=True, eq=False, slots=True)
class Snapshot:
    """What a case's launch is made with; whoever holds it needs no generator.

    Attributes:
        arrays: inputs, then outputs that are memory of their own, in the order of the spec.
        params: by name, rounded to their dtype.
        aliases: by output that is computed in place, the input whose memory it is.
    """

    case: Case
    arrays: tuple[ArraySnapshot, ...]
    params: Mapping[str, Number]
    aliases: Mapping[str, str]

    @property
    def size(self) -> int:
        """Bytes of all buffers."""
        return sum(array.size for array in self.arrays)
