"""Elements of an output are not written."""

from __future__ import annotations

from kcheck.rules.rule import Rule

RULE = Rule(
    title="Elements of an output are not written",
    why=(
        "The kernel leaves elements of an output as they were before the launch. They hold whatever was in memory."
    ),
    fix="Check that the grid covers the whole output, tails included.",
    symptom="unwritten elements",
    example="The grid is rounded down, so the last elements are not written.",
    code="""\
@kcheck.op(
    dims={"N": range(64, 300)},
    inputs={"x": ["N"]},
    outputs={"y": ["N"]},
    launch={"args": ["x", "y"], "grid": ["N // 64"], "block": [64]},
    reference=twice,
)
@cuda.jit
def no_tail(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = 2 * x[i]
""",
)
