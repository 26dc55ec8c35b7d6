"""Model files, task folders and definitions, with candidates in PyTorch and Triton. Needs PyTorch."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from kcheck.generator import plan
from kcheck.grading.grader import Graded, Grader, GradingOptions
from kcheck.grading.problem import read_problem

_HEAD = """
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def softmax_rows(x, y, n, B: tl.constexpr):
    row = tl.program_id(0)
    o = tl.arange(0, B)
    mask = o < n
    v = tl.load(x + row * n + o, mask=mask, other=PAD)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + row * n + o, e / tl.sum(e, 0), mask=mask)

def softmax(x, y):
    softmax_rows[(x.shape[0],)](x, y, x.shape[1], triton.next_power_of_2(x.shape[1]))
    return y
"""
_GOOD = _HEAD.replace("PAD", '-float("inf")')
_BAD = _HEAD.replace("PAD", "0.0")
_CALLS = {
    "model": """
class ModelNew(nn.Module):
    def forward(self, x):
        return softmax(x, torch.empty_like(x))
""",
    "task": "\ndef custom_kernel(data):\n    x, y = data\n    return softmax(x, y)\n",
    "returns": "\ndef run(x):\n    return softmax(x, torch.empty_like(x))\n",
    "writes": "\ndef run(x, y):\n    softmax(x, y)\n",
}
_MODEL = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)

batch_size = 16
dim = 4 * 1024

def get_inputs():
    return [torch.randn(batch_size, dim)]

def get_init_inputs():
    return []
"""
_REFERENCE = """
import torch

def ref_kernel(data):
    x, y = data
    y[...] = torch.softmax(x, dim=1)
    return y

def generate_input(rows: int, size: int, seed: int):
    source = torch.Generator(device="cuda")
    source.manual_seed(seed)
    x = torch.randn(rows, size, device="cuda", generator=source)
    return x, torch.empty_like(x)

def check_implementation(data, output):
    return "" if torch.allclose(output, ref_kernel(data), atol=1e-2) else "mismatch"
"""


def _graded(problem: Path, text: str, folder: Path, **options: bool) -> Graded:
    candidate = folder / "candidate.py"
    candidate.write_text(text)
    with Grader(read_problem(problem, **options), GradingOptions(8, 0)) as grader:
        return grader.grade(candidate)


@pytest.fixture
def problems(tmp_path: Path) -> dict[str, Path]:
    (tmp_path / "model.py").write_text(_MODEL)
    task = tmp_path / "task"
    task.mkdir()
    (task / "task.yml").write_text(
        "tests:\n  - {rows: 8, size: 128, seed: 1}\n  - {rows: 16, size: 512, seed: 2}\n"
    )
    (task / "reference.py").write_text(_REFERENCE)
    axes = {"rows": {"type": "var"}, "size": {"type": "const", "value": 100}}
    array = {"shape": ["rows", "size"], "dtype": "float32"}
    reference = "import torch\ndef run(x):\n    return torch.softmax(x, dim=1)\n"
    names = {"name": "softmax_n100", "axes": axes, "inputs": {"x": array}, "outputs": {"y": array}}
    definition = tmp_path / "softmax_n100.json"
    definition.write_text(json.dumps({**names, "reference": reference}))
    workloads = [
        {"definition": "softmax_n100", "workload": {"axes": {"rows": rows}, "inputs": {}}} for rows in (1, 7)
    ]
    (tmp_path / "softmax_n100.jsonl").write_text("\n".join(map(json.dumps, workloads)))
    return {"model": tmp_path / "model.py", "task": task, "returns": definition, "writes": definition}


@pytest.mark.parametrize("form", _CALLS)
def test_a_correct_kernel_is_correct(problems: dict[str, Path], tmp_path: Path, form: str) -> None:
    graded = _graded(problems[form], _GOOD + _CALLS[form], tmp_path)
    assert (graded.verdict, graded.message) == ("correct", "")


@pytest.mark.parametrize("form", _CALLS)
def test_a_tail_that_counts_is_wrong(problems: dict[str, Path], tmp_path: Path, form: str) -> None:
    graded = _graded(problems[form], _BAD + _CALLS[form], tmp_path)
    assert (graded.verdict, graded.rule) == ("wrong", "mismatch")
    assert graded.case is not None


def test_an_access_out_of_bounds_is_the_reason_not_what_it_makes_pytorch_raise(
    problems: dict[str, Path], tmp_path: Path
) -> None:
    graded = _graded(problems["model"], _GOOD.replace("mask = o < n", "mask = o <= n") + _CALLS["model"], tmp_path)
    assert (graded.verdict, graded.rule) == ("wrong", "memcheck")
    assert graded.place is not None
    assert (
        graded.place.line
        == _GOOD.splitlines().index(next(line for line in _GOOD.splitlines() if "v = " in line)) + 1
    )


def test_the_sizes_of_a_model_file_are_dims(problems: dict[str, Path]) -> None:
    spec = read_problem(problems["model"]).spec()
    assert set(spec.dims) == {"batch_size", "dim"}
    assert [axis.text for axis in spec.inputs["x"].shape] == ["batch_size", "dim"]
    assert {"batch_size": 16, "dim": 4096} in [dict(example.dims) for example in spec.examples]


_ODD_AXIS = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x[:, :30] if x.shape[1] == 31 else x)

rows = 16
columns = 300

def get_inputs():
    return [torch.randn(rows, columns)]

def get_init_inputs():
    return []
"""


def test_sizes_at_which_an_axis_is_not_as_its_expression_says_are_left_out(tmp_path: Path) -> None:
    """Otherwise a candidate that returns the shape of the model would be called wrong."""
    path = tmp_path / "model.py"
    path.write_text(_ODD_AXIS)
    problem = read_problem(path)
    case = plan(problem.spec(), count=1, master=0)[0]
    sizes = {columns: replace(case, dims={"rows": 4, "columns": columns}) for columns in (30, 31, 32)}
    assert [columns for columns, each in sizes.items() if problem.accepts(each)] == [30, 32]


_NORMALIZES = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.BatchNorm1d(features)

    def forward(self, x):
        return self.norm(x)

batch = 32
features = 48

def get_inputs():
    return [torch.randn(batch, features)]

def get_init_inputs():
    return [features]
"""
_NORMALIZED = """
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def normalize(x, y, mean, var, scale, shift, m, n, eps, TRAINING: tl.constexpr, B: tl.constexpr):
    j, i = tl.program_id(0), tl.arange(0, B)
    v = tl.load(x + i * n + j, mask=i < m, other=0.0)
    if TRAINING:
        mu = tl.sum(v, 0) / m
        d = tl.where(i < m, v - mu, 0.0)
        s = tl.sum(d * d, 0) / m
    else:
        mu, s = tl.load(mean + j), tl.load(var + j)
    tl.store(y + i * n + j, (v - mu) / tl.sqrt_rn(s + eps) * tl.load(scale + j) + tl.load(shift + j), mask=i < m)

class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.BatchNorm1d(features)

    def forward(self, x):
        (m, n), own, y = x.shape, self.norm, torch.empty_like(x)
        kept = own.running_mean, own.running_var, own.weight, own.bias
        normalize[(n,)](x, y, *kept, m, n, own.eps, MODE, triton.next_power_of_2(m))
        return y
"""


@pytest.mark.parametrize(
    ("mode", "verdict", "fails_in"),
    [("self.training", "correct", None), ("True", "wrong", 0), ("False", "wrong", 1)],
)
def test_a_model_that_computes_something_else_in_evaluation_mode_runs_in_both(
    tmp_path: Path, mode: str, verdict: str, fails_in: int | None
) -> None:
    path = tmp_path / "model.py"
    path.write_text(_NORMALIZES)
    graded = _graded(path, _NORMALIZED.replace("MODE", mode), tmp_path)
    assert graded.verdict == verdict, graded.message
    assert (graded.case.params["training"] if graded.case else None) == fails_in


def test_a_model_with_dropout_runs_in_evaluation_mode_only(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    dropout = _MODEL.replace("torch.softmax(x, dim=1)", "nn.functional.dropout(x, 0.5, self.training)")
    path.write_text(dropout)
    problem = read_problem(path, own_kernels=False)
    assert "training" not in problem.spec().params
    copy = dropout.replace("class Model", "class ModelNew").replace("0.5", "0.4")
    assert _graded(path, copy, tmp_path, own_kernels=False).verdict == "correct"


def test_a_note_says_which_values_the_problem_itself_does_not_draw(
    problems: dict[str, Path], tmp_path: Path
) -> None:
    problem = problems["model"]
    text = _GOOD.replace("v - tl.max(v, 0)", "v") + _CALLS["model"]
    told = "each failing case has values of x that the problem's own generator does not draw"
    graded = _graded(problem, text, tmp_path)
    assert (graded.verdict, told in graded.notes) == ("wrong", True)


def test_pytorchs_own_operator_is_a_cheat_unless_it_is_allowed(problems: dict[str, Path], tmp_path: Path) -> None:
    text = (
        "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x.softmax(1)\n"
    )
    graded = _graded(problems["model"], text, tmp_path)
    assert (graded.verdict, graded.rule) == ("cheat", "pytorch")
    assert _graded(problems["model"], text, tmp_path, own_kernels=False).verdict == "correct"


def test_a_checker_that_accepts_wrong_values_is_told(problems: dict[str, Path], tmp_path: Path) -> None:
    text = _GOOD.replace("e / tl.sum(e, 0)", "e / tl.sum(e, 0) * 1.001") + _CALLS["task"]
    graded = _graded(problems["task"], text, tmp_path)
    assert graded.verdict == "wrong"
    assert "the problem's own checker accepts these outputs" in graded.notes


_ATTEMPTS = {
    "replaces a function of PyTorch": (
        "cheat",
        "torch.allclose = lambda *a, **k: True",
        "softmax(x, torch.empty_like(x))",
    ),
    "hides PyTorch behind an idle kernel": ("cheat", "", "(softmax(x, torch.empty_like(x)), x.softmax(1))[1]"),
    "changes its input": ("wrong", "", "softmax(x, torch.empty_like(x)) * x.zero_().add_(1)"),
    "another dtype": ("wrong", "", "softmax(x, torch.empty_like(x)).double()"),
    "another shape": ("wrong", "", "softmax(x, torch.empty_like(x))[:, None]"),
    "uninitialized": ("wrong", "", "torch.empty_like(x)"),
    "zeros": ("wrong", "", "torch.zeros_like(x)"),
    "the first result again": ("wrong", "kept = []", "(kept.append(softmax(x, torch.empty_like(x))), kept[0])[1]"),
    "no tensor": ("wrong", "", "None"),
    "no model": ("error", "ModelNew = None", "x"),
}


@pytest.mark.parametrize("name", _ATTEMPTS)
def test_attempts(problems: dict[str, Path], tmp_path: Path, name: str) -> None:
    verdict, before, value = _ATTEMPTS[name]
    call = f"\nclass ModelNew(nn.Module):\n    def forward(self, x):\n        return {value}\n{before}\n"
    graded = _graded(problems["model"], _GOOD + call, tmp_path)
    assert (graded.verdict, bool(graded.message)) == (verdict, True), graded
