"""Unintended float64 arithmetic."""

from __future__ import annotations

from kcheck.rules.rule import Rule

RULE = Rule(
    title="Unintended float64 arithmetic",
    why="Most GPUs compute in float64 at a small fraction of the float32 rate.",
    fix="Convert the constant or the operand: `np.float32(0.5)`.",
    level="warn",
    fixes={
        "triton": "leave out what makes a float64 tensor, such as .to(tl.float64): a Python float does not",
        "cpp": "write constants as 0.5f, and call the functions for floats, such as sqrtf()",
        "ptx": "use the .f32 form",
    },
    example="The constants are float64, and so are the products.",
    code="""\
@kcheck.op(
    dims={"N": range(1, 64)},
    inputs={"x": ["N"]},
    outputs={"y": ["N"]},
    launch={"args": ["x", "y"], "grid": [1], "block": [64]},
    reference=twice,
)
@cuda.jit
def wide_constant(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = 0.1 * x[i] + 1.9 * x[i]
""",
)
