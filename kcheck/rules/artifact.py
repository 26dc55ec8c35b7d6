"""The compiled kernel exceeds a limit."""

from __future__ import annotations

from kcheck.rules.rule import Rule

RULE = Rule(
    title="The compiled kernel exceeds a limit",
    why="The compiled kernel violates `artifact:` of the spec: registers, spills, local memory, patterns.",
    fix="`kcheck lint` shows the numbers.",
    example="The compiled kernel exceeds a limit of the spec.",
    code="""\
@kcheck.op(
    dims={"N": range(1, 64)},
    inputs={"x": ["N"]},
    outputs={"y": ["N"]},
    artifact={"max_registers": 4},
    launch={"args": ["x", "y"], "grid": [1], "block": [64]},
    reference=twice,
)
@cuda.jit
def few_registers(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = 2 * x[i]
""",
)
