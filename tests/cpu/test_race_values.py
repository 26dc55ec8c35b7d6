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


def test_a_byte_without_a_type_has_no_sign() -> None:
    """The bits of 218 are those of -38; which one the program means is known only from the type of the array."""
    race = SimpleNamespace(is_write=True, size=1, value=bytes([218]))
    side = SimpleNamespace(verb="writes", described=SimpleNamespace(text="st.global.u8"))
    told = [value_of(cast(Race, race), cast(RaceSide, side), dtype) for dtype in ("", "uint8", "int8")]
    assert told == ["", "218", "-38"]


@pytest.mark.parametrize(
    ("instruction", "dtype", "value", "told"),
    [
        ("st.global.b16", "float16", struct.pack("<e", -1.402), "-1.402"),
        ("st.global.b16", "bfloat16", struct.pack("<f", 1.5)[2:], "1.5"),
        ("st.global.b32", "float16", struct.pack("<2e", 1.5, 2.5), ""),
        ("st.global.b32", "bfloat16", struct.pack("<f", 1.5), ""),
        ("st.shared.u16", "", struct.pack("<e", 1.5), ""),
        ("st.shared.u16", "uint16", struct.pack("<H", 40000), "40000"),
    ],
)
def test_halves_are_told_as_numbers_or_not_at_all(instruction: str, dtype: str, value: bytes, told: str) -> None:
    """Compilers store halves as integers, often two at once, whose bits say nothing to a reader."""
    race = SimpleNamespace(is_write=True, size=len(value), value=value)
    side = SimpleNamespace(verb="writes", described=SimpleNamespace(text=instruction))
    assert value_of(cast(Race, race), cast(RaceSide, side), dtype) == told
