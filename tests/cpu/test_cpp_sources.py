"""How the findings read the declarations of shared arrays in C++."""

from __future__ import annotations

import linecache
from pathlib import Path

import pytest

from kcheck.cpu.cpp_sources import CppArray, shared_array

SOURCE = """#define TILE 32  // elements
static constexpr int PAD = TILE / 8;
struct __align__(8) Pair { float m, d; };
typedef struct { int a, b; } Both;

template <class T, int N> __global__ void first() {
  __shared__ float row[256];
  __shared__ T typed[N];
  __shared__ float tile[TILE][TILE + 1], other[4];
  __shared__ __align__(16) half padded[TILE * 2][ PAD ];
  __shared__ Pair pairs[N / 32];
  __shared__ Both both[8];
  __shared__ float4 vectors[64];
  __shared__ cuda::std::array<int, 4> arrays[2];
  extern __shared__ float dynamic[];
}

__global__ void second() { __shared__ double row[16]; }
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "k.cu"
    path.write_text(SOURCE)
    linecache.checkcache()
    return str(path)


@pytest.mark.parametrize(
    ("name", "text", "is_of_scalars", "shape"),
    [
        ("row", "float row[256]", True, (256,)),
        ("typed", "T typed[N]", True, None),
        ("tile", "float tile[TILE][TILE + 1]", True, (32, 33)),
        ("padded", "half padded[TILE * 2][ PAD ]", True, (64, 4)),
        ("pairs", "Pair pairs[N / 32]", False, None),
        ("both", "Both both[8]", False, (8,)),
        ("vectors", "float4 vectors[64]", False, (64,)),
        ("arrays", "cuda::std::array<int, 4> arrays[2]", False, (2,)),
    ],
)
def test_declarations(file: str, name: str, text: str, is_of_scalars: bool, shape: tuple[int, ...] | None) -> None:
    assert shared_array(file, 16, name) == CppArray(text, is_of_scalars, shape, text.count("["))


def test_the_last_declaration_before_the_line_counts(file: str) -> None:
    """Each kernel has its own."""
    found = shared_array(file, 18, "row")
    assert found is not None
    assert found.text == "double row[16]"


def test_an_array_without_a_declaration_or_a_size(file: str) -> None:
    assert shared_array(file, 18, "missing") is None
    assert shared_array(file, 18, "dynamic") is None
    assert shared_array(str(Path(file).with_name("gone.cu")), 18, "row") is None


def test_sizes_and_structures_of_headers_beside_the_file(tmp_path: Path) -> None:
    """A definition in the file itself counts before one in a header. A header may include itself."""
    (tmp_path / "sizes.h").write_text('#include "more/sizes.h"\n#define ROWS 4\n#define WIDTH 7\n')
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "sizes.h").write_text(
        '#include "sizes.h"\n#include "gone.h"\nconstexpr int COLUMNS = ROWS * 2;\nstruct Pair { float m, d; };\n'
    )
    file = tmp_path / "k.cu"
    file.write_text(
        '#include <cstdint>\n#include "sizes.h"\n#define WIDTH 3\n'
        "__global__ void k() {\n  __shared__ float tile[ROWS][COLUMNS + WIDTH];\n"
        "  __shared__ Pair pairs[ROWS];\n}\n"
    )
    linecache.checkcache()
    tile, pairs = (shared_array(str(file), 7, name) for name in ("tile", "pairs"))
    assert tile == CppArray("float tile[ROWS][COLUMNS + WIDTH]", True, (4, 11), 2)
    assert pairs == CppArray("Pair pairs[ROWS]", False, (4,), 1)
