"""A program with a CUDA extension, in the styles in which such programs are written. Each argument is a function
to run; some of them have a bug. All kernels are in one extension, because building one takes a minute or more.
"""

import sys
from pathlib import Path

import torch
from torch.utils.cpp_extension import load_inline

CUDA = Path(__file__).with_suffix(".cu").read_text()


def correct(module):
    """Every kernel that is correct, and what PyTorch computes."""
    torch.manual_seed(0)
    x, a, b = (torch.randn(*shape, device="cuda") for shape in ((37, 150), (33, 50), (50, 29)))
    flat = torch.randn(1000, device="cuda")
    assert torch.equal(module.scale(flat), 2 * flat)
    assert torch.equal(module.scale(flat, a=3.0), 3 * flat)
    assert torch.allclose(module.matmul(a, b), a @ b, atol=1e-5)
    assert torch.allclose(module.softmax(x, True), x.softmax(1), atol=1e-6)
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        expected = torch.nn.functional.gelu(x.to(dtype).float())
        assert torch.allclose(module.gelu(x.to(dtype)).float(), expected, atol=2e-2), dtype
    assert torch.equal(module.add4(flat, flat), 2 * flat)
    assert torch.allclose(module.sum(flat), flat.sum(), atol=1e-3)
    assert module.sum(flat).is_cuda
    padded = torch.nn.functional.pad(flat, (1, 1))
    smooth = torch.ops.kcheck_test.smooth(flat)
    assert smooth.is_cuda
    assert torch.allclose(smooth, padded[:-2] / 4 + padded[1:-1] / 2 + padded[2:] / 4, atol=1e-6)
    leaf = flat.clone().requires_grad_()
    module.square(leaf).sum().backward()
    assert torch.equal(leaf.grad, 2 * flat)
    print("correct")


def refused(module):
    """What the C++ code and PyTorch refuse, with their own messages."""
    tests = {
        "a tensor on the cpu": lambda: module.scale(torch.ones(3)),
        "an operator for cuda": lambda: torch.ops.kcheck_test.smooth(torch.ones(3)),
        "too many threads": lambda: module.too_large(torch.ones(3, device="cuda")),
    }
    for name, test in tests.items():
        try:
            test()
        except (RuntimeError, NotImplementedError) as error:
            print(f"{name}: {str(error).splitlines()[0].partition('. ')[0]}")


def unchecked(module):
    """No check of the bound."""
    module.scale(torch.ones(1000, device="cuda"), checked=False)


def unsynced(module):
    """No barrier between a read of shared memory and the next write."""
    module.softmax(torch.ones(4, 150, device="cuda"), False)


def together(module):
    """All threads write one element of a tensor, with different values."""
    module.last(torch.arange(100.0, device="cuda"))


if __name__ == "__main__":
    built = load_inline("kcheck_test_extension", cpp_sources=[], cuda_sources=[CUDA])
    for name in sys.argv[1:]:
        globals()[name](built)
