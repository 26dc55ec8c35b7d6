"""Findings in the words of the kernel's language. They are written in those of numba.cuda."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePath

from kcheck.model import Finding

_CUDA_CPP = {
    "cuda.syncthreads()": "__syncthreads()",
    "cuda.syncwarp()": "__syncwarp()",
    "cuda.threadfence()": "__threadfence()",
    "cp.async.wait_group": "__pipeline_wait_prior() or consumer_wait()",
    "cuda.atomic": "an atomic function such as atomicAdd()",
}
_PTX = {
    "cuda.syncthreads()": "bar.sync 0",
    "cuda.syncwarp()": "bar.warp.sync",
    "cuda.threadfence()": "membar.gl",
    "cuda.atomic": "atom or red",
}
_WORDS: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys((".cu", ".cuh", ".h", ".hpp", ".hip", ".inl"), _CUDA_CPP),
    ".ptx": _PTX,
}


def in_words_of_source(finding: Finding) -> Finding:
    """The finding with the fix in the language of the file that it is in."""
    words = _WORDS.get(PurePath(finding.place.file).suffix) if finding.place is not None else None
    if not words:
        return finding
    pattern = "|".join(re.escape(word) for word in words)
    return replace(finding, fix=re.sub(pattern, lambda match: words[match[0]], finding.fix))
