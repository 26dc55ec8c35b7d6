"""Kernels that cannot be launched as the spec launches them: one clear error each."""

from __future__ import annotations

import pytest
from cpu_project import CpuProject

from kcheck.device.cpu import missing

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing())]

SPEC = """
kcheck: 1
op: op
kernel: k.py:op
reference: r.py:op
dims: {N: [70]}
inputs: {x: [N]}
outputs: {y: [N]}
launch: {args: [x, y], grid: ["ceildiv(N, 32)"], block: [32]}
cases: {count: 1}
"""
REFERENCE = "def op(x):\n    return {'y': 2 * x}\n"
BODY = """
def op(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = 2 * x[i]
"""


@pytest.fixture
def project(tmp_path) -> CpuProject:
    return CpuProject(tmp_path / "a project")


def test_an_explicit_signature_of_another_dtype_is_one_error(project) -> None:
    """Both types are told, at the decorator; nothing runs, so memcheck has nothing to say."""
    project.add("op", SPEC, '@cuda.jit("void(float64[:], float64[:])")' + BODY, REFERENCE)
    (case,) = project.report()["op"]["cases"]
    (finding,) = case["findings"]
    assert finding["rule"] == "launch"
    assert finding["message"].startswith("op is compiled for float64[:], called with float32[:]: argument x")
    assert "remove the signature from @cuda.jit" in finding["fix"]
    assert project.line("op", finding).startswith("@cuda.jit(")


def test_an_explicit_signature_that_fits_runs(project) -> None:
    """The same types, of any layout."""
    project.add("op", SPEC, '@cuda.jit("void(float32[:], float32[::1])")' + BODY, REFERENCE)
    assert [case["status"] for case in project.report()["op"]["cases"]] == ["passed"]


def test_an_njit_function_is_not_a_kernel(project) -> None:
    """The spec is refused, with exit code 2, and the message names the decorator to use."""
    project.add("op", SPEC, "from numba import njit\n@njit" + BODY, REFERENCE)
    done = project.run(".")
    assert done.returncode == 2
    assert "op is compiled for the CPU by @njit; decorate it with @cuda.jit" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("line", "noted"),
    [("y[i] = x[i] * x[i] + x[i]", True), ("y[i] = float32(x[i]) * float32(x[i]) * float32(1.001) + x[i]", False)],
)
def test_only_a_kernel_that_computes_in_float16_is_told_to_compute_in_float32(project, line, noted) -> None:
    """A wrong constant in a kernel that computes in float32 is no rounding, however small it is."""
    spec = SPEC.replace(
        "inputs: {x: [N]}", "inputs: {x: {shape: [N], dtype: float16, values: {uniform: [-2, 2]}}}"
    )
    spec = spec.replace("outputs: {y: [N]}", "outputs: {y: {shape: [N], dtype: float16}}")
    spec = spec.replace("N: [70]", "N: [32, 64]").replace("count: 1", "count: 2, seed: 1")
    kernel = "@cuda.jit" + BODY.replace("y[i] = 2 * x[i]", line)
    project.add("op", spec, kernel, "def op(x):\n    return {'y': x * x + x}\n")
    found = project.report()["op"]
    assert [case["status"] for case in found["cases"]] == ["failed"] * 2
    assert any("within the rounding of float16" in note for note in found["notes"]) is noted


@pytest.mark.parametrize(("bug", "noted"), [("", True), (" + x[i] * (N > 32)", False)])
def test_a_small_error_in_one_case_is_not_called_rounding_if_other_cases_are_worse(project, bug, noted) -> None:
    """A wrong factor that only large sizes show: at small sizes the error is that of float16 arithmetic."""
    spec = SPEC.replace(
        "inputs: {x: [N]}", "inputs: {x: {shape: [N], dtype: float16, values: {uniform: [-2, 2]}}}"
    )
    spec = spec.replace("outputs: {y: [N]}", "outputs: {y: {shape: [N], dtype: float16}}")
    spec = spec.replace("N: [70]", "N: [32, 64]").replace("count: 1", "count: 4, seed: 11")
    kernel = "@cuda.jit" + BODY.replace("y[i] = 2 * x[i]", f"N = x.size; y[i] = x[i] * x[i] + x[i]{bug}")
    kernel = kernel.replace("N = x.size; ", "N = x.size\n        ")
    project.add("op", spec, kernel, "def op(x):\n    return {'y': x * x + x}\n")
    found = project.report()["op"]
    failing = {case["dims"]["N"] > 32 for case in found["cases"] if case["status"] == "failed"}
    assert failing == {True, False}
    told = [note for note in found["notes"] if "within the rounding of float16" in note]
    assert bool(told) is noted
    assert not any("within the rounding" in note for case in found["cases"] for note in case["notes"])
