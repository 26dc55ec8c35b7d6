"""Which threads need what they load, in code that replicates values between threads."""

from __future__ import annotations

import pytest

from kcheck.ptx.analysis.replicas import needed_loads
from kcheck.ptx.syntax.ast import Instruction
from kcheck.ptx.syntax.parser import parse

KERNEL = """.version 8.8
.target sm_80
.address_size 64
.visible .entry k(.param .u64 x)
.reqntid 128
{{
    .reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
    .shared .align 4 .b32 word;
    ld.param.b64 %rd1, [x];
    mov.u32 %r1, %tid.x;
    ld.param.b32 %r8, [x];
    setp.lt.s32 %p1, %r1, %r8;
    mov.u32 %r2, 0;
    @%p1 ld.global.b32 {{ %r2 }}, [ %rd1 + 0 ];
    {body}
    ret;
}}
"""
STORE = "@%p2 st.global.b32 [ %rd1 + 0 ], { %r2 };"
FIRST_16 = (1 << 16) - 1
FIRST_WARP = (1 << 32) - 1
ODD = sum(1 << n for n in range(1, 128, 2))
ALL = (1 << 1024) - 1


def needed(body: str) -> int:
    """The threads that need what the load of the kernel returns, a bit for each."""
    kernel = parse(KERNEL.format(body=body)).entries[0]
    threads = needed_loads(kernel, "k.ptx")
    loads = [s for s in kernel.body or () if isinstance(s, Instruction) and s.mnemonic == "ld.global.b32"]
    return threads.get(id(loads[0]), ALL)


def only(condition: str) -> str:
    """PTX that sets %p2 where a thread's index fulfills a condition and the mask of the tensor is true."""
    return f"{condition} and.pred %p2, %p3, %p1; "


BRANCH = """and.b32 %r3, %r1, 1008; setp.eq.b32 %p3, %r3, 0; and.pred %p2, %p3, %p1;
setp.gt.s32 %p4, %r2, 0; @%p4 bra ELSE; {arm} bra END; ELSE: neg.s32 %r2, %r2; END:
@%p2 st.global.b32 [%rd1], %r2;"""
SMALL = only("and.b32 %r3, %r1, 1008; setp.eq.b32 %p3, %r3, 0;")


@pytest.mark.parametrize(
    ("body", "threads"),
    [
        (f"{SMALL} {STORE}", FIRST_16),
        (f"{SMALL} add.f32 %r2, %r2, %r2; {STORE}", FIRST_16),
        (only("setp.lt.u32 %p3, %r1, 16;") + STORE, FIRST_16),
        (only("and.b32 %r3, %r1, 1; setp.eq.b32 %p4, %r3, 0; not.pred %p3, %p4;") + STORE, ODD),
        (f"setp.gt.u32 %p4, %r1, 15; @!%p4 {STORE[5:]}", FIRST_16),
        (f"{SMALL} shfl.sync.bfly.b32 %r2, %r2, 1, 31, -1; {STORE}", FIRST_WARP),
        (f"{SMALL} setp.gt.s32 %p4, %r2, 0; and.pred %p5, %p2, %p4; @%p5 red.global.add.u32 [%rd1], 1;", FIRST_16),
        (
            "mov.u32 %r3, %ctaid.x; and.b32 %r4, %r1, 112; or.b32 %r5, %r4, %r3; setp.eq.b32 %p2, %r5, 0;" + STORE,
            FIRST_16,
        ),
        (BRANCH.format(arm="add.s32 %r2, %r2, 1;"), FIRST_16),
        (BRANCH.format(arm="setp.gt.s32 %p5, %r2, 9; @%p5 bra END; add.s32 %r2, %r2, 1;"), FIRST_16),
        ("", 0),
    ],
)
def test_a_thread_whose_stores_are_off_needs_no_value(body: str, threads: int) -> None:
    """A predicate that the index decides is off; the value may reach the store, or its predicate."""
    assert needed(body) == threads


@pytest.mark.parametrize(
    "body",
    [
        "st.global.b32 [ %rd1 + 0 ], { %r2 };",
        "@%p1 st.global.b32 [ %rd1 + 0 ], { %r2 };",
        SMALL + "st.shared.b32 [word], %r2; @%p2 st.global.b32 [%rd1], %r2;",
        BRANCH.format(arm="st.shared.b32 [word], %r1;"),
        BRANCH.format(arm="bar.warp.sync -1;"),
        BRANCH.format(arm="ld.global.b32 %r2, [%rd1];"),
        BRANCH.format(arm="ret;"),
        SMALL
        + "AGAIN: add.s32 %r2, %r2, -1; setp.gt.s32 %p4, %r2, 0; @%p4 bra AGAIN; @%p2 st.global.b32 [%rd1], %r2;",
        BRANCH.format(arm="add.s32 %r3, %r3, 1;") + "st.shared.b32 [word], %r3;",
        SMALL + "mad.wide.s32 %rd2, %r2, 4, %rd1; ld.global.f32 %r4, [%rd2]; @%p2 st.global.b32 [%rd1], %r4;",
        "mov.u32 %r3, %ctaid.x; setp.eq.u32 %p2, %r3, 0; @%p2 st.global.b32 [ %rd1 + 0 ], { %r2 };",
    ],
    ids=["store", "mask", "shared", "branch", "barrier", "load", "end", "loop", "choice", "address", "block"],
)
def test_other_uses_need_the_value_in_every_thread(body: str) -> None:
    """A store under the mask alone, shared memory, a branch, an address, a predicate that the block decides."""
    assert needed(body) == ALL
