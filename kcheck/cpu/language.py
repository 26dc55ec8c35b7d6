"""The words of fixes in the language of a kernel: numba.cuda, CUDA C++, PTX or Triton."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import PurePath
from typing import Literal

from kcheck.dataclass import dataclass
from kcheck.model import Span


@dataclass(frozen=True, slots=True)
class Language:
    """How a language writes what fixes name; numba.cuda by default.

    Attributes:
        cast: converts ``{}`` to 64 bits.
        has_shapes: whether arrays have a shape; pointers do not.
        is_triton: whether a kernel is written for programs, which have neither threads nor barriers.
        fixes: by rule, a fix that holds for all its findings.
        severities: by rule, the severity of its findings if it is not an error.
    """

    barrier: str = "cuda.syncthreads()"
    warp_barrier: str = "cuda.syncwarp()"
    fence: str = "cuda.threadfence()"
    copy_wait: str = "cp.async.wait_group"
    atomic: str = "cuda.atomic"
    thread_index: str = "cuda.threadIdx"
    local_array: str = "cuda.local.array()"
    new_memory: str = "cuda.device_array() does not zero memory"
    cast: str = "int64({})"
    has_shapes: bool = True
    is_triton: bool = False
    fixes: Mapping[str, str] = field(default_factory=dict)
    severities: Mapping[str, Literal["error", "warn"]] = field(default_factory=dict)

    def wide(self, operand: str) -> str:
        """An operand converted to 64 bits."""
        return self.cast.replace("{}", operand)

    def size(self, array: str, axis: int) -> str:
        """The size of an axis of an array."""
        return f"{array}.shape[{axis}]" if self.has_shapes else f"the size of axis {axis} of {array}"

    def guard(self, letter: str, array: str, axis: int) -> str:
        """To compare an index with the size of an axis. ``letter``: a name for the index."""
        size = self.size(array, axis)
        if self.has_shapes:
            return f"guard the access with `if {letter} < {size}`"
        return f"guard the access, so that its index is below {size}"


NUMBA = Language()
TRITON = Language(
    cast="{}.to(tl.int64)",
    is_triton=True,
    fixes={
        "synccheck": "check the inline assembly: Triton itself places barriers that all threads reach",
        "initcheck": "write the element first (torch.empty does not), or leave it out with mask= and other=",
        "stack": "",
        "division": "check that the divisor is not 0; Triton's pipeliner may have moved it ahead of the loop's "
        "last iteration, which is harmless",
    },
    severities={"division": "warn"},
)
_CPP = Language(
    barrier="__syncthreads()",
    warp_barrier="__syncwarp()",
    fence="__threadfence()",
    copy_wait="__pipeline_wait_prior() or consumer_wait()",
    atomic="an atomic function such as atomicAdd()",
    thread_index="threadIdx",
    local_array="the array",
    new_memory="new device memory is not zeroed",
    cast="(long long){}",
    has_shapes=False,
)
_PTX = Language(
    barrier="bar.sync 0",
    warp_barrier="bar.warp.sync",
    fence="membar.gl",
    atomic="atom or red",
    thread_index="%tid",
    local_array="the array",
    new_memory="new device memory is not zeroed",
    cast="mul.wide.s32 or cvt.s64.s32",
    has_shapes=False,
)
_BY_SUFFIX: Mapping[str, Language] = {
    **dict.fromkeys((".cu", ".cuh", ".h", ".hpp", ".hip", ".inl"), _CPP),
    ".ptx": _PTX,
}


def language_of(place: Span | None, *, is_triton: bool) -> Language:
    """The language of a finding: Triton, or that of the file it is in."""
    if is_triton:
        return TRITON
    return NUMBA if place is None else _BY_SUFFIX.get(PurePath(place.file).suffix, NUMBA)
