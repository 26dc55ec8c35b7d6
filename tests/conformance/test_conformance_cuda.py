"""``make conformance-cuda``: what it takes for device code, and what its page says."""

from __future__ import annotations

from pathlib import Path

from conformance.cuda_compile import Judged
from conformance.cuda_run import page
from conformance.cuda_text import inlined, kernels, launched

SOURCE = """#include "shared.h"
#include <stdio.h>
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


def test_headers_of_the_project_are_inlined(tmp_path: Path) -> None:
    """Those of a library on the host bring what it brings to kernels; other missing ones are left out."""
    (tmp_path / "shared.h").write_text("#pragma once\nconst int WIDTH = 3;\n")
    (tmp_path / "a.cu").write_text("#include <cublas_v2.h>\n#include <nowhere.h>\n" + SOURCE)
    text = inlined(tmp_path / "a.cu", [], [])
    assert "WIDTH" in text
    assert "nowhere" not in text
    assert "cuda_bf16.h" in text


def test_kernels_have_names_and_template_parameters() -> None:
    """A template is launched with the arguments of its launches."""
    assert [(k.name, k.template) for k in kernels(SOURCE)] == [
        ("ours::scale", ("class T", "int N")),
        ("plain", None),
    ]
    assert launched(SOURCE, "ours::scale") == [("float", "4")]


def test_the_page_counts_kernels_and_causes() -> None:
    """A kernel is completely lowered if it compiles and everything in it is supported."""
    judged = [
        Judged("samples/a.cu", 3, {"x": "no such type"}, ["y"], {"z": "tex.cube: not supported"}),
        Judged("samples/host.cu"),
    ]
    text = page(judged)
    assert "**1 of 3 kernels are completely lowered**, in 1 files.\n1 other files have no kernel." in text
    assert "| tex.cube: not supported | 1 |" in text
    assert "| `samples/a.cu` | 3 | 1 | 1 | 1 |" in text
