"""The arrays of a case as code in this process gets them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kcheck.generator.far import Bytes, reserved
from kcheck.generator.layouts import Allocation


class HostArray:
    """An array of a case in its own memory, as code that runs in this process gets it.

    Args:
        buffer: the initial bytes; the caller keeps them.

    Attributes:
        array: the array; it keeps its memory alive.

    Raises:
        NoAddressSpace: there is no address space for it.
    """

    def __init__(self, allocation: Allocation, buffer: Bytes) -> None:
        self._rows: Bytes | None = None
        far = allocation.far
        if far is None:
            self._memory: Any = buffer.copy()
        else:
            self._memory = reserved(far.span, allocation.name)
            self._rows = far.view(self._memory)
            self._rows[...] = buffer.reshape(self._rows.shape)
        self.array: npt.NDArray[Any] = np.ndarray(
            allocation.shape, allocation.dtype.numpy, self._memory, allocation.offset, allocation.passed_strides
        )

    def bytes(self) -> Bytes:
        """The bytes of the buffer as they are now: its memory, or a copy if its rows are far apart."""
        found: Bytes = self._memory if self._rows is None else self._rows.reshape(-1)
        return found
