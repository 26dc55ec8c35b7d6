"""An array in local memory."""

from __future__ import annotations

from kcheck.rules.rule import Rule

RULE = Rule(
    title="An array in local memory",
    why="Local memory is off-chip and slow.",
    level="warn",
    fixes={
        "numba": "index it by constants only (unroll the loop), or use shared memory",
    },
    example="The compiler does not know the index into the local array, so the array cannot be in registers.",
    code="""\
@kcheck.op(
    dims={"N": range(1, 64)},
    inputs={"x": ["N"]},
    outputs={"y": ["N"]},
    launch={"args": ["x", "y"], "grid": [1], "block": [64]},
    reference=twice,
)
@cuda.jit
def table(x, y):
    i = cuda.grid(1)
    t = cuda.local.array(16, float32)
    if i < x.size:
        for k in range(16):
            t[k] = k * x[i]
        y[i] = 2 * x[i] + float32(0) * t[x.size % 16]
""",
)
