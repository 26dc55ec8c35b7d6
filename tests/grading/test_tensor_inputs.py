"""What kcheck draws for problems on tensors: only what a correct candidate has to accept. Needs PyTorch."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from kcheck.errors import UserError
from kcheck.grading.grader import Graded, Grader, GradingOptions
from kcheck.grading.problem import read_problem
from kcheck.model import OpSpec

_MODEL = """
import torch
import torch.nn as nn
{sizes}

class Model(nn.Module):
    def forward(self, {names}):
        return {value}

def get_inputs():
    {make}

def get_init_inputs():
    return []
"""


def _file(folder: Path, sizes: str, names: str, value: str, make: str) -> Path:
    path = folder / "model.py"
    path.write_text(_MODEL.format(sizes=sizes, names=names, value=value, make=make))
    return path


def _spec(folder: Path, *parts: str) -> OpSpec:
    return read_problem(_file(folder, *parts)).spec()


def _graded(problem: Path, text: str, count: int = 12) -> Graded:
    candidate = problem.parent / "candidate.py"
    candidate.write_text(text)
    with Grader(read_problem(problem, own_kernels=False), GradingOptions(count, 0)) as grader:
        return grader.grade(candidate)


def test_sizes_beyond_memory_are_never_made(tmp_path: Path) -> None:
    spec = _spec(tmp_path, "M, N = 1 << 20, 1024 * 1024\nK = (64,)", "x", "x", "return [torch.rand(M, N, *K)]")
    assert [axis.text for axis in spec.inputs["x"].shape] == ["M", "N", "K_0"]


def test_numbers_in_tuples_are_sizes(tmp_path: Path) -> None:
    spec = _spec(tmp_path, "B = 64\nshape = (1000, 30)", "x", "x.sum(1)", "return [torch.rand(B, *shape)]")
    assert [axis.text for axis in spec.inputs["x"].shape] == ["B", "shape_0", "shape_1"]


def test_an_axis_after_strides_and_dilation_is_an_expression(tmp_path: Path) -> None:
    value = "torch.nn.functional.conv1d(x, torch.ones(1, x.shape[1], 3), stride=3, dilation=4, padding=1)"
    spec = _spec(tmp_path, "B = 4\nC = 8\nL = 524280", "x", value, "return [torch.rand(B, C, L)]")
    assert "L" in spec.dims
    assert spec.outputs["y0"].shape[2].text.startswith("(L - ")


def test_an_axis_after_pooling_by_an_odd_width_is_an_expression(tmp_path: Path) -> None:
    value = "torch.nn.functional.avg_pool2d(x, 11)"
    spec = _spec(tmp_path, "B = 4\nH = 2048\nW = 2048", "x", value, "return [torch.rand(B, H, W)]")
    assert set(spec.dims) == {"B", "H", "W"}


_INPUTS = {
    "a draw": ("return [torch.randn(N, N)]", True),
    "a draw times a number": ("return [0.1 * torch.randn(N, N).half() + 1]", True),
    "a draw times a drawn number": ("scale = torch.rand(())\n    return [torch.rand(N, N) * scale]", True),
    "in place": ("return [torch.empty(N, N).uniform_(-1, 1)]", True),
    "triangular": ("return [torch.triu(torch.randn(N, N))]", False),
    "symmetric": ("a = torch.randn(N, N)\n    return [a + a.T]", False),
    "probabilities": ("return [torch.rand(N, N).softmax(-1)]", False),
    "constants": ("return [torch.ones(N, N)]", False),
    "signs": ("return [torch.randint(0, 2, (N, N)).float() * 2 - 1]", False),
}


@pytest.mark.parametrize("name", _INPUTS)
def test_only_what_is_drawn_freely_gets_other_values(tmp_path: Path, name: str) -> None:
    make, free = _INPUTS[name]
    spec = _spec(tmp_path, "N = 64", "x", "x.sum(1)", make)
    assert (len(spec.inputs["x"].values) > 1) == free


def test_inputs_that_share_a_draw_keep_it(tmp_path: Path) -> None:
    spec = _spec(tmp_path, "N = 64", "x, y", "x - y", "a = torch.randn(N)\n    return [a, 2 * a]")
    assert [len(each.values) for each in spec.inputs.values()] == [1, 1]


def test_axes_that_agree_in_the_problem_agree_in_each_case(tmp_path: Path) -> None:
    spec = _spec(
        tmp_path, "B = 300\nD = 300", "x, y", "(x * y).mean()", "return [torch.rand(B, D), torch.rand(B)]"
    )
    assert any("==" in str(each) for each in spec.constraints)
    assert set(spec.dims) == {"B", "D"}


def test_a_case_that_the_model_itself_gets_wrong_is_left_out(tmp_path: Path) -> None:
    # Where tanh rounds to 1, the order of float32 values is not that of float64.
    problem = _file(tmp_path, "B = 8\nN = 64", "x", "torch.sort(x.tanh(), 1)[1]", "return [torch.randn(B, N)]")
    new = problem.read_text().replace("class Model(", "class ModelNew(")
    graded = _graded(problem, new, 20)
    assert (graded.verdict, [note.partition(":")[0] for note in graded.notes]) == (
        "correct",
        ["4 cases were not judged"],
    )
    assert _graded(problem, new.replace("1)[1]", "1)[1].flip(1)"), 20).verdict == "wrong"


def test_a_model_that_is_never_exact_is_no_problem(tmp_path: Path) -> None:
    problem = _file(tmp_path, "B = 8", "x", "torch.sort(1 + x * 1e-9, 1)[1]", "return [torch.rand(B, 64)]")
    with pytest.raises(UserError, match="no case can be judged: the problem's own code is inexact"):
        Grader(read_problem(problem), GradingOptions(4, 0))


def test_sizes_that_cannot_be_scaled_say_why(tmp_path: Path) -> None:
    problem = _file(tmp_path, "B = 8", "x", "x", "return [torch.rand(B, 1 << 20, 1 << 10)]")
    with pytest.raises(UserError, match=r"cannot be scaled below 2,147,483,648 elements; give the sizes .* names"):
        read_problem(problem).spec()


def test_a_model_that_does_not_run_says_why(tmp_path: Path) -> None:
    problem = _file(tmp_path, "B = 8", "x", "x @ x", "return [torch.rand(B, 3)]")
    with pytest.raises(UserError, match="does not accept what the problem's own generator makes: RuntimeError: "):
        read_problem(problem).spec()


def test_a_number_that_the_model_looks_up_in_its_module_stays(tmp_path: Path) -> None:
    sizes = "B = 80\nN = 32\nhalf = B // 2"
    spec = _spec(tmp_path, sizes, "x", "x[: half] + 1", "return [torch.rand(B, N)]")
    assert set(spec.dims) == {"N"}


def test_a_model_that_looks_at_values_runs(tmp_path: Path) -> None:
    value = "x * 2 if x.max() > 0 else x"
    spec = _spec(tmp_path, "B = 80", "x", value, "return [torch.rand(B, 3)]")
    assert set(spec.dims) == {"B"}


_SEGMENTS = """
import torch
def run(x, rows_indptr, indices):
    sums = [x[indices[a:b].long()].sum(0) for a, b in zip(rows_indptr[:-1], rows_indptr[1:])]
    return torch.stack(sums)
"""


def _definition(folder: Path, reference: str = _SEGMENTS, **changes: Any) -> Path:
    axes = {name: {"type": "var"} for name in ("pages", "ends", "rows", "count")}
    array = {"shape": ["pages", "D"], "dtype": "float32"}
    document = {
        "name": "segments",
        "axes": {**axes, "D": {"type": "const", "value": 8}},
        "constraints": ["ends == rows + 1", "count == rows_indptr[-1].item()"],
        "inputs": {
            "x": array,
            "rows_indptr": {"shape": ["ends"], "dtype": "int32"},
            "indices": {"shape": ["count"], "dtype": "int32"},
        },
        "outputs": {"y": {"shape": ["rows", "D"], "dtype": "float32"}},
        "reference": reference,
        **changes,
    }
    path = folder / "segments.json"
    path.write_text(json.dumps(document))
    return path


def test_offsets_and_indices_of_a_definition_are_valid(tmp_path: Path) -> None:
    path = _definition(tmp_path)
    spec = read_problem(path).spec()
    assert [str(each) for each in spec.inputs["rows_indptr"].values] == ["offsets[count]"]
    assert [str(each) for each in spec.inputs["indices"].values] == ["integers[0, pages - 1]"]
    assert _graded(path, _SEGMENTS).verdict == "correct"
    assert _graded(path, _SEGMENTS.replace("rows_indptr[1:])", "rows_indptr[1:] - 1)")).verdict == "wrong"


_ANY = (
    "import torch\ndef run(x, rows_indptr, indices):\n    return x[:1] * rows_indptr[1:, None] * indices.sum()\n"
)


def test_integers_that_cannot_be_decided_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"which integers the input rows_indptr .* 'total == rows_indptr\[-1\]'"):
        read_problem(_definition(tmp_path, _ANY, constraints=["ends == rows + 1"])).spec()


def test_integers_of_a_workloads_file_are_used_at_its_sizes(tmp_path: Path) -> None:
    path = _definition(tmp_path, _ANY, constraints=["ends == rows + 1"])
    header = json.dumps({"p": {"dtype": "I32", "shape": [3], "data_offsets": [0, 12]}}).encode()
    content = struct.pack("<3i", 0, 2, 5)
    (tmp_path / "p.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + content)
    load = {
        "axes": {"pages": 4, "ends": 3, "rows": 2, "count": 5},
        "inputs": {
            "rows_indptr": {"type": "safetensors", "path": "p.safetensors", "tensor_key": "p"},
            "indices": {"type": "random"},
        },
    }
    (tmp_path / "segments.jsonl").write_text(json.dumps({"definition": "segments", "workload": load}))
    with Grader(read_problem(path), GradingOptions(4, 0)) as grader:
        assert {case.dims["rows"] for case in grader.cases} == {2}
        arrays, _ = grader.arrays(grader.problem.spec(), grader.cases[0])
    assert arrays.allocation("rows_indptr").view().tolist() == [0, 2, 5]


_TASK = {
    "task.py": "from typing import Any\ninput_t = output_t = Any\n",
    "utils.py": "def scale():\n    return 2.0\n",
    "task.yml": "tests:\n  - {n: 64, seed: 1}\n",
    "reference.py": """
import torch
from task import input_t
from utils import scale

def ref_kernel(data: input_t):
    x, y = data
    return torch.cumsum(x.double(), 0) * scale()

def generate_input(n: int, seed: int):
    return torch.randn(n, device="cuda"), torch.empty(n, device="cuda")
""",
}
_SOLVES = """
import torch
from task import input_t
from utils import scale

def custom_kernel(data: input_t):
    x, y = data
    y[...] = torch.cumsum(x.double(), 0) * scale()
    return y
"""


@pytest.fixture
def task(tmp_path: Path) -> Path:
    folder = tmp_path / "task"
    folder.mkdir()
    for name, text in _TASK.items():
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize("into", ["y[...]", "y"])
def test_a_reference_in_float64_takes_what_the_tasks_memory_holds(task: Path, into: str) -> None:
    """The candidate lies elsewhere, and imports the modules of the task."""
    text = _SOLVES.replace("y[...]", into)
    assert _graded(task, text).verdict == "correct"
    assert _graded(task, text.replace("return y", "return 1 + y")).verdict == "wrong"


def test_tasks_may_have_modules_of_equal_names(task: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for name, text in _TASK.items():
        (other / name).write_text(text.replace("2.0", "3.0"))
    for folder, factor in ((task, 2), (other, 3)):
        reference = read_problem(folder)
        assert reference.spec().op == "reference"
        assert _graded(folder, _SOLVES.replace("scale()", f"{factor}.0")).verdict == "correct"


def test_compiling_with_pytorch_is_no_cheat(task: Path) -> None:
    text = _SOLVES + "\nimport torch._dynamo.mutation_guard as guard\nguard.install_generation_tagging_init()\n"
    assert _graded(task, text).verdict == "correct"
