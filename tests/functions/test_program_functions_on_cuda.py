"""Functions of a program that PyTorch calls, on tensors whose device is ``cuda``: operators of ``torch.library``,
``backward()`` and hooks. Under ``kcheck exec`` they run as on a GPU.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parents[2]
SETUP = """\
import torch
from torch.library import Library, custom_op

on_cpu, on_device = torch.full((3,), -2.0), torch.full((3,), -2.0, device="cuda")


def plus_100(x):
    assert x.device.type == torch.empty_like(x).device.type == torch.empty(1, device="cuda").device.type == "cuda"
    return x + 100
"""


def ran(tmp_path: Path, program: str) -> str:
    """What ``kcheck exec`` prints for a program."""
    path = tmp_path / "program.py"
    path.write_text(SETUP + program)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error::UserWarning"}
    command = [sys.executable, "-m", "kcheck", "exec", "--", sys.executable, str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_custom_operator_for_cuda_runs_on_tensors_on_cuda(tmp_path: Path) -> None:
    program = """
schema = "(Tensor x) -> Tensor"
operator = custom_op("mine::plus_100", plus_100, mutates_args=(), device_types="cuda", schema=schema)
print(operator(on_device).tolist(), operator(on_device).device)
try:
    operator(on_cpu)
except NotImplementedError as error:
    print(str(error).partition(". ")[0])
"""
    refused = "Could not run 'mine::plus_100' with arguments from the 'CPU' backend"
    assert ran(tmp_path, program) == f"[98.0, 98.0, 98.0] cuda:0\n{refused}\n"


def test_an_operator_for_the_cpu_alone_does_not_run_on_cuda(tmp_path: Path) -> None:
    program = """
library = Library("mine", "DEF")
library.define("shift(Tensor x) -> Tensor")
library.impl("shift", lambda x: x + 1, "CPU")
print(torch.ops.mine.shift(on_cpu).tolist())
try:
    torch.ops.mine.shift(on_device)
except NotImplementedError as error:
    print(str(error).partition(". ")[0])
"""
    refused = "Could not run 'mine::shift' with arguments from the 'CUDA' backend"
    assert ran(tmp_path, program) == f"[-1.0, -1.0, -1.0]\n{refused}\n"


def test_a_custom_operator_for_all_devices_may_make_tensors_on_cuda(tmp_path: Path) -> None:
    program = """
operator = custom_op("mine::plus_100", plus_100, mutates_args=(), schema="(Tensor x) -> Tensor")
print(operator(on_device).tolist(), operator(on_device).device)
"""
    assert ran(tmp_path, program) == "[98.0, 98.0, 98.0] cuda:0\n"


@pytest.mark.parametrize("keys", [("CPU", "CUDA"), ("CUDA", "CPU")], ids=" then ".join)
def test_an_operator_with_two_implementations_runs_that_of_its_tensors_device(
    tmp_path: Path, keys: tuple[str, str]
) -> None:
    program = f"""
library = Library("mine", "DEF")
library.define("shift(Tensor x) -> Tensor")
for key in {keys}:
    library.impl("shift", plus_100 if key == "CUDA" else lambda x: x + 1, key)
print(torch.ops.mine.shift(on_device).tolist(), torch.ops.mine.shift(on_cpu).tolist())
"""
    assert ran(tmp_path, program) == "[98.0, 98.0, 98.0] [-1.0, -1.0, -1.0]\n"


def test_a_program_can_replace_an_operator_of_pytorch_for_cuda_alone(tmp_path: Path) -> None:
    """Until it drops the library, as on a GPU."""
    program = """
library = Library("aten", "IMPL")
library.impl("abs", plus_100, "CUDA")
print(torch.abs(on_device).tolist(), torch.abs(on_cpu).tolist(), torch.abs(on_device.cpu()).tolist())
library._destroy()
print(torch.abs(on_device).tolist())
"""
    assert ran(tmp_path, program) == "[98.0, 98.0, 98.0] [2.0, 2.0, 2.0] [2.0, 2.0, 2.0]\n[2.0, 2.0, 2.0]\n"


def test_numbers_next_to_tensors_on_the_cpu_keep_their_dtypes(tmp_path: Path) -> None:
    """The program's implementations are for CUDA: PyTorch's own run on the CPU, with tensors made of numbers."""
    program = """
names = ("add", "sub", "mul", "div", "eq", "lt", "remainder")
tensors = [torch.full(shape, 7, dtype=dtype) for shape in ((2,), ()) for dtype in (torch.float16, torch.int32)]


def results():
    return [getattr(torch, name)(x, number) for name in names for x in tensors for number in (2, 0.75)]


before = results()
library = Library("aten", "IMPL")
for name in names:
    library.impl(f"{name}.Tensor", lambda x, y, **options: x.clone(), "CUDA")
print(all(one.dtype == two.dtype and one.tolist() == two.tolist() for one, two in zip(before, results())))
tensors[0] += 1
print((on_device + 2).tolist(), tensors[0].tolist())
"""
    assert ran(tmp_path, program) == "True\n[-2.0, -2.0, -2.0] [8.0, 8.0]\n"


def test_an_operator_without_tensors_runs_for_the_device_that_it_is_given(tmp_path: Path) -> None:
    program = """
def ones(size, *, dtype=None, layout=None, device=None, pin_memory=None):
    return torch.full(size, 7.0, device=device)


library = Library("aten", "IMPL")
library.impl("ones", ones, "CUDA")
there, here = torch.ones(2, device="cuda"), torch.ones(2)
print(there.tolist(), there.device, here.tolist(), here.device)
"""
    assert ran(tmp_path, program) == "[7.0, 7.0] cuda:0 [1.0, 1.0] cpu\n"


def test_copies_to_the_host_do_not_run_the_programs_operators(tmp_path: Path) -> None:
    program = """
library = Library("aten", "IMPL")
library.impl("clone", lambda x, memory_format=None: plus_100(x), "CUDA")
print(on_device.clone().tolist(), on_device.cpu().tolist(), on_device.to("cpu").device)
"""
    assert ran(tmp_path, program) == "[98.0, 98.0, 98.0] [-2.0, -2.0, -2.0] cpu\n"


def test_backward_may_make_tensors_on_cuda(tmp_path: Path) -> None:
    program = """
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 2 * x

    @staticmethod
    def backward(ctx, gradient):
        print(gradient.device, torch.empty_like(gradient).device, torch.zeros(2, device=gradient.device).device)
        return gradient * torch.full((3,), 2.0, device="cuda")


x = on_device.requires_grad_()
Twice.apply(x).sum().backward()
print(x.grad.tolist(), torch.autograd.grad(Twice.apply(x).sum(), x)[0].device)
"""
    assert ran(tmp_path, program) == "cuda:0 cuda:0 cuda:0\n" * 2 + "[2.0, 2.0, 2.0] cuda:0\n"


def test_a_hook_gets_its_gradient_on_cuda(tmp_path: Path) -> None:
    program = """
def hook(gradient):
    print(gradient.device, torch.ones(1, device="cuda").device)
    return 3 * gradient


x = on_device.requires_grad_()
y = 2 * x
y.register_hook(hook)
y.sum().backward()
print(x.grad.tolist())
"""
    assert ran(tmp_path, program) == "cuda:0 cuda:0\n[6.0, 6.0, 6.0]\n"


def test_checkpointed_functions_run_again_on_cuda(tmp_path: Path) -> None:
    program = """
from torch.utils.checkpoint import checkpoint

x = on_device.requires_grad_()
y = checkpoint(lambda x: (x * torch.full((3,), 5.0, device="cuda")).sin().exp(), x, use_reentrant=False)
y.sum().backward()
print(torch.allclose(x.grad, 5 * torch.cos(5 * x) * y))
"""
    assert ran(tmp_path, program) == "True\n"
