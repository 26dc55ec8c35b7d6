"""A kernel that prints."""

from __future__ import annotations

from kcheck.rules.rule import Rule

RULE = Rule(
    title="A kernel that prints",
    why="Printing is slow and serializes threads.",
    fix="Remove it.",
    level="warn",
    example="The kernel prints.",
    code="""\
@kcheck.op(
    dims={"N": range(1, 64)},
    inputs={"x": ["N"]},
    outputs={"y": ["N"]},
    launch={"args": ["x", "y"], "grid": [1], "block": [64]},
    reference=twice,
)
@cuda.jit
def prints(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = 2 * x[i]
        if i == 63:
            print(i)
""",
)
