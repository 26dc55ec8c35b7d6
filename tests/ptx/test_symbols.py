"""What symbols and addresses of PTX contain: types of arguments, shared arrays, and the origin of an address."""

from __future__ import annotations

import pytest

from kcheck.ptx.analysis.provenance import provenance
from kcheck.ptx.syntax.parser import parse
from kcheck.ptx.syntax.symbols import (
    ArraySymbol,
    arguments,
    array_symbol,
    kernel_name,
    local_name,
    read_array_symbol,
)

KERNEL = "_ZN8__main__4gemmB2v1B8cw51cXTLE5ArrayIfLi2E1C7mutable7alignedE5ArrayIDhLi1E1A7mutable7alignedExb"


def test_a_mangled_kernel_has_its_name_and_the_types_of_its_arguments() -> None:
    """Arrays with dtype and dimensions, and scalars, in order; a plain name has neither."""
    assert kernel_name(KERNEL) == "gemm"
    a, b, n, flag = arguments(KERNEL)
    assert [(kind.arguments[0].name, kind.params) for kind in (a, b)] == [("float32", 9), ("float16", 7)]
    assert [(kind.name, kind.params) for kind in (n, flag)] == [("int64", 1), ("bool", 1)]
    assert arguments("gemm") == ()


@pytest.mark.parametrize(
    "array",
    [
        ArraySymbol("tile", (8, 9), "float32", 4),
        ArraySymbol("a__b", (0,), "uint8", 1),
        ArraySymbol("größe", (3,), "", 24),
    ],
)
def test_the_symbol_of_a_shared_array_tells_what_it_is(array: ArraySymbol) -> None:
    """Variable, shape and dtype come back, and the symbol is one that PTX takes."""
    symbol = array_symbol("_cudapy_smem_3", array)
    assert symbol.isascii()
    assert read_array_symbol(symbol) == array
    assert read_array_symbol("_cudapy_smem_3") is None


def test_an_element_that_llvm_made_a_variable_of_belongs_to_its_array() -> None:
    """A small array that only constants index is split; the suffix is the element."""
    assert read_array_symbol("_cudapy_smem_1__pair__2__float32_$_1") == ArraySymbol("pair", (2,), "float32", 4, 1)


def test_an_address_comes_from_parameters_and_variables_and_its_index_from_loads() -> None:
    """Additions keep a pointer; what is shifted is an index, whose own loads are known by their lines."""
    module = parse(
        """.version 8.0
.target sm_80
.address_size 64
.shared .align 4 .b8 tile[64];
.visible .entry k(.param .u64 p, .param .u64 q)
{
	.reg .b64 %rd<9>;
	.loc 1 5 0
	ld.param.u64 %rd1, [p];
	ld.param.u64 %rd2, [q];
	ld.global.u64 %rd3, [%rd2];
	shl.b64 %rd4, %rd3, 2;
	add.s64 %rd5, %rd1, %rd4;
	ld.global.u64 %rd6, [%rd5];
	st.shared.u64 [tile+8], %rd6;
	ret;
}
"""
    )
    lines = {s.mnemonic: s.line for s in module.functions["k"].body if hasattr(s, "mnemonic")}
    loaded = provenance(module, lines["ld.global.u64"])
    assert loaded is not None
    assert loaded.roots == {"p"}
    assert [loc.line for loc in loaded.loads] == [5]
    stored = provenance(module, lines["st.shared.u64"])
    assert stored is not None
    assert (stored.roots, stored.loads) == ({"tile"}, ())


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_ZZ4gemmE4tile", "tile"),
        ("_ZZ7softmaxIfLi4EEvPKT_E3row", "row"),
        ("_ZZN2ns4gemmEPfE4tile_0", "tile"),
        ("_ZZ4gemmPfE4E3ab__12_", "E3ab"),
        ("_ZN2ns4tileE", ""),
        ("tile", ""),
        ("_ZZ4gemmE9tile", ""),
    ],
)
def test_a_shared_variable_of_cpp_has_the_name_of_its_declaration(symbol: str, name: str) -> None:
    """Without the function, and without the number of one of several with that name."""
    assert local_name(symbol) == name
