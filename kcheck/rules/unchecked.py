"""A sanitizer did not finish."""

from __future__ import annotations

from kcheck.rules.rule import Rule

RULE = Rule(
    title="A sanitizer did not finish",
    why=(
        "With a sanitizer, the case took longer than half of the time limit. It ran without, so it is "
        "not known whether the sanitizer would find anything."
    ),
    fix="Raise `--timeout`, or choose smaller sizes.",
    no_example=(
        "a sanitizer that the command line names did not finish checking a case within half of the "
        "time limit, so it is not known whether it would find anything. How much it checks in that "
        "time depends on the machine."
    ),
)
