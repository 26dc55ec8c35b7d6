"""Instructions in which the lanes of a warp work together.

Source: PTX ISA, ``shfl.sync``, ``vote.sync``, ``match.sync``, ``redux.sync``, ``activemask``, ``elect.sync``.
A model maps what the lanes hold to what each gets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.isa.model.answers import Answer, Anything
from tests.isa.model.formats import signed

LANES = 32


@dataclass(frozen=True, slots=True)
class Warp:
    """What a warp's registers hold: for each of the 32 lanes a value.

    Attributes:
        mask: the lanes that take part.
        a: 32-bit values; ``wide``: 64-bit ones; b: lane offsets; ``p``: predicates.
        c: the packed clamp and segment mask of ``shfl``, the same in all lanes.
    """

    mask: int
    a: tuple[int, ...]
    wide: tuple[int, ...]
    b: tuple[int, ...]
    p: tuple[int, ...]
    c: int

    @property
    def lanes(self) -> list[int]:
        return [lane for lane in range(LANES) if self.mask >> lane & 1]


Reply = tuple[int | Answer, ...]
Model = Callable[[Warp, int], Reply]
"""What one lane gets."""


def shuffle(mode: str, offset: int | None = None, c: int | None = None) -> Model:
    """``shfl.sync``: d and p. ``offset`` and ``c`` if they are constants."""

    def model(warp: Warp, lane: int) -> Reply:
        packed = warp.c if c is None else c
        by = (warp.b[lane] if offset is None else offset) & 31
        clamp, segment = packed & 31, packed >> 8 & 31
        highest = (lane & segment) | (clamp & ~segment & 31)
        lowest = lane & segment
        match mode:
            case "up":
                source = lane - by
                inside = source >= highest
            case "down":
                source = lane + by
                inside = source <= highest
            case "bfly":
                source = lane ^ by
                inside = source <= highest
            case _:
                source = lowest | (by & ~segment & 31)
                inside = source <= highest
        if not inside:
            source = lane
        if not warp.mask >> source & 1:
            return Anything(), int(inside)  # from a lane that does not take part: undefined
        return warp.a[source], int(inside)

    return model


def vote(mode: str, negated: bool) -> Model:
    """``vote.sync``."""

    def model(warp: Warp, lane: int) -> Reply:
        held = [warp.p[n] ^ int(negated) for n in warp.lanes]
        match mode:
            case "all":
                return (int(all(held)),)
            case "any":
                return (int(any(held)),)
            case "uni":
                return (int(len(set(held)) == 1),)
        return (sum(p << n for n, p in zip(warp.lanes, held, strict=True)),)

    return model


def match(mode: str, wide: bool) -> Model:
    """``match.sync``: the mask, and for ``all`` the predicate."""

    def model(warp: Warp, lane: int) -> Reply:
        values = warp.wide if wide else warp.a
        same = sum(1 << n for n in warp.lanes if values[n] == values[lane])
        if mode == "any":
            return (same,)
        return (warp.mask, 1) if same == warp.mask else (0, 0)

    return model


def reduce(operation: str, kind: str) -> Model:
    """``redux.sync``."""

    def model(warp: Warp, lane: int) -> Reply:
        values = [warp.a[n] for n in warp.lanes]
        if kind == "s32":
            values = [signed(v, 32) for v in values]
        result = values[0]
        for v in values[1:]:
            match operation:
                case "add":
                    result += v
                case "min":
                    result = min(result, v)
                case "max":
                    result = max(result, v)
                case "and":
                    result &= v
                case "or":
                    result |= v
                case "xor":
                    result ^= v
        return (result & 0xFFFFFFFF,)

    return model


def active(warp: Warp, lane: int) -> Reply:
    """``activemask``."""
    return (warp.mask,)


def elect(warp: Warp, lane: int) -> Reply:
    """``elect.sync``: which lane is elected the ISA leaves open; NVIDIA's own code counts on the lowest one."""
    return warp.lanes[0], int(lane == warp.lanes[0])
