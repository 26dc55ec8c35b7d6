"""Matrix products of a warp, element by element, in integers.

Source: PTX ISA, "Matrix Fragments for mma..." for where elements lie; arXiv:2511.10909, section IV, for how tensor
cores add up floats (sm_75 to sm_89: 24 bits behind the point, f8 on sm_89: 13; from sm_90 on 25).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Place = Callable[[int, int, int], tuple[int, int]]
"""(element, group, rank) to (row, column)."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a lane's elements of A and B lie, as the ISA has it for one shape.

    Attributes:
        a, b: the place of an element.
        counts: elements of A, B and C in a lane.
    """

    m: int
    k: int
    bits: int
    a: Place
    b: Place

    @property
    def counts(self) -> tuple[int, int, int]:
        return self.m * self.k // 32, self.k * 8 // 32, self.m * 8 // 32


def c_place(i: int, group: int, rank: int) -> tuple[int, int]:
    """The place of an element of C or D in every shape."""
    return group + (8 if i > 1 else 0), 2 * rank + i % 2


def _in(i: int, *ranges: range) -> bool:
    return any(i in r for r in ranges)


LAYOUTS = {
    ("m8n8k4", 64): Layout(8, 4, 64, lambda i, g, t: (g, t), lambda i, g, t: (t, g)),
    ("m16n8k4", 64): Layout(16, 4, 64, lambda i, g, t: (g + 8 * i, t), lambda i, g, t: (t, g)),
    ("m16n8k4", 32): Layout(16, 4, 32, lambda i, g, t: (g + 8 * i, t), lambda i, g, t: (t, g)),
    ("m16n8k8", 32): Layout(
        16,
        8,
        32,
        lambda i, g, t: (g if i in (0, 2) else g + 8, t if i < 2 else t + 4),
        lambda i, g, t: (t if i == 0 else t + 4, g),
    ),
    ("m16n8k8", 16): Layout(
        16, 8, 16, lambda i, g, t: (g if i < 2 else g + 8, 2 * t + i % 2), lambda i, g, t: (2 * t + i, g)
    ),
    ("m16n8k16", 16): Layout(
        16,
        16,
        16,
        lambda i, g, t: (g if i in (0, 1, 4, 5) else g + 8, 2 * t + i % 2 + (8 if i >= 4 else 0)),
        lambda i, g, t: (2 * t + i % 2 + (8 if i >= 2 else 0), g),
    ),
    ("m8n8k16", 8): Layout(8, 16, 8, lambda i, g, t: (g, 4 * t + i), lambda i, g, t: (4 * t + i, g)),
    ("m16n8k16", 8): Layout(
        16, 16, 8, lambda i, g, t: (g if i < 4 else g + 8, 4 * t + i % 4), lambda i, g, t: (4 * t + i, g)
    ),
    ("m16n8k32", 8): Layout(
        16,
        32,
        8,
        lambda i, g, t: (
            g if _in(i, range(4), range(8, 12)) else g + 8,
            4 * t + i % 4 + (16 if i >= 8 else 0),
        ),
        lambda i, g, t: (4 * t + i % 4 + (16 if i >= 4 else 0), g),
    ),
    ("m8n8k32", 4): Layout(8, 32, 4, lambda i, g, t: (g, 8 * t + i), lambda i, g, t: (8 * t + i, g)),
    ("m16n8k32", 4): Layout(
        16, 32, 4, lambda i, g, t: (g if i < 8 else g + 8, 8 * t + i % 8), lambda i, g, t: (8 * t + i, g)
    ),
    ("m16n8k64", 4): Layout(
        16,
        64,
        4,
        lambda i, g, t: (
            g if _in(i, range(8), range(16, 24)) else g + 8,
            8 * t + i % 8 + (32 if i >= 16 else 0),
        ),
        lambda i, g, t: (8 * t + i % 8 + (32 if i >= 8 else 0), g),
    ),
    ("m8n8k128", 1): Layout(8, 128, 1, lambda i, g, t: (g, 32 * t + i), lambda i, g, t: (32 * t + i, g)),
    ("m16n8k128", 1): Layout(
        16, 128, 1, lambda i, g, t: (g if i < 32 else g + 8, 32 * t + i % 32), lambda i, g, t: (32 * t + i, g)
    ),
    ("m16n8k256", 1): Layout(
        16,
        256,
        1,
        lambda i, g, t: (
            g if _in(i, range(32), range(64, 96)) else g + 8,
            32 * t + i % 32 + (128 if i >= 64 else 0),
        ),
        lambda i, g, t: (32 * t + i % 32 + (128 if i >= 32 else 0), g),
    ),
}
"""By shape and bits of an element."""


@dataclass(frozen=True, slots=True)
class Format:
    """A binary format: bits of the exponent and the fraction; ``finite``: only all ones are a NaN (e4m3)."""

    exponent: int
    fraction: int
    finite: bool = False

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    def split(self, code: int) -> tuple[int, int] | str:
        """(signed significand in units of 2**-fraction, exponent), or ``nan``, ``inf``, ``-inf``."""
        fraction = code & ((1 << self.fraction) - 1)
        field = code >> self.fraction & ((1 << self.exponent) - 1)
        negative = code >> (self.fraction + self.exponent) & 1
        top = field == (1 << self.exponent) - 1
        if top and not self.finite:
            return "nan" if fraction else ("-inf" if negative else "inf")
        if top and self.finite and fraction == (1 << self.fraction) - 1:
            return "nan"
        size = fraction if field == 0 else fraction | 1 << self.fraction
        exponent = -126 if size == 0 else max(field, 1) - self.bias
        return (-size if negative else size), exponent


F16, BF16, F32 = Format(5, 10), Format(8, 7), Format(8, 23)
FORMATS = {"f16": F16, "bf16": BF16, "f32": F32, "tf32": F32, "e4m3": Format(4, 3, True), "e5m2": Format(5, 2)}


def fused(
    a: Sequence[int], b: Sequence[int], c: int, formats: tuple[str, str, str], fraction: int, kept: int
) -> int:
    """The bits of c + a . b, added up at once.

    Args:
        a, b, c: bits.
        formats: of a, b and c; the result has that of c.
        fraction: bits behind the point of an aligned term.
        kept: fraction bits of an f32 result.
    """
    x, y, z = (FORMATS[f] for f in formats)
    split = [(x.split(i), y.split(j)) for i, j in zip(a, b, strict=True)]
    own = z.split(c)
    odd = _special(split, own)
    if odd:
        nan, infinite = (0x7FFF, 0x7C00) if z is F16 else (0x7FFFFFFF, 0x7F800000)
        return nan if odd == "nan" else infinite | (0 if odd == "inf" else 1 << (z.exponent + z.fraction))
    assert not isinstance(own, str)
    terms = [(own[0], own[1], z.fraction)]
    for p, q in split:
        assert not isinstance(p, str)
        assert not isinstance(q, str)
        terms.append((p[0] * q[0], p[1] + q[1] if p[0] * q[0] else -126, x.fraction + y.fraction))
    largest = max(exponent for _, exponent, _ in terms)
    total = 0
    for size, exponent, places in terms:
        total += _shifted(size, fraction - places + exponent - largest)
    return _rounded(total, largest - fraction, z, kept)


def _special(split: Sequence[tuple[object, object]], own: object) -> str:
    found = {own} if isinstance(own, str) else set()
    for p, q in split:
        if isinstance(p, str) or isinstance(q, str):
            if "nan" in (p, q) or (not isinstance(p, str) and p[0] == 0) or (not isinstance(q, str) and q[0] == 0):  # type: ignore[index]
                return "nan"
            found.add("-inf" if _negative(p) != _negative(q) else "inf")
    if "nan" in found or {"inf", "-inf"} <= found:
        return "nan"
    return str(found.pop()) if found else ""


def _negative(part: object) -> bool:
    return part == "-inf" if isinstance(part, str) else part[0] < 0  # type: ignore[index]


def _shifted(size: int, places: int) -> int:
    """Times 2**places, cut towards 0."""
    if places >= 0:
        return size << places
    return -(-size >> -places) if size < 0 else size >> -places


def _rounded(total: int, unit: int, z: Format, kept: int) -> int:
    """The bits of total * 2**unit: f16 rounded to nearest even, f32 cut."""
    size, sign = abs(total), int(total < 0) << (z.exponent + z.fraction)
    if not size:
        return 0
    least = 1 - z.bias
    exponent = max(size.bit_length() - 1 + unit, least)
    fraction = z.fraction if z is F16 else kept
    drop = exponent - fraction - unit
    if drop > 0:
        rest = size & ((1 << drop) - 1)
        size >>= drop
        if z is F16 and (rest > 1 << (drop - 1) or (rest == 1 << (drop - 1) and size & 1)):
            size += 1
    else:
        size <<= -drop
    size <<= z.fraction - fraction
    if not size and z is F16:
        return 0
    if size >> (z.fraction + 1):
        size, exponent = size >> 1, exponent + 1
    if exponent > z.bias:
        return sign | ((1 << z.exponent) - 1) << z.fraction
    field = exponent + z.bias if size >> z.fraction else 0
    return sign | field << z.fraction | size & ((1 << z.fraction) - 1)
