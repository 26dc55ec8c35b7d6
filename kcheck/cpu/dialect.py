"""Translates findings, which are written in the terms of numba.cuda, to the terms of the kernel's language."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePath

from kcheck.cpu.triton_words import in_words_of_triton
from kcheck.cpu.wrapped import in_words_of
from kcheck.model import Finding

_CUDA_CPP = {
    "cuda.syncthreads()": "__syncthreads()",
    "cuda.syncwarp()": "__syncwarp()",
    "cuda.threadfence()": "__threadfence()",
    "cp.async.wait_group": "__pipeline_wait_prior() or consumer_wait()",
    "cuda.atomic": "an atomic function such as atomicAdd()",
    "cuda.threadIdx": "threadIdx",
    "cuda.local.array()": "the array",
    "cuda.device_array() does not zero memory": "new device memory is not zeroed",
    "int64": "(long long){}",
}
_PTX = {
    "cuda.syncthreads()": "bar.sync 0",
    "cuda.syncwarp()": "bar.warp.sync",
    "cuda.threadfence()": "membar.gl",
    "cuda.atomic": "atom or red",
    "cuda.threadIdx": "%tid",
    "cuda.local.array()": "the array",
    "cuda.device_array() does not zero memory": "new device memory is not zeroed",
    "int64": "mul.wide.s32 or cvt.s64.s32",
}
_WORDS: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys((".cu", ".cuh", ".h", ".hpp", ".hip", ".inl"), _CUDA_CPP),
    ".ptx": _PTX,
}


_GUARD = re.compile(r"guard the access with `if (\w) < (\w+)\.shape\[(\d)\]`")
_SHAPE = re.compile(r"(\w+)\.shape\[(\d)\]")
"""Sizes of arrays in Numba's notation. Pointers have no shape."""


def in_words_of_source(finding: Finding, *, is_triton: bool) -> Finding:
    """The finding in the terms of Triton, or with the fix in the language of its file: CUDA C++, PTX or Python."""
    if is_triton:
        return in_words_of_triton(finding)
    words = _WORDS.get(PurePath(finding.place.file).suffix) if finding.place is not None else None
    if not words:
        return finding
    pattern = "|".join(re.escape(word) for word in words if word != "int64")
    fix = re.sub(pattern, lambda match: words[match[0]], finding.fix)
    fix = in_words_of(fix, words["int64"])
    fix = _GUARD.sub(r"guard the access, so that its index is below the size of axis \3 of \2", fix)
    return replace(finding, fix=_SHAPE.sub(r"the size of axis \2 of \1", fix))
