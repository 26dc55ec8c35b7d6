"""The kernel did not finish."""

from __future__ import annotations

from kcheck.rules.rule import Rule

RULE = Rule(
    title="The kernel did not finish",
    why="The launch took longer than the time limit, or the launcher, the reference or a generator did.",
    fix="Look for a loop that does not end; for a slow kernel, raise `--timeout` or choose smaller sizes.",
    example=(
        "The loop never ends. `--timeout 2` stops a case after two seconds; the default is 20. After "
        "such a case, the smaller ones run next, so that a bug in them is found even if large cases "
        "take too long. After three such cases, a note says how many others were not run."
    ),
    options=("--timeout", "2"),
    code="""\
@kcheck.op(
    dims={"N": range(1, 64)},
    inputs={"x": ["N"]},
    outputs={"y": ["N"]},
    launch={"args": ["x", "y"], "grid": [1], "block": [64]},
    reference=twice,
)
@cuda.jit
def waits_for_ever(x, y):
    i = cuda.grid(1)
    left = x.size
    while left > 0:
        left += 1 - x.size // x.size
    if i < x.size:
        y[i] = 2 * x[i]
""",
)
