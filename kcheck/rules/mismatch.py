"""Output differs from the reference."""

from __future__ import annotations

from kcheck.rules.rule import Rule

RULE = Rule(
    title="Output differs from the reference",
    why=("Elements of an output differ from the reference, computed in float64, by more than rounding explains."),
    fix="Run the replay command, then `kcheck minimize` for the smallest failing case.",
    symptom="wrong values",
    example="A constant is wrong.",
    code="""\
@kcheck.op(
    dims={"N": range(1, 64)},
    inputs={"x": ["N"]},
    outputs={"y": ["N"]},
    launch={"args": ["x", "y"], "grid": [1], "block": [64]},
    reference=twice,
)
@cuda.jit
def wrong_factor(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = 2.001 * x[i]
""",
)
