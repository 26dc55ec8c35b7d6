"""Race between two threads."""

from __future__ import annotations

from kcheck.rules.rule import Rule

RULE = Rule(
    title="Race between two threads",
    why=(
        "Two threads access the same bytes without synchronization between them, and at least one of "
        "them writes. The result depends on which comes first."
    ),
    fix=(
        "Put `cuda.syncthreads()` (or `cuda.syncwarp()` within a warp) between the two lines, or use "
        "an atomic operation."
    ),
    symptom="races",
    example="A thread reads an element that its neighbor writes, without a barrier between the two.",
    code="""\
def rolled(x):
    return np.roll(x, -1)


@kcheck.op(
    dims={"N": [64]},
    inputs={"x": ["N"]},
    outputs={"y": ["N"]},
    launch={"args": ["x", "y"], "grid": [1], "block": [64]},
    reference=rolled,
)
@cuda.jit
def no_barrier(x, y):
    s = cuda.shared.array(64, float32)
    i = cuda.threadIdx.x
    s[i] = x[i]
    y[i] = s[(i + 1) % 64]
""",
)
