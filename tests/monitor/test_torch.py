"""The monitor on torch: tensors, autograd functions, modules, torch.compile, and the uses that
cuda-kernel-verifier's README shows. ``make monitor-torch`` runs it; CI has no torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kcheck.monitor import (
    EquivalenceChecker,
    ExponentialRunningCentroidExecutionOutlierDetector,
    FailureCallbackArgs,
    Mismatch,
    equivalent,
)

torch = pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parents[2]
ALL = {"sample_probability": 1.0}


def test_tensors_are_copied_before_the_call_returns() -> None:
    found: list[Mismatch] = []
    checker = EquivalenceChecker()
    double = checker.equivalent(lambda x: x + x, found.append)(lambda x: torch.where(x == 3, 7.0, 2 * x))
    with checker.start(**ALL):
        for n in range(6):
            x = torch.full((4,), float(n), requires_grad=True)
            y = double(x)
            assert y.requires_grad
            with torch.no_grad():
                x.fill_(100)
                y.fill_(200)
    assert [mismatch.number for mismatch in found] == [4]
    assert found[0].original_result.tolist() == [7] * 4
    assert not found[0].original_result.requires_grad
    assert found[0].ground_truth_result.tolist() == [6] * 4


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int32", "bool"])
def test_dtypes_and_layouts(dtype: str) -> None:
    found: list[Mismatch] = []
    checker = EquivalenceChecker()
    same = checker.equivalent(lambda x: x.clone(), found.append)(lambda x: x.t().t())
    with checker.start(**ALL):
        for n in range(3):
            same((torch.rand(8, 6) * 4 - n).to(getattr(torch, dtype)).t())
    assert found == []
    assert checker.stats().checked == 3


def test_a_function_in_place() -> None:
    found: list[Mismatch] = []
    checker = EquivalenceChecker()
    relu = checker.equivalent(lambda x: torch.clamp(x, min=0), found.append)(torch.relu_)
    with checker.start(**ALL):
        relu(torch.randn(100))
    assert found == []


def test_the_uses_of_the_verifiers_readme() -> None:
    """Quick start, autograd function, custom detector: its names, its call forms, its keywords."""
    differences: list[float] = []

    def on_mismatch(args: FailureCallbackArgs) -> None:
        differences.append((args.original_result - args.ground_truth_result).abs().max().item())
        raise AssertionError("the kernel differs")

    def ground_truth(x: torch.Tensor) -> torch.Tensor:
        return x.sum(dim=1)

    @equivalent(ground_truth, on_mismatch, rtol=1e-1, atol=1e-6)
    def row_sum(x: torch.Tensor) -> torch.Tensor:
        return x.cumsum(dim=1)[:, -1]

    @equivalent(ground_truth_function=ground_truth, failure_callback=on_mismatch)
    def wrong_row_sum(x: torch.Tensor) -> torch.Tensor:
        return x[:, 1:].sum(dim=1)

    detector = ExponentialRunningCentroidExecutionOutlierDetector(
        percentile=0.99, outlier_threshold=0.9, exponential_alpha=5e-3
    )

    @equivalent(ground_truth, outlier_detector=detector)
    def with_detector(x: torch.Tensor) -> torch.Tensor:
        return x.sum(dim=1)

    EquivalenceChecker.start(max_execution_queue_size=0, execution_sample_probability=0.5)
    assert EquivalenceChecker.is_running()
    EquivalenceChecker.set_execution_sample_probability(1.0)
    row_sum(torch.rand(128, 512))
    with_detector(torch.rand(16, 4))
    EquivalenceChecker.stop()
    assert differences == []

    EquivalenceChecker.start(0, 1.0)
    wrong_row_sum(torch.ones(8, 4))
    with pytest.raises(AssertionError, match="the kernel differs"):
        EquivalenceChecker.stop()
    assert differences == [1.0]
    assert not EquivalenceChecker.is_running()


def test_a_call_under_vmap_or_grad_is_dropped_and_counted() -> None:
    """The values of a tensor under a transformation of torch.func are not those of a call."""
    found: list[Mismatch] = []
    checker = EquivalenceChecker()
    double = checker.equivalent(lambda x: x + x, found.append)(lambda x: 2 * x)
    with checker.start(**ALL):
        assert torch.func.vmap(double)(torch.ones(2, 3)).shape == (2, 3)
        assert torch.func.grad(lambda x: double(x).sum())(torch.ones(3)).tolist() == [2, 2, 2]
        double(torch.ones(3))
    stats = checker.stats()
    assert (stats.checked, stats.reference_errors, stats.dropped) == (1, 0, {"traced": 2})
    assert found == []


class RowSum(torch.autograd.Function):
    """A row sum that is wrong for seven columns."""

    @staticmethod
    @equivalent(lambda ctx, x: ctx.save_for_backward(x) or x.sum(dim=1), "raise", rtol=1e-1, atol=1e-6)
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.sum(dim=1) + (x.shape[1] == 7)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return grad[:, None].expand_as(x)


def test_an_autograd_function_keeps_its_ctx_and_its_gradient() -> None:
    with EquivalenceChecker.start(**ALL):
        x = torch.rand(4, 6, requires_grad=True)
        RowSum.apply(x).sum().backward()
        assert x.grad.tolist() == torch.ones(4, 6).tolist()
        EquivalenceChecker.flush()
        assert EquivalenceChecker.stats().mismatches == 0
    EquivalenceChecker.start(**ALL)
    RowSum.apply(torch.ones(4, 7))
    with pytest.raises(AssertionError, match=r"call 1 of test_torch\.RowSum\.forward"):
        EquivalenceChecker.stop()


class Linear(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(5, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


def test_modules_are_compared_with_the_parameters_that_they_had() -> None:
    """A method, a class and a module; a reference that shares parameters. Each step changes them a lot."""
    found: list[Mismatch] = []
    checker = EquivalenceChecker()

    class Reference(torch.nn.Module):
        def __init__(self, inner: torch.nn.Linear) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ self.inner.weight.T + self.inner.bias

    by_class = checker.equivalent(
        lambda self, x: torch.nn.functional.linear(x, self.inner.weight, self.inner.bias), found.append
    )(type("ByClass", (Linear,), {}))()
    inner = torch.nn.Linear(5, 5)
    by_module = checker.equivalent(Reference(inner), found.append)(inner)
    wrong = checker.equivalent(Reference(torch.nn.Linear(5, 5)), found.append)(Linear())
    with checker.start(**ALL):
        for module in (by_class, by_module):
            optimizer = torch.optim.SGD(module.parameters(), 1.0)
            for _ in range(10):
                optimizer.zero_grad()
                module(torch.randn(3, 5)).square().sum().backward()
                optimizer.step()
        checker.flush()
        assert found == []
        wrong(torch.randn(3, 5))
    assert len(found) == 1
    assert checker.stats().checked == 21
    assert set(inner.state_dict()) == {"weight", "bias"}


def test_torch_compile_compiles_what_is_around_and_inside() -> None:
    found: list[Mismatch] = []
    checker = EquivalenceChecker()
    graphs: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    @checker.equivalent(lambda x: torch.sin(x), found.append)
    def inside(x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    @torch.compile(backend=backend)
    def around(x: torch.Tensor) -> torch.Tensor:
        return inside(x * 2) + 1

    torch._dynamo.reset()
    with checker.start(**ALL):
        for _ in range(5):
            assert torch.allclose(around(torch.ones(4)), torch.sin(torch.full((4,), 2.0)) + 1)
    assert (checker.stats().checked, found) == (5, [])
    operations = {
        node.target.__name__ if callable(node.target) else node.target
        for graph in graphs
        for node in graph.graph.nodes
        if node.op.startswith("call")
    }
    assert {"mul", "sin", "add"} <= operations


@pytest.mark.parametrize("bug", [False, True])
def test_a_classifier_of_digits_with_a_triton_row_sum(bug: bool) -> None:
    """The README's full example, on synthetic digits and on the cpu device."""
    pytest.importorskip("triton")
    command = [sys.executable, "-m", "kcheck", "exec", "--torch-cuda=off", "--", sys.executable]
    command += ["-W", "ignore", str(ROOT / "tests/monitor/digits.py"), *(["--bug"] if bug else [])]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["calls"] == 40
    assert answer["checked"] >= 10
    assert answer["accuracy"] > 0.9
    assert answer["reference_errors"] == 0
    assert answer["mismatches"] == (answer["checked"] if bug else 0)
