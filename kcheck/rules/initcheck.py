"""Use of uninitialized memory."""

from __future__ import annotations

from kcheck.rules.rule import Rule

RULE = Rule(
    title="Use of uninitialized memory",
    why="A branch, an address or a stored value depends on memory that was never written.",
    fix="Write the memory before it is read, for every index and every thread that reads it.",
    symptom="uninitialized reads",
    fixes={
        "triton": "write the element first (torch.empty does not), or leave it out with mask= and other=",
    },
    example="The kernel reads shared memory that no thread has written.",
    code="""\
@kcheck.op(
    dims={"N": range(1, 64)},
    inputs={"x": ["N"]},
    outputs={"y": ["N"]},
    launch={"args": ["x", "y"], "grid": [1], "block": [64]},
    reference=twice,
)
@cuda.jit
def not_filled(x, y):
    s = cuda.shared.array(64, float32)
    i = cuda.threadIdx.x
    if i < x.size:
        y[i] = 2 * x[i] + s[i]
""",
)
