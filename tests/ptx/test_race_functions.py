"""The functions that check accesses for races are written once for all kernels that need the same ones."""

from __future__ import annotations

import pytest

from kcheck.ptx.abi import Checks
from kcheck.ptx.compile import lower
from kcheck.ptx.sanitizers.race import hooks
from kcheck.ptx.sanitizers.race.updates import updating_loads
from kcheck.ptx.syntax.parser import parse

KERNEL = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry shifts(.param .u64 x) {{
    .reg .u32 %t, %near;
    .reg .{kind} %v;
    .shared .align 8 .b8 tile[512];
    mov.u32 %t, %tid.x;
    mul.lo.u32 %near, %t, {size};
    mov.{kind} %v, 1;
    st.shared.{kind} [%near], %v;
    {barrier}
    ld.shared.{kind} %v, [%near+{size}];
    st.shared.{kind} [%near], %v;
    ret;
}}
"""


def lowered(kind: str, size: int, barrier: str = "bar.sync 0;", width: int = 8) -> str:
    """The IR of a kernel with racecheck."""
    tree = parse(KERNEL.format(kind=kind, size=size, barrier=barrier), "shifts.ptx")
    return lower(tree, "shifts", width, Checks(race=True), 32).ir.text


def test_code_does_not_depend_on_what_was_lowered_before() -> None:
    """The size of the smallest access, the width and warp synchronization change the functions."""
    kernels = [
        ("u32", 4, "bar.sync 0;", 8),
        ("u64", 8, "bar.sync 0;", 8),
        ("u32", 4, "bar.warp.sync 0xffffffff;", 8),
        ("u32", 4, "bar.sync 0;", 16),
    ]
    alone = []
    for kernel in kernels:
        hooks._functions.cache_clear()
        alone.append(lowered(*kernel))
    assert len(set(alone)) == len(kernels)
    hooks._functions.cache_clear()
    assert [lowered(*kernel) for kernel in [*kernels, *kernels]] == alone * 2


def test_a_second_kernel_needs_no_new_functions() -> None:
    hooks._functions.cache_clear()
    lowered("u32", 4)
    before = hooks._functions.cache_info()
    lowered("s32", 4)
    after = hooks._functions.cache_info()
    assert before.misses > 0
    assert (after.misses, after.hits) == (before.misses, before.misses)


@pytest.mark.parametrize("name", ["a", "b", "c", "d", "e", "f", "g", "h"])
def test_the_read_of_an_update_is_found_whatever_registers_are_called(name: str) -> None:
    """The stored value is the sum of the loaded one and of one that many registers lead to. Sets of names have
    another order in each process, which must not matter."""
    many = [f"add.u32 %{name}{n}, %{name}{n - 1}, %t;" for n in range(1, 80)]
    text = "\n".join(
        [
            *(".version 8.0", ".target sm_80", ".address_size 64", ".visible .entry sums(.param .u64 x) {"),
            f".reg .u32 %t, %{name}<99>, %{name}new, %{name}old;",
            *(".reg .u64 %x;", "ld.param.u64 %x, [x];", "mov.u32 %t, %tid.x;", f"mov.u32 %{name}0, %t;"),
            f"ld.global.u32 %{name}old, [%x];",
            *many,
            f"add.u32 %{name}new, %{name}old, %{name}79;",
            f"st.global.u32 [%x], %{name}new;",
            *("ret;", "}"),
        ]
    )
    function = parse(text, "sums.ptx").functions["sums"]
    assert len(updating_loads([function])) == 1
