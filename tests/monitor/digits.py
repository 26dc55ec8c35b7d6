"""Train a classifier of synthetic digits whose gates use a row sum in Triton.

``kcheck exec --torch-cuda=off -- python digits.py``.

The shape of cuda-kernel-verifier's example: an autograd function in a compiled module, checked while it trains.
``--bug``: the kernel loses the last columns of rows that are not a multiple of its block. Prints JSON.
"""

from __future__ import annotations

import json
import sys

import torch
import triton
import triton.language as tl
from torch import nn
from torch.autograd import Function

from kcheck.monitor import EquivalenceChecker, FailureCallbackArgs, equivalent

BUG = "--bug" in sys.argv
DEVICE = "cpu"
BLOCK = 64


@triton.jit
def sum_rows(x, out, columns, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x + row * stride + at, mask=at < columns, other=0.0)
    tl.store(out + row, tl.sum(total, axis=0))


@triton.jit
def spread_rows(grad, out, columns, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    value = tl.load(grad + row)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(out + row * stride + at, value, mask=at < columns)


mismatches: list[float] = []


def on_mismatch(args: FailureCallbackArgs) -> None:
    mismatches.append((args.original_result - args.ground_truth_result).abs().max().item())


def ground_truth(_, x):
    return x.sum(dim=1)


class RowSum(Function):
    @staticmethod
    @equivalent(ground_truth, on_mismatch, rtol=1e-3, atol=1e-3)
    def forward(ctx, x):
        ctx.save_for_backward(x)
        rows, columns = x.shape
        out = torch.zeros(rows, device=x.device, dtype=x.dtype)
        sum_rows[(rows,)](x, out, columns // BLOCK * BLOCK if BUG else columns, x.stride(0), BLOCK=BLOCK)
        return out

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        out = torch.empty_like(x)
        spread_rows[(x.shape[0],)](grad.contiguous(), out, x.shape[1], x.stride(0), BLOCK=BLOCK)
        return out


class Net(nn.Module):
    """A convolution, a gate by the sum of its features, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.gate = nn.Linear(1, 1)
        self.last = nn.Linear(4 * 6 * 6, 10)

    def forward(self, x):
        x = torch.relu(self.conv(x)).flatten(1)  # 144 features, not a multiple of 64
        return self.last(x * (1 + torch.sigmoid(self.gate(RowSum.apply(x).unsqueeze(-1)))))


def digits(count: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Images of 8 x 8: one of ten patterns each, with noise."""
    patterns = torch.rand(10, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    labels = torch.randint(10, (count,), generator=generator)
    return patterns[labels] + 0.1 * torch.randn(count, 1, 8, 8, generator=generator), labels


def main() -> None:
    torch.manual_seed(1)
    generator = torch.Generator().manual_seed(2)
    EquivalenceChecker.start(execution_sample_probability=0.5)
    net = Net().to(DEVICE)
    model = torch.compile(net, backend="eager")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    accuracy = 0.0
    for _ in range(40):
        images, labels = digits(32, generator)
        images, labels = images.to(DEVICE), labels.to(DEVICE)
        optimizer.zero_grad()
        logits = model(images)
        nn.functional.cross_entropy(logits, labels).backward()
        optimizer.step()
        accuracy = (logits.argmax(1) == labels).float().mean().item()
    EquivalenceChecker.stop()
    stats = EquivalenceChecker.stats()
    counts = {name: getattr(stats, name) for name in ("calls", "checked", "mismatches", "reference_errors")}
    print(json.dumps({**counts, "accuracy": accuracy, "largest": max(mismatches, default=0.0)}))


main()
