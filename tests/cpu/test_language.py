"""Fixes name the functions of the language that a kernel is written in."""

from __future__ import annotations

import pytest

from kcheck.model import Span
from kcheck.rules.language import NUMBA, TRITON, language_of


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("kernels/k.py", "cuda.syncwarp() cuda.syncthreads() cuda.atomic int64(i) x.shape[1]"),
        (
            "kernels/k.cu",
            "__syncwarp() __syncthreads() an atomic function such as atomicAdd() (long long)i the size of axis 1 "
            "of x",
        ),
        (
            "include/k.cuh",
            "__syncwarp() __syncthreads() an atomic function such as atomicAdd() (long long)i the size of axis 1 "
            "of x",
        ),
        (
            "kernels/k.ptx",
            "bar.warp.sync bar.sync 0 atom or red mul.wide.s32 or cvt.s64.s32 the size of axis 1 of x",
        ),
    ],
)
def test_a_fix_is_in_the_language_of_the_line_that_it_is_for(file: str, words: str) -> None:
    told = language_of(Span(file, 3), is_triton=False)
    assert " ".join([told.warp_barrier, told.barrier, told.atomic, told.wide("i"), told.size("x", 1)]) == words


def test_a_pointer_is_guarded_without_a_shape() -> None:
    assert NUMBA.guard("i", "x", 0) == "guard the access with `if i < x.shape[0]`"
    cpp = language_of(Span("k.hip", 1), is_triton=False)
    assert cpp.guard("i", "x", 0) == "guard the access, so that its index is below the size of axis 0 of x"


def test_a_place_without_a_suffix_is_one_of_numba() -> None:
    assert language_of(None, is_triton=False) is NUMBA
    assert language_of(Span("<string>", 1), is_triton=False) is NUMBA
    assert language_of(Span("k.py", 1), is_triton=True) is TRITON
