"""Launchers of kernels that a function makes: ``scale = make_scale(2)``, or one made at each call."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from small_project import Kcheck

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("nvidia") is None, reason="NVVM is not installed (cu12, cu13)"
)

KERNELS = """\
import functools

from numba import cuda


@functools.cache
def make_scale(factor):
    @cuda.jit
    def kernel(x, y):
        i = cuda.grid(1)
        if i < x.size:
            y[i] = x[i] * factor
    return kernel


twice = make_scale(2)


def named(x, y):
    twice[(x.size + 31) // 32, 32](x, y)


def local(x, y):
    make_scale(1)[1, 64](x, y)
    twice[(x.size + 31) // 32, 32](x, y)


def unnamed(x, y):
    make_scale(0.1)[1, 64](x, y)
    twice[(x.size + 31) // 32, 32](x, y)
"""
SPEC = """\
kcheck: 1
op: {launcher}
dims: {{N: [1, 33, 64]}}
inputs: {{x: [N]}}
outputs: {{y: [N]}}
launcher: kernels/made.py:{launcher}
reference: references/made.py:twice
cases: {{count: 4}}
artifact: {{targets: [sm_80], forbidden_patterns: ["\\\\.f64"]}}
"""


@pytest.fixture
def making(project: Path, kcheck: Kcheck) -> Kcheck:
    """The project with three specs whose launchers launch kernels of one factory."""
    (project / "kernels/made.py").write_text(KERNELS)
    (project / "references/made.py").write_text("def twice(x):\n    return 2 * x\n")
    for launcher in ("named", "local", "unnamed"):
        (project / f"specs/{launcher}.yaml").write_text(SPEC.format(launcher=launcher))
    return kcheck


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_kernel_of_a_factory_runs_as_any_other(making: Kcheck, jobs: str) -> None:
    """It has a name at the top level of its file, by which any process finds it."""
    done = making("run", "--device", "cpu", "specs/named.yaml", "--jobs", jobs)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "artifact" not in done.stdout


def test_a_kernel_without_a_name_is_compiled_by_the_process_that_launched_it(making: Kcheck) -> None:
    """Two of them from the same lines are two kernels: the one that computes in float64 is reported."""
    done = making("run", "--device", "cpu", "specs/unnamed.yaml", "--format", "json")
    (spec,) = json.loads(done.stdout)["specs"]
    assert done.returncode == 1, done.stderr
    assert [(finding["rule"], finding["kernel"]) for finding in spec["findings"]] == [("artifact", "kernel")]


@pytest.mark.parametrize(("device", "jobs"), [("simulator", "1"), ("cpu", "2")])
def test_where_no_process_can_load_it_a_note_names_it_with_the_fix(making: Kcheck, device: str, jobs: str) -> None:
    """Another process than the one that launched it would compile it: the cases pass, and nothing is hidden."""
    done = making("run", "--device", device, "--jobs", jobs, "specs/local.yaml", "--format", "json")
    (spec,) = json.loads(done.stdout)["specs"]
    assert done.returncode == 0, done.stdout + done.stderr
    assert spec["notes"][-1] == (
        "artifact of kernel was not checked: a function makes this kernel; "
        "bind it to a name at the top level of kernels/made.py"
    )


def test_lint_measures_both_of_one_factory(making: Kcheck) -> None:
    """``kcheck lint`` compiles named kernels in another process, the others here."""
    done = making("lint", "specs/unnamed.yaml", "--format", "json")
    (linted,) = json.loads(done.stdout)["lint"]
    assert sorted(metric["kernel"] for metric in linted["metrics"]) == ["kernel", "twice"], done.stdout
