"""The code of a kernel and that of its checks are compiled apart."""

from __future__ import annotations

import re

from kcheck.cpu.parts import divide
from kcheck.ptx.abi import Checks
from kcheck.ptx.compile import lower
from kcheck.ptx.syntax.parser import parse

ALL = Checks(race=True, init=True, overflow=True, cover=True)

KERNEL = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry double(.param .u64 to)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [to];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.u32 %r2, [%rd3];
    add.s32 %r3, %r2, FACTOR;
    st.global.u32 [%rd3], %r3;
    ret;
}
"""

TABLE = """define internal void @reads.a.table(ptr %p) noinline {
  %v1 = load i32, ptr @table
  ret void
}
define internal i32 @three() alwaysinline {
  ret i32 3
}
define internal i32 @calls.three(<4 x i32> %a) noinline cold {
  %v1 = call i32 @three()
  ret i32 %v1
}
define void @kcheck.warp() {
  %v1 = call i32 @calls.three(<4 x i32> zeroinitializer)
  ret void
}
@table = internal constant i32 7
"""


def _defined(ir: str) -> set[str]:
    return set(re.findall(r"^define .*?@([\w.]+)\(", ir, re.MULTILINE))


def _ir(factor: str) -> str:
    return lower(parse(KERNEL.replace("FACTOR", factor)), "double", 16, ALL, 32).ir


def test_an_edit_of_the_kernel_leaves_its_checks_as_they_were() -> None:
    """So their code is in the cache."""
    (before, checks), (after, again) = divide(_ir("2")), divide(_ir("3"))
    assert before != after
    assert checks == again
    assert len(_defined(checks)) > 10
    assert {"kcheck.race.judge", "kcheck.resolve"} <= _defined(checks)


def test_every_function_is_defined_once() -> None:
    """Functions that are inlined may be in both modules: nothing of them is left."""
    ir = _ir("2")
    own, checks = divide(ir)
    inlined = set(re.findall(r"^define internal .*?@([\w.]+)\(.*\) alwaysinline", ir, re.MULTILINE))
    assert _defined(own) | _defined(checks) == _defined(ir)
    assert _defined(own) & _defined(checks) <= inlined


def test_a_function_that_refers_to_a_table_of_the_kernel_stays_with_it() -> None:
    own, checks = divide(TABLE)
    assert _defined(checks) == {"calls.three", "three"}
    assert "declare i32 @calls.three(<4 x i32> %a) noinline cold" in own
    assert "define i32 @calls.three(" in checks  # not internal: the other module calls it


def test_a_kernel_without_such_functions_stays_whole() -> None:
    alone = "define void @kcheck.warp() {\n  ret void\n}\n"
    assert divide(alone) == (alone, "")
