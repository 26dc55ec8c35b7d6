"""What the tree of a kernel says of it before it is lowered."""

from dataclasses import replace

import pytest

from kcheck.model import TensorSum
from kcheck.ptx.analysis import kernel_facts
from kcheck.ptx.analysis.kernel_facts import (
    adds_floats_atomically,
    called_functions,
    narrow_floats,
    param_slots,
    tensor_sums,
    uses_thread_y,
)
from kcheck.ptx.compile import lower
from kcheck.ptx.lowering.kernel import suitable_width
from kcheck.ptx.syntax.parser import parse

F16_PRODUCT = """
mma.sync.aligned.m16n8k16.row.col.{d}.f16.f16.{d} {{%f0, %f1, %f2, %f3}}, {{%r0, %r1, %r2, %r3}}, {{%r4, %r5}},
    {{%f0, %f1, %f2, %f3}};
"""
WMMA_F16 = """
wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16 {%r0, %r1, %r2, %r3}, {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7},
    {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, {%r0, %r1, %r2, %r3};
"""
TF32_PRODUCT = """
mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1}, {%r2}, {%f0, %f1, %f2, %f3};
"""
HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def reached(body: str, before: str = ""):
    """The kernel ``k`` with this body, and the functions that it calls."""
    text = (
        f"{HEAD}{before}.visible .entry k(.param .u64 x) {{\n.reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b16 %h<9>;\n"
    )
    module = parse(f"{text}.reg .b64 %p;\n{body}\nret;\n}}\n", "k.ptx")
    return called_functions(module, module.functions["k"])


@pytest.mark.parametrize(
    ("instruction", "adds"),
    [
        ("atom.global.add.f32 %f0, [%p], %f1;", True),
        ("red.global.gpu.relaxed.add.f32 [%p], %f1;", True),
        ("atom.global.add.u32 %r0, [%p], %r1;", False),
        ("atom.global.exch.b32 %r0, [%p], %r1;", False),
        ("add.f32 %f0, %f1, %f2;", False),
    ],
)
def test_only_an_atomic_addition_of_floats_depends_on_the_order(instruction, adds):
    assert adds_floats_atomically(reached(instruction)) is adds


@pytest.mark.parametrize(
    ("instruction", "formats"),
    [
        ("add.rn.f16 %h0, %h1, %h2;", {"16-bit"}),
        ("fma.rn.bf16x2 %r0, %r1, %r2, %r3;", {"16-bit"}),
        (TF32_PRODUCT, {"tf32"}),
        (F16_PRODUCT.format(d="f16"), {"16-bit sums"}),
        (WMMA_F16, {"16-bit sums"}),
        (F16_PRODUCT.format(d="f32"), set()),
        ("max.f16 %h0, %h1, %h2;", set()),
        ("cvt.f32.f16 %f0, %h1;", set()),
        ("add.f32 %f0, %f1, %f2;", set()),
    ],
)
def test_arithmetic_in_16_bits_and_tf32_products_round_and_moves_do_not(instruction, formats):
    assert narrow_floats(reached(instruction)) == formats


@pytest.mark.parametrize(
    ("instruction", "capability", "sums"),
    [
        (F16_PRODUCT.format(d="f32"), 80, TensorSum(kept=23, terms=8, fraction=24)),
        (F16_PRODUCT.format(d="f32"), 90, TensorSum(kept=23, terms=16, fraction=25)),
        (F16_PRODUCT.format(d="f16"), 80, None),
        (TF32_PRODUCT, 80, TensorSum(kept=23, terms=4, fraction=24)),
        (
            "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%f0}, {%r0}, {%r1}, {%f0};",
            80,
            TensorSum(kept=23, terms=8, fraction=24),
        ),
        ("fma.rn.f32 %f0, %f1, %f2, %f3;", 80, None),
    ],
)
def test_sums_of_tensor_cores_in_float32_are_truncated_and_those_in_float16_rounded(instruction, capability, sums):
    assert tensor_sums(reached(instruction), capability) == ({sums} if sums else set())


@pytest.mark.parametrize(("register", "uses"), [("%tid.y", True), ("%tid.x", False), ("%ctaid.y", False)])
def test_a_kernel_uses_y_if_a_thread_reads_its_own_index(register, uses):
    assert uses_thread_y(reached(f"mov.u32 %r0, {register};")) is uses


def test_a_fact_of_a_called_function_is_the_kernels_and_one_of_another_function_is_not():
    body = "{\n.reg .b32 %a;\nmov.u32 %a, %tid.y;\nret;\n}\n"
    assert uses_thread_y(reached("call f;", f".func f(){body}"))
    assert not uses_thread_y(reached("", f".func f(){body}"))


def test_parameters_are_laid_out_in_order_each_aligned():
    text = ".entry k(.param .u8 a, .param .align 16 .b8 b[20], .param .b8 none[0], .param .f64 c) { ret; }"
    slots, size = param_slots(parse(HEAD + text, "k.ptx").functions["k"])
    assert [(slot.name, slot.offset, slot.size) for slot in slots] == [
        ("a", 0, 1),
        ("b", 16, 20),
        ("none", 36, 0),
        ("c", 40, 8),
    ]
    assert size == 48


def test_the_calls_of_a_kernel_are_followed_once_in_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading a module, choosing a width and lowering ask for them; a kernel with inlined functions is another."""
    followed = []
    plain = kernel_facts._reached
    monkeypatch.setattr(
        kernel_facts, "_reached", lambda module, kernel: followed.append(kernel) or plain(module, kernel)
    )
    module = parse(f"{HEAD}.visible .entry k() {{ ret; }}\n.visible .entry l() {{ ret; }}\n", "k.ptx")
    for name in ("k", "l", "k"):
        kernel = module.functions[name]
        assert called_functions(module, kernel) == [kernel]
    assert [function.name for function in followed] == ["k", "l"]
    lower(module, "k", 8)
    assert suitable_width(module, "k", 16, 32) == 32
    assert len(followed) == 2
    inlined = replace(module.functions["k"])
    assert called_functions(module, inlined) == [inlined]
    assert len(followed) == 3
