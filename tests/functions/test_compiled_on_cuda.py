"""``torch.compile`` on ``cuda`` under ``kcheck exec``: its Triton kernels run on the cpu device, checked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.functions.test_program_functions_on_cuda import ran

pytest.importorskip("triton")

PROGRAM = """
import warnings

warnings.simplefilter("ignore")


@torch.compile
def scores(x, y):
    return torch.softmax(2 * x + y, dim=-1).sum(0).relu()


model = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.GELU(), torch.nn.LayerNorm(30)).cuda()
x, y = (torch.randn(37, 129, device="cuda") for _ in range(2))
print(torch.allclose(scores(x, y), torch.softmax(2 * x + y, dim=-1).sum(0).relu(), atol=1e-5))
inputs = torch.randn(16, 20, device="cuda", requires_grad=True)
torch.compile(model)(inputs).square().sum().backward()
compiled, inputs.grad = inputs.grad, None
model(inputs).square().sum().backward()
print(torch.allclose(compiled, inputs.grad, atol=1e-4))

from torch._inductor.runtime.triton_heuristics import CachingAutotuner
import gc

print(any(type(each) is CachingAutotuner for each in gc.get_objects()))
"""


def test_generated_kernels_compute_what_pytorch_does_also_backward(tmp_path: Path) -> None:
    assert ran(tmp_path, PROGRAM) == "True\nTrue\nTrue\n"


def test_an_index_that_a_generated_kernel_reads_is_checked(tmp_path: Path) -> None:
    program = """
import warnings

warnings.simplefilter("ignore")


@torch.compile
def gather(x):
    return torch.as_strided(x, (200,), (1,)) + 1


base = torch.zeros(256, device="cuda")
print(gather(base[:100]).sum().item())
"""
    assert ran(tmp_path, program) == "200.0\n"
