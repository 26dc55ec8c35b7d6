"""The declarations of a module are the same whether the bodies of its functions are read or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcheck.errors import PtxError
from kcheck.ptx.syntax.heads import parse_heads
from kcheck.ptx.syntax.parser import parse

SAMPLES = sorted((Path(__file__).parent / "samples").glob("*.ptx"))
TRICKY = """
.version 8.0
.target sm_80
.address_size 64
// .entry of a comment {
.extern .func (.param .b32 r) outer(.param .b32 a);
.global .align 4 .u32 table[3] = {1, 2, 3};
.weak .func twice(.param .b32 a) { ret; }
.func twice(.param .b32 a)
{
    { .reg .b32 %r<2>; } /* } */
    // }
    .pragma "}";
    ret;
}
.extern .func later();
.section .debug_str { .b8 1, 2 }
.visible .entry first(.param .u64 .ptr .global .align 16 x, .param .f32 y[2])
.maxntid 128, 1, 1
{
    .shared .u32 kept[2];
    bogus.instruction %r1;
}
.visible .entry second(.param .u32 n) { ret; }
"""


def heads(module):
    """Everything but the bodies."""
    functions = {
        f.name: (f.line, f.is_entry, f.linkage, f.returns, f.params, f.performance, f.body is None)
        for f in module.functions.values()
    }
    return module.version, module.target, module.files, module.variables, functions


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_same_declarations(path: Path) -> None:
    """Of every sample: functions with their lines and parameters, variables, and files."""
    text = path.read_text()
    assert heads(parse_heads(text)) == heads(parse(text))


def test_braces_elsewhere() -> None:
    """Braces of initializers, sections, comments and strings do not end or begin a body."""
    module = parse_heads(TRICKY)
    whole = parse(TRICKY.replace("    bogus.instruction %r1;", "    ret;"))
    assert heads(module) == heads(whole)
    assert module.functions["first"].body is not None
    assert module.functions["later"].body is None


def test_unclosed_body() -> None:
    """A body that is never closed is reported as by the parser."""
    text = TRICKY + ".visible .entry third() {\n ret;\n"
    with pytest.raises(PtxError) as shown:
        parse_heads(text)
    with pytest.raises(PtxError) as expected:
        parse(text.replace("bogus.instruction %r1;", "ret;"))
    assert str(shown.value) == str(expected.value)
