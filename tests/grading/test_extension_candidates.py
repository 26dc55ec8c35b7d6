"""Candidates that build a CUDA extension. Needs PyTorch, nvcc, ninja, a C++ compiler; a build takes a minute."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch")

from kcheck.grading.grader import Graded, Grader, GradingOptions
from kcheck.grading.problem import read_problem
from kcheck.torch_cuda.toolkit import find_toolkit

pytestmark = pytest.mark.skipif(
    not (find_toolkit(os.environ) and shutil.which("ninja") and shutil.which("c++")), reason="no compilers"
)
_MODEL = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 3

rows = 16
columns = 100

def get_inputs():
    return [torch.randn(rows, columns)]

def get_init_inputs():
    return []
"""
_CANDIDATE = '''
import torch
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <cuda_runtime.h>
__global__ void kernel(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (CONDITION) y[i] = fmaxf(x[i], 0.0f) * 3;  // the line of the bug
}
void launch(const float* x, float* y, int n, void* stream) {
  kernel<<<(n + 127) / 128, 128, 0, (cudaStream_t)stream>>>(x, y, n);
}
"""
CPP = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
void launch(const float* x, float* y, int n, void* stream);
torch::Tensor relu3(torch::Tensor x) {
  TORCH_CHECK(x.is_cuda() && x.is_contiguous());
  auto y = torch::empty_like(x);
  launch(x.data_ptr<float>(), y.data_ptr<float>(), x.numel(), c10::cuda::getCurrentCUDAStream().stream());
  return y;
}
"""
extension = load_inline("relu3", [CPP], [CUDA], functions=["relu3"], no_implicit_headers=True)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return extension.relu3(x)
'''


def graded(folder: Path, text: str) -> Graded:
    problem, candidate = folder / "model.py", folder / "candidate.py"
    problem.write_text(_MODEL)
    candidate.write_text(text)
    with Grader(read_problem(problem), GradingOptions(6, 0)) as grader:
        return grader.grade(candidate)


def test_a_kernel_without_a_bound_check_is_wrong_at_the_candidates_line(tmp_path: Path) -> None:
    found = graded(tmp_path, _CANDIDATE.replace("CONDITION", "true"))
    assert (found.verdict, found.rule) == ("wrong", "memcheck"), found
    assert found.place is not None
    assert Path(found.place.file).name == "candidate.py"
    assert found.place.line == 1 + _CANDIDATE[: _CANDIDATE.index("// the line")].count("\n")


def test_a_correct_kernel_is_correct(tmp_path: Path) -> None:
    found = graded(tmp_path, _CANDIDATE.replace("CONDITION", "i < n"))
    assert (found.verdict, found.message) == ("correct", "")


@pytest.mark.parametrize("method", ["__init__", "forward"])
def test_an_extension_may_be_built_later_than_in_the_import(tmp_path: Path, method: str) -> None:
    start = _CANDIDATE.index("extension = load_inline")
    end = _CANDIDATE.index("\n", start)
    line, rest = _CANDIDATE[start:end], _CANDIDATE[end:]
    init = "    def __init__(self):\n        super().__init__()\n"
    before = f"        global extension\n        {line}\n"
    text = rest.replace("    def forward(self, x):\n", init + "    def forward(self, x):\n")
    heads = {"__init__": init, "forward": "    def forward(self, x):\n"}
    text = text.replace(heads[method], heads[method] + before)
    found = graded(tmp_path, (_CANDIDATE[:start] + text).replace("CONDITION", "i < n"))
    assert (found.verdict, found.message) == ("correct", "")


def test_a_note_says_why_an_extension_was_not_built_if_the_candidate_ignores_that(tmp_path: Path) -> None:
    start = _CANDIDATE.index("extension = load_inline")
    end = _CANDIDATE.index("\n", start)
    tries = f"try:\n    {_CANDIDATE[start:end]}\nexcept Exception:\n    extension = None\n"
    text = (
        _CANDIDATE[:start]
        + tries
        + _CANDIDATE[end:].replace(
            "return extension.relu3(x)", "return extension.relu3(x) if extension else x.relu() * 3"
        )
    )
    found = graded(tmp_path, text.replace("CONDITION", "undeclared == n"))
    assert (found.verdict, found.rule) == ("cheat", "pytorch")
    (note,) = [note for note in found.notes if "relu3" in note]
    assert note.startswith("its extension relu3 was not built, which it ignores: relu3/cuda.cu(")
    assert "undeclared" in note


def test_an_extension_that_does_not_compile_is_an_error_with_the_compilers_message(tmp_path: Path) -> None:
    found = graded(tmp_path, _CANDIDATE.replace("CONDITION", "undeclared < n"))
    assert found.verdict == "error"
    assert "relu3" in found.message
