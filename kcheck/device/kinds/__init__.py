"""How kernels of each kind are compiled and launched; ``kcheck.specfile.kinds`` has what specs say about them."""

from __future__ import annotations

from collections.abc import Mapping

from kcheck.device.kinds.base import Called, Kind, Passed, Work
from kcheck.device.kinds.cuda import CUDA, HIP
from kcheck.device.kinds.numba import Numba
from kcheck.device.kinds.ptx import PTX
from kcheck.device.kinds.triton import TRITON

DEFAULT = "numba"
"""The kind of a launcher's kernels where the spec names no kernel."""

KINDS: Mapping[str, Kind] = {
    "numba": Numba(),
    "cuda": CUDA,
    "hip": HIP,
    "ptx": PTX,
    "triton": TRITON,
}
"""By the name that ``Kernel.kind`` has."""

__all__ = ["DEFAULT", "KINDS", "Called", "Kind", "Passed", "Work"]
