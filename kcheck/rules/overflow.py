"""Integer overflow in an address."""

from __future__ import annotations

from kcheck.rules.rule import Rule

RULE = Rule(
    title="Integer overflow in an address",
    why=(
        "32-bit arithmetic wraps around on its way to an address, so the kernel accesses the wrong "
        "element of a large array."
    ),
    fix="Compute the index in 64 bits.",
    level="warn",
    symptom="integer overflows",
    example=(
        "The offset of a row is computed in 32 bits. With 2^26 elements per row, the offset of row 64 "
        "wraps around to 0, so the kernel reads a wrong element without leaving the array."
    ),
    code="""\
@kcheck.op(
    dims={"N": [64]},
    inputs={"x": ["N"]},
    outputs={"y": ["N"]},
    launch={"args": ["x", "y"], "grid": [1], "block": [64]},
    reference=twice,
)
@cuda.jit
def narrow_offset(x, y):
    i = cuda.grid(1)
    start = int32(x.size * (1 << 26))
    if start + i < x.size:
        y[i] = 2 * x[start + i]
""",
)
