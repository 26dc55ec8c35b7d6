"""Code without optimizations, in which no access is removed: ``compile: {debug: true}`` and ``--debug-code``."""

from __future__ import annotations

from pathlib import Path

import pytest
from kinds_project import KindsProject

from kcheck.device.cpu import missing

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing())]

CUDA = """
extern "C" __global__ void twice(const float* x, float* y, int n) {
  __shared__ float tile[64];
  int t = threadIdx.x, i = blockIdx.x * 64 + t;
  tile[t] = i < n ? x[i] : 0.0f;
  BARRIER;
  float unused = tile[63 - t];
  if (i < n) y[i] = 2 * x[i];
}
"""
NUMBA = """
from numba import cuda, float32, int32


@cuda.jit
def {name}(x, y, n):
    tile = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    tile[t] = x[i] if i < n else float32(0)
    {barrier}
    unused = tile[63 - t]
    if i < n:
        y[i] = 2 * x[i]
"""
TRITON = """
import triton
import triton.language as tl


@triton.jit
def twice(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)
"""


@pytest.fixture(name="project", scope="module")
def project_of_pairs(tmp_path_factory: pytest.TempPathFactory) -> KindsProject:
    """A kernel that reads what another thread writes, and does not use it; the twin has a barrier between both."""
    project = KindsProject(tmp_path_factory.mktemp("debug") / "project")
    project.write("kernels/twice.cu", CUDA)
    project.write("kernels/races.py", NUMBA.format(name="races", barrier="pass"))
    project.write("kernels/waits.py", NUMBA.format(name="waits", barrier="cuda.syncthreads()"))
    project.spec("cu_races", "kernel: kernels/twice.cu:twice\ncompile: {defines: {BARRIER: ''}}")
    project.spec("cu_waits", "kernel: kernels/twice.cu:twice\ncompile: {defines: {BARRIER: __syncthreads()}}")
    project.spec("py_races", "kernel: kernels/races.py:races")
    project.spec("py_waits", "kernel: kernels/waits.py:waits")
    project.spec(
        "own", "kernel: kernels/twice.cu:twice\ncompile: {debug: true, defines: {BARRIER: ''}}\n"
        "artifact: {targets: [sm_80], max_local_bytes: 0}"
    )  # fmt: skip
    project.spec("own_py", "kernel: kernels/races.py:races\ncompile: {debug: true}")
    return project


def rules(spec: dict[str, object]) -> set[str]:
    return {finding["rule"] for case in spec["cases"] for finding in case["findings"]}


PLAIN = ("specs/cu_races.yaml", "specs/cu_waits.yaml", "specs/py_races.yaml", "specs/py_waits.yaml")


def test_the_compiler_removes_a_read_that_races(project: KindsProject) -> None:
    report = project.report(*PLAIN)
    assert {op: rules(spec) for op, spec in report.items()} == {op: set() for op in report}


def test_a_read_that_races_is_found_in_code_without_optimizations(project: KindsProject) -> None:
    report = project.report(*PLAIN, "--debug-code")
    found = {op: rules(spec) for op, spec in report.items()}
    assert found == {"cu_races": {"racecheck"}, "cu_waits": set(), "py_races": {"racecheck"}, "py_waits": set()}
    finding = next(f for case in report["cu_races"]["cases"] for f in case["findings"])
    assert finding["place"]["line"] in (4, 6)  # the write, or the read


def test_a_spec_can_ask_for_code_without_optimizations(project: KindsProject) -> None:
    report = project.report("specs/own.yaml", "specs/own_py.yaml")
    assert {op: rules(spec) for op, spec in report.items()} == {"own": {"racecheck"}, "own_py": {"racecheck"}}


def test_the_artifact_is_that_of_optimized_code(project: KindsProject) -> None:
    """Without optimizations, all variables are in local memory."""
    assert project.report("specs/own.yaml")["own"]["findings"] == []


def test_the_replay_line_repeats_the_option(project: KindsProject) -> None:
    done = project.kcheck("run", "specs/cu_races.yaml", "--debug-code", "--device", "cpu")
    assert any(line.endswith("--debug-code") for line in done.stdout.splitlines() if "replay" in line)


def test_g_among_the_options_says_what_to_write(project: KindsProject, tmp_path: Path) -> None:
    project.spec("with_g", "kernel: kernels/twice.cu:twice\ncompile: {options: [-G]}")
    done = project.kcheck("validate", "specs/with_g.yaml")
    assert done.returncode == 2
    assert "write `debug: true` in compile" in done.stderr + done.stdout


def test_a_kernel_without_such_code_says_so(project: KindsProject) -> None:
    pytest.importorskip("triton")
    project.write("kernels/triton_twice.py", TRITON)
    text = "kernel: kernels/triton_twice.py:twice\ncompile: {constexprs: {BLOCK: 64}}\n"
    project.spec("with_triton", text + 'launch: {args: [x, y, N], grid: ["ceildiv(N, 64)"]}')
    notes = project.report("specs/with_triton.yaml", "--debug-code")["with_triton"]["notes"]
    assert "--debug-code changes nothing for this spec: kcheck has no unoptimized code of Triton" in notes
