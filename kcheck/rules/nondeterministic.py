"""Results vary with the schedule."""

from __future__ import annotations

from kcheck.rules.rule import Rule

RULE = Rule(
    title="Results vary with the schedule",
    why="Running blocks, warps or lanes in another order changes the output.",
    fix="Look for a race, or for floating-point atomics, whose order of additions varies.",
    symptom="varying results",
    example="Which element a thread writes depends on when it reaches the counter.",
    code="""\
def same(x):
    return x


@kcheck.op(
    dims={"N": [64]},
    inputs={"x": ["N"]},
    outputs={"y": ["N"]},
    launch={"args": ["x", "y"], "grid": [1], "block": [64]},
    reference=same,
)
@cuda.jit
def ticket(x, y):
    taken = cuda.shared.array(1, int32)
    i = cuda.threadIdx.x
    if i == 0:
        taken[0] = 0
    cuda.syncthreads()
    y[cuda.atomic.add(taken, 0, 1)] = x[i]
""",
)
