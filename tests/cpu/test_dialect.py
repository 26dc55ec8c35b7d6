"""Fixes name the functions of the language that a kernel is written in."""

from __future__ import annotations

import pytest

from kcheck.cpu.dialect import in_words_of_source
from kcheck.model import Finding, Span

FIX = "put cuda.syncwarp() or cuda.syncthreads() between, or use cuda.atomic"


@pytest.mark.parametrize(
    ("file", "fix"),
    [
        ("kernels/k.py", FIX),
        ("<string>", FIX),
        (
            "kernels/k.cu",
            "put __syncwarp() or __syncthreads() between, or use an atomic function such as atomicAdd()",
        ),
        (
            "include/k.cuh",
            "put __syncwarp() or __syncthreads() between, or use an atomic function such as atomicAdd()",
        ),
        ("kernels/k.ptx", "put bar.warp.sync or bar.sync 0 between, or use atom or red"),
    ],
)
def test_a_fix_is_in_the_language_of_the_line_that_it_is_for(file: str, fix: str) -> None:
    race = Finding("racecheck", "a race", fix=FIX, place=Span(file, 3))
    assert in_words_of_source(race, is_triton=False).fix == fix


def test_a_finding_without_a_line_is_left_as_it_is() -> None:
    assert in_words_of_source(Finding("racecheck", "a race", fix=FIX), is_triton=False).fix == FIX
