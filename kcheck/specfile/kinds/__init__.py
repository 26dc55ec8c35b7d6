"""The kinds of kernels that a spec can name. A kind is one file here, for what a spec says, and one in
``kcheck.device.kinds``, for how it is compiled and launched."""

from __future__ import annotations

from collections.abc import Mapping

from kcheck.specfile.kinds.base import FoundKernel, Kind, Parameters
from kcheck.specfile.kinds.cuda import Cuda, Hip
from kcheck.specfile.kinds.numba import Numba
from kcheck.specfile.kinds.ptx import Ptx
from kcheck.specfile.kinds.triton import Triton

KINDS: Mapping[str, Kind] = {
    "cuda": Cuda(),
    "hip": Hip(),
    "ptx": Ptx(),
    "triton": Triton(),
    "numba": Numba(),  # the last for .py: it takes what no other kind claims
}
"""By the name that ``Kernel.kind`` has. The first that has the suffix of a file and owns the kernel is taken."""

SUFFIXES = tuple(dict.fromkeys(kind.suffix for kind in KINDS.values()))
"""The suffixes of files with kernels."""

ALL_KEYS = frozenset(key for kind in KINDS.values() for key in kind.keys)
"""The keys of ``compile:``, of every kind."""

__all__ = ["ALL_KEYS", "KINDS", "SUFFIXES", "FoundKernel", "Kind", "Parameters"]
