"""Where an H100, with code of ptxas 13.0, does not do what the PTX ISA says. kcheck follows the ISA, so tests on
a CUDA device leave these instructions out."""

from __future__ import annotations

import re

_DIFFERENCES = {
    r"v(add|sub|absdiff|min|max|shl|shr|set|mad)\.": (
        "scalar video instructions: no 33rd bit between the operations; .h1 of a result takes the upper half"
    ),
    r"bf[ei]\.[bsu]64": "positions and lengths are not taken modulo 256",
    r"fns\.b32": "for the offset -2**31 the result is 0",
    r"cvt\.r[mp]\.ftz(\.sat)?\.f16\.f32": "subnormal sources are not flushed",
    r"cvt\.f64\.f64|(atom|red)\.global\.add\.f64": "a signaling NaN stays one",
    r"cvt\.rna(\.satfinite)?\.tf32\.f32": "a NaN whose upper bits are zero becomes infinite",
    r"tanh\.approx\.bf16": "the error is up to 2**-7.6; the ISA says 2**-8",
    r"ex2\.approx\.f16": "subnormal results are off by up to one unit",
}
_ANY = re.compile("|".join(f"(?:{pattern})" for pattern in _DIFFERENCES))


def differs(instruction: str) -> bool:
    """Whether a device does something else than the ISA says."""
    return _ANY.match(instruction) is not None
