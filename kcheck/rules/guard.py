"""Write outside an array."""

from __future__ import annotations

from kcheck.rules.rule import Rule

RULE = Rule(
    title="Write outside an array",
    why="Bytes next to an array changed during the launch.",
    fix="Compare the index with the size of the array before you write.",
    symptom="writes outside an array",
    no_example=(
        "a write next to an array that changed the guard bytes around it. The cpu device and the "
        "simulator report such a write as `memcheck`, with its line; only the gpu device reports "
        "`guard`."
    ),
)
