"""Sources as programs have them: other encodings, host members, missing headers, names without their namespace."""

# ruff: noqa: E501 -- a line of a source is one line

from __future__ import annotations

import pytest
from kinds_project import KindsProject

FILES = {
    "kernels/latin.cu": (
        '// Größe in Übergröße\n#include "latin.cuh"\nextern "C" __global__ void latin(const float* x, float* y, int n) {\n'
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) y[i] = twice(x[i]);  // é\n}\n"
    ).encode("latin-1"),
    "kernels/latin.cuh": '#include "bom.cuh"\n// Ä\n__device__ float twice(float v) { return two() * v; }\n'.encode("latin-1"),
    "kernels/bom.cuh": "\ufeff#pragma once\n__device__ float two() { return 2.0f; }\n".encode(),
    "kernels/broken.cu": b'#include "broken.cuh"\nextern "C" __global__ void broken(const float* x, float* y, int n) {}\n',
    "kernels/broken.cuh": "// Ä\n__device__ float twice(float v) { return tow * v; }\n".encode("latin-1"),
    "kernels/members.cu": b"""
#include <cstdio>
#include <string>
#include <vector>
#include <map>
#include <memory>

class Scale {
 public:
  explicit Scale(const std::string& name) : name_(name) { names_.push_back(name); by_name_[name] = 1; }
  std::string describe() const { return name_ + std::to_string(names_.size()); }
  __device__ float of(float v) const { return factor * v; }
  float factor;
 private:
  std::string name_;
  std::vector<std::string> names_;
  std::map<std::string, int> by_name_;
  std::unique_ptr<float> owned_;
};

__device__ float scaled(const Scale& s, float v) { return s.of(v); }

extern "C" __global__ void members(const float* x, float* y, int n, float factor) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float fields[64] = {factor, factor};
  const Scale& s = *reinterpret_cast<const Scale*>(fields);
  if (i < n) y[i] = scaled(s, x[i]);
}

int main(int argc, char** argv) {
  std::vector<float> data(100);
  Scale scale(argv[1]);
  std::printf("%s", scale.describe().c_str());
  return data.empty();
}
""",
    "kernels/half.cu": b"""
#include <torch/extension.h>
namespace fastops {
template <class T> __global__ void halves(const T* x, T* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] + x[i];
}
template __global__ void halves<float>(const float*, float*, int);
template __global__ void halves<c10::Half>(const c10::Half*, c10::Half*, int);
template __global__ void halves<at::Unknown>(const at::Unknown*, at::Unknown*, int);
}
torch::Tensor run(torch::Tensor x) { return x; }
""",
    "kernels/pack.cuh": b"""#pragma once
template <class T, int N>
struct alignas(sizeof(T) * N) Pack { T v[N]; };
""",
    "kernels/pack.cu": b"""#include <torch/extension.h>
#include "pack.cuh"
template <class T, int V>
__global__ void packed(const T* x, T* y, int n) {
  using P = Pack<T, V>;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n / V) {
    P p = reinterpret_cast<const P*>(x)[i];
    for (int k = 0; k < V; ++k) p.v[k] += p.v[k];
    reinterpret_cast<P*>(y)[i] = p;
  }
  if (i < n % V) y[n / V * V + i] = x[n / V * V + i] + x[n / V * V + i];
}
torch::Tensor run(torch::Tensor x) {
  auto y = torch::empty_like(x);
  packed<float, 4><<<(x.numel() + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
  return y;
}
""",
    "kernels/helped.cu": b"""
#include <helper_timer.h>
extern "C" __global__ void helped(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = from_helper(x[i]);
}
int main() { return 0; }
""",
    "kernels/random.cu": b"""
#include <curand_kernel.h>
extern "C" __global__ void drawn(const float* x, float* y, int n) { y[0] = x[0]; }
""",
}  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> KindsProject:
    """A spec for each file."""
    made = KindsProject(tmp_path_factory.mktemp("sources") / "p")
    for path, content in FILES.items():
        (made.root / path).write_bytes(content)
    for name in ("latin", "broken", "helped"):
        made.spec(name, f"kernel: kernels/{name}.cu:{name}")
    made.spec("drawn", "kernel: kernels/random.cu:drawn")
    made.spec(
        "members",
        """
        kernel: kernels/members.cu:members
        launch: {args: [x, y, N, 2.0], grid: ["ceildiv(N, 64)"], block: [64]}
        """,
    )
    made.spec("halves", 'kernel: "kernels/half.cu:fastops::halves<{T}>"\ndtypes: [float32, float16]')
    for width in (3, 4):
        made.spec(f"pack_{width}", f'kernel: "kernels/pack.cu:packed<float, {width}>"')
    return made


@pytest.fixture(scope="module")
def report(project: KindsProject) -> dict[str, str]:
    """The lines of ``kcheck run`` on all of them, by spec."""
    done = project.kcheck("run", "specs", "--device", "cpu", "-v")
    found: dict[str, str] = {}
    op = ""
    for line in (done.stdout + done.stderr).splitlines():
        for name in ("latin", "broken", "helped", "drawn", "members", "halves", "pack_3", "pack_4"):
            if f"specs/{name}.yaml" in line:
                op = name
        found[op] = found.get(op, "") + line + "\n"
    return found


@pytest.mark.parametrize("op", ["latin", "members", "halves", "pack_4"])
def test_sources_with_other_encodings_host_members_and_instantiations_run(op: str, report: dict[str, str]) -> None:
    """Latin-1 and a byte-order mark, std::string in a class that device code uses, c10::Half beside float."""
    assert report[op].startswith("ok "), report[op]


def test_the_message_names_the_header_with_the_error(report: dict[str, str]) -> None:
    """The header is not UTF-8, and the error is its."""
    assert "broken.cuh:2" in report["broken"]
    assert '"tow" is undefined' in report["broken"]


def test_the_first_error_of_device_code_is_told(report: dict[str, str]) -> None:
    """Not what follows from it once the host code and the rejected struct are removed."""
    assert "invalid alignment value specified by attribute" in report["pack_3"]
    assert "pack.cuh:3" in report["pack_3"]
    assert "is not a template" not in report["pack_3"]


def test_a_header_that_counts_as_empty_is_named_if_something_is_missing(report: dict[str, str]) -> None:
    """It may have declared the name that the kernel needs."""
    assert "from_helper" in report["helped"]
    assert "helper_timer.h was not found and counts as empty" in report["helped"]


def test_a_missing_header_of_curand_names_its_wheel(report: dict[str, str]) -> None:
    """kcheck[cu13] does not have it."""
    assert "pip install nvidia-curand" in report["drawn"]


def validated(project: KindsProject, name: str, old: str, new: str) -> str:
    """What ``kcheck validate`` prints for a spec with a change."""
    text = (project.root / f"specs/{name}.yaml").read_text()
    assert old in text
    file = project.write(f"changed/{name}_{abs(hash(new))}.yaml", text.replace(old, new))
    return project.kcheck("validate", str(file.relative_to(project.root))).stdout


def test_a_kernel_without_its_namespace_is_an_error_of_the_spec(project: KindsProject) -> None:
    """The run would otherwise ask for template arguments that are there."""
    told = validated(project, "halves", "fastops::halves", "halves")
    assert "is in the namespace 'fastops'" in told
    assert "did you mean 'fastops::halves'?" in told
    assert "did you mean" not in validated(project, "halves", "float16]", "float64]")


def test_a_dim_with_the_name_of_a_type_variable_is_ambiguous_in_a_template(project: KindsProject) -> None:
    """Either could be meant. Where no template names it, both may exist."""
    dims = "dims: {T: [1, 70, 256], N: {expr: T}}"
    told = validated(project, "halves", "dims: {N: [1, 70, 256]}", dims)
    assert "{T} in the template arguments is both a type variable and a dim; rename one of them" in told
    assert "type variable" not in validated(project, "latin", "dims: {N: [1, 70, 256]}", dims)
