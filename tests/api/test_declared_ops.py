"""``@kcheck.op`` from Python and from the command line: one declaration, every door."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numba import cuda

import kcheck
from kcheck.cli.main import main
from kcheck.device.cuda import driver_answers

DEVICE = "gpu" if driver_answers() else "simulator"
ROOT = Path(__file__).resolve().parents[2]
KEYS = {"dims": {"N": range(1, 12)}, "inputs": {"x": ["N"]}, "outputs": {"y": ["N"]}}
LAUNCH = {"args": ["x", "y"], "grid": [1], "block": [16]}


def triple(x):
    return 3 * x


@kcheck.op(**KEYS, reference=triple, launch=LAUNCH)
@cuda.jit
def outside(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = 3 * x[i]


@cuda.jit
@kcheck.op("inner", **KEYS, reference=triple, launch=LAUNCH)
def inside(x, y):
    i = cuda.grid(1)
    if i < x.size - x.size % 2:
        y[i] = 3 * x[i]


@kcheck.op(**KEYS, reference=triple)
def function(x):
    return x + x + x


def test_a_decorated_kernel_is_a_spec_in_both_orders_of_the_decorators() -> None:
    assert kcheck.check(outside, cases=4, device=DEVICE).ok
    report = kcheck.check(inside, cases=11, device=DEVICE)
    assert {failure.rule for failure in report.failures} == {"unwritten"}
    smallest = kcheck.minimize(inside, report.failures[0], device=DEVICE)
    assert dict(smallest.dims) == {"N": 1}
    assert kcheck.reproduce(inside, report.failures[0].seed, device=DEVICE).result == "fails"


def test_a_decorated_function_runs_as_it_is_and_is_a_spec() -> None:
    assert function(np.float32([1, 2])).tolist() == [3, 6]
    assert kcheck.check(function, cases=4).ok
    assert all(case.judge(function(case.inputs["x"])).passed for case in kcheck.cases(function, count=3))


def test_a_function_without_a_declaration_is_refused() -> None:
    with pytest.raises(kcheck.UserError, match=r"triple is not a spec, and not decorated with @kcheck\.op; pass"):
        kcheck.check(triple)


def test_nothing_is_checked_on_import_and_errors_name_the_line_of_the_argument() -> None:
    @kcheck.op(
        dims={"N": [1]},
        inputs={"x": ["n"]},
        outputs={"y": ["N"]},
        reference=lambda x: x,
    )
    def wrong(x):
        return x

    with pytest.raises(kcheck.SpecError) as refused:
        kcheck.check(wrong)
    (fault,) = refused.value.faults
    lines = Path(__file__).read_text().splitlines()
    assert "did you mean 'N'" in str(fault)
    assert lines[fault.span.line - 1].strip() == 'inputs={"x": ["n"]},'


OPS = """\
import kcheck
import numpy as np


def reference(x):
    return np.maximum(x, 0)


@kcheck.op(dims={"N": range(1, 40)}, inputs={"x": ["N"]}, outputs={"y": ["N"]}, reference=reference,
           cases={"count": 8})
def relu(x):
    return np.where(x > 0, x, np.float32(0)) if x.size < 7 else np.abs(x)
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("declared")
    (root / "kcheck.yaml").write_text("specs: [ops]\n")
    (root / "ops").mkdir()
    (root / "ops/relu.py").write_text(OPS)
    return root


@pytest.fixture
def kcheck_in(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """The command line in the project: (exit code, stdout)."""
    monkeypatch.chdir(project)
    monkeypatch.setenv("COLUMNS", "80")

    def run(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        code = main(words)
        return code, capsys.readouterr().out

    return run


def test_every_command_takes_a_declared_op(kcheck_in: Callable[..., tuple[int, str]]) -> None:
    """What a run prints to paste is pasted: the run of one case, and reproduce."""
    code, text = kcheck_in("run", "ops/relu.py", "--format", "json")
    (spec,) = json.loads(text)["specs"]
    assert (code, spec["path"], spec["op"]) == (1, "ops/relu.py::relu", "relu")
    replays = [case["replay"] for case in spec["cases"] if case["status"] == "failed"]
    assert replays[0].startswith("kcheck run ops/relu.py::relu --case-seed ")
    seed = replays[0].split()[-1]
    code, text = kcheck_in(*replays[0].split()[1:], "--format", "junit")
    assert code == 1
    assert 'file="ops/relu.py"' in text
    assert 'classname="ops.relu.relu"' in text
    for words, wanted in {
        ("validate", "ops/relu.py"): 0,
        ("validate",): 0,
        ("cases", "ops/relu.py::relu"): 0,
        ("lint", "ops/relu.py"): 0,
        ("reproduce", seed, "--op", "relu"): 1,
        ("minimize", "--seed", seed, "--op", "relu", "--strategy", "dims"): 0,
    }.items():
        code, text = kcheck_in(*words)
        assert code == wanted, (words, text)
    assert "fails when N > 6" in text


def test_spec_print_writes_a_spec_with_the_same_cases(
    kcheck_in: Callable[..., tuple[int, str]], project: Path
) -> None:
    code, text = kcheck_in("spec", "print", "ops/relu.py")
    assert (code, text.splitlines()[:3]) == (0, ["kcheck: 1", "op: relu", "function: ops/relu.py:relu"])
    (project / "printed.yaml").write_text(text)
    assert kcheck_in("cases", "printed.yaml") == kcheck_in("cases", "ops/relu.py")


def test_pytest_collects_declared_ops_without_importing_their_files(project: Path) -> None:
    """A file that pytest imported might have imported numba.cuda before a device was chosen."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    (project / "ops/unread.py").write_text(OPS.replace("def relu", "def other") + "raise RuntimeError\n")
    command = [sys.executable, "-m", "pytest", "ops/unread.py", "ops", "-q", "--co", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    listed = [line for line in done.stdout.splitlines() if "::" in line]
    assert listed == ["ops/relu.py::relu[float32]", "ops/unread.py::other[float32]"], done.stdout + done.stderr
