"""Shared memory bank conflict."""

from __future__ import annotations

from kcheck.rules.rule import Rule

RULE = Rule(
    title="Shared memory bank conflict",
    why="Lanes of a warp access different words in one bank of shared memory, one after another.",
    fix="Pad the rows of the shared array by one element.",
    level="warn",
    fixes={
        "numba": "pad each row of the shared array by one element",
        "triton": "try another block size or num_warps: Triton chooses the layout of shared memory",
    },
    example=(
        "The lanes of a warp read a column of a shared array whose rows have 32 elements, so all "
        "lanes access the same bank."
    ),
    code="""\
def transposed(x):
    return x.T


@kcheck.op(
    dims={"N": [32]},
    inputs={"x": ["N", "N"]},
    outputs={"y": ["N", "N"]},
    launch={"args": ["x", "y"], "grid": [1], "block": ["N", "N"]},
    reference=transposed,
)
@cuda.jit
def one_bank(x, y):
    s = cuda.shared.array((32, 32), float32)
    column, row = cuda.threadIdx.x, cuda.threadIdx.y
    s[row, column] = x[row, column]
    cuda.syncthreads()
    y[row, column] = s[column, row]
""",
)
