"""The line of the store to an element that is wrong, was not written, or must not be written (a second launch)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from kinds_project import KindsProject

from kcheck.device.cpu import missing

pytestmark = [pytest.mark.skipif(bool(missing()), reason=missing())]

NUMBA = """
from numba import cuda

@cuda.jit
def unwritten(x, y):
    i = cuda.grid(1)
    if i < x.size:
        if i != 7:
            y[i] = 2 * x[i]

@cuda.jit
def wrong(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = 2 * x[i]
        if i == 3:
            y[i] = x[i] + 1

@cuda.jit
def gap(x, y):
    i, n = cuda.grid(1), y.shape[1]
    if i < y.shape[0]:
        for j in range(n):
            y[i, j] = 2 * x[i, j]
        if i < y.shape[0] - 1 and y.strides[0] > n * y.itemsize:
            y[i, n] = 0

@cuda.jit
def over(x, y):
    i, n = cuda.grid(1), x.shape[1]
    if i < x.shape[0]:
        total = x.dtype.type(0)
        for j in range(n + 1 if i < x.shape[0] - 1 else n):
            total += x[i, j]
        y[i] = total
"""
CPP = """
extern "C" __global__ void unwritten(const float* x, float* y, int n) {
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i < n)
    if (i != 7)
      y[i] = 2 * x[i];
}
extern "C" __global__ void wrong(const float* x, float* y, int n) {
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i >= n) return;
  y[i] = 2 * x[i];
  if (i == 3)
    atomicExch(&y[i], x[i] + 1);
}
extern "C" __global__ void gap(const float* x, float* y, int m, int n, int from, int to) {
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i >= m) return;
  for (int j = 0; j < n; ++j)
    y[i * to + j] = 2 * x[i * from + j];
  if (i < m - 1 && to > n)
    y[i * to + n] = 0;
}
extern "C" __global__ void over(const float* x, float* y, int m, int n, int from) {
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i >= m) return;
  float total = 0;
  for (int j = 0; j < n + (i < m - 1); ++j)
    total += x[i * from + j];
  y[i] = total;
}
"""
TRITON = """
import triton
import triton.language as tl

@triton.jit
def unwritten(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(y + i, 2 * a, mask=(i < n) & (i != 7))

@triton.jit
def wrong(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(y + i, 2 * a, mask=i < n)
    tl.debug_barrier()
    tl.store(y + i, a + 1, mask=(i < n) & (i == 3))

@triton.jit
def gap(x, y, m, n, start, to, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for j in range(n):
        a = tl.load(x + i * start + j, mask=i < m, other=0.0)
        tl.store(y + i * to + j, 2 * a, mask=i < m)
    tl.store(y + i * to + n, i * 0.0, mask=(i < m - 1) & (to > n))

@triton.jit
def over(x, y, m, n, start, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for j in range(n + 1):
        total += tl.load(x + i * start + j, mask=(i < m - 1) | ((i < m) & (j < n)), other=0.0)
    tl.store(y + i, total, mask=i < m)
"""
PTX = """
.version 7.8
.target sm_80
.address_size 64
.visible .entry unwritten(.param .u64 px, .param .u64 py, .param .u32 pn) {
  .reg .pred %p;
  .reg .b32 %r<8>;
  .reg .f32 %f<3>;
  .reg .b64 %d<6>;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %tid.x;
  mad.lo.u32 %r3, %r1, 64, %r2;
  ld.param.u32 %r4, [pn];
  setp.ge.u32 %p, %r3, %r4;
  @%p ret;
  setp.eq.u32 %p, %r3, 7;
  @%p ret;
  ld.param.u64 %d1, [px];
  ld.param.u64 %d2, [py];
  mul.wide.u32 %d3, %r3, 4;
  add.u64 %d4, %d1, %d3;
  add.u64 %d5, %d2, %d3;
  ld.global.f32 %f1, [%d4];
  add.f32 %f2, %f1, %f1;
  st.global.f32 [%d5], %f2;
  ret;
}
"""
ROWS = """
dims: {M: [1, 70], N: [1, 20]}
inputs: {x: {shape: [M, N], layouts: [contiguous]}}
outputs: {y: {shape: [M, N], layouts: [padded]}}
"""
GAP_ARGS = "x, y, {M: int32}, {N: int32}, {stride: [x, 0], dtype: int32}, {stride: [y, 0], dtype: int32}"
BLOCK = "compile: {constexprs: {BLOCK: 64}}\n"
IN_PLACE = {
    "numba": """
from numba import cuda

@cuda.jit
def doubled(y, wrong):
    i, (m, n) = cuda.threadIdx.x, y.shape
    if i < m:
        for j in range(n):
            y[i, j] *= 2
    if i == 0:
        if wrong == 1:
            y[m + 40, 0] = 1
        if wrong == 3:
            y[0, 1] = 7
        if wrong == 4:
            y[0, n] = 0
    if wrong == 2 and i == 1:
        y[0, 0] = 2
""",
    "cpp": """
extern "C" __global__ void doubled(float* y, int m, int n, int row, int wrong) {
  int i = threadIdx.x;
  if (i < m)
    for (int j = 0; j < n; ++j)
      y[i * row + j] *= 2;
  if (i == 0 && wrong == 1) y[(m + 40) * row] = 1;
  if (i == 1 && wrong == 2) y[0] = 2;
  if (i == 1 && wrong == 3) y[row + 1] = 7;
  if (i == 0 && wrong == 4) y[n] = 0;
}
""",
}
LANGUAGES = {
    "numba": ("kernels/n.py", NUMBA, 'launch: {args: [x, y], grid: ["ceildiv(N, 64)"], block: [64]}'),
    "cpp": ("kernels/c.cu", CPP, ""),
    "hip": ("kernels/h.hip", "#include <hip/hip_runtime.h>\n" + CPP, ""),
    "triton": ("kernels/t.py", TRITON, BLOCK + 'launch: {args: [x, y, N], grid: ["ceildiv(N, 64)"]}'),
    "ptx": ("kernels/p.ptx", PTX, ""),
}
GAPS = {
    "numba": ROWS + 'launch: {args: [x, y], grid: ["ceildiv(M, 64)"], block: [64]}',
    "triton": f'{ROWS}{BLOCK}launch: {{args: [{GAP_ARGS}], grid: ["ceildiv(M, 64)"]}}',
    **dict.fromkeys(
        ("cpp", "hip"), f'{ROWS}launch: {{args: [{GAP_ARGS}], grid: ["ceildiv(M, 64)"], block: [64]}}'
    ),
}
SUMS = """
reference: references/r.py:total
dims: {M: [70, 80], N: [3, 20]}
inputs: {x: {shape: [M, N], layouts: [padded]}}
outputs: {y: [M]}
"""
SUM_ARGS = "x, y, {M: int32}, {N: int32}, {stride: [x, 0], dtype: int32}"
OVER = {
    "numba": SUMS + 'launch: {args: [x, y], grid: ["ceildiv(M, 64)"], block: [64]}',
    "triton": f'{SUMS}{BLOCK}launch: {{args: [{SUM_ARGS}], grid: ["ceildiv(M, 64)"]}}',
    "cpp": f'{SUMS}launch: {{args: [{SUM_ARGS}], grid: ["ceildiv(M, 64)"], block: [64]}}',
}
RULES = {"unwritten": "y[i] = 2 * x[i]", "wrong": "x[i] + 1", "gap": "n] = 0"}
TRITON_LINES = {"unwritten": "i != 7", "wrong": "a + 1", "gap": "i * 0.0"}


def line_of(language: str, rule: str) -> int:
    """The line with the store that breaks the rule."""
    _, text, _ = LANGUAGES[language]
    part = TRITON_LINES[rule] if language == "triton" else RULES[rule]
    part = "st.global" if language == "ptx" else part
    lines = text.lstrip("\n").splitlines()
    return next(n for n, line in enumerate(lines, 1) if part in line)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> KindsProject:
    made = KindsProject(tmp_path_factory.mktemp("stores") / "project")
    for language, (path, text, keys) in LANGUAGES.items():
        made.write(path, text)
        for rule in ("unwritten", "wrong") if language != "ptx" else ("unwritten",):
            made.spec(f"{language}_{rule}", f"kernel: {path}:{rule}\n{keys}\ndims: {{N: [20, 256]}}")
        if language in GAPS:
            made.spec(f"{language}_gap", f"kernel: {path}:gap\n{GAPS[language]}")
        if language in OVER:
            made.spec(f"{language}_over", f"kernel: {path}:over\n{OVER[language]}")
    return made


@pytest.fixture(scope="module")
def report(project: KindsProject) -> dict[str, dict[str, Any]]:
    return project.report()


def placed(spec: dict[str, Any], rule: str) -> list[dict[str, Any]]:
    """The findings of a rule with a place."""
    found = [finding for case in spec["cases"] for finding in case["findings"] if finding["rule"] == rule]
    return [finding for finding in found if finding["place"] is not None]


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_unwritten_element_names_the_store_that_writes_its_neighbors(
    report: dict[str, dict[str, Any]], language: str
) -> None:
    """y[7] is not written; the line writes all others."""
    found = placed(report[f"{language}_unwritten"], "unwritten")
    line = line_of(language, "unwritten")
    assert found
    assert {finding["place"]["line"] for finding in found} == {line}
    assert found[0]["place"]["file"] == LANGUAGES[language][0]
    assert f"; line {line} stores to y[" in found[0]["message"]
    assert found[0]["message"].endswith(("y[6], but never to y[7]", "y[8], but never to y[7]"))


@pytest.mark.parametrize("language", [name for name in LANGUAGES if name != "ptx"])
def test_a_wrong_element_names_the_last_store_to_it(report: dict[str, dict[str, Any]], language: str) -> None:
    """Two lines store to y[3], and the second one is wrong."""
    compared = [each for case in report[f"{language}_wrong"]["cases"] for each in case["comparisons"]]
    places = [each["place"] for each in compared if each["place"] is not None]
    assert places
    assert {place["line"] for place in places} == {line_of(language, "wrong")}
    assert all(each["place"] is None for each in compared if each["passed"])


@pytest.mark.parametrize("language", GAPS)
def test_a_write_between_the_rows_of_an_array_names_its_line(
    report: dict[str, dict[str, Any]], language: str
) -> None:
    """The first column after the row."""
    (finding, *_) = placed(report[f"{language}_gap"], "guard")
    row, column = finding["index"]
    assert finding["place"]["line"] == line_of(language, "gap")
    assert f"at the address of y[{row}, {column}], but axis 1 has size {column}" in finding["message"]
    assert finding["block"] is not None


@pytest.mark.parametrize("language", OVER)
def test_a_value_from_between_the_rows_of_an_array_is_named_with_its_line(
    report: dict[str, dict[str, Any]], language: str
) -> None:
    """The sum includes the column after the row."""
    spec = report[f"{language}_over"]
    text = LANGUAGES[language][1].lstrip("\n")
    load = next(n for n, line in enumerate(text.splitlines(), 1) if "total += " in line)
    found = re.compile(
        rf"computed with x\[\d+, (\d+)\], which is in a gap .*: axis 1 has size \1 \(.* line {load}\)"
    )
    assert any(found.search(note) for note in spec["notes"]), spec["notes"]


def test_annotations_and_tests_point_to_the_store(project: KindsProject) -> None:
    """Not to the spec."""
    github = project.kcheck("run", "specs/cpp_unwritten.yaml", "specs/cpp_wrong.yaml", "--format", "github").stdout
    for rule in ("unwritten", "wrong"):
        assert f"file=kernels/c.cu,line={line_of('cpp', rule)}," in github
    sarif = json.loads(project.kcheck("run", "specs/cpp_wrong.yaml", "--format", "sarif").stdout)
    (result,) = sarif["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "kernels/c.cu"
    assert place["region"]["startLine"] == line_of("cpp", "wrong")
    junit = project.kcheck("run", "specs/cpp_wrong.yaml", "--format", "junit").stdout
    assert f'file="kernels/c.cu" line="{line_of("cpp", "wrong")}"' in junit


def test_a_kernel_that_never_stores_is_named_itself(project: KindsProject) -> None:
    """The compiler removed the store, so that no instruction has its line."""
    project.write("kernels/e.cu", '\nextern "C" __global__ void empty(const float* x, float* y, int n) {\n}\n')
    project.spec("empty", "kernel: kernels/e.cu:empty")
    done = project.kcheck("run", "specs/empty.yaml", "--format", "github")
    assert "file=kernels/e.cu,line=1," in done.stdout
    assert "no thread stores to y" in done.stdout


def test_a_store_that_no_thread_executes_is_named(project: KindsProject) -> None:
    """The condition does not hold in any thread."""
    text = """
    extern "C" __global__ void never(const float* x, float* y, int n) {
      int i = blockIdx.x * 64 + threadIdx.x;
      if (i >= n || n < 1000) return;
      y[i] = 2 * x[i];
    }
    """
    project.write("kernels/never.cu", text)
    project.spec("never", "kernel: kernels/never.cu:never")
    (finding, *_) = placed(project.report("specs/never.yaml")["never"], "unwritten")
    assert finding["message"].endswith("; no thread executes the store to y at line 4")
    assert Path(finding["place"]["file"]).name == "never.cu"


@pytest.mark.parametrize("language", ["numba", "cpp"])
def test_an_array_that_is_replaced_in_place_has_the_name_that_the_kernel_gets(
    project: KindsProject, language: str
) -> None:
    """An access out of bounds, a race, a wrong element and a changed gap of ``y``, which replaces ``x``."""
    project.write("references/place.py", "def doubled(x):\n    return 2 * x\n")
    path = {"numba": "kernels/place.py", "cpp": "kernels/place.cu"}[language]
    project.write(path, IN_PLACE[language])
    number = "{M: int32}, {N: int32}, {stride: [y, 0], dtype: int32}, {wrong: int32}"
    args = f"y, {number}" if language == "cpp" else "y, wrong"
    keys = f"""
    kernel: {path}:doubled
    reference: references/place.py:doubled
    dims: {{M: [3], N: [5], wrong: [0, 1, 2, 3, 4]}}
    inputs: {{x: {{shape: [M, N], values: [uniform], layouts: [padded]}}}}
    outputs: {{y: {{shape: [M, N], alias: x}}}}
    launch: {{args: [{args}], grid: [1], block: [32]}}
    examples: [{", ".join(f"{{dims: {{wrong: {n}}}}}" for n in range(5))}]
    cases: {{count: 0}}
    """
    project.spec(f"place_{language}", keys)
    report = project.report(f"specs/place_{language}.yaml", "--sanitize", "all")[f"place_{language}"]
    right, beyond, race, element, gap = report["cases"]
    assert right["status"] == "passed"
    for case, rule in ((beyond, "memcheck"), (race, "racecheck"), (gap, "guard")):
        finding = next(one for one in case["findings"] if one["rule"] == rule)
        assert finding["array"] == "y", finding
        assert "y[" in finding["message"] + str(finding.get("fix")), finding
        assert not re.search(r"\bx\b", finding["message"]), finding
        assert finding["place"] is not None
    (wrong,) = [one for one in element["comparisons"] if not one["passed"]]
    assert wrong["place"] is not None
