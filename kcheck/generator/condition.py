"""Conditions on the size of one dim, the simplest first: what a failure may depend on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kcheck.dataclass import dataclass


@dataclass(frozen=True, eq=False, slots=True)
class Condition:
    """A condition on one size.

    Attributes:
        text: ``N % 64 != 0``; empty if every size meets it.
        cost: how complicated it is. Of two conditions that fit everything known, the cheaper one is reported.
        holds: whether a size meets it.
    """

    text: str
    cost: float
    holds: Callable[[int], bool]


def size_conditions(name: str, least: int, moduli: Sequence[int]) -> list[Condition]:
    """Every condition we consider that ``least`` meets, the cheapest first.

    Args:
        name: of the dim, for the text.
        least: the smallest size that fails.
        moduli: numbers that a size may be compared with or divided by, such as tile and block sizes.
    """
    return sorted(_made(name, least, moduli), key=lambda condition: condition.cost)


def _made(name: str, least: int, moduli: Sequence[int]) -> Iterator[Condition]:
    yield Condition("", 0.0, lambda n: True)
    if least == 0:
        yield Condition(f"{name} == 0", 0.5, lambda n: n == 0)
    else:
        yield Condition(f"{name} > {least - 1}", 1.0, lambda n: n >= least)
        yield Condition(f"{name} == {least}", 2.3, lambda n: n == least)
    yield Condition(f"{name} <= {least}", 2.45, lambda n: n <= least)
    yield (
        Condition(f"{name} is not a power of two", 2.6, lambda n: n > 0 and n & (n - 1) != 0)
        if least & (least - 1)
        else Condition(f"{name} is a power of two", 2.6, lambda n: n > 0 and n & (n - 1) == 0)
    )
    for modulus in moduli:
        # Powers of two first: tile sizes usually are.
        odd = 1.4 if modulus & (modulus - 1) else 0.0
        more = odd + modulus / 5000
        rest = least % modulus
        if rest:
            yield Condition(f"{name} % {modulus} != 0", 1.2 + more, lambda n, m=modulus: n % m != 0)  # type: ignore[misc]
            if not odd:
                yield Condition(
                    f"{name} % {modulus} == {rest}",
                    2.8 + more,
                    lambda n, m=modulus, r=rest: n % m == r,  # type: ignore[misc]
                )
        elif least:
            yield Condition(
                f"{name} % {modulus} == 0",
                1.4 + more,
                lambda n, m=modulus: n > 0 and n % m == 0,  # type: ignore[misc]
            )
        if least != modulus:
            yield Condition(f"{name} != {modulus}", 2.0 + more, lambda n, m=modulus: n != m and n >= least)  # type: ignore[misc]
        if rest and least > modulus:
            yield Condition(
                f"{name} > {least - 1} and {name} % {modulus} != 0",
                2.2 + more,
                lambda n, m=modulus: n >= least and n % m != 0,  # type: ignore[misc]
            )
        for most in (modulus, modulus - 1, modulus + 1):
            if least <= most:
                yield Condition(
                    f"{least} <= {name} <= {most}",
                    2.9 + more,
                    lambda n, m=most: least <= n <= m,  # type: ignore[misc]
                )
