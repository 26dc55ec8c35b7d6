"""Ids of failures: letters that are no digits, as short as they stay unique."""

from __future__ import annotations

from itertools import pairwise

from kcheck.store.ids import LEAST, hexadecimal, letters, shortened


def test_ids_are_letters_that_stand_for_the_digits() -> None:
    """No id is a number, and every id goes back to the digits of its digest."""
    name = bytes(range(0, 256, 17))
    assert letters(name) == "zzyyxxwwvvuuttssrrqqppoonnmmllkk"
    assert hexadecimal(letters(name)) == name.hex()
    assert hexadecimal("Zy") == "01"


def test_a_prefix_is_unique_and_no_longer_than_it_must_be() -> None:
    """Four letters, and one more than what two ids share."""
    ids = ["kkkkkkkk", "kkkkkkkl", "kkkkzzzz", "mmmmmmmm", "z" * 8]
    assert shortened(ids) == {
        "kkkkkkkk": "kkkkkkkk",
        "kkkkkkkl": "kkkkkkkl",
        "kkkkzzzz": "kkkkz",
        "mmmmmmmm": "mmmm",
        "zzzzzzzz": "zzzz",
    }
    many = [letters(number.to_bytes(8, "big") * 2) for number in range(300)]
    found = shortened(many)
    for one, other in pairwise(sorted(many)):
        assert not other.startswith(found[one])
        assert not one.startswith(found[other])
    assert min(map(len, found.values())) >= LEAST
