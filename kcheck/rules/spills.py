"""Spilled registers."""

from __future__ import annotations

from kcheck.rules.rule import Rule

RULE = Rule(
    title="Spilled registers",
    why="Registers are spilled to local memory, which is off-chip.",
    level="warn",
    fixes={
        "numba": "keep fewer values alive at a time, unroll less, or allow more registers",
        "triton": "use smaller blocks or more warps (num_warps), or keep fewer tensors alive at a time",
    },
    no_example=(
        "the assembler spills registers to local memory. An example would be long and depend on the "
        "version of the assembler."
    ),
)
