"""The value in the message of a race, by the type of the array or else of the instruction."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import cast

import pytest

from kcheck.cpu.race_report import RaceSide, value_of
from kcheck.ptx.sanitizers.race.layout import Race


@pytest.mark.parametrize(
    ("instruction", "dtype", "told"),
    [
        ("ld.shared.f32", "", "1.5"),
        ("ld.shared.b32", "float32", "1.5"),
        ("ld.shared.s32", "", "1069547520"),
        ("ld.shared.b32", "", ""),
        ("ld.shared.v4.b32", "", ""),
    ],
)
def test_the_value_of_untyped_bits_is_not_told(instruction: str, dtype: str, told: str) -> None:
    """A compiler loads a float as ``.b32``, so the bits of 1.5 were told as an integer."""
    race = SimpleNamespace(is_write=False, size=4, value=struct.pack("<f", 1.5))
    side = SimpleNamespace(verb="reads", described=SimpleNamespace(text=instruction))
    assert value_of(cast(Race, race), cast(RaceSide, side), dtype) == told
