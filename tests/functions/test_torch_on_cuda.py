"""``framework: {torch: cuda}`` and CUDA tensors in ``assert_close`` and ``judge``.

Without a GPU the program runs under ``kcheck exec``, which gives torch a device ``cuda`` in host memory
(``make frameworks``); ``make test-gpu`` runs it on a GPU.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """\
import numpy as np
import torch

import kcheck

devices = set()


def bell(x):
    devices.add(x.device.type)
    wide = x.to(torch.float64 if x.dtype == torch.float64 else torch.float32)
    return (1 / (1 + wide * wide)).to(x.dtype)


def spec(function, **keys):
    given = {
        "dims": {"M": range(1, 9), "N": range(1, 40)},
        "dtypes": ["float32", "float16", "bfloat16", "float64"],
        "inputs": {"x": {"shape": ["M", "N"], "layouts": ["contiguous", "transposed", "reversed"]}},
        "outputs": {"y": ["M", "N"]},
        "reference": lambda x: 1 / (1 + x * x),
        "cases": {"count": 24},
        "framework": {"torch": "cuda"},
    }
    return kcheck.Spec("bell", function=function, **{**given, **keys})


def rules(function, **keys):
    return sorted({failure.rule for failure in kcheck.check(spec(function, **keys)).failures})


assert rules(bell) == []
assert devices == {"cuda"}
assert rules(lambda x: bell(x) * 1.01) == ["mismatch"]
assert rules(lambda x: bell(x.mul_(1.0).add_(0.5))) == ["mutated"]
assert rules(bell, gradients=["x"]) == []
assert rules(lambda x: bell(x.detach()) + 0 * x, gradients=["x"]) == ["gradient"]

for name in ("CUDAGraph", "graph", "Event", "Stream", "ExternalStream", "StreamContext", "device", "device_of"):
    getattr(torch.cuda, name) | None  # a class, as in the annotations of a program
assert torch.cuda.ExternalStream(0).device.type == "cuda"

a, b = (torch.randn(3, 4, 4, device="cuda").to(torch.bfloat16) for _ in range(2))
c = torch.ones(3, 4, 4, device="cuda")
product = a.float() @ b.float()


def close(x, y):  # a GPU adds up products of bfloat16 in another order, and cuts each sum
    return x.dtype == y.dtype and torch.allclose(x, y, rtol=1e-5, atol=1e-5)


assert close(torch.bmm(a, b, out_dtype=torch.float32), product)
assert close(torch.baddbmm(c, a, b, out_dtype=torch.float32), torch.baddbmm(c, a.float(), b.float()))
total = torch.empty(4, 4, device="cuda")
assert torch.mm(a[0], b[0], out_dtype=torch.float32, out=total) is total and total.is_cuda
assert close(total, product[0])
assert torch.addmm(c[0], a[0], b[0], out_dtype=torch.float32).dtype == torch.float32

x = torch.linspace(-1, 1, 50, device="cuda", dtype=torch.bfloat16, requires_grad=True)
kcheck.assert_close(x * 2, x + x)
kcheck.assert_close(x.sum(), reference=lambda x: x.sum(), inputs={"x": x})
kcheck.assert_close(x[::2], np.asarray(x.detach().float().cpu())[::2])
try:
    kcheck.assert_close(x, x * 2)
except AssertionError as error:
    assert str(error).startswith("not close: 50 of 50 elements"), error
else:
    raise SystemExit("a wrong tensor is close")
for case in kcheck.cases(spec(bell, dtypes=["float32"]), count=8):
    y = bell(torch.from_numpy(case.inputs["x"].copy()).to("cuda"))
    assert y.is_cuda
    assert case.judge(y).passed
    assert not case.judge(y * 1.01).passed
print("done")
"""


def ran(*launcher: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, *launcher, "-c", PROGRAM]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_specs_and_tensors_on_cuda_in_host_memory() -> None:
    done = ran("-m", "kcheck", "exec", "--", sys.executable)
    assert done.stdout == "done\n", done.stdout + done.stderr


@pytest.mark.gpu
def test_specs_and_tensors_on_a_gpu() -> None:
    if not torch.cuda.is_available():
        pytest.skip("torch finds no CUDA device")
    done = ran()
    assert done.stdout == "done\n", done.stdout + done.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_cuda_device_the_spec_says_so() -> None:
    import kcheck

    spec = kcheck.Spec(
        "same",
        function=lambda x: x,
        framework={"torch": "cuda"},
        dims={"N": [3]},
        inputs={"x": ["N"]},
        outputs={"y": ["N"]},
        reference=lambda x: x,
    )
    with pytest.raises(kcheck.SpecError, match="torch finds no CUDA device"):
        kcheck.check(spec, cases=1)
