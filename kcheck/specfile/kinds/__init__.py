"""The kinds of kernels that a spec can name. A kind is one file here, which reads specs, and one in
``kcheck.device.kinds``, which compiles and launches kernels."""

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
    "numba": Numba(),  # after the other kinds for .py, because it owns every Python kernel
}
"""The kinds by their names in ``KernelRef.kind``.
The first one that has the suffix of a file and owns the kernel is used."""

SUFFIXES = tuple(dict.fromkeys(kind.suffix for kind in KINDS.values()))
"""The suffixes of files with kernels."""

ALL_KEYS = frozenset(key for kind in KINDS.values() for key in kind.keys)
"""The keys of ``compile:``, for all kinds."""

__all__ = ["ALL_KEYS", "KINDS", "SUFFIXES", "FoundKernel", "Kind", "Parameters"]
