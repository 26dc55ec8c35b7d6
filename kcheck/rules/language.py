"""The words of fixes in the language of a kernel: numba.cuda, CUDA C++, PTX or Triton."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Literal

from kcheck.dataclass import dataclass
from kcheck.span import Span


@dataclass(frozen=True, slots=True)
class Language:
    """How a language writes what fixes name; numba.cuda by default.

    Attributes:
        name: of the language, in :class:`kcheck.rules.rule.Rule`.
        cast: converts ``{}`` to 64 bits.
        has_shapes: whether arrays have a shape; pointers do not.
        prints: the call that prints.
        kept: how to keep memory until a kernel has finished.
    """

    name: Literal["numba", "cpp", "ptx", "triton"] = "numba"
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
    prints: str = "print()"
    kept: str = "keep a reference to the array until the kernel has finished"

    @property
    def is_triton(self) -> bool:
        """Whether kernels are written for programs, which have neither threads nor barriers."""
        return self.name == "triton"

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
TRITON = Language("triton", cast="{}.to(tl.int64)", prints="tl.device_print()")
_FREED_LATER = "free the memory after the kernel has finished"

_CPP = Language(
    "cpp",
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
    prints="printf()",
    kept=_FREED_LATER,
)
_PTX = Language(
    "ptx",
    barrier="bar.sync 0",
    warp_barrier="bar.warp.sync",
    fence="membar.gl",
    atomic="atom or red",
    thread_index="%tid",
    local_array="the array",
    new_memory="new device memory is not zeroed",
    cast="mul.wide.s32 or cvt.s64.s32",
    has_shapes=False,
    prints="vprintf",
    kept=_FREED_LATER,
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
