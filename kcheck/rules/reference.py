"""The reference cannot be used."""

from __future__ import annotations

from kcheck.rules.rule import Rule

RULE = Rule(
    title="The reference cannot be used",
    why=(
        "The reference raised an exception or returned something other than the declared outputs, so "
        "the case was not checked."
    ),
    fix="Fix the reference.",
    example="The reference raises an exception, so the case has no verdict.",
    code="""\
def broken(x):
    return x[x.size]


@kcheck.op(dims={"N": range(1, 64)}, inputs={"x": ["N"]}, outputs={"y": ["N"]}, reference=broken)
def correct(x):
    return 2 * x
""",
)
