"""The pytest plug-in in a separate process, as a user has it: specs as test files, and the ``kcheck`` fixture."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

KERNELS = """\
from numba import cuda


@cuda.jit
def double(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] + x[i]


@cuda.jit
def double_of_float32(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] + x[i] if x.itemsize == 4 else x[i]
"""
SPEC = """\
kcheck: 1
op: {op}
tags: [{tag}]
kernel: kernels/k.py:{kernel}
reference: references/r.py:double
dims: {{N: [1, 2, 5]}}
dtypes: [float32, float64]
inputs: {{x: [N]}}
outputs: {{y: [N]}}
launch: {{args: [x, y], grid: [1], block: [8]}}
cases: {{count: 6}}
examples: [{{dims: {{N: 5}}, dtypes: {{T: float32}}}}]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with a spec that passes, one that fails for float64, and YAML that is not a spec."""
    files = {
        "kcheck.yaml": "",
        "kernels/k.py": KERNELS,
        "references/r.py": "def double(x):\n    return 2 * x\n",
        "specs/good.yaml": SPEC.format(op="good", tag="clean", kernel="double"),
        "specs/half.yaml": SPEC.format(op="half", tag="buggy", kernel="double_of_float32"),
        "specs/other.yaml": "not: a spec\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """pytest with the plug-in, whether or not kcheck is installed."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "NUMBA_"))}
    environment |= {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "100"}
    words = ("-p", "kcheck.pytest_plugin", "--kcheck-device", "simulator", *arguments)
    return subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def outcomes(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """By test, how it ended."""
    found = re.findall(r"^(specs\S+|test_\S+) (PASSED|FAILED|SKIPPED|ERROR)", done.stdout, re.MULTILINE)
    return {name.partition("::")[2]: word for name, word in found}


def test_a_spec_is_one_test_for_its_examples_and_one_for_each_choice_of_dtypes(folder: Path) -> None:
    done = run(folder, "specs", "-v")
    assert outcomes(done) == {
        "good[examples]": "PASSED",
        "good[float32]": "PASSED",
        "good[float64]": "PASSED",
        "half[examples]": "PASSED",
        "half[float32]": "PASSED",
        "half[float64]": "FAILED",
    }, done.stdout
    assert done.returncode == 1
    assert "mismatch   y[" in done.stdout
    assert re.search(r"replay\s+kcheck run specs/half.yaml --case-seed", done.stdout)
    assert "FAILED specs/half.yaml::half[float64] - 3 of 3 cases failed: mismatch\n" in done.stdout
    assert "Traceback" not in done.stdout
    again = run(folder, "specs", "--lf", "-v")
    assert outcomes(again) == {"half[float64]": "FAILED"}


def test_the_run_stops_at_the_first_failure_where_that_is_asked_for(folder: Path) -> None:
    done = run(folder, "specs/half.yaml", "specs/good.yaml", "-x", "-v")
    assert outcomes(done) == {
        "half[examples]": "PASSED",
        "half[float32]": "PASSED",
        "half[float64]": "FAILED",
    }, done.stdout


def test_specs_run_beside_plug_ins_that_read_the_fixtures_of_a_test(folder: Path) -> None:
    """pytest-lsp fails at a test that has no ``funcargs``."""
    plugins = ("-p", "pytest_asyncio", "-p", "pytest_lsp", "-W", "ignore")
    done = run(folder, "specs/good.yaml", "-v", *plugins)
    assert set(outcomes(done).values()) == {"PASSED"}, done.stdout


def test_specs_are_selected_by_name_and_by_tag(folder: Path) -> None:
    done = run(folder, "specs", "-v", "-k", "float64 and clean", "--kcheck-cases", "2")
    assert set(outcomes(done)) == {"good[float64]"}
    by_id = run(folder, "specs/good.yaml::good[examples]", "-v")
    assert outcomes(by_id) == {"good[examples]": "PASSED"}


def test_a_group_without_a_case_is_skipped_and_says_so(folder: Path) -> None:
    done = run(folder, "specs/good.yaml", "-v", "-rs", "--kcheck-cases", "0")
    assert outcomes(done) == {
        "good[examples]": "PASSED",
        "good[float32]": "SKIPPED",
        "good[float64]": "SKIPPED",
    }
    assert "raise --kcheck-cases" in done.stdout


def test_an_invalid_spec_is_an_error_with_every_fault(folder: Path) -> None:
    (folder / "specs/good.yaml").write_text(
        SPEC.format(op="good", tag="x", kernel="duble").replace("dims", "dimms")
    )
    done = run(folder, "specs/good.yaml")
    assert done.returncode == 2
    assert "specs/good.yaml:6:1: unknown key 'dimms'; did you mean 'dims'?" in done.stdout
    assert "does not define 'duble'; did you mean 'double'?" in done.stdout
    assert "Traceback" not in done.stdout


def test_specs_run_under_xdist(folder: Path) -> None:
    done = run(folder, "specs", "-p", "xdist.plugin", "-n", "2", "-q")
    assert "1 failed, 5 passed" in done.stdout, done.stdout


USES = """
import numpy as np

def test_good(kcheck):
    assert kcheck.run("specs/good.yaml").cases == 3

def test_half(kcheck):
    kcheck.run("specs/half.yaml")

def test_close(kcheck):
    kcheck.assert_close(np.ones(3), np.ones(3))

def test_cases(kcheck):
    for case in kcheck.cases("specs/good.yaml"):
        assert case.judge(case.inputs["x"] * 2).passed
"""


def test_the_fixture_runs_specs_in_tests_of_the_user(folder: Path) -> None:
    (folder / "test_uses.py").write_text(USES)
    done = run(folder, "test_uses.py", "-v", "--kcheck-cases", "2")
    assert outcomes(done) == {
        "test_good": "PASSED",
        "test_half": "FAILED",
        "test_close": "PASSED",
        "test_cases": "PASSED",
    }, done.stdout
    assert "mismatch   y[" in done.stdout


def test_the_example_of_the_page_runs(project_of_the_page: Path) -> None:
    """The block of docs/pytest.md, with functions to test."""
    done = run(project_of_the_page, "test_page.py", "-v", "--kcheck-cases", "2")
    assert outcomes(done) == dict.fromkeys(("test_softmax", "test_my_softmax", "test_sum"), "PASSED"), done.stdout


@pytest.fixture
def project_of_the_page(folder: Path) -> Path:
    page = (ROOT / "docs/pytest.md").read_text("utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    mine = "def my_softmax(x):\n    return 2 * x\n\ndef my_sum(x):\n    return x.sum()\n"
    (folder / "test_page.py").write_text(block + mine)
    (folder / "specs/softmax.yaml").write_text(SPEC.format(op="softmax", tag="x", kernel="double"))
    return folder


LIGHT = """
import sys

def test_light():
    loaded = [name for name in sys.modules if name.split(".")[0] in ("numba", "numpy", "yaml", "kcheck")]
    assert sorted(loaded) == ["kcheck", "kcheck.pytest_plugin", "kcheck.version"], loaded
"""


def test_without_a_spec_the_plug_in_costs_nothing(folder: Path) -> None:
    """Nothing of kcheck is imported but the plug-in, and no Numba."""
    (folder / "test_light.py").write_text(LIGHT)
    words = ("test_light.py", "-v", "--kcheck-device", "auto", "-p", "no:assertion")
    done = run(folder, *words)
    assert outcomes(done) == {"test_light": "PASSED"}, done.stdout


def test_collecting_specs_imports_no_numba(folder: Path) -> None:
    (folder / "conftest.py").write_text(
        "import sys\ndef pytest_collection_finish(session):\n    print('NUMBA', 'numba' in sys.modules)\n"
    )
    done = run(folder, "specs", "--collect-only", "-q", "--kcheck-device", "auto")
    assert "NUMBA False" in done.stdout
    assert "specs/half.yaml::half[float64]" in done.stdout


def test_a_wrong_option_is_refused(folder: Path) -> None:
    assert "invalid choice: 'tpu'" in run(folder, "specs", "--kcheck-device", "tpu").stderr
    assert "-1 is not a number of cases" in run(folder, "specs", "--kcheck-cases=-1").stderr
    assert (
        "unknown profile 'nigthly'; did you mean 'nightly'?"
        in run(folder, "specs", "--kcheck-profile", "nigthly").stdout
    )
