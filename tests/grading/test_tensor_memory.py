"""Candidates with tensors: memory that PyTorch leaves uninitialized, outputs that are not written, inputs that are
changed. Needs PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from kcheck.grading.grader import Grader, GradingOptions
from kcheck.grading.problem import read_problem

_MODEL = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)

size = 300

def get_inputs():
    return [torch.randn(size)]

def get_init_inputs():
    return []
"""
_HEAD = """
import torch
import triton
import triton.language as tl

@triton.jit
def plain(x, y, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + o, mask=o < n)
    tl.store(y + o, tl.maximum(v, 0), mask=o < n)

@triton.jit
def adds(x, y, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + o, mask=o < n)
    tl.store(y + o, tl.load(y + o, mask=o < n) + tl.maximum(v, 0), mask=o < n)

@triton.jit
def positive(x, y, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + o, mask=o < n)
    tl.store(y + o, v, mask=(o < n) & (v > 0))

@triton.jit
def clears(x, y, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + o, mask=o < n)
    tl.store(y + o, tl.maximum(v, 0), mask=o < n)
    tl.store(x + o, v * 0, mask=o < n)

def launch(kernel, x, y):
    kernel[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), 128)
    return y
"""
_CALL = "\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return {value}\n"


@pytest.fixture(scope="module")
def grader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grader]:
    path = tmp_path_factory.mktemp("problem") / "model.py"
    path.write_text(_MODEL)
    with Grader(read_problem(path), GradingOptions(4, 0)) as made:
        yield made


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("launch(plain, x, torch.empty_like(x))", "correct "),
        ("launch(adds, x, torch.zeros_like(x))", "correct "),
        ("launch(adds, x, torch.empty_like(x))", "wrong initcheck"),
        ("launch(adds, x, torch.empty(x.shape, device='cuda'))", "wrong initcheck"),
        ("launch(adds, x, x.new_empty(x.shape))", "wrong initcheck"),
        ("launch(positive, x, torch.zeros_like(x))", "correct "),
        ("launch(positive, x, torch.empty_like(x))", "wrong unwritten"),
        ("launch(plain, x, x)", "correct "),
        ("launch(clears, x, torch.empty_like(x))", "wrong mutated"),
    ],
)
def test_uninitialized_unwritten_and_changed(grader: Grader, tmp_path: Path, value: str, expected: str) -> None:
    candidate = tmp_path / "candidate.py"
    candidate.write_text(_HEAD + _CALL.format(value=value))
    graded = grader.grade(candidate)
    assert f"{graded.verdict} {graded.rule}" == expected, graded.message
