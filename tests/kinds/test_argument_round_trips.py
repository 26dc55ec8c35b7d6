# ruff: noqa: E501 -- a spec's argument is one line
"""Numbers, null, structs, accessors, variables and ``reference: none`` outside YAML: declared in Python, printed, stored, exported, as a script."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from kinds_project import KindsProject

from kcheck.specfile import load_spec

NUMBA = """
import kcheck
from numba import cuda


def plus_two(x):
    return 3 * x + 2


@kcheck.op(
    dims={"N": [40]},
    inputs={"x": ["N"]},
    outputs={"y": ["N"]},
    launch={"args": ["x", "y", 64, {"value": 3, "dtype": "float32"}, True], "grid": [1], "block": [64]},
    reference=plus_two,
    cases={"count": 2},
)
@cuda.jit
def numbers(x, y, n, a, plus):
    i = cuda.grid(1)
    if i < x.size and i < n:
        y[i] = x[i] * a + (1 if plus else 0)


@kcheck.op(
    dims={"N": [40]},
    inputs={"x": ["N"]},
    outputs={"y": ["N"]},
    launch={"args": ["x", "y", -1.5], "grid": [1], "block": [64]},
    reference="none",
    invariants=[{"non_negative": "y"}],
    cases={"count": 2},
)
@cuda.jit
def unjudged(x, y, a):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] * x[i] * a
"""
TRITON = """
import kcheck
import triton
import triton.language as tl


def doubled(x):
    return 2 * x + 1


@kcheck.op(
    dims={"N": [40]},
    inputs={"x": ["N"]},
    outputs={"y": ["N"]},
    compile={"constexprs": {"B": 64}},
    launch={"args": ["x", "y", None, "N", 2], "grid": [1]},
    reference=doubled,
    cases={"count": 2},
)
@triton.jit
def optional(x, y, bias, n, a, B: tl.constexpr):
    i = tl.arange(0, B)
    value = tl.load(x + i, mask=i < n) * a
    if bias is not None:
        value += tl.load(bias + i, mask=i < n)
    tl.store(y + i, value, mask=i < n)
"""
CUDA = """
#include <torch/extension.h>

__constant__ float factor;
__device__ float copied[64];
struct Call { const float* x; int n; double scale; };

extern "C" __global__ void packed(Call c, torch::PackedTensorAccessor32<float, 1> y) {
  int i = threadIdx.x;
  if (i < c.n) { y[i] = c.x[i] * float(c.scale) + factor; copied[i] = 3 * c.x[i]; }
}
"""
PACKED = {
    "dims": {"N": [40]},
    "inputs": {"x": ["N"]},
    "outputs": {"y": ["N"], "z": ["N"]},
    "kernel": "k.cu:packed",
    "variables": {"factor": {"value": 1, "dtype": "float32"}, "copied": "z"},
    "launch": {
        "args": [{"struct": {"x": "x", "n": "N", "scale": 2.0}}, {"accessor": "y"}],
        "grid": [1],
        "block": [64],
    },
    "reference": "r.py:packed",
    "cases": {"count": 2},
}
REFERENCE = "def packed(x):\n    return 2 * x, 3 * x\n"
YAML = """
kcheck: 1
op: packed
kernel: k.cu:packed
dims: {N: [40]}
inputs: {x: [N]}
outputs: {y: [N], z: [N]}
variables: {factor: {value: 1, dtype: float32}, copied: z}
launch: {args: [{struct: {x: x, n: N, scale: 2.0}}, {accessor: y}], grid: [1], block: [64]}
reference: r.py:packed
cases: {count: 2}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> KindsProject:
    """Wrong kernels, and their stored failures."""
    made = KindsProject(tmp_path_factory.mktemp("trips") / "p")
    for name, text in (
        ("n.py", NUMBA),
        ("t.py", TRITON),
        ("k.cu", CUDA),
        ("r.py", REFERENCE),
        ("packed.yaml", YAML),
    ):
        made.write(name, text)
    done = made.kcheck("run", "n.py", "t.py", "packed.yaml", "--device", "cpu", "--store")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "4 of 4 specs failed" in done.stdout, done.stdout
    return made


@pytest.mark.parametrize("spec", ["n.py::numbers", "n.py::unjudged", "t.py::optional", "packed.yaml"])
def test_a_printed_spec_is_the_same_spec(spec: str, project: KindsProject) -> None:
    """Its arguments, variables and reference are equal but for their places."""
    text = project.kcheck("spec", "print", spec).stdout
    printed = project.write(f"printed/{re.sub('[^a-z]', '_', spec)}.yaml", text)
    again = project.kcheck("spec", "print", str(printed.relative_to(project.root)))
    assert again.stdout == text
    one, other = load_spec(project.root / spec), load_spec(printed)

    def shown(value: object) -> str:
        return re.sub(r"Span\([^)]*\)", "", repr(value))

    for key in ("launch", "variables", "reference", "dims"):
        assert shown(getattr(one, key)) == shown(getattr(other, key))
    assert one.judged == other.judged


@pytest.mark.parametrize("op", ["numbers", "unjudged", "optional", "packed"])
def test_an_exported_case_fails_again(op: str, project: KindsProject) -> None:
    """With the arguments that the spec gives, which the file does not have."""
    (number,) = _first(project, op)
    assert project.kcheck("export", number, "-o", f"{op}.kcase").returncode == 0
    done = project.kcheck("reproduce", f"{op}.kcase", "--device", "cpu")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "reproduced" in done.stdout or "fail" in done.stdout.lower()


ARGUMENTS = {
    "numbers": "array['x'], array['y'], np.int64(64), np.float32(3.0), np.bool_(True)",
    "unjudged": "array['x'], array['y'], np.float64(-1.5)",
}


@pytest.mark.parametrize("op", ARGUMENTS)
def test_a_script_has_the_arguments(op: str, project: KindsProject, tmp_path: Path) -> None:
    (number,) = _first(project, op)
    project.kcheck("reproduce", number, "--script", f"{op}.script.py", "--device", "cpu", KCHECK_STORE="on")
    text = (project.root / f"{op}.script.py").read_text()
    away = KindsProject(tmp_path / "away")
    away.write("bug.py", text)
    assert ARGUMENTS[op] in text
    shown = away.kcheck("exec", "--", sys.executable, "bug.py")
    assert shown.returncode == (1 if op == "numbers" else 0), shown.stdout + shown.stderr
    assert "<- wrong" in shown.stdout or op == "unjudged"


@pytest.mark.parametrize(("op", "kind"), [("optional", "Triton"), ("packed", "CUDA C++")])
def test_a_script_of_another_kind_says_why_not(op: str, kind: str, project: KindsProject) -> None:
    (number,) = _first(project, op)
    done = project.kcheck("reproduce", number, "--script", f"{op}.script.py", "--device", "cpu", KCHECK_STORE="on")
    assert done.returncode == 2
    assert f"is {kind}; a script can launch only numba.cuda kernels; use kcheck export" in done.stderr


def test_a_spec_in_python_has_the_arguments_of_the_file(project: KindsProject) -> None:
    file = project.write(
        "s.py",
        f"import kcheck\n\nKEYS = {PACKED!r}\nspec = kcheck.Spec('packed', **KEYS)\n"
        "unjudged = kcheck.Spec('packed', **{**KEYS, 'reference': 'none'})\n",
    )
    made: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), made)

    def shown(value: object) -> str:
        return re.sub(r"Span\([^)]*\)", "", repr(value))

    one, other = made["spec"]._model, load_spec(project.root / "packed.yaml")
    assert shown(one.launch) == shown(other.launch)
    assert shown(one.variables) == shown(other.variables)
    assert not made["unjudged"]._model.judged


def test_a_reference_without_a_value_says_what_to_write(project: KindsProject) -> None:
    """``reference=None`` and ``reference:`` are not ``reference: none``."""
    project.write("empty.py", NUMBA.replace('reference="none"', "reference=None"))
    project.write("empty.yaml", YAML.replace("reference: r.py:packed", "reference:"))
    for name in ("empty.py", "empty.yaml"):
        told = project.kcheck("validate", name)
        assert "'reference' has no value; write a function in a file" in told.stdout + told.stderr
        assert "or none" in told.stdout + told.stderr
    for name in ("empty.py", "empty.yaml"):
        (project.root / name).unlink()


def _first(project: KindsProject, op: str) -> tuple[str]:
    """The id of the first failure of an op in the store."""
    told = project.kcheck("failures", "-a").stdout
    block = told[told.index(f"{op} · ") :]
    found = re.search(r"^ +\d+  ([a-z]{4})", block, re.MULTILINE)
    assert found is not None, told
    return (found[1],)
