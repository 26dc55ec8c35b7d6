"""Warnings of lint about Triton, CUDA C++ and PTX have fixes in these languages."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from kcheck.linter.advice import advice
from kcheck.linter.doubles import cpp_constants
from kcheck.model import Finding, Span
from kcheck.model.compiled import CompiledKernel
from kcheck.ptx.syntax.parser import parse
from kcheck.ptx.syntax.symbols import REPLICATES

TEXT = """.version 8.0
.target sm_80
.address_size 64
.visible .entry half(.param .u64 x)
{
    .reg .f32 %f; .reg .f64 %d; .reg .b64 %x;
    ld.param.u64 %x, [x];
    ld.global.f32 %f, [%x];
    cvt.f64.f32 %d, %f;
    mul.f64 %d, %d, 0d3FE0000000000000;
    cvt.rn.f32.f64 %f, %d;
    st.global.f32 [%x], %f;
    ret;
}
"""


def warnings(file: str, text: str = TEXT) -> dict[str, Finding]:
    """The warning of each rule for a kernel in a file, which spills."""
    module = parse(text, file)
    (entry,) = (f for f in module.functions.values() if f.is_entry)
    kernel = SimpleNamespace(
        kernel="half",
        place=Span(file, 1),
        signature=[SimpleNamespace(dtype="float32")],
        resources=SimpleNamespace(spills=8),
        ptx=text,
    )
    return {found.rule: found for found in advice(cast(CompiledKernel, kernel), module, entry)}


@pytest.mark.parametrize(
    ("file", "replicates", "double", "spills"),
    [
        ("k.py", True, "leave out what makes a float64 tensor", "use smaller blocks or more warps"),
        ("k.cu", False, "write constants as 0.5f, and call the functions for floats", "keep fewer values alive"),
        ("k.ptx", False, "use the .f32 form", "keep fewer values alive"),
        (
            "k.py",
            False,
            "write constants as np.float32(...): a Python float is a float64",
            "keep fewer values alive",
        ),
    ],
    ids=["triton", "cuda", "ptx", "numba"],
)
def test_a_fix_is_in_the_words_of_the_language(file: str, replicates: bool, double: str, spills: str) -> None:
    found = warnings(file, f"{TEXT}{REPLICATES}\n" if replicates else TEXT)
    assert found["f64-in-f32"].fix.startswith(double)
    assert found["spills"].fix.startswith(spills)


def test_a_warning_about_cuda_is_at_the_line_of_the_source(tmp_path: Path) -> None:
    """It was at that number of the PTX's lines."""
    file = str(tmp_path / "k.cu")
    text = TEXT.replace("    mul.f64", "    .loc 1 3 5\n    mul.f64") + f'.file 1 "{file}"\n'
    assert warnings(file, text)["f64-in-f32"].place == Span(file, 3)
    ptx = str(tmp_path / "k.ptx")
    place = warnings(ptx)["f64-in-f32"].place
    assert place is not None
    assert "mul.f64" in TEXT.splitlines()[place.line - 1]


@pytest.mark.parametrize(
    ("line", "literals"),
    [
        ("y[i] = x[i] * 0.1;", ["0.1"]),
        ("y[i] = 1. / (x[i] + 1e-5) - .5E+2;", ["1.", "1e-5", ".5E+2"]),
        ("y[i] = x[i] * 0.1f + 2.F + 3 + 0x1e5 + s.x2.y;", []),
        ('printf("0.1"); y[i] = x[i]; // 0.2', []),
        ("y[i] = x[i] / 1'000.5 /* 3.5 */;", ["1'000.5"]),
    ],
)
def test_the_double_literals_of_a_line_of_cuda(line: str, literals: list[str]) -> None:
    assert cpp_constants([line], 1) == [(1, literal) for literal in literals]


def test_a_double_that_has_a_name_in_cuda_is_named_where_it_is_defined() -> None:
    lines = [
        "#define SLOPE 0.01",
        "constexpr double HALF = 0.5;",
        "y[i] = x[i] * SLOPE + HALF + x[j];",
        "x[j] = 3.5;",
    ]
    assert cpp_constants(lines, 3) == [(1, "0.01"), (2, "0.5")]
    assert cpp_constants(lines, 9) == []


def test_a_warning_about_cuda_names_the_constant(tmp_path: Path) -> None:
    """As one about Numba does; without it, the user had to search the line."""
    file = tmp_path / "k.cu"
    file.write_text("__global__ void half(float* x)\n{\n    x[0] *= 0.1;\n}\n")
    text = TEXT.replace("    mul.f64", "    .loc 1 3 5\n    mul.f64") + f'.file 1 "{file}"\n'
    found = warnings(str(file), text)["f64-in-f32"]
    assert found.message.startswith("0.1 is a float64 constant, so the kernel computes in float64 (mul.f64)")
    assert found.fix == "write 0.1f: without the f it is a double"
    assert found.place == Span(str(file), 3, 1)
