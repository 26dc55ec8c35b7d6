"""Cases at sizes for which a kernel does what it does at no planned size."""

from __future__ import annotations

from pathlib import Path

import pytest
from kinds_project import KindsProject

from kcheck.device.cpu import missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

NUMBA = """
from numba import cuda

@cuda.jit
def rows(x, y, m, n):
    i = cuda.blockIdx.y
    j = cuda.grid(1)
    if j < n:
        v = 2 * x[i, j]
        if n == 1777:
            v += %s
        if m %% 7 == 3 and n %% 48 == 0 and m > n:
            v += %s
        if i == 55 and j == 300 and m == 57:
            v += %s
        y[i, j] = v
"""
CUDA = """
extern "C" __global__ void rows(const float* x, float* y, int m, int n) {
  int i = blockIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j >= n) return;
  float v = 2 * x[i * n + j];
  if (n == 1777) v += %s;
  if (m %% 7 == 3 && n %% 48 == 0 && m > n) v += %s;
  if (i == 55 && j == 300 && m == 57) v += %s;
  y[i * n + j] = v;
}
"""
TRITON = """
import triton
import triton.language as tl

@triton.jit
def rows(x, y, m, n, BLOCK: tl.constexpr):
    i = tl.program_id(1)
    j = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = 2 * tl.load(x + i * n + j, mask=j < n)
    if n == 1777:
        v += %s
    if m %% 7 == 3 and n %% 48 == 0 and m > n:
        v += %s
    v += tl.where((i == 55) & (j == 300) & (m == 57), %s, 0)
    tl.store(y + i * n + j, v, mask=j < n)
"""
SPEC = """
kernel: {file}:rows
dims: {{M: 1..2000, N: 1..4000}}
inputs: {{x: [M, N]}}
outputs: {{y: [M, N]}}
cases: {{count: 6, memory: 8MB}}
huge: off
"""
LAUNCH = 'launch: {args: [x, y, M, N], grid: ["ceildiv(N, 128)", M], block: [128]}\n'
LANGUAGES = {
    "numba": ("n.py", NUMBA, LAUNCH),
    "cuda": ("k.cu", CUDA, LAUNCH),
    "triton": (
        "t.py",
        TRITON,
        'launch: {args: [x, y, M, N], grid: ["ceildiv(N, 128)", M]}\ncompile: {constexprs: {BLOCK: 128}}\n',
    ),
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_bugs_at_sizes_that_are_not_drawn_are_found(language: str, tmp_path: Path) -> None:
    """One size, three conditions at once, and one element of one size. The correct twin passes."""
    name, text, launch = LANGUAGES[language]
    project = KindsProject(tmp_path / "p")
    for twin, added in {"bug": (1, 2, 3), "fix": (0, 0, 0)}.items():
        project.write(f"{twin}_{name}", text % added)
        project.spec(twin, SPEC.format(file=f"{twin}_{name}") + launch)
    specs = project.report()
    assert specs["fix"]["status"] == "passed"
    failing = [case for case in specs["bug"]["cases"] if case["status"] != "passed"]
    assert all(case["label"].startswith("reach_") for case in failing)
    sizes = [(case["dims"]["M"], case["dims"]["N"]) for case in failing]
    assert any(n == 1777 for m, n in sizes)
    assert any(m % 7 == 3 and n % 48 == 0 and m > n for m, n in sizes)
    assert any(m == 57 and n > 300 for m, n in sizes)


def test_conditions_on_sizes_and_on_contents_together(tmp_path: Path) -> None:
    """The solver does not know the contents: the sizes come with several distributions. They come once where the
    spec has only one distribution, as for integers."""
    project = KindsProject(tmp_path / "p")
    text = """
        extern "C" __global__ void rows(const float* x, const int* k, float* y, int m, int n) {
          int i = blockIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
          if (j >= n) return;
          float v = x[i * n + j];
          y[i * n + j] = 2 * v + (v < -1000 && m %% 48 == 29 && n %% 64 == 7 ? %s : 0) + (k[i] == 77 && n == 2998);
        }
    """
    spec = """
        kernel: {file}:rows
        dims: {{M: 1..2000, N: 1..4000}}
        inputs: {{x: [M, N], k: {{shape: [M], dtype: int32}}}}
        outputs: {{y: [M, N]}}
        launch: {{args: [x, k, y, M, N], grid: ["ceildiv(N, 128)", M], block: [128]}}
        cases: {{count: 6, memory: 8MB}}
        huge: off
    """
    for twin, added in {"bug": 1, "fix": 0}.items():
        project.write(f"{twin}.cu", text % added)
        project.spec(twin, spec.format(file=f"{twin}.cu"))
    specs = project.report()
    assert specs["fix"]["status"] == "passed"
    failing = [case for case in specs["bug"]["cases"] if case["status"] != "passed"]
    assert failing
    assert all(case["dims"]["M"] % 48 == 29 and case["dims"]["N"] % 64 == 7 for case in failing)
    reached = [case for case in specs["bug"]["cases"] if case["label"].startswith("reach_")]
    assert len({str(case["values"]["x"]) for case in reached if case["dims"]["M"] % 48 == 29}) > 1
    assert sum(case["dims"]["N"] == 2998 for case in reached) == 1


def test_these_cases_are_told_replayed_and_left_out(tmp_path: Path) -> None:
    """The note has their lines, the replay line runs the same case, and worker processes add the same ones."""
    project = KindsProject(tmp_path / "p")
    project.write("k.cu", CUDA.replace("if (m", "// ").replace("if (i", "// ") % (1, 0, 0))
    project.spec("rows", SPEC.format(file="k.cu") + LAUNCH)
    done = project.kcheck("run", "--device", "cpu", "--no-store")
    assert done.returncode == 1
    assert "reach_0 meets a condition that no planned case meets (k.cu:5)" in done.stdout
    replay = next(line.split("kcheck ", 1)[1] for line in done.stdout.splitlines() if "  replay " in line)
    assert replay == "run specs/rows.yaml -k reach_0 --device cpu"
    again = project.kcheck(*replay.split(), "--no-store")
    smallest = [line for line in done.stdout.splitlines() if "smallest" in line]
    assert smallest
    assert smallest == [line for line in again.stdout.splitlines() if "smallest" in line]
    spread = project.kcheck("run", "--device", "cpu", "--no-store", "-j2")
    assert smallest == [line for line in spread.stdout.splitlines() if "smallest" in line]
    assert project.kcheck("run", "--device", "cpu", "--no-store", "--no-reach").returncode == 0
    listed = project.kcheck("cases", "specs/rows.yaml", "-v").stdout
    assert "\nreach_0 " in listed
    assert "reach_0 is for k.cu:5: if (n == 1777) v += 1;\nN is compared with 1777 (k.cu:5)\n" in listed
    assert "reach_0" not in project.kcheck("cases", "specs/rows.yaml").stdout
    refused = project.kcheck("run", "--reach", "--shard", "1/2")
    assert refused.returncode == 2
    assert "--reach and --shard cannot be combined" in refused.stderr


def test_a_param_and_a_size_together(tmp_path: Path) -> None:
    """With ``--reach``, also in code that is compiled for one value of a constant."""
    project = KindsProject(tmp_path / "p")
    project.write(
        "t.py",
        """
        import triton
        import triton.language as tl

        @triton.jit
        def rows(x, y, n, MODE: tl.constexpr, BLOCK: tl.constexpr):
            j = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            v = 2 * tl.load(x + j, mask=j < n)
            if MODE == 3:
                if n == 3001:
                    v += 1
            tl.store(y + j, v, mask=j < n)
        """,
    )
    project.spec(
        "rows",
        """
        kernel: t.py:rows
        dims: {N: 1..4000}
        params: {mode: {dtype: int32, values: [1, 2, 3]}}
        launch: {args: [x, y, N], grid: ["ceildiv(N, 128)"]}
        compile: {constexprs: {BLOCK: 128, MODE: mode}}
        cases: {count: 6}
        """,
    )
    found = project.report("--reach")["rows"]
    (case,) = [case for case in found["cases"] if case["status"] == "failed"]
    assert (case["dims"]["N"], case["params"]["mode"]) == (3001, 3)
    assert case["replay"].endswith("-k reach_0 --reach --device cpu")


def test_kernels_of_a_launcher_with_the_option(tmp_path: Path) -> None:
    """A condition of a kernel, for sizes with which the launcher launches it."""
    project = KindsProject(tmp_path / "p")
    project.write(
        "rows.py",
        """
        from numba import cuda

        @cuda.jit
        def few(x, y):
            i = cuda.grid(1)
            if i < x.size:
                y[i] = 2 * x[i]

        @cuda.jit
        def many(x, y):
            i = cuda.grid(1)
            if i < x.size:
                y[i] = 2 * x[i] + (1 if x.size % 512 == 77 else 0)

        def rows(x, y):
            if x.size <= 1000:
                few[8, 128](x, y)
            else:
                many[(x.size + 127) // 128, 128](x, y)
        """,
    )
    project.spec("rows", "launcher: rows.py:rows\ndims: {N: 1..4000}\ncases: {count: 3}\n")
    assert project.report("--no-reach")["rows"]["status"] == "passed"
    found = project.report("--reach")["rows"]
    (case,) = [case for case in found["cases"] if case["status"] == "failed"]
    assert case["label"].startswith("reach_")
    assert case["dims"]["N"] > 1000
    assert case["dims"]["N"] % 512 == 77
