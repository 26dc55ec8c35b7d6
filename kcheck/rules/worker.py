"""A case that ends the process."""

from __future__ import annotations

from kcheck.rules.rule import Rule

RULE = Rule(
    title="A case that ends the process",
    why="With `--jobs`, two worker processes ended while they ran this case.",
    fix="Look for code that exits the process or runs out of memory.",
    example=(
        "The reference exits the process. With `--jobs 2`, another worker runs the case again; if "
        "that one also dies, the run continues with the next case. Without `--jobs`, the whole run "
        "ends."
    ),
    options=("--jobs", "2"),
    code="""\
import os


def ends(x):
    os._exit(1)


@kcheck.op(
    dims={"N": range(1, 64)},
    inputs={"x": ["N"]},
    outputs={"y": ["N"]},
    launch={"args": ["x", "y"], "grid": [1], "block": [64]},
    reference=ends,
)
@cuda.jit
def correct(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = 2 * x[i]
""",
)
