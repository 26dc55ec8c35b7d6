"""A spec that a wrong kernel would pass."""

from __future__ import annotations

from kcheck.rules.rule import Rule

RULE = Rule(
    title="A spec that a wrong kernel would pass",
    why=(
        "A kernel that writes zeros, a constant or a copy of an input would pass every case of this "
        "spec, so the spec tests nothing."
    ),
    fix="Add value distributions for which the output is not trivial, or an invariant.",
    example="A kernel that writes zeros would pass with these inputs.",
    code="""\
@kcheck.op(
    dims={"N": range(1, 64)},
    inputs={"x": {"shape": ["N"], "values": "zeros"}},
    outputs={"y": ["N"]},
    launch={"args": ["x", "y"], "grid": [1], "block": [64]},
    reference=twice,
)
@cuda.jit
def only_zeros(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = 2 * x[i]
""",
)
