"""The generator: the vectors of SPEC "Seeds", and lanes that equal the serial order."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from kcheck.rng import Xorshift128Plus, derive, splitmix64

MASK = 2**64 - 1


def serial(seed: int, count: int) -> list[int]:
    """xorshift128+ written out as it was published: what every faster way must equal."""
    s = [splitmix64(seed), splitmix64((seed + 1) & MASK)]
    outputs = []
    for _ in range(count):
        s1, s0 = s
        s1 ^= (s1 << 23) & MASK
        s = [s0, s1 ^ s0 ^ (s1 >> 17) ^ (s0 >> 26)]
        outputs.append((s[0] + s[1]) & MASK)
    return outputs


@pytest.mark.parametrize(
    ("seed", "domain", "expected"),
    [
        (42, "test", 11905773293262258603),
        (12345, "iter_0", 13013218331088976615),
        (98765, "iter_0", 14707833058110456562),
        (0, "", 1786884285633530058),
    ],
)
def test_derive_vectors(seed: int, domain: str, expected: int) -> None:
    """derive gives the values that SPEC prints."""
    assert derive(seed, domain) == expected


@pytest.mark.parametrize(
    ("seed", "expected"),
    [
        (42, [14921385303349856026, 18113137345775244274, 13573055955469809868]),
        (0, [45495894887209155, 8678822967305584257, 6092928826745819050]),
    ],
)
def test_first_outputs(seed: int, expected: list[int]) -> None:
    """The first words are those that SPEC prints, drawn one by one or together."""
    one_by_one = Xorshift128Plus(seed)
    assert [one_by_one.word() for _ in expected] == expected
    assert Xorshift128Plus(seed).words(3).tolist() == expected


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_has_64_bits(seed: int) -> None:
    """A seed out of range is refused, not wrapped."""
    with pytest.raises(ValueError, match="0 to 2"):
        Xorshift128Plus(seed)
    with pytest.raises(OverflowError):
        derive(seed, "x")


def test_the_largest_seed_wraps_in_its_second_word() -> None:
    """Seed 2**64 - 1 takes splitmix64(0) as its second word."""
    assert Xorshift128Plus(MASK).words(5).tolist() == serial(MASK, 5)


@pytest.mark.parametrize("count", [0, 1, 95, 96, 97, 128, 129, 255, 1000, 1023, 1024, 1025, 4097, 12345])
def test_lanes_equal_the_serial_order(count: int) -> None:
    """A draw of any length is the serial sequence, and the stream goes on where it ended."""
    stream = Xorshift128Plus(7)
    drawn = [*stream.words(count).tolist(), *stream.words(130).tolist(), stream.word()]
    assert drawn == serial(7, count + 131)


def test_a_long_draw_equals_short_ones() -> None:
    """More words than one round of lanes holds (4 Mi) equal the same words drawn in pieces."""
    total = 4 * 2**20 + 70_001
    whole, pieces = Xorshift128Plus(3).words(total), Xorshift128Plus(3)
    start = 0
    while start < total:
        count = min(300_007, total - start)
        np.testing.assert_array_equal(pieces.words(count), whole[start : start + count])
        start += count


def test_a_negative_count_is_refused() -> None:
    """words(-1) raises."""
    with pytest.raises(ValueError, match="-1"):
        Xorshift128Plus(0).words(-1)


def test_a_method_of_numpys_generators_is_answered_with_those_that_there_are():
    """Who writes a function for ``values: {from: ...}`` reaches for ``rng.random()``."""
    with pytest.raises(
        AttributeError, match=r"kcheck's rng has no 'random'; it has word, words, floats, .*permutation$"
    ):
        Xorshift128Plus(1).random()
    assert copy.deepcopy(Xorshift128Plus(1)).word() == Xorshift128Plus(1).word()


@pytest.mark.parametrize("count", [0, 1, 2, 63, 64, 1000, 12_345])
def test_words_that_are_skipped_are_those_that_would_be_drawn(count: int) -> None:
    """After ``skip(n)``, the next word is the one after n others."""
    drawn, skipped = Xorshift128Plus(7), Xorshift128Plus(7)
    drawn.words(count)
    skipped.skip(count)
    assert skipped.word() == drawn.word()
