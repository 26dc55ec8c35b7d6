"""An invalid spec."""

from __future__ import annotations

from kcheck.rules.rule import Rule

RULE = Rule(
    title="An invalid spec",
    why="The spec cannot be run.",
    fix="`kcheck validate` lists all errors of all specs.",
    example=(
        "A constraint of the spec names a dim that does not exist. `kcheck validate` lists such "
        "errors for all specs without running them."
    ),
    code="""\
@kcheck.op(
    dims={"N": range(1, 64)},
    inputs={"x": ["N"]},
    outputs={"y": ["N"]},
    constraints=["M % 2 == 0"],
    launch={"args": ["x", "y"], "grid": [1], "block": [64]},
    reference=twice,
)
@cuda.jit
def wrong_name(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = 2 * x[i]
""",
)
