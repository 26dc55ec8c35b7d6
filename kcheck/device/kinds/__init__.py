"""How kernels of each kind are compiled and launched; ``kcheck.specfile.kinds`` has their keys in
specs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from kcheck.device.kinds.base import Called, DeviceKind, Passed, WantedArtifact, Work

DEFAULT = "numba"
"""The kind of a launcher's kernels if the spec does not name a kernel."""

_PLACES = {
    "numba": ("numba", "NUMBA"),
    "cuda": ("cuda", "CUDA"),
    "hip": ("cuda", "HIP"),
    "ptx": ("ptx", "PTX"),
    "triton": ("triton", "TRITON"),
}
"""By ``kind`` of a kernel: the module in this package, and its object."""


class _Kinds(Mapping[str, DeviceKind]):
    """Every kind, imported when it is first used: a short run uses one."""

    def __getitem__(self, name: str) -> DeviceKind:
        module, kind = _PLACES[name]
        found: DeviceKind = getattr(import_module(f"{__name__}.{module}"), kind)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(_PLACES)

    def __len__(self) -> int:
        return len(_PLACES)


KINDS: Mapping[str, DeviceKind] = _Kinds()
"""The kinds, by ``kind`` of a kernel."""

__all__ = ["DEFAULT", "KINDS", "Called", "DeviceKind", "Passed", "WantedArtifact", "Work"]
