"""The kernel does not compile."""

from __future__ import annotations

from kcheck.rules.rule import Rule

RULE = Rule(
    title="The kernel does not compile",
    why="The compiler rejected the kernel for these types.",
    example="The kernel is not valid for the types of its arguments.",
    code="""\
@kcheck.op(
    dims={"N": range(1, 64)},
    inputs={"x": ["N"]},
    outputs={"y": ["N"]},
    launch={"args": ["x", "y"], "grid": [1], "block": [64]},
    reference=twice,
)
@cuda.jit
def no_such_attribute(x, y):
    y[0] = x.length
""",
)
