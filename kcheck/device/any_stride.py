"""Launch kernels of numba.cuda with arrays of any stride, whatever the layout of the arrays.

Numba compiles a kernel for each combination of layouts (C-contiguous, Fortran-contiguous, any) of its arrays. Code
for any stride computes the same with all of them, so one specialization for each choice of dtypes is enough for a
verdict.
"""

from __future__ import annotations

import copy
from typing import Any
from weakref import WeakSet

_KEPT: WeakSet[Any] = WeakSet()


def may_be_strided(kernel: Any) -> bool:
    """Whether Numba compiles this dispatcher for the types of each call, and it compiled for any stride so far."""
    return bool(getattr(kernel, "_can_compile", False)) and kernel not in _KEPT


def keep_layouts(kernel: Any) -> None:
    """Note that a kernel does not compile for arrays of any stride."""
    _KEPT.add(kernel)


def as_strided(array: Any) -> Any:
    """The same device array, which Numba takes for one of any stride. An array without axes stays as it is."""
    if not array.ndim:
        return array
    strided = copy.copy(array)
    strided.__dict__.pop("_numba_type_", None)  # Numba keeps the type of an array that it has seen
    strided._dummy = copy.copy(array._dummy)
    strided._dummy.flags = {**array._dummy.flags, "C_CONTIGUOUS": False, "F_CONTIGUOUS": False}
    return strided
