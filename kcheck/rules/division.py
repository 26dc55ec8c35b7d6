"""A division in a loop."""

from __future__ import annotations

from kcheck.rules.rule import Rule

RULE = Rule(
    title="A division in a loop",
    why="Divisions are slow.",
    fix="Multiply by the reciprocal outside the loop.",
    level="warn",
    example="Every iteration of the loop divides by the same number.",
    code="""\
@kcheck.op(
    dims={"N": range(1, 64)},
    inputs={"x": ["N"]},
    outputs={"y": ["N"]},
    launch={"args": ["x", "y"], "grid": [1], "block": [64]},
    reference=twice,
)
@cuda.jit
def divides(x, y):
    i = cuda.grid(1)
    if i < x.size:
        total = float32(0)
        for k in range(x.size):
            total += x[k] / x[i]
        y[i] = 2 * x[i] + float32(0) * total
""",
)
