"""The fix for threads that wait at a barrier which is not complete: one with a number and a count has its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcheck.ptx.abi import Checks
from tests.isa.machines import Launch, sanitized

KERNEL = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry one(.param .u64 results) {{
.reg .b32 %t;
.reg .pred %first;
mov.u32 %t, %tid.x;
setp.lt.u32 %first, %t, 32;
@%first bra FIRST;
{waits}
bra END;
FIRST:
{arrives}
END:
ret;
}}
"""
MATCH = "make the waits and arrivals at barrier 1 match: in each phase, 64 threads wait or arrive there"


@pytest.mark.parametrize(
    ("waits", "arrives", "fix"),
    [
        ("bar.sync 1, 64;", "bar.arrive 2, 64;", MATCH),
        ("bar.sync 1, 64;", "bar.sync 2, 64;", MATCH),
        ("bar.sync 0;", "", "exited threads are ignored; guard the work instead of returning before the barrier"),
    ],
)
def test_a_barrier_of_a_producer_and_a_consumer_has_its_own_fix(
    waits: str, arrives: str, fix: str, tmp_path: Path
) -> None:
    """Such a barrier is in a branch by design."""
    launch = Launch(KERNEL.format(waits=waits, arrives=arrives), "one", (bytes(4),), 1, 64)
    found = sanitized(tmp_path, 8, launch, Checks())
    assert (found[0].rule, found[0].fix) == ("synccheck", fix)
