"""docs/rules.md: each example is run, and kcheck says of it what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest
from rule_examples import PAGE, examples, messages

from kcheck.device.cpu import missing
from kcheck.report.rules import RULES

PAGE_TEXT = PAGE.read_text("utf-8")
ELSEWHERE = {
    "guard",  # found on the gpu only
    "worker",
    "spec",
    "unsupported",
    "calibration",
    "timeout",
    "launch",
    "overflow",
    # docs/lint.md has the rules of compiled code.
    "f64-in-f32",
    "uncoalesced",
    "bank-conflict",
    "division",
    "printf",
    "spills",
    "local-array",
}


def test_every_rule_has_an_example_or_is_named_here() -> None:
    """A new rule needs one."""
    assert set(examples(PAGE_TEXT)) == set(RULES) - ELSEWHERE


@pytest.mark.slow
@pytest.mark.skipif(bool(missing()), reason=missing())
def test_the_page_has_what_a_run_says(tmp_path: Path) -> None:
    """Word for word; `make rules` writes it."""
    said = {rule: told for rule, (_, told) in examples(PAGE_TEXT).items()}
    assert messages(PAGE_TEXT, tmp_path) == said
    assert not [rule for rule, told in said.items() if told == "nothing\n"]
