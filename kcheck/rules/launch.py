"""A failed launch."""

from __future__ import annotations

from kcheck.rules.rule import Rule

RULE = Rule(
    title="A failed launch",
    why="The kernel could not be launched, or raised an exception while it ran.",
    example="The kernel raises an exception.",
    code="""\
@kcheck.op(
    dims={"N": range(1, 64)},
    inputs={"x": ["N"]},
    outputs={"y": ["N"]},
    launch={"args": ["x", "y"], "grid": [1], "block": [64]},
    reference=twice,
)
@cuda.jit
def refuses(x, y):
    i = cuda.grid(1)
    if x.size > 1:
        raise ValueError("rows must have one element")
    if i < x.size:
        y[i] = 2 * x[i]
""",
)
