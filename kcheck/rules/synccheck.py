"""Invalid barrier."""

from __future__ import annotations

from kcheck.rules.rule import Rule

RULE = Rule(
    title="Invalid barrier",
    why=(
        "Some threads do not reach a barrier that others wait at, or a mask of `syncwarp`, `shfl` or "
        "`vote` does not match the threads that call it. On a GPU this hangs or is undefined."
    ),
    fix="Move the barrier out of the branch, so that every thread of the block reaches it.",
    symptom="invalid barriers",
    fixes={
        "triton": "check the inline assembly: Triton itself places barriers that all threads reach",
    },
    example="Only some threads reach the barrier.",
    code="""\
@kcheck.op(
    dims={"N": range(1, 64)},
    inputs={"x": ["N"]},
    outputs={"y": ["N"]},
    launch={"args": ["x", "y"], "grid": [1], "block": [64]},
    reference=twice,
)
@cuda.jit
def barrier_in_branch(x, y):
    s = cuda.shared.array(64, float32)
    i = cuda.threadIdx.x
    if i < x.size:
        s[i] = x[i]
        cuda.syncthreads()
        y[i] = 2 * s[i]
""",
)
