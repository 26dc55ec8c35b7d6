"""The wording of numbers, indices and counts, the same in every report for people."""

from __future__ import annotations

import math
from datetime import datetime

from kcheck.model import DTYPES, Distribution

Value = float | complex | int | bool | None


def digits(dtype: str) -> int:
    """Significant decimal digits that distinguish any two neighbors: 1 + ceil(p log10 2) (Matula 1968)."""
    row = DTYPES.get(dtype)
    return 1 + math.ceil(row.precision * math.log10(2)) if row is not None and row.precision else 17


def value(number: Value, dtype: str) -> str:
    """``actual`` or ``expected``, with as many digits as its dtype has."""
    if number is None:
        return "-"
    if isinstance(number, bool | int):
        return str(number)
    if isinstance(number, complex):
        imaginary = _real(number.imag, digits(dtype))
        sign = "" if imaginary.startswith("-") else "+"
        return f"{_real(number.real, digits(dtype))}{sign}{imaginary}j"
    return _real(number, digits(dtype))


def _real(number: float, significant: int) -> str:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Inf" if number > 0 else "-Inf"
    return f"{number:.{significant}g}"


def measure(number: float) -> str:
    """An error, a tolerance or a noise floor, with three digits."""
    return _real(number, 3)


def ulps(number: float) -> str:
    """Units in the last place: an integer from 100 to 1e9, otherwise three significant digits."""
    return f"{number:,.0f}" if 100 <= number < 1e9 else measure(number)


def share(part: int, whole: int) -> str:
    """``65 of 650 elements (10%)``. A nonzero share is never shown as 0%, and an incomplete one never as 100%."""
    noun = "element" if whole == 1 else "elements"
    if not whole:
        return f"{part} of {whole} {noun}"
    percent = 100.0 * part / whole
    if part and percent < 0.01:
        text = "<0.01%"
    elif part < whole and percent > 99.99:
        text = ">99.99%"
    else:
        text = f"{percent:.4g}%"
    return f"{part:,} of {whole:,} {noun} ({text})"


def element(array: str, index: tuple[int, ...] | None) -> str:
    """``y[0, 64]``; only the name if there is no index, or for a 0-d array."""
    return f"{array}[{', '.join(str(i) for i in index)}]" if index else array


def moment(at: datetime) -> str:
    """A time on this machine's clock, to the minute: ``2026-11-20 14:30``."""
    return at.astimezone().strftime("%Y-%m-%d %H:%M")


def seconds(duration: float) -> str:
    """A wall time for people: ``0.04 s``, ``3.2 s``, ``2 min 05 s``."""
    if duration < 0.95:
        return f"{duration:.2f} s"
    if duration < 99.95:
        return f"{duration:.1f} s"
    minutes, rest = divmod(round(duration), 60)
    return f"{minutes} min {rest:02d} s"


def drawn(distribution: Distribution) -> str:
    """The distribution of an input's values;
    ``stored`` if the case contains them, as after ``kcheck minimize``."""
    return "stored" if distribution.name == "held" else str(distribution)


def count(number: int, noun: str) -> str:
    """``1 case``, ``2 cases``, ``1,024 cases``."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
