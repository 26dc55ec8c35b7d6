"""Theoretical occupancy against what CUDA's own occupancy calculator says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcheck.linter.occupancy import multiprocessor, occupancy
from kcheck.model.multiprocessor import BY_CAPABILITY


@pytest.mark.parametrize(
    ("target", "block", "registers", "shared", "warps", "limit"),
    [
        # A100, 256 threads of 32 registers: whole.
        ("sm_80", 256, 32, 0, 64, ""),
        # 33 registers are allocated as 40: 51 warps, in fours 48, 6 blocks of 8.
        ("sm_80", 256, 33, 0, 48, "registers"),
        ("sm_80", 1024, 64, 0, 32, "registers"),
        ("sm_80", 256, 255, 0, 8, "registers"),
        # A block of one warp: 32 blocks are all that a multiprocessor takes.
        ("sm_80", 32, 32, 0, 32, "blocks"),
        # 48 KiB and the system's 1 KiB: three blocks in 164 KiB.
        ("sm_80", 128, 32, 49152, 12, "shared memory"),
        ("sm_80", 768, 32, 0, 48, "threads"),
        # 1536 threads on consumer cards.
        ("sm_86", 256, 32, 0, 48, ""),
        ("sm_89", 1024, 32, 0, 32, "threads"),
        ("sm_90", 128, 32, 65536, 12, "shared memory"),
        ("sm_75", 256, 32, 0, 32, ""),
        # A block that needs more than there is.
        ("sm_80", 1024, 255, 0, 0, "registers"),
    ],
)
def test_warps_and_what_limits_them(
    target: str, block: int, registers: int, shared: int, warps: int, limit: str
) -> None:
    """Resident warps, and what there is too little of for more."""
    held = occupancy(target, block, registers, shared)
    assert held is not None
    assert (held.warps, held.limit) == (warps, limit)
    assert held.share == warps / held.most


def test_a_target_of_which_nothing_is_known_has_none() -> None:
    """No guess; an architecture-specific target is that of its number."""
    assert occupancy("sm_61", 128, 32, 0) is None
    assert occupancy("compute_80", 128, 32, 0) is None
    assert multiprocessor("sm_90a") is BY_CAPABILITY[9, 0]


@given(
    block=st.integers(1, 1024),
    registers=st.integers(1, 254),
    shared=st.integers(0, 99_000),
    more=st.integers(0, 64),
)
def test_needing_more_never_holds_more(block: int, registers: int, shared: int, more: int) -> None:
    """Occupancy does not rise with registers or shared memory, and never passes what the machine holds."""
    least = occupancy("sm_80", block, registers, shared)
    assert least is not None
    assert least.warps <= 64
    for other in (
        occupancy("sm_80", block, min(255, registers + more), shared),
        occupancy("sm_80", block, registers, shared + more * 100),
    ):
        assert other is not None
        assert other.warps <= least.warps
