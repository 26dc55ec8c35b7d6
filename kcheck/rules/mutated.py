"""A modified input."""

from __future__ import annotations

from kcheck.rules.rule import Rule

RULE = Rule(
    title="A modified input",
    why="The kernel changed an array that is an input.",
    fix="Write to an output instead, or name the input in `mutates:` of the spec if the change is intended.",
    symptom="modified inputs",
    example="The kernel changes its input.",
    code="""\
@kcheck.op(
    dims={"N": range(1, 64)},
    inputs={"x": ["N"]},
    outputs={"y": ["N"]},
    launch={"args": ["x", "y"], "grid": [1], "block": [64]},
    reference=twice,
)
@cuda.jit
def in_place(x, y):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2
        y[i] = x[i]
""",
)
