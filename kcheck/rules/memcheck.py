"""Invalid memory access."""

from __future__ import annotations

from kcheck.rules.rule import Rule

RULE = Rule(
    title="Invalid memory access",
    why=(
        "A thread accesses memory outside an array, freed memory, or an address that is not aligned "
        "to the access. On a GPU this corrupts other data or stops the program."
    ),
    fix="Compare the index with the size of the array before you use it: `if i < x.size:`.",
    symptom="invalid accesses",
    example="The last block has threads beyond the end of the arrays.",
    code="""\
@kcheck.op(
    dims={"N": range(1, 300)},
    inputs={"x": ["N"]},
    outputs={"y": ["N"]},
    launch={"args": ["x", "y"], "grid": ["ceildiv(N, 64)"], "block": [64]},
    reference=twice,
)
@cuda.jit
def no_guard(x, y):
    i = cuda.grid(1)
    y[i] = 2 * x[i]
""",
)
