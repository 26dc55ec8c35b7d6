"""Wrong number, shape or dtype of outputs."""

from __future__ import annotations

from kcheck.rules.rule import Rule

RULE = Rule(
    title="Wrong number, shape or dtype of outputs",
    why="A function returned a different number of outputs, or an output of another shape or dtype.",
    fix="Return the arrays that the spec declares, with the dtype of the case.",
    example="An array function returns a dtype that differs from the spec.",
    code="""\
@kcheck.op(dims={"N": range(1, 64)}, inputs={"x": ["N"]}, outputs={"y": ["N"]}, reference=twice)
def wider(x):
    return 2 * x.astype(np.float64)
""",
)
