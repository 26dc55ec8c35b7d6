"""The rules: one file for each. It says what the rule finds, why that matters and how to fix it, in each kernel
language, with an example. docs/rules.md, the rules in SARIF and the help in HTML reports come from these files.

To add a rule, write its file and add its id to this list.
"""

from __future__ import annotations

import functools
from importlib import import_module

from kcheck.rules.rule import Rule

__all__ = ["ADVICE", "NAMES", "Rule", "rule", "symptom"]

ADVICE = ("f64-in-f32", "uncoalesced", "bank-conflict", "division", "printf", "spills", "local-array")
"""Warnings about compiled code, in the order of reports."""

NAMES = (
    "memcheck",
    "racecheck",
    "synccheck",
    "initcheck",
    "leakcheck",
    "unwritten",
    "overflow",
    "mutated",
    "nondeterministic",
    "mismatch",
    "invariant",
    "vacuous",
    "output",
    "reference",
    "compile",
    "artifact",
    "timeout",
    "launch",
    "api-error",
    "spec",
    "worker",
    "guard",
    "unchecked",
    "calibration",
    "unsupported",
    *ADVICE,
)
"""Every rule, in the order of docs/rules.md."""


@functools.cache
def rule(name: str) -> Rule:
    """The rule with this id; an unknown rule has its id as the title."""
    if name not in NAMES:
        return Rule(name, f"A finding of `{name}`.")
    found: Rule = import_module(f"kcheck.rules.{name.replace('-', '_')}").RULE
    return found


def symptom(name: str) -> str:
    """The findings of a rule as a plural noun, for counts."""
    return rule(name).symptom or name
