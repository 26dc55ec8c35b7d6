"""Places in files, and errors at these places."""

from __future__ import annotations

import functools
import os
import re

from kcheck.dataclass import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A place in a text file. ``line`` and ``column`` count from 1; ``file`` is as the user would type it. Line 0
    means the whole file, which may not exist."""

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file

    @property
    def short(self) -> str:
        """``kernels/softmax.py:12``; for an installed library,
        relative to its folder: ``numba_cuda/random.py:170``."""
        return f"{self.file.rpartition('site-packages/')[2]}:{self.line}"


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """One error in a user's file: where, what, and how to fix it."""

    span: Span
    what: str
    fix: str = ""

    def __str__(self) -> str:
        return f"{self.span}: {self.what}" + (f"; {self.fix}" if self.fix else "")


def as_typed(path: str) -> str:
    """A path as the user would type it:
    relative to the current folder if it is below that, otherwise unchanged."""
    try:
        relative = os.path.relpath(path)
    except ValueError:  # on another drive
        return path
    return path if relative.startswith("..") else relative


def is_users(file: str) -> bool:
    """Whether a file is the user's: not part of an installed library, a compiler or the CUDA toolkit,
    and not a string such as ``<stdin>``."""
    is_compilers = os.path.basename(file).startswith("__nv_nvrtc_") or file.startswith(_HEADERS)
    is_compilers = is_compilers or _is_systems(os.path.dirname(file))
    return bool(file) and not file.endswith(">") and "site-packages" not in file and not is_compilers


@functools.cache
def _is_systems(folder: str) -> bool:
    """Whether a folder is below the headers of the system or of a CUDA toolkit, wherever that is installed."""
    if folder.startswith(("/usr/include", "/usr/lib/")):
        return True
    ends = (found.end() for found in re.finditer(r"/include(?=/|$)", folder))
    return any(os.path.isfile(os.path.join(folder[:end], "cuda_runtime_api.h")) for end in ends)


_HEADERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "device", "kinds", "include")
"""The folder of kcheck's own headers for CUDA C++ and HIP."""
