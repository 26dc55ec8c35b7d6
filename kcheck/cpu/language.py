"""Fixes in the words of the language that a kernel is written in: they are written in Numba's words, and a table
has those of CUDA C++, which HIP and PTX share."""

from __future__ import annotations

import re

_CPP = (
    ("use cuda.atomic", "use an atomic, such as atomicAdd()"),
    ("cuda.syncthreads()", "__syncthreads()"),
    ("cuda.syncwarp()", "__syncwarp()"),
    ("cuda.threadfence()", "__threadfence()"),
    ("cuda.threadIdx", "threadIdx"),
    ("every element of cuda.local.array()", "every element of the array"),
    ("cuda.device_array() does not zero memory", "new device memory is not zeroed"),
)
_GUARD = re.compile(r"guard the access with `if (\w) < (\w+)\.shape\[(\d)\]`")
_SHAPE = re.compile(r"(\w+)\.shape\[(\d)\]")


def worded(fix: str, file: str) -> str:
    """A fix for a line of a file."""
    if not file or file.endswith(".py"):
        return fix
    for numba, cpp in _CPP:
        fix = fix.replace(numba, cpp)
    fix = _GUARD.sub(r"guard the access, so that its index is below the size of axis \3 of \2", fix)
    return _SHAPE.sub(r"the size of axis \2 of \1", fix)
