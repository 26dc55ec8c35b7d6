"""Warnings about kernels in the terms of their language. The original ones use those of numba.cuda."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePath

from kcheck.lint.doubles import CPP
from kcheck.model import Finding

_CONSTANT = re.compile(r"write np\.float(?:16|32)\(([^)]*)\)")
_TRITON = {
    "f64-in-f32": "leave out what makes a float64 tensor, such as .to(tl.float64): a Python float does not",
    "spills": "use smaller blocks or more warps (num_warps), or keep fewer tensors alive at a time",
    "printf": "remove tl.device_print() from production code",
    "uncoalesced": "make the last axis of the block the contiguous one, or mark it with tl.max_contiguous",
    "bank-conflict": "try another block size or num_warps: Triton chooses the layout of shared memory",
}
_CPP = {
    "f64-in-f32": "write constants as 0.5f, and call the functions for floats, such as sqrtf()",
    "printf": "remove printf() from production code",
}
_PTX = {"f64-in-f32": "use the .f32 form", "printf": "remove vprintf from production code"}
_BY_SUFFIX: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys(CPP, _CPP),
    ".ptx": _PTX,
}
_PRINTS = {".py": "calls tl.device_print()", ".ptx": "calls vprintf"}


def in_words_of_source(finding: Finding, *, is_triton: bool) -> Finding:
    """The warning, with message and fix for the language of its file."""
    suffix = PurePath(finding.place.file).suffix if finding.place is not None else ".py"
    words = _TRITON if is_triton else _BY_SUFFIX.get(suffix)
    if words is None:
        return finding
    fix = words.get(finding.rule, finding.fix)
    constant = _CONSTANT.search(finding.fix) if words is _CPP else None
    if constant is not None and re.fullmatch(r"[\d.e+-]+", constant[1]):
        fix = f"write {constant[1]}f: without the f it is a double"
    message = finding.message
    if finding.rule == "printf":
        message = _PRINTS.get(suffix, "calls printf()")
    return replace(finding, message=message, fix=fix)
