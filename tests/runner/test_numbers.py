from __future__ import annotations

import random

from kcheck.runner.numbers import Numbers


def test_numbers_in_any_order_are_a_set() -> None:
    made, order = Numbers(), [*range(50), 7, 49]
    random.Random(0).shuffle(order)
    seen: set[int] = set()
    for number in order:
        made.add(number)
        seen.add(number)
        assert (len(made), [n for n in range(60) if n in made]) == (len(seen), sorted(seen))


def test_numbers_nearly_in_order_take_no_memory() -> None:
    made = Numbers()
    for number in range(0, 100_000, 2):
        made.add(number + 1)
        made.add(number)
    assert made._others == set()
