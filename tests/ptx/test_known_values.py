"""What the builder knows about variables in memory: only what holds on every path to the current instruction."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from kcheck.ptx.compile import lower
from kcheck.ptx.ir.builder import Value
from kcheck.ptx.ir.flow import FlowBuilder
from kcheck.ptx.syntax.parser import parse

OLD, NEW = Value("%old", "i32"), Value("%new", "i32")
CONDITION = Value("%c", "i1")

PTX = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p)
{{
    .reg .b32 %r<9>;
    .reg .b64 %rd<4>;
    .reg .pred %p<2>;
    ld.param.u64 %rd1, [p];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd3, %rd1, %rd2;
    ld.global.u32 %r2, [%rd3];
{body}
    st.global.u32 [%rd3], %r3;
    ret;
}}
"""


def in_when(b: FlowBuilder) -> None:
    with b.when(CONDITION):
        b.known.learn("x", NEW)


def in_unless(b: FlowBuilder) -> None:
    with b.unless(CONDITION):
        b.known.forget("x")


def in_then(b: FlowBuilder) -> None:
    with b.if_(CONDITION) as otherwise:
        b.known.learn("x", NEW)
    with otherwise.else_():
        assert b.known.get("x") is None  # known to be OLD, but what the other side changed is forgotten


def in_else(b: FlowBuilder) -> None:
    with b.if_(CONDITION) as otherwise:
        assert b.known.get("x") is OLD
    with otherwise.else_():
        assert b.known.get("x") is OLD
        b.known.learn("x", NEW)


def deep_inside(b: FlowBuilder) -> None:
    with b.when(CONDITION), b.when(CONDITION):
        b.known.learn("x", NEW)


def at_a_label(b: FlowBuilder) -> None:
    b.jump("elsewhere")
    b.label("elsewhere")


def in_a_loop(b: FlowBuilder) -> None:
    with b.loop():
        assert b.known.get("x") is None  # an iteration may have changed it
        b.break_()


@pytest.mark.parametrize("change", [in_when, in_unless, in_then, in_else, deep_inside, at_a_label, in_a_loop])
def test_what_a_path_may_have_changed_is_not_known(change: Callable[[FlowBuilder], None]) -> None:
    """Whether the path was taken is not known either."""
    b = FlowBuilder(1)
    b.known.learn("x", OLD)
    change(b)
    assert b.known.get("x") is None


def test_what_no_path_changes_stays_known() -> None:
    """Also within the code of a condition, and what it learns about others is not known after it."""
    b = FlowBuilder(1)
    b.known.learn("x", OLD)
    with b.when(CONDITION):
        assert b.known.get("x") is OLD
        b.known.learn("y", NEW)
    with b.if_(CONDITION) as otherwise:
        pass
    with otherwise.else_():
        pass
    assert b.known.get("x") is OLD
    assert b.known.get("y") is None


def allocas(body: str) -> int:
    """The registers of a kernel that are in memory."""
    ir = lower(parse(PTX.format(body=body), "k.ptx"), "k", 8).ir.text
    return len(re.findall(r"%R\d+ = alloca", ir))


def test_registers_of_one_basic_block_are_not_in_memory() -> None:
    """A register that another block reads is."""
    assert allocas("add.u32 %r3, %r2, 1;") == 0
    assert allocas("mov.u32 %r3, %r2; setp.eq.u32 %p1, %r2, 0; @%p1 bra L; add.u32 %r3, %r2, 1; L:") > 0


def test_a_literal_in_a_register_is_read_from_memory() -> None:
    """What is lowered must not depend on it: a division by a register tests for 0."""
    assert allocas("mov.u32 %r4, 3; div.u32 %r3, %r2, %r4;") == 1
