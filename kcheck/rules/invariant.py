"""A broken invariant."""

from __future__ import annotations

from kcheck.rules.rule import Rule

RULE = Rule(
    title="A broken invariant",
    why="The output violates an invariant of the spec.",
    fix="Run the replay command to see the elements.",
    symptom="broken invariants",
    example=(
        "The output violates an invariant of the spec, here that it is not negative. The reference "
        "has the same error."
    ),
    code="""\
def same(x):
    return x


@kcheck.op(
    dims={"N": range(1, 64)},
    inputs={"x": ["N"]},
    outputs={"y": ["N"]},
    invariants=[{"non_negative": "y"}],
    launch={"args": ["x", "y"], "grid": [1], "block": [64]},
    reference=same,
)
@cuda.jit
def keeps_sign(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i]
""",
)
