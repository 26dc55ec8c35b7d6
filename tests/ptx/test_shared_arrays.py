"""Which shared array an access means: what the check of its index relies on."""

from __future__ import annotations

import pytest

from kcheck.ptx.analysis.shared_arrays import access_bytes, arrays_of_accesses
from kcheck.ptx.syntax.parser import parse

HEAD = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p)
{
    .reg .pred %p<2>;
    .reg .b32 %r<9>;
    .reg .b64 %rd<9>;
    .reg .f32 %f<3>;
    .shared .align 4 .b8 a[128];
    .shared .align 4 .b8 b[128];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd1, %r1, 4;
    setp.eq.s32 %p1, %r1, 0;
"""


def array_of_last_access(body: str) -> str:
    """The array that the only load or store of a kernel means; empty if it may mean others."""
    module = parse(HEAD + body + "\n ret;\n}\n", "k.ptx")
    found = list(arrays_of_accesses(module.functions.values(), ("a", "b")))
    return found[0][1] if found else ""


@pytest.mark.parametrize(
    "body",
    [
        "ld.shared.f32 %f1, [a+4];",
        "mov.u64 %rd2, a; add.s64 %rd3, %rd2, %rd1; ld.shared.f32 %f1, [%rd3+4];",
        "mov.u64 %rd2, a; add.s64 %rd3, %rd1, %rd2; st.shared.f32 [%rd3], %f1;",
        "mov.u64 %rd2, a; cvta.shared.u64 %rd3, %rd2; add.s64 %rd3, %rd3, %rd1; ld.f32 %f1, [%rd3];",
        "mov.u32 %r2, a; mad.lo.s32 %r3, %r1, 4, %r2; ld.shared.f32 %f1, [%r3];",
        "mov.u64 %rd2, a; or.b64 %rd3, %rd2, 4; ld.shared.f32 %f1, [%rd3];",
        "mov.u64 %rd2, a; L: add.s64 %rd2, %rd2, 4; ld.shared.f32 %f1, [%rd2]; @%p1 bra L;",
        "mov.u64 %rd2, a; sub.s64 %rd3, %rd2, %rd1; ld.shared.f32 %f1, [%rd3];",
        "mov.u64 %rd2, a; add.s64 %rd3, %rd2, 4; selp.b64 %rd4, %rd2, %rd3, %p1; ld.shared.f32 %f1, [%rd4];",
    ],
)
def test_an_address_made_of_one_array_means_that_array(body: str) -> None:
    """Through copies, sums, selections and loops."""
    assert array_of_last_access(body) == "a"


@pytest.mark.parametrize(
    "body",
    [
        "mov.u64 %rd2, a; mov.u64 %rd3, b; selp.b64 %rd4, %rd2, %rd3, %p1; ld.shared.f32 %f1, [%rd4];",
        "mov.u64 %rd2, a; @%p1 mov.u64 %rd2, b; ld.shared.f32 %f1, [%rd2];",
        "mov.u64 %rd2, a; ld.param.u64 %rd3, [p]; selp.b64 %rd4, %rd2, %rd3, %p1; ld.f32 %f1, [%rd4];",
        "mov.u64 %rd2, a; mov.u64 %rd3, b; sub.s64 %rd4, %rd3, %rd2; add.s64 %rd5, %rd2, %rd4; "
        "ld.shared.f32 %f1, [%rd5];",
        "mov.u64 %rd2, a; add.s64 %rd3, %rd2, %rd1; and.b64 %rd4, %rd3, -4; ld.shared.u32 %r2, [%rd4];",
        "ld.param.u64 %rd2, [p]; ld.global.f32 %f1, [%rd2];",
    ],
)
def test_an_address_that_may_come_from_elsewhere_means_none(body: str) -> None:
    """From another array, a parameter, or rounded down: such an access is checked against the whole window."""
    assert array_of_last_access(body) == ""


@pytest.mark.parametrize(
    ("access", "size"), [("ld.shared.v4.f32 {%f1, %f1, %f1, %f1}", 16), ("ld.shared.u8 %r2", 1)]
)
def test_an_access_is_as_long_as_all_its_elements(access: str, size: int) -> None:
    """What must be a multiple of it."""
    module = parse(f"{HEAD}{access}, [a];\n ret;\n}}\n", "k.ptx")
    (found,) = arrays_of_accesses(module.functions.values(), ("a",))
    assert access_bytes(found[0]) == size
