"""Files in CUDA C++ as programs have them: with a ``main``, launches, and headers that NVRTC does not have."""

from __future__ import annotations

from pathlib import Path

import pytest
from kinds_project import KindsProject

from kcheck.device.kinds import cuda, nvrtc
from kcheck.device.kinds.base import NotCompiled
from kcheck.device.kinds.cuda import _fix, _source
from kcheck.device.kinds.host_code import is_host_header, items, whole, without
from kcheck.device.kinds.nvrtc import Compiled, CompileFailed, compile_source
from kcheck.errors import KernelError
from kcheck.model import KernelRef
from kcheck.span import Span

SOURCE = """#include <stdio.h>
struct Point { float x, y; };  // a semicolon; and a } in a comment
namespace ours {
template <class T, int N>
__global__ void __launch_bounds__(64) scale(T* x, T a) { x[threadIdx.x] *= a * N; }
}
#define BRACES {}
__device__ float twice(float x) { return 2 * x; }
extern "C" __global__ void plain(float* x) { if (x) { x[0] = twice(x[0]); } }
void run(float* x) { ours::scale<float, 4><<<1, 64>>>(x, 2.0f); }
int main() { printf("};"); return 0; }
"""

PROGRAM = """#include <chrono>
#include <iostream>
#include <vector>
#include <cuda_runtime.h>
#include "checks.h"
using namespace std;

struct Timer {
    chrono::steady_clock::time_point begun;
    void start() { begun = chrono::steady_clock::now(); }
};

static void on_host(const vector<float>& x, vector<float>& y) {
    for (size_t i = 0; i < x.size(); i++) y[i] = 2 * x[i];
}

inline int blocks(int n) { return (n + 63) / 64; }

__global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = FACTOR * x[i];
}

int main(int argc, char** argv) {
    int n = argc > 1 ? atoi(argv[1]) : 1000;
    vector<float> x(n, 1.0f), y(n);
    float *in, *out;
    CHECK(cudaMalloc(&in, n * sizeof(float)));
    CHECK(cudaMalloc(&out, n * sizeof(float)));
    CHECK(cudaMemcpy(in, x.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    twice<<<blocks(n), 64>>>(in, out, n);
    CHECK(cudaMemcpy(y.data(), out, n * sizeof(float), cudaMemcpyDeviceToHost));
    cout << y[0] << endl;
}
"""

CHECKS = """#pragma once
#include <cublas_v2.h>
#include <cstdlib>
#define CHECK(call) check(call, __LINE__)
#define FACTOR 2.0f
static cublasHandle_t handle;
inline void check(cudaError_t error, int line) {
    if (error != cudaSuccess) {
        fprintf(stderr, "line %d: %s\\n", line, cudaGetErrorString(error));
        exit(EXIT_FAILURE);
    }
}
"""

EXTENSION = """#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <vector>

template <typename scalar_t>
__global__ void twice(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + x[i];
}

torch::Tensor run(torch::Tensor x) {
    TORCH_CHECK(x.is_cuda(), "x must be on the GPU");
    auto y = torch::empty_like(x);
    const int n = x.numel();
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "twice", ([&] {
        twice<scalar_t><<<(n + 63) / 64, 64, 0, at::cuda::getCurrentCUDAStream()>>>(
            x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), n);
    }));
    return y;
}

std::vector<torch::Tensor> runs(std::vector<torch::Tensor> xs);

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run, "2 x"); }
"""


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KCHECK_CACHE_DIR", str(tmp_path / "cache"))


def compiled(file: Path, expression: str = "twice") -> Compiled:
    return compile_source(_source(file, expression, (str(file.parent),), ("--std=c++17",)), "sm_80")


def written(folder: Path, **files: str) -> Path:
    """The first of the files, by their names without ``.cu`` or ``.h``."""
    for name, text in files.items():
        (folder / f"{name}.{'h' if name == 'checks' else 'cu'}").write_text(text)
    return folder / f"{next(iter(files))}.cu"


def test_items_are_functions_and_declarations() -> None:
    """Host code is known by its words; comments, strings and the preprocessor have no braces."""
    found = [(SOURCE[i.start : i.end].split("(")[0].split()[-1], i.is_device, i.is_host) for i in items(SOURCE)]
    assert found == [
        ("};", False, False),
        ("__launch_bounds__", True, False),
        ("twice", True, False),
        ("plain", True, False),
        ("run", False, True),
        ("main", False, True),
    ]
    kept = without(SOURCE, [item for item in items(SOURCE) if item.is_host])
    assert "<<<" not in kept
    assert kept.count("\n") == SOURCE.count("\n")


@pytest.mark.parametrize(
    "name",
    ["vector", "time.h", "torch/extension.h", "cublas_v2.h", "thrust/sort.h", "cub/cub.cuh"],
)
def test_headers_that_only_host_code_needs(name: str) -> None:
    assert is_host_header(name)


@pytest.mark.parametrize(
    "name", ["cmath", "stdio.h", "cuda_fp16.h", "thrust/complex.h", "cub/block/block_scan.cuh", "my/vector.h"]
)
def test_headers_that_device_code_may_need(name: str) -> None:
    assert not is_host_header(name)


def test_a_program_is_compiled_without_its_host_code(tmp_path: Path) -> None:
    """``main``, launches, what only they need, and the same in headers of the project."""
    made = compiled(written(tmp_path, program=PROGRAM, checks=CHECKS))
    assert [p.element for p in made.parameters] == ["float32", "float32", "int32"]


def test_a_pytorch_extension_is_compiled_without_pytorch(tmp_path: Path) -> None:
    assert "twice" in compiled(written(tmp_path, extension=EXTENSION), "twice<float>").entry


def counted(patch: pytest.MonkeyPatch) -> list[str]:
    """The expressions that NVRTC compiles from now on, each time."""
    runs: list[str] = []
    plain = nvrtc._compile_text

    def compile_text(text: str, source: nvrtc.Source, target: str) -> Compiled:
        runs.append(source.expression)
        return plain(text, source, target)

    patch.setattr(nvrtc, "_compile_text", compile_text)
    return runs


def test_many_functions_of_pytorch_take_one_more_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NVRTC shows only the first of their errors; other instances of a kernel need no round at all."""
    runs = counted(monkeypatch)
    functions = [f"torch::Tensor f{n}(torch::Tensor x) {{ x = x.clone(); return x; }}\n" for n in range(20)]
    file = written(tmp_path, extension=EXTENSION + "".join(functions))
    for kind in ("float", "double"):
        assert "twice" in compiled(file, f"twice<{kind}>").entry
    assert runs == ["twice<float>"] * 2 + ["twice<double>"]


def test_cub_cub_cuh_brings_the_primitives_of_blocks(tmp_path: Path) -> None:
    text = """#include <cub/cub.cuh>
__global__ void total(const float* x, float* y) {
    using Reduce = cub::BlockReduce<float, 64>;
    __shared__ Reduce::TempStorage room;
    float sum = Reduce(room).Sum(x[threadIdx.x]);
    if (threadIdx.x == 0) *y = sum;
}
int main() { total<<<1, 64>>>(nullptr, nullptr); }
"""
    assert len(compiled(written(tmp_path, total=text), "total").parameters) == 2


def test_a_header_of_the_project_is_taken_before_one_of_the_host(tmp_path: Path) -> None:
    """A project may have a ``time.h`` of its own."""
    (tmp_path / "time.h").write_text("#define FACTOR 2.0f\n")
    text = '#include "time.h"\n__global__ void twice(float* x) { x[0] *= FACTOR; }\n'
    assert compiled(written(tmp_path, own=text)).ptx


def errors(file: Path) -> list[tuple[str, int, str]]:
    """(file, line, message) of the errors."""
    with pytest.raises(CompileFailed) as failed:
        compiled(file)
    return [(Path(m.file).name, m.line, m.text.split(" is undefined")[0]) for m in failed.value.messages]


def test_errors_of_device_code_have_their_own_lines(tmp_path: Path) -> None:
    """Those of the host code, which is left out, are not told."""
    program = PROGRAM.replace("FACTOR * x[i]", "FACTOR * z[i]")
    file = written(tmp_path, program=program, checks=CHECKS)
    assert errors(file) == [("program.cu", 21, 'identifier "z"')]


@pytest.mark.parametrize(
    ("body", "fix"),
    [
        ("(float* x) { std::vector<float> all; }", "this is code of the host; device code cannot use it"),
        ("(float* x) { cudaFree(x); }", "this is code of the host; device code cannot use it"),
        (
            "(torch::Tensor x) { x[0] = 0; }",
            "kernels are compiled without the headers of PyTorch: pass pointers and sizes",
        ),
    ],
)
def test_host_code_in_kernels_is_an_error_with_a_fix(tmp_path: Path, body: str, fix: str) -> None:
    file = written(tmp_path, wrong=f"#include <vector>\n#include <torch/torch.h>\n__global__ void twice{body}\n")
    with pytest.raises(CompileFailed) as failed:
        compiled(file)
    assert _fix(failed.value.messages[0]) == fix


def test_an_error_in_a_line_with_a_wide_indent_is_told_without_its_source(tmp_path: Path) -> None:
    """The excerpt of the source below the message looks like a continuation of the message."""
    file = written(tmp_path, deep="__global__ void twice(float* x) {\n                x[0] = z;\n}\n")
    with pytest.raises(CompileFailed) as failed:
        compiled(file)
    (message,) = failed.value.messages
    assert (message.text, message.column) == ('identifier "z" is undefined', 24)


def test_an_error_below_a_folder_with_parentheses_has_its_place(tmp_path: Path) -> None:
    """NVRTC writes ``a (1)/twice.cu(2): error``."""
    folder = tmp_path / "a (1)"
    folder.mkdir()
    file = written(folder, deep="__global__ void twice(float* x) {\n  x[0] = z;\n}\n")
    with pytest.raises(CompileFailed) as failed:
        compiled(file)
    (message,) = failed.value.messages
    assert (Path(message.file).name, message.line, message.column) == (file.name, 2, 10)


def test_a_source_that_does_not_compile_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once in each case: removing host code takes several compilations."""
    file = written(tmp_path, wrong="__global__ void twice(float* x) { x[0] = z; }\n")
    kernel = KernelRef(file.name, "twice", Span(str(file)))
    source = _source(file, "twice", (), ("--std=c++17",))
    asked: list[str] = []

    def rejecting(source: nvrtc.Source, target: str) -> Compiled:
        asked.append(target)
        return compile_source(source, target)

    monkeypatch.setattr(cuda, "compile_source", rejecting)
    for _ in range(3):
        with pytest.raises(NotCompiled, match='identifier "z" is undefined'):
            cuda._compiled(kernel, "twice", source, "sm_80")
    assert asked == ["sm_80"]


def test_a_macro_does_not_choose_another_kernel(tmp_path: Path) -> None:
    """``#define twice twice_v2`` after both: NVRTC would compile the second for a spec that names the first."""
    kernels = "__global__ void twice(float* x) { x[0] = 1; }\n__global__ void twice_v2(float* x) { x[0] = 2; }\n"
    file = written(tmp_path, redirected=kernels + "#define twice twice_v2\n")
    source = _source(file, "twice", (), ("--std=c++17",))
    with pytest.raises(KernelError, match="'twice' with 'twice_v2'") as refused:
        cuda._compiled(KernelRef(file.name, "twice", Span(str(file))), "twice", source, "sm_80")
    assert refused.value.fault.fix == "name twice_v2 in the spec, or remove the macro"
    second = _source(file, "twice_v2", (), ("--std=c++17",))
    made = cuda._compiled(KernelRef(file.name, "twice_v2", Span(str(file))), "twice_v2", second, "sm_80")
    assert "twice_v2" in made.entry


def test_a_macro_may_rename_the_kernel_itself(tmp_path: Path) -> None:
    """Before the kernel, so that it has the other name wherever it is used."""
    file = written(tmp_path, renamed="#define twice twice_v2\n__global__ void twice(float* x) { x[0] = 1; }\n")
    source = _source(file, "twice", (), ("--std=c++17",))
    made = cuda._compiled(KernelRef(file.name, "twice", Span(str(file))), "twice", source, "sm_80")
    assert "twice_v2" in made.entry


def test_what_kernels_need_of_rejected_code_is_told_first(tmp_path: Path) -> None:
    """The helper of a kernel is rejected and left out: the error that counts is the helper's."""
    helper = "inline float scaled(float a) { return a * missing; }\n__global__"
    program = PROGRAM.replace("__global__", helper, 1).replace("FACTOR * x[i]", "scaled(x[i])")
    file = written(tmp_path, program=program, checks=CHECKS)
    assert errors(file)[0] == ("program.cu", 19, 'identifier "missing"')


def test_what_kernels_need_of_pytorch_is_the_only_error(tmp_path: Path) -> None:
    """That the helper which needs it is then missing follows from it."""
    text = """#include <torch/extension.h>
torch::Tensor one(torch::Tensor x) { return x; }
inline float scaled(float a) { return a * torch::kScale; }
__global__ void twice(float* x) { x[0] = scaled(x[0]); }
torch::Tensor two(torch::Tensor x) { return x; }
"""
    found = errors(written(tmp_path, extension=text))
    assert found == [("extension.cu", 3, 'namespace "torch" has no member "kScale"')]


def test_a_file_without_host_code_is_compiled_whole(tmp_path: Path) -> None:
    """An error in a function that no kernel calls is an error there."""
    text = "inline float wrong() { return missing; }\n__global__ void twice(float* x) { x[0] *= 2; }\n"
    assert errors(written(tmp_path, plain=text)) == [("plain.cu", 1, 'identifier "missing"')]


def test_places_of_inlined_headers(tmp_path: Path) -> None:
    """Each line of a whole text knows its file and line; a header with ``#pragma once`` comes once."""
    file = written(
        tmp_path, program='#include "checks.h"\n#include "checks.h"\nint a;', checks="#pragma once\nint b;"
    )
    found = whole(str(file), file.read_text(), ())
    lines = found.text.split("\n")
    places = {text: found.places[n] for n, text in enumerate(lines) if text.startswith("int")}
    assert places == {"int b;": (str(tmp_path / "checks.h"), 2), "int a;": (str(file), 3)}


def test_programs_are_checked_as_they_are(tmp_path: Path) -> None:
    """``kcheck run`` on a program and on a PyTorch extension, each correct and with a bug."""
    project = KindsProject(tmp_path / "programs")
    project.write("kernels/checks.h", CHECKS)
    for name, text, guard in (("program", PROGRAM, "if (i < n)"), ("extension", EXTENSION, "if (i < n)")):
        instance = "twice" if name == "program" else '"twice<float>"'.strip('"')
        project.write(f"kernels/{name}.cu", text)
        project.write(f"kernels/{name}_bug.cu", text.replace(guard, "if (i <= n)"))
        project.spec(name, f'kernel: "kernels/{name}.cu:{instance}"')
        project.spec(f"{name}_bug", f'kernel: "kernels/{name}_bug.cu:{instance}"')
    found = project.report()
    rules = {
        op: {finding["rule"] for case in spec["cases"] for finding in case["findings"]}
        for op, spec in found.items()
    }
    assert rules["program"] == rules["extension"] == set()
    assert rules["program_bug"] == rules["extension_bug"] == {"memcheck"}
