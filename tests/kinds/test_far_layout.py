"""The layout ``far``: kernels that multiply a row by its stride in 32 bits, next to ones that do so in 64 bits."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from kinds_project import KindsProject

from kcheck.device.cpu import missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

CUDA = """
extern "C" __global__ void rows(const float* x, int ld, float* y, long long ldy, int n) {
  int j = threadIdx.x, i = blockIdx.x;
  if (j < n) y[i * ldy + j] = 2 * x[%s * ld + j];
}
"""
TRITON = """
import triton
import triton.language as tl

@triton.jit
def rows(x, ld, y, ldy, n, BLOCK: tl.constexpr):
    i = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    value = tl.load(x + %s * ld + j, mask=j < n)
    tl.store(y + i.to(tl.int64) * ldy + j, 2 * value, mask=j < n)
"""
NUMBA = """
from numba import cuda, int32
from numba.cuda.cudadrv.devicearray import DeviceNDArray

@cuda.jit
def rows(flat, ld, y, n):
    j, i = cuda.threadIdx.x, cuda.blockIdx.x
    if j < n:
        offset = %s(i * ld)
        y[i, j] = 2 * flat[offset + j]

def launch(x, y, M, N):
    ld = x.strides[0] // 4 if M > 1 else N
    flat = DeviceNDArray(((M - 1) * ld + N,), (4,), x.dtype, gpu_data=x.gpu_data)
    rows[M, 32](flat, ld, y, N)
"""
HIP = "#include <hip/hip_runtime.h>\n" + CUDA
PTX = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry rows(.param .u64 x, .param .s32 ld, .param .u64 y, .param .s64 ldy, .param .s32 n) {
    .reg .pred %%p;
    .reg .b32 %%i, %%j, %%ld, %%n, %%row;
    .reg .b64 %%x, %%y, %%o, %%ldy, %%w;
    .reg .f32 %%v;
    mov.u32 %%j, %%tid.x;
    mov.u32 %%i, %%ctaid.x;
    ld.param.u64 %%x, [x];
    ld.param.s32 %%ld, [ld];
    ld.param.u64 %%y, [y];
    ld.param.s64 %%ldy, [ldy];
    ld.param.s32 %%n, [n];
    setp.ge.s32 %%p, %%j, %%n;
    @%%p ret;
    cvt.s64.s32 %%w, %%j;
    %s
    add.s64 %%o, %%o, %%w;
    shl.b64 %%o, %%o, 2;
    add.s64 %%o, %%x, %%o;
    ld.global.f32 %%v, [%%o];
    add.f32 %%v, %%v, %%v;
    cvt.s64.s32 %%o, %%i;
    mad.lo.s64 %%o, %%o, %%ldy, %%w;
    shl.b64 %%o, %%o, 2;
    add.s64 %%o, %%y, %%o;
    st.global.f32 [%%o], %%v;
    ret;
}
"""
LANGUAGES = {
    "cuda": ("k.cu", CUDA, "i", "(long long)i", "as in (long long)i"),
    "hip": ("k.hip", HIP, "i", "(long long)i", "as in (long long)i"),
    "triton": ("k.py", TRITON, "i", "i.to(tl.int64)", "as in i.to(tl.int64)"),
    "numba": ("n.py", NUMBA, "int32", "", "as in int64(i)"),
    "ptx": (
        "k.ptx",
        PTX,
        "mul.lo.s32 %row, %i, %ld; cvt.s64.s32 %o, %row;",
        "mul.wide.s32 %o, %i, %ld;",
        "as in mul.wide.s32",
    ),
}
SPEC = """
kernel: {file}:rows
dims: {{M: [1, 2, 3, 9, 40], N: [1, 5, 32]}}
inputs: {{x: {{shape: [M, N], layouts: [far]}}}}
outputs: {{y: {{shape: [M, N], layouts: [contiguous, far]}}}}
cases: {{count: 12}}
"""
LAUNCH = "launch: {args: [x, {stride: [x, 0]}, y, {stride: [y, 0]}, N], grid: [M], block: [32]}\n"


def spec_of(language: str, file: str) -> str:
    """The spec of a kernel."""
    text = SPEC.format(file=file)
    if language == "numba":  # a launcher gets arrays, of which an axis of one row is not the far one
        return text.replace("M: [1, ", "M: [") + f"launcher: {file}:launch\n"
    if language == "triton":
        return text + "compile: {constexprs: {BLOCK: 32}}\n" + LAUNCH.replace(", block: [32]", "")
    return text + LAUNCH


def findings(spec: dict[str, Any], rule: str) -> list[dict[str, Any]]:
    """The findings of a rule, of all cases."""
    return [found for case in spec["cases"] for found in case["findings"] if found["rule"] == rule]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_product_in_32_bits_is_found_and_one_in_64_bits_is_not(language: str, tmp_path: Path) -> None:
    """The overflow is an error: the access is out of bounds. Its fix is in the words of the language."""
    name, text, narrow, wide, words = LANGUAGES[language]
    project = KindsProject(tmp_path / "p")
    for twin, operand in (("bug", narrow), ("fix", wide)):
        project.write(f"{twin}_{name}", text % operand)
        project.spec(twin, spec_of(language, f"{twin}_{name}"))
    specs = project.report()
    assert {op: spec["status"] for op, spec in specs.items()} == {"bug": "failed", "fix": "passed"}, specs["fix"]
    found = findings(specs["bug"], "overflow")
    assert found
    assert {one["severity"] for one in found} == {"error"}
    told = re.fullmatch(
        r"the result, ([\d,]+), does not fit in 32 bits and wraps around to (-?[\d,]+), .*", found[0]["message"]
    )
    assert told is not None, found[0]
    exact, wrapped = (int(number.replace(",", "")) for number in told.groups())
    assert exact >= 2**31
    assert (exact - wrapped) % 2**32 == 0
    assert words in found[0]["fix"], found[0]
    assert findings(specs["fix"], "overflow") == []


def test_an_error_only_where_the_level_is_the_default(tmp_path: Path) -> None:
    """A spec that sets ``overflow: warn`` gets a warning; memcheck still fails."""
    project = KindsProject(tmp_path / "p")
    project.write("k.cu", CUDA % "i")
    project.spec("own", spec_of("cuda", "k.cu") + "sanitize: {overflow: warn}\n")
    project.spec("off", spec_of("cuda", "k.cu") + "sanitize: {overflow: off}\n")
    specs = project.report()
    assert {found["severity"] for found in findings(specs["own"], "overflow")} == {"warn"}
    assert findings(specs["off"], "overflow") == []
    messages = {found["message"] for found in findings(specs["off"], "memcheck")}
    assert messages
    row = re.compile(r"reads 4 bytes .*; row \d+ begins [\d,]{13,} elements after row 0")
    assert all(row.fullmatch(message) for message in messages), messages


GAPS = """
extern "C" __global__ void gap(const float* x, long long ld, float* y, long long ldy, int n) {
  int j = threadIdx.x;
  long long i = blockIdx.x;
  if (j < n) y[i * ldy + j] = 2 * x[i * ld + j];
  if (j == 0) y[i * ldy + %s] = 2 * x[i * ld];
}
"""


def test_gaps_between_rows_are_checked(tmp_path: Path) -> None:
    """A kernel may write nothing between rows, neither right after one nor far from both."""
    project = KindsProject(tmp_path / "p")
    for op, place in (("near", "n"), ("amid", "5000000"), ("before", "-1"), ("inside", "0")):
        project.write(f"{op}.cu", GAPS % place)
        only = spec_of("cuda", f"{op}.cu").replace("rows", "gap").replace("M: [1, 2, 3, 9, 40]", "M: [9]")
        project.spec(op, only.replace("layouts: [contiguous, far]", "layouts: [far]"))
    specs = project.report()
    found = {op: {one["message"] for one in findings(spec, "memcheck")} for op, spec in specs.items()}
    assert any("but axis 1 has size" in message for message in found["near"]), found
    assert any(re.search(r"4,999,\d{3} elements after row 0 of y ends", message) for message in found["amid"]), (
        found
    )
    assert any("1 element before its start (axis 1" in message for message in found["before"]), found
    assert specs["inside"]["status"] == "passed", found


RACES = """
extern "C" __global__ void own(const float* x, long long ld, float* y, long long ldy, int n) {
  int j = threadIdx.x;
  long long i = blockIdx.x;
  if (j < n) y[i * ldy + j] = 2 * x[i * ld + j];
}
extern "C" __global__ void same(const float* x, long long ld, float* y, long long ldy, int n) {
  int j = threadIdx.x;
  long long i = blockIdx.x;
  if (j < n) y[i * ldy + j] = 2 * x[i * ld + j];
  if (j == 0) y[(gridDim.x - 1) * ldy] = 2 * x[i * ld];
}
extern "C" __global__ void unset(const float* x, long long ld, float* y, long long ldy, int n) {
  int j = threadIdx.x;
  long long i = blockIdx.x;
  if (j < n) y[i * ldy + j] += 2 * x[i * ld + j];
}
"""


def test_racecheck_and_initcheck_see_rows(tmp_path: Path) -> None:
    """Their records are where the rows are."""
    project = KindsProject(tmp_path / "p")
    project.write("k.cu", RACES)
    for op in ("own", "same", "unset"):
        text = spec_of("cuda", "k.cu").replace("rows", op).replace("M: [1, 2, 3, 9, 40]", "M: [9, 40]")
        project.spec(op, text.replace("layouts: [contiguous, far]", "layouts: [far]"))
    specs = project.report("specs", "--sanitize", "all")
    assert specs["own"]["status"] == "passed", specs["own"]
    assert {found["array"] for found in findings(specs["same"], "racecheck")} == {"y"}
    assert {found["array"] for found in findings(specs["unset"], "initcheck")} == {"y"}


def test_a_stride_that_the_kernel_cannot_take_leaves_the_layout_out(tmp_path: Path) -> None:
    """With two rows, no stride of 32 bits is large enough: the array is contiguous, and the report says so."""
    project = KindsProject(tmp_path / "p")
    project.write("k.cu", CUDA % "(long long)i")
    project.spec("two", spec_of("cuda", "k.cu").replace("M: [1, 2, 3, 9, 40]", "M: [2]"))
    done = project.kcheck("run", "--device", "cpu")
    assert done.returncode == 0, done.stdout
    words = " ".join(done.stdout.split())
    assert "the layout far of x was left out of some cases: a stride does not fit in the int32" in words, words


NO_STRIDE = """
kernel: k.cu:rows
dims: {M: [3], N: [5]}
inputs: {x: {shape: [M, N], layouts: [contiguous, far]}}
outputs: {y: {shape: [M, N], layouts: [%s]}}
launch: {args: [x, N, y, {stride: [y, 0]}, N], grid: [M], block: [32]}
"""


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ("far", "'x' cannot be far: the kernel gets no stride of it"),
        ("{far: 2**41}", "the rows of far cannot be 2,199,023,255,552 elements apart"),
        ("{far: 0}", "the rows of far cannot be 0 elements apart"),
        ("{far: n}", "unknown name 'n' in layout far"),
        ("{near: 3}", "unknown key 'near'"),
    ],
)
def test_bad_input_is_an_error_with_a_fix(layout: str, message: str, tmp_path: Path) -> None:
    """A kernel without strides, a distance that is no size."""
    project = KindsProject(tmp_path / "p")
    project.write("k.cu", CUDA % "i")
    project.spec("none", NO_STRIDE % layout)
    done = project.kcheck("validate", "specs/none.yaml")
    assert done.returncode == 2
    assert message in done.stdout + done.stderr
    assert "stride: [x, 0]" in done.stdout + done.stderr or layout != "far"


ARRAYS = """
from numba import cuda

@cuda.jit
def right(x, y):
    i, j = cuda.blockIdx.x, cuda.threadIdx.x
    if j < x.shape[1]:
        y[i, j] = 2 * x[i, j]

@cuda.jit
def wrong(x, y):
    i, j = cuda.blockIdx.x, cuda.threadIdx.x
    if j <= x.shape[1]:
        y[i, j] = 2 * x[i, j]
"""
OF_ARRAYS = """
kernel: a.py:{name}
dims: {{M: [3, 9], N: [5, 31]}}
inputs: {{x: {{shape: [M, N], layouts: [far]}}}}
outputs: {{y: {{shape: [M, N], layouts: [far, {{far: 2**32}}]}}}}
launch: {{args: [x, y], grid: [M], block: [64]}}
cases: {{count: 4}}
"""


@pytest.mark.parametrize("device", ["cpu", "simulator"])
def test_arrays_of_numba_can_be_far(device: str, tmp_path: Path) -> None:
    """On both devices, and the simulator checks the index."""
    project = KindsProject(tmp_path / "p")
    project.write("a.py", ARRAYS)
    for op in ("right", "wrong"):
        project.spec(op, OF_ARRAYS.format(name=op))
    done = project.kcheck("run", "--device", device)
    assert "ok     specs/right.yaml" in done.stdout, done.stdout
    assert "memcheck" in done.stdout
    assert re.search(r"(reads|at the address of) x\[\d, \d+\]", done.stdout), done.stdout


def test_a_failure_is_replayed_written_as_a_script_and_minimized(tmp_path: Path) -> None:
    """The script has the same rows, and zeros between them; the smallest case keeps the layout that it needs."""
    project = KindsProject(tmp_path / "p")
    project.write("n.py", NUMBA % "int32")
    project.spec("rows", spec_of("numba", "n.py").replace("[far]", "[contiguous, far]"))
    assert project.kcheck("run", "--device", "cpu", KCHECK_STORE="").returncode == 1
    replayed = project.kcheck("reproduce", "last", "--script", "bug.py", KCHECK_STORE="").stdout
    assert "does not fit in 32 bits" in replayed, replayed
    text = (project.root / "bug.py").read_text()
    needed = re.search(r"(KCHECK_DEVICE_MEMORY)=(\d+) kcheck exec", text)
    assert needed is not None, text[:800]
    script = project.kcheck("exec", "--", sys.executable, "bug.py", **{needed[1]: needed[2]})
    assert script.returncode == 1, script.stderr
    assert "<- wrong" in script.stdout, (script.stdout, script.stderr)
    smallest = project.kcheck("minimize", "last", KCHECK_STORE="")
    assert re.search(r"layouts +x=far +y=contiguous", smallest.stdout), smallest
