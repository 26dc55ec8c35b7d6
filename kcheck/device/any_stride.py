"""Makes Numba compile kernels for arrays of any stride, regardless of the layouts of the arrays.

Numba compiles a kernel for each combination of layouts (C-contiguous, Fortran-contiguous, any) of its arrays. Code
for any stride computes the same results for all of them, so one specialization for each choice of dtypes is enough
for a verdict.
"""

from __future__ import annotations

import copy
from typing import Any
from weakref import WeakSet

_KEPT: WeakSet[Any] = WeakSet()


def may_be_strided(kernel: Any) -> bool:
    """Whether Numba compiles this kernel for each call's types, and has not failed to do so for any stride."""
    return bool(getattr(kernel, "_can_compile", False)) and kernel not in _KEPT


def keep_layouts(kernel: Any) -> None:
    """Record that a kernel does not compile for arrays of any stride."""
    _KEPT.add(kernel)


def as_strided(array: Any) -> Any:
    """The same device array, which Numba types as one of any stride. An array without axes is unchanged."""
    if not array.ndim:
        return array
    strided = copy.copy(array)
    strided.__dict__.pop("_numba_type_", None)  # Numba caches the type of an array here
    strided._dummy = copy.copy(array._dummy)
    strided._dummy.flags = {**array._dummy.flags, "C_CONTIGUOUS": False, "F_CONTIGUOUS": False}
    return strided
