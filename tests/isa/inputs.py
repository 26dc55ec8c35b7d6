"""What the instructions are fed: every edge of a type, and seeded random bits.

A draw is a type of PTX, or one of: ``pred`` and ``carry`` (0 and 1), ``amount`` (a shift), ``field`` (bit
positions and lengths), ``steps`` (of both signs), ``selector`` (``prmt``), ``bytes32`` (packed bytes with edges),
``f32wave`` (angles), ``f16x2`` and ``bf16x2`` (pairs of edges), and a type with ``in64``: in a register of 64 bits
whose other bits are noise.
"""

from __future__ import annotations

import itertools
import random
import struct
from functools import lru_cache

from tests.isa.model.formats import FORMATS, Format

PAIRS, TRIPLES = 700, 450
"""How many combinations of edges are tried at most, for two sources and for more."""


def bits_of(draw: str) -> int:
    """Bits of the register that holds a draw; 1: a predicate."""
    if draw == "pred":
        return 1
    if draw in ("carry", "amount", "field", "steps", "selector", "bytes32", "f32wave", "f16x2", "bf16x2"):
        return 32
    if draw.endswith("in64"):
        return 64
    return max(FORMATS[draw].bits if draw in FORMATS else int(draw[1:]), 16)


def _float_edges(f: Format) -> list[int]:
    one, ulp = f.one, 1 << f.padding
    magnitudes = [
        0,
        ulp,  # the smallest subnormal
        f.normal // 2,
        f.normal - ulp,  # the largest subnormal
        f.normal,
        f.normal + ulp,
        one - f.normal,  # a half
        one - ulp,
        one,
        one + ulp,
        one + f.normal // 2,  # one and a half
        f.largest - ulp,
        f.largest,
        f.infinity,
        f.infinity | f.quiet,
        f.infinity | f.quiet | 0x15,
        f.infinity | 1,  # signaling
        f.canonical_nan,
    ]
    return [m | s for m in magnitudes for s in (0, f.sign)]


def _float_extra(f: Format) -> list[int]:
    """Halfway cases of conversions to narrower formats and to integers, and powers of two around their ranges."""
    found = []
    for exponent in (7, 8, 11, 15, 16, 24, 31, 32, 53, 63, 64):
        for number in (2**exponent - 1, 2**exponent, 2**exponent + 1, 2**exponent - 2 ** (exponent - 12)):
            found += [_nearest(f, float(number)), _nearest(f, -float(number))]
    for number in (0.25, 0.5, 0.75, 1.5, 2.5, 3.5, 127.5, 128.5, 254.5, 255.5, 32767.5, 65519.0, 65520.0, 1e-7):
        found += [_nearest(f, number), _nearest(f, -number)]
    for other in FORMATS.values():
        if other.fraction < f.fraction and other.emin >= f.emin:
            step = f.fraction - other.fraction
            half = 1 << (step - 1)
            for bits in (f.one, f.one + (1 << step), f.one + f.normal // 2):
                found += [bits + half - 1, bits + half, bits + half + 1]
            for scale in (other.emin, other.emin - other.fraction, other.emin - other.fraction - 1, other.emax):
                if f.emin < scale <= f.emax:
                    power = (scale + f.emax) << f.fraction
                    found += [power - 1, power, power + 1, power + f.normal // 2, power + f.normal - 1]
    return [b for bits in found for b in (bits, bits ^ f.sign)]


def _nearest(f: Format, number: float) -> int:
    """A number cut to the format: near enough for an input."""
    bits = struct.unpack("<Q", struct.pack("<d", number))[0]
    exponent = (bits >> 52 & 0x7FF) - 1023
    if exponent > f.emax:
        return (bits >> 63) * f.sign | f.largest
    if exponent < f.emin:
        return (bits >> 63) * f.sign | 1
    field = (exponent + f.emax) << f.fraction | (bits & (1 << 52) - 1) >> (52 - f.fraction)
    return (bits >> 63) * f.sign | field


def _integer_edges(width: int) -> list[int]:
    top = 1 << (width - 1)
    mask = 2 * top - 1
    found = [0, 1, 2, 3, mask, mask - 1, top, top - 1, top + 1, 0x5555555555555555 & mask, 10, 7]
    for power in (8, 16, 24, 32):
        if power < width:
            found += [1 << power, (1 << power) - 1, (1 << power) + 1, mask - (1 << power) + 1]
    return found


def _random(draw: str, count: int) -> list[int]:
    chance = random.Random(f"kcheck {draw}")
    width = bits_of(draw)
    if draw in FORMATS:
        f = FORMATS[draw]
        # half of them near one, where sums and products round; half anywhere
        near = [
            chance.getrandbits(1) * f.sign
            | (f.emax + chance.randint(-8, 8)) << f.fraction
            | chance.getrandbits(f.fraction)
            for _ in range(count // 2)
        ]
        return near + [chance.getrandbits(f.bits) for _ in range(count - len(near))]
    if draw == "bytes32" or draw.endswith("x2"):
        return [chance.getrandbits(width) for _ in range(count)]
    # of every length; and sums of few powers of two, which stand at and next to ties
    found = [chance.getrandbits(width) >> chance.randrange(width) for _ in range(count // 2)]
    while len(found) < count:
        few = sum(chance.choice((1, -1)) << chance.randrange(width) for _ in range(chance.choice((2, 3))))
        found.append(few & ((1 << width) - 1))
    return found


@lru_cache(maxsize=64)
def edges(draw: str) -> tuple[int, ...]:
    """The edges of a draw, each once."""
    if draw in ("pred", "carry"):
        return (0, 1)
    if draw == "amount":
        found = [0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 1 << 31, 0xFFFFFFFF]
    elif draw == "field":
        found = [0, 1, 5, 8, 31, 32, 33, 63, 64, 200, 255, 256, 261, 0xFFFFFFFF]
    elif draw == "steps":
        found = [
            0,
            1,
            2,
            3,
            16,
            31,
            32,
            33,
            0x7FFFFFFF,
            0x80000000,
            0xFFFFFFFF,
            0xFFFFFFFE,
            0xFFFFFFF0,
            0xFFFFFFDF,
        ]
    elif draw == "selector":
        found = [0, 1, 2, 3, 0x3210, 0x7654, 0x0123, 0xFEDC, 0xBA98, 0x5410, 0x7632, 0xFFFFFFFF, 0x13579]
    elif draw == "bytes32":
        found = [0, 0xFFFFFFFF, 0x80808080, 0x7F7F7F7F, 0x01020304, 0x80007FFF, 0x7FFF8000, 0xFF00FF00, 0x89ABCDEF]
    elif draw in ("f16x2", "bf16x2"):
        f = FORMATS[draw.removesuffix("x2")]
        half = _float_edges(f)
        found = [low | high << 16 for low, high in zip(half, half[7:] + half[:7], strict=True)]
    elif draw == "f32wave":
        f = FORMATS["f32"]
        found = _float_edges(f) + [
            _nearest(f, sign * number)
            for number in (0.1, 0.5, 0.785398, 1.0, 1.570796, 3.141592, 4.712388, 6.283, 7.0, 100.0, 314.0, 1e6)
            for sign in (1, -1)
        ]
    elif draw.endswith("in64"):
        noise = random.Random(f"noise {draw}")
        inner = draw.removesuffix("in64")
        low = 8 if inner[1:] == "8" else FORMATS[inner].bits if inner in FORMATS else int(inner[1:])
        mask = (1 << low) - 1
        found = [bits & mask | noise.getrandbits(64) & ~mask & (1 << 64) - 1 for bits in edges(inner)]
    elif draw in FORMATS:
        found = _float_edges(FORMATS[draw])
    elif draw[1:] == "8":
        # the register has 16 bits: the upper ones do not count
        found = [n | upper for n in (*_integer_edges(8), 0x7E, 0xAA) for upper in (0, 0xFF00, 0x1200)]
    else:
        found = _integer_edges(int(draw[1:]))
    return tuple(dict.fromkeys(found))


def _single(draw: str) -> list[int]:
    found = list(edges(draw))
    if draw in FORMATS:
        found += _float_extra(FORMATS[draw])
    return list(dict.fromkeys(found + _random(draw, 160)))


@lru_cache(maxsize=128)
def samples(draws: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    """The tuples of source bits that an instruction with these sources is fed."""
    if draws == ("b16",):
        return tuple((bits | bits * 37 % 256 << 8,) for bits in range(256)) + tuple((b,) for b in _single("b16"))
    if len(draws) == 1:
        drawn = [] if bits_of(draws[0]) == 1 else _single(draws[0])
        return tuple((bits,) for bits in drawn or (0, 1))
    chance = random.Random("kcheck " + " ".join(draws))
    limit = PAIRS if len(draws) == 2 else TRIPLES
    sizes = [len(edges(d)) for d in draws]
    total = 1
    for size in sizes:
        total *= size
    if total <= limit:
        chosen = list(itertools.product(*(edges(d) for d in draws)))
    else:
        chosen = [tuple(chance.choice(edges(d)) for d in draws) for _ in range(limit)]
    columns = []
    for place, draw in enumerate(draws):
        if bits_of(draw) == 1 or draw == "carry":
            columns.append([chance.getrandbits(1) for _ in range(160)])
            continue
        column = (
            _random(draw, 160) if draw not in ("amount", "field", "steps", "selector") else list(edges(draw)) * 16
        )
        chance.shuffle(column)
        if place and draw == draws[0]:
            # cancellation and equality are not left to chance
            column = [
                a ^ chance.choice((0, 0, 1, 1 << (bits_of(draw) - 1))) if i % 4 == 0 else b
                for i, (a, b) in enumerate(zip(columns[0], column, strict=False))
            ]
        columns.append(column)
    chosen += list(zip(*columns, strict=False))
    return tuple(dict.fromkeys(chosen))
