"""PTX text: what is read, and what is refused with its place."""

from __future__ import annotations

import pytest

from kcheck.errors import PtxError
from kcheck.ptx.isa.verify import verify
from kcheck.ptx.syntax.ast import (
    Address,
    Call,
    Float,
    Instruction,
    Integer,
    Label,
    Loc,
    Pair,
    Register,
    Special,
    Symbol,
    Vector,
)
from kcheck.ptx.syntax.lexer import integer, tokenize
from kcheck.ptx.syntax.parser import parse

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def body(text: str) -> tuple[object, ...]:
    """The statements of a function with that body, and some registers."""
    registers = ".reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .f32 %f<8>; .reg .pred %p<4>;"
    module = parse(f"{HEAD}.visible .entry k(.param .u64 x)\n{{ {registers}\n{text}\n}}", "t.ptx")
    statements = module.functions["k"].body
    assert statements is not None
    return statements


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("17", 17), ("017", 15), ("0x1fU", 31), ("0XFFFFFFFFU", 0xFFFFFFFF), ("0b101", 5), ("12U", 12)],
)
def test_integer_literals(text: str, value: int) -> None:
    """Decimal, octal, hexadecimal and binary, with or without U."""
    assert integer(text) == value
    assert [t.kind for t in tokenize(text, "t.ptx")] == ["int", "end"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mov.f32 %f1, 0f3F800000;", Float(0x3F800000, 32)),
        ("mov.f32 %f1, -0f3F800000;", Float(0xBF800000, 32)),
        ("mov.f64 %f1, 0d3FF0000000000000;", Float(0x3FF0000000000000, 64)),
        ("mov.f32 %f1, 1.5;", Float(0x3FF8000000000000, 64)),
        ("mov.u32 %r1, -7;", Integer(-7)),
        ("mov.u32 %r1, %tid.x;", Special("tid.x")),
        ("mov.u32 %r1, %laneid;", Special("laneid")),
        ("mov.u64 %rd1, x+8;", Symbol("x", 8)),
        ("ld.u32 %r1, [%rd1+-4];", Address(Register("%rd1", "b64"), -4)),
        ("ld.u32 %r1, [%rd1];", Address(Register("%rd1", "b64"), 0)),
        ("ld.param.u64 %rd1, [x+16];", Address(Symbol("x"), 16)),
        ("mov.b64 %rd1, {%r1, %r2};", Vector((Register("%r1", "b32"), Register("%r2", "b32")))),
    ],
)
def test_source_operands(text: str, expected: object) -> None:
    """Literals, special registers, symbols, addresses and vectors, as the second operand."""
    (statement,) = body(text)
    assert isinstance(statement, Instruction)
    assert statement.operands[1] == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("(1 << 4) + 3", 19),
        ("~5", -6),
        ("7 % 4 * 2", 6),
        ("-7 / 2", -3),
        ("1 + 2 << 3", 24),
        ("3 == 3 && !0", 1),
        ("1 ? 2 : 3", 2),
        ("0xFFFFFFFFFFFFFFFF + 2", 1),
        ("(.u64) -1 >> 60", 15),
        ("-1 >> 60", -1),
        ("6 & 3 | 8 ^ 1", 11),
        ("1 <= 2", 1),
        ("-(-3)", 3),
    ],
)
def test_constant_expressions(text: str, value: int) -> None:
    """Operators bind as in C, over 64-bit integers."""
    (statement,) = body(f"mov.u64 %rd1, {text};")
    assert isinstance(statement, Instruction)
    assert statement.operands[1] == Integer(value)


def test_opcode_modifiers_guard_and_pair() -> None:
    """``@!p opcode.modifiers d|p, …``."""
    (statement,) = body("@!%p1 setp.lt.and.f32 %p2|%p3, %f1, %f2, !%p0;")
    assert isinstance(statement, Instruction)
    assert statement.mnemonic == "setp.lt.and.f32"
    assert statement.guard == Register("%p1", "pred")
    assert statement.negated
    assert statement.operands[0] == Pair(Register("%p2", "pred"), Register("%p3", "pred"))


def test_scopes_shadow_registers_labels_and_variables() -> None:
    """An inner declaration hides the outer one inside its braces only; labels of two scopes do not meet."""
    statements = body(
        """.reg .b32 t; mov.u32 t, 1;
        { .reg .b64 t; mov.u64 t, 2; bra L; L: }
        { bra L; L: }
        mov.u32 t, 3;"""
    )
    moves = [s.operands[0] for s in statements if isinstance(s, Instruction) and s.opcode == "mov"]
    assert moves[0] == moves[2] != moves[1]
    targets = [s.operands[0] for s in statements if isinstance(s, Instruction) and s.opcode == "bra"]
    labels = [Symbol(s.name) for s in statements if isinstance(s, Label)]
    assert targets == labels
    assert len({str(label) for label in labels}) == 2


def test_a_register_may_have_the_name_of_a_range() -> None:
    """``a`` beside ``a0`` and ``a1``, as in Triton's conversions of 8-bit floats."""
    body = ".reg .b32 a; .reg .b16 a<2>; mov.b32 {a0, a1}, a;"
    function = parse(f"{HEAD}.entry k() {{ {body} }}", "k.ptx").entries[0]
    assert sorted(function.registers.values()) == ["b16", "b16", "b32"]


def test_lines_of_the_source_follow_loc() -> None:
    """An instruction keeps the last .loc before it; line 0, of code merged of two lines, leaves that."""
    statements = body(
        """.loc 1 0 0
        mov.u32 %r1, 0;
        .loc 1 9 3
        mov.u32 %r1, 1;
        .loc 1 12 0, function_name $L__info+3, inlined_at 1 9 3
        mov.u32 %r1, 2;
        .loc 1 0 0
        mov.u32 %r1, 3;"""
    )
    second = Loc(1, 12, 0, Loc(1, 9, 3))
    assert [s.loc for s in statements if isinstance(s, Instruction)] == [None, Loc(1, 9, 3), second, second]


def test_code_merged_of_two_lines_of_an_inlined_function_is_of_that_call() -> None:
    """The line before may be that of an unrelated statement, as after a loop."""
    statements = body(
        """.loc 1 9 3
        mov.u32 %r1, 0;
        .loc 1 20 3
        mov.u32 %r1, 1;
        .loc 1 0 0, function_name $L__info+3, inlined_at 1 9 3
        mov.u32 %r1, 2;
        .loc 1 12 5, function_name $L__info+3, inlined_at 1 9 3
        mov.u32 %r1, 3;
        .loc 1 0 0, function_name $L__info+3, inlined_at 1 9 3
        mov.u32 %r1, 4;"""
    )
    call = Loc(1, 9, 3)
    inside = Loc(1, 12, 5, call)
    assert [s.loc for s in statements if isinstance(s, Instruction)] == [call, Loc(1, 20, 3), call, inside, inside]


def test_inline_assembly_has_the_line_of_its_statement() -> None:
    """LLVM counts the lines of the assembly on from that of the statement."""
    statements = body(
        """.loc 1 12 7
        // begin inline asm
        .loc 1 12 7
        mov.u32 %r1, 0;
        .loc 1 13 7
        mov.u32 %r1, 1;
        // end inline asm
        .loc 1 20 1
        mov.u32 %r1, 2;
        // begin inline asm
        mov.u32 %r1, 3;
        // end inline asm
        mov.u32 %r1, 4;"""
    )
    lines = [s.loc.line for s in statements if isinstance(s, Instruction) and s.loc]
    assert lines == [12, 12, 20, 20, 20]


def test_inlined_code_knows_every_call_that_led_to_it() -> None:
    """``inlined_at`` names the .loc before it at that place, which may have been inlined itself."""
    statements = body(
        """.loc 1 29 1
        .loc 1 14 1, function_name $L__info0, inlined_at 1 29 1
        .loc 1 10 1, function_name $L__info1, inlined_at 1 14 1
        mov.u32 %r1, 0;
        .loc 1 29 1
        mov.u32 %r1, 1;"""
    )
    chains = [[loc.line for loc in s.loc.chain] for s in statements if isinstance(s, Instruction) and s.loc]
    assert chains == [[10, 14, 29], [29]]


def test_a_path_in_ptx_is_utf_8_with_escapes() -> None:
    """LLVM writes what is not ASCII in octal, and a quote with a backslash."""
    text = HEAD + '.file 1 "/a/\\303\\274 \\"b\\"/k.py"\n'
    assert parse(text).files[1] == '/a/ü "b"/k.py'


def test_calls_with_and_without_results_and_prototypes() -> None:
    """call.uni (r), f, (a, b); call through a register names a prototype."""
    statements = body(
        """.param .b32 a; .param .b32 r;
        call.uni (r), f, (a, a); call f; call.uni f, (a);
        shape: .callprototype (.param .b32 _) _ (.param .b32 _);
        call (r), %rd1, (a), shape;"""
    )
    calls = [s for s in statements if isinstance(s, Call)]
    assert [len(c.arguments) for c in calls] == [2, 0, 1, 1]
    assert [len(c.returns) for c in calls] == [1, 0, 0, 1]
    assert calls[3].target == Register("%rd1", "b64")
    assert calls[3].prototype == "shape"


def test_module_variables_and_functions() -> None:
    """Linkage, alignment, arrays, initial values of every kind, parameters, performance directives."""
    module = parse(
        HEAD
        + """.file 1 "a dir/kernel.py"
        .visible .global .align 4 .u32 counter = 7;
        .const .align 8 .f64 table[2] = {0d3FF0000000000000, 0d4000000000000000};
        .global .align 8 .u64 address[2] = {counter, generic(table)+8};
        .global .align 1 .b8 text[6] = {104, 105, 0};
        .extern .shared .align 16 .b8 dynamic[];
        .common .global .align 8 .u64 env;
        .extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);
        .weak .func f(.param .align 8 .b8 s[24]) .noreturn { ret; }
        .visible .entry k(.param .u64 .ptr .global .align 16 p, .param .f32 q)
        .maxntid 128, 2, 1 .minnctapersm 2 { ret; }
        .section .debug_str { info: .b8 1, 2 }
        """,
        "t.ptx",
    )
    assert module.files == {1: "a dir/kernel.py"}
    assert module.variables["counter"].initial == (Integer(7),)
    assert module.variables["address"].initial == (Symbol("counter", 0), Symbol("table", 8))
    assert module.variables["text"].count == 6
    assert module.variables["dynamic"].count is None
    assert module.variables["env"].linkage == "common"
    assert module.functions["f"].params[0].count == 24
    assert module.functions["vprintf"].body is None
    assert module.functions["k"].performance == {"maxntid": (128, 2, 1), "minnctapersm": (2,)}
    assert [e.name for e in module.entries] == ["k"]


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("hello", 1, "expected a directive"),
        ("", 1, "no .version"),
        (HEAD + '.file 1 "x', 4, "is not valid in PTX"),
        (HEAD + "/* no end", 4, "never closed"),
        (HEAD + ".global .f31 x;", 4, "expected a type"),
        (HEAD + ".global .u32 x\n.global .u32 y;", 5, "expected ';'"),
        (HEAD + ".global .u32 x; .global .u32 x;", 4, "declared twice"),
        (HEAD + ".global .u32 x[2] = {1,2,3};", 4, "3 values for the 2 elements"),
        (HEAD + ".global .align 3 .u32 x;", 4, "not an alignment"),
        (HEAD + ".global .u32 x[0x7fffffffffffffff];", 4, "not a valid array size"),
        (HEAD + ".entry k() {\n", 5, "never closed"),
        (HEAD + ".entry k() {\nmov.u32 %r1, 0; }", 5, "%r1 is not declared"),
        (HEAD + ".entry k() { .reg .b32 %r<2>;\nmov.u32 %r2, 0; }", 5, "%r2 is not declared"),
        (HEAD + ".entry k() { .reg .b32 a; .reg .b64 a; }", 4, "declared twice"),
        (HEAD + ".entry k() { .reg .b32 a<2>; .reg .b64 a<3>; }", 4, "declared twice"),
        (HEAD + ".entry k() { .reg .b32 %r1;\n@%r1 ret; }", 5, "before a predicate register"),
        (HEAD + ".entry k() { L: L: }", 4, "defined twice"),
        (HEAD + ".entry k() { .reg .b32 %r1;\nmov.u32 %r1, 09; }", 5, "not an integer literal"),
        (
            HEAD + ".entry k() { .reg .b32 %r1;\nmov.u32 %r1, 99999999999999999999999; }",
            5,
            "not an integer literal",
        ),
        (HEAD + ".entry k() { .reg .b32 %r1;\nmov.u32 %r1, 1 / 0; }", 5, "divides by zero"),
        (HEAD + ".entry k() { .reg .b32 %r1;\nmov.u32 %r1, " + "(" * 5000 + "; }", 5, "too deep"),
        (HEAD + ".address_size 32", 4, "not supported"),
        (HEAD + ".global .texref t;", 4, "not supported"),
        (
            HEAD + ".entry k() { .reg .b32 %r<4>; tex.1d.v4.s32.s32 {%r0, %r1, %r2, %r3}, [x, {%r1}]; }",
            4,
            ".texref and .surfref are not supported; pass a texture or surface object",
        ),
    ],
)
def test_malformed_text_is_refused_with_its_line(text: str, line: int, what: str) -> None:
    """``file:line:`` and what is wrong."""
    with pytest.raises(PtxError) as error:
        parse(text, "t.ptx")
    assert str(error.value).startswith(f"t.ptx:{line}: ")
    assert what in str(error.value)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("frobnicate.u32 %r1, %r2;", "frobnicate.u32: not supported"),
        ("wgmma.fence.sync.aligned;", "wgmma.fence.sync.aligned: needs sm_90 or later"),
        (
            "cp.async.bulk.commit_group;",
            "needs sm_90 or later, which is not supported; compile for sm_89 or lower",
        ),
        ("multimem.red.global.add.u32 [%rd1], %r1;", "needs sm_90 or later"),
        ("tcgen05.wait::ld.sync.aligned;", "needs sm_100 or later"),
        ("sured.b.add.1d.u32.trap [%rd1, {%r1}], %r2;", "reductions on surfaces are not supported"),
        ("add.u31 %r1, %r2, %r3;", "add.u31: not supported"),
        ("add.rn.u32 %r1, %r2, %r3;", "add.rn.u32: not supported"),
        ("add.u32 %r1, %r2;", "expected 3 operands, found 2"),
        ("add.u32 %r1, %r2, %rd3;", "%rd3 is .b64, but .u32 is required"),
        ("add.u32 %p1, %r2, %r3;", "%p1 is .pred, but .u32 is required"),
        ("add.u32 5, %r2, %r3;", "the result must be a register"),
        ("add.u32 %r1, [%r2], %r3;", "this kind of operand is not allowed"),
        ("add.f32 %f1, %f2, %tid.x;", "%tid.x is an integer"),
        ("and.b32 %r1, %r2, !%p1;", "'!' is only allowed before a predicate"),
        ("bra NOWHERE;", "no label NOWHERE"),
        ("brx.idx %r1, NOWHERE;", "no .branchtargets NOWHERE"),
        ("mov.u64 %rd1, nothing;", "nothing is not declared"),
        ("ld.global.u32 %r1, [nothing];", "nothing is not declared"),
        ("call.uni nothing;", "nothing is not declared"),
        ("ret %r1;", "takes no operands"),
    ],
)
def test_instructions_that_do_not_fit_are_refused(text: str, what: str) -> None:
    """The verifier names the line, the instruction, and what is wrong."""
    module = parse(
        f"{HEAD}.entry k() {{ .reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .f32 %f<8>; .reg .pred %p<4>;\n{text}\n}}",
        "t.ptx",
    )
    with pytest.raises(PtxError) as error:
        verify(module)
    assert str(error.value).startswith("t.ptx:5: ")
    assert what in str(error.value)


@pytest.mark.parametrize("before", ["", "mov.pred %p1, %p2;"])
def test_an_inner_register_is_not_the_outer_one_of_a_range(before: str) -> None:
    """``{ .reg .pred %p1; }`` (CUDA's syncthreads_count) leaves the %p1 of ``.reg .pred %p<4>`` alone."""
    statements = body(f"{before} {{ .reg .pred %p1; setp.ne.u32 %p1, %r1, 0; }} @%p1 ret;")
    inner, outer = statements[-2], statements[-1]
    assert isinstance(inner, Instruction)
    assert isinstance(outer, Instruction)
    assert outer.guard is not None
    assert inner.operands[0] != outer.guard
