"""References in PyTorch: their operations round as NumPy's do, and what is not seen is never called wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle_bench import Bench

from kcheck.model import DTYPES, Status, Verdict
from kcheck.oracle import judge
from kcheck.oracle.noise import NoiseFloor
from kcheck.oracle.reference import Reference

GENERATOR = np.random.default_rng(5)
NORMAL = GENERATOR.normal(size=(6, 200))
OFFSET = 1000 + GENERATOR.normal(size=(6, 200))

NLL_NUMPY = """
def ref(x):
    top = x.max(axis=1)
    return top + np.log(np.exp(x - top[:, None]).sum(axis=1)) - x[:, 0]
"""
NLL_TORCH = """
def ref(x):
    import torch
    target = torch.zeros(len(x), dtype=torch.int64)
    return torch.nn.functional.cross_entropy(torch.from_numpy(x), target, reduction="none").numpy()
"""
NLL_OPAQUE = """
def ref(x):
    rows = np.array(x.tolist())
    top = rows.max(axis=1)
    return np.log(np.exp(rows - top[:, None]).sum(axis=1)) - (rows[:, 0] - top)
"""


def nll(x: Any, keep: int) -> Any:
    """Cross entropy as kernels compute it: the log-sum-exp of the first ``keep`` columns, minus the first one."""
    top, total = x.max(axis=1), np.zeros(len(x), x.dtype)
    for k in range(keep):
        total = total + np.exp(x[:, k] - top)
    return top + np.log(total) - x[:, 0]


def judged(bench: Bench, source: str, kernel: Callable[[Any], Any], x: Any) -> Verdict:
    spec = bench.spec(source, {"x": "float32"}, {"y": "float32"})
    narrow = x.astype(np.float32)
    out = kernel(narrow)
    return judge(
        spec, (arrays := bench.arrays(spec, {"x": x}, {"y": out.shape})), bench.outcome(arrays, {"y": out})
    )


def logits(seed: int) -> Any:
    """Rows in which one class is nearly certain: the loss is far smaller than the logits."""
    x = np.random.default_rng(seed).normal(size=(8, 5))
    x[:, 0] += np.linspace(3, 12, 8)
    return x


@pytest.mark.parametrize("source", [NLL_NUMPY, NLL_TORCH], ids=["numpy", "torch"])
def test_cross_entropy_passes_at_any_seed_and_its_bug_does_not(bench: Bench, source: str) -> None:
    """Every kernel rounds the log-sum-exp, which is larger than the loss. Leaving out a class is wrong."""
    if "torch" in source:
        pytest.importorskip("torch")
    for seed in range(40):
        good = judged(bench, source, lambda x: nll(x, 5), logits(seed))
        assert (good.status, good.findings, good.notes) == (Status.PASSED, (), ())
    assert judged(bench, source, lambda x: nll(x, 4), logits(0)).status is Status.FAILED


PAIRS = {
    "softmax": ("F.softmax(x, 1)", "e / e.sum(1, keepdims=True)", "e = np.exp(x - x.max(1, keepdims=True))"),
    "logsumexp": ("x.logsumexp(1)", "t + np.log(np.exp(x - t[:, None]).sum(1))", "t = x.max(1)"),
    "layer norm": (
        "F.layer_norm(x, (200,))",
        "(x - m) / np.sqrt(((x - m) ** 2).mean(1, keepdims=True) + 1e-5)",
        "m = x.mean(1, keepdims=True)",
    ),
    "product": ("x @ x.T", "x @ x.T", ""),
    "linear": ("F.linear(x, x, x[:, 0])", "x @ x.T + x[:, 0]", ""),
    "einsum": ("torch.einsum('ik,jk->ij', x, x)", "np.einsum('ik,jk->ij', x, x)", ""),
    "mean": ("x.mean(1)", "x.mean(1)", ""),
    "variance": ("x.var(1)", "((x - x.mean(1, keepdims=True)) ** 2).sum(1) / 199", ""),
    "running sum": ("x.cumsum(1)", "np.cumsum(x, 1)", ""),
    "in place": ("torch.zeros_like(x).add_(x).mul_(x).tanh_()", "np.tanh(x * x)", ""),
    "scatter": (
        "torch.zeros(6, dtype=x.dtype).index_add_(0, torch.arange(200) % 3, x[0])",
        "np.bincount(np.arange(200) % 3, x[0], 6)",
        "",
    ),
    "attention": (
        "F.scaled_dot_product_attention(x[None], x[None], x[None])[0]",
        "e / e.sum(1, keepdims=True) @ x",
        "s = x @ x.T / np.sqrt(200); e = np.exp(s - s.max(1, keepdims=True))",
    ),
    "backwards": (
        "torch.autograd.grad((x.requires_grad_() ** 2).mean(1).sum(), x)[0]",
        "x / 100",
        "",
    ),
    "convolution": (
        "F.conv1d(x[None, :1], x[None, :1, :9])[0, 0]",
        "np.convolve(x[0], x[0, :9][::-1], mode='valid')",
        "",
    ),
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("x", [NORMAL, OFFSET], ids=["normal", "offset"])
def test_floors_of_torch_are_those_of_numpy(bench: Bench, name: str, x: Any) -> None:
    """The same function in both libraries has the same floor, up to chance."""
    pytest.importorskip("torch")
    torch_body, numpy_body, before = PAIRS[name]
    torch_source = (
        f"import torch\nimport torch.nn.functional as F\ndef ref(x: torch.Tensor):\n    return {torch_body}\n"
    )
    numpy_source = f"def ref(x):\n    {before or 'pass'}\n    return {numpy_body}\n"
    scope: dict[str, Any] = {"np": np}
    exec(numpy_source, scope)
    shape = np.shape(scope["ref"](x))
    floors = [noise(bench, source, x, shape) for source in (torch_source, numpy_source)]
    assert 0.3 < floors[0] / floors[1] < 3


def noise(bench: Bench, source: str, x: Any, shape: tuple[int, ...]) -> float:
    """The median floor of a reference in its first case, without a note."""
    spec = bench.spec(source, {"x": "float32"}, {"y": "float32"})
    reference = Reference.load(spec, bench.arrays(spec, {"x": x}, {"y": shape}))
    floor = NoiseFloor(reference, expected := reference.call(), DTYPES["float32"], seed=3)
    total = floor.noise("y") + 2.0**-24 * np.abs(expected["y"]).ravel()
    assert (floor.notes, floor.doubt("y")) == ([], None)
    return float(np.median(total))


def test_an_error_that_unseen_roundings_explain_is_a_warning(bench: Bench) -> None:
    """A reference that leaves NumPy hides the rounding of its log-sum-exp. A bug is larger and still an error."""
    verdicts = [judged(bench, NLL_OPAQUE, lambda x: nll(x, 5), logits(seed)) for seed in range(20)]
    assert {verdict.status for verdict in verdicts} == {Status.PASSED}
    (warning,) = next(verdict.findings for verdict in verdicts if verdict.findings)
    assert (warning.rule, warning.severity, warning.array) == ("mismatch", "warn", "y")
    assert "a bug, or the rounding of a value inside ref, whose operations outside NumPy's" in warning.message
    assert judged(bench, NLL_OPAQUE, lambda x: nll(x, 4), logits(0)).status is Status.FAILED


def test_an_unknown_operator_is_named(bench: Bench) -> None:
    """An operator that is neither in a table nor composed of others is rounded as a whole."""
    pytest.importorskip("torch")
    source = "import torch\ndef ref(x: torch.Tensor):\n    return torch.cdist(x, x)\n"

    def kernel(x: Any) -> Any:
        wide = x.astype(np.float64)
        return np.sqrt(((wide[:, None] - wide[None]) ** 2).sum(-1)) + 2e-5

    (warning,) = judged(bench, source, kernel, NORMAL).findings
    assert "whose calls (torch's _cdist_forward) hide roundings" in warning.message


@pytest.mark.parametrize("annotation", ["torch.Tensor", "Tensor", "'Tensor'", "'th.Tensor'"])
def test_annotated_parameters_get_tensors(bench: Bench, annotation: str) -> None:
    """Imported under another name, or written as a string, too. The result may need a gradient."""
    pytest.importorskip("torch")
    head = "import torch\nimport torch as th\nfrom torch import Tensor\n"
    source = head + f"def ref(x: {annotation}):\n    return torch.relu(x.requires_grad_()).to(torch.bfloat16)\n"
    found = judged(bench, source, lambda x: np.maximum(x, 0), np.round(NORMAL))
    assert found.status is Status.PASSED


@pytest.mark.parametrize("body", ["torch.relu(x)", "F.softmax(x, dim=1)", "x.relu()", "torch.softmax(x, -1)"])
def test_an_operator_that_gets_an_array_says_how_to_get_tensors(bench: Bench, body: str) -> None:
    """The error of PyTorch names types of C++; the fix is an annotation."""
    pytest.importorskip("torch")
    head = "import torch\nimport torch.nn.functional as F\n"
    wrong = judged(bench, head + f"def ref(x):\n    return {body}\n", lambda x: x, NORMAL)
    assert (
        wrong.findings[0].fix == "annotate the parameters to get tensors instead of NumPy arrays: x: torch.Tensor"
    )
    other = judged(
        bench, "import torch\ndef ref(x):\n    return torch.ones(3) @ torch.ones(4)\n", lambda x: x, NORMAL
    )
    assert (other.status, other.findings[0].fix) == (Status.ERROR, "")
