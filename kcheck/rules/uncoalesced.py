"""Uncoalesced memory access."""

from __future__ import annotations

from kcheck.rules.rule import Rule

RULE = Rule(
    title="Uncoalesced memory access",
    why="The lanes of a warp access more memory sectors than necessary.",
    fix="Let neighboring threads access neighboring elements.",
    level="warn",
    fixes={
        "numba": "make neighboring threads access neighboring elements, through shared memory if necessary",
        "triton": "make the last axis of the block the contiguous one, or mark it with tl.max_contiguous",
    },
    example="Neighboring threads read elements that are 64 bytes apart, each in its own sector.",
    code="""\
def sampled(x):
    return 2 * x[::16]


@kcheck.op(
    dims={"N": [64, 128, 256]},
    inputs={"x": ["16 * N"]},
    outputs={"y": ["N"]},
    launch={"args": ["x", "y"], "grid": ["ceildiv(N, 64)"], "block": [64]},
    reference=sampled,
)
@cuda.jit
def every_16th(x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = 2 * x[16 * i]
""",
)
