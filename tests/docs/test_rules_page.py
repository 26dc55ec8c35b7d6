"""docs/rules.md: each example is run, and kcheck says of it what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rule_examples import PAGE, examples, messages

from kcheck.device.cpu import missing
from kcheck.report.rules import RULES

PAGE_TEXT = PAGE.read_text("utf-8")
WITHOUT = re.findall(r"^- `([\w-]+)`: ", PAGE_TEXT.partition("\n## Without an example\n")[2], re.MULTILINE)
"""The page says why."""


def test_every_rule_has_an_example_or_a_reason_why_not() -> None:
    """A new rule needs one of both."""
    assert WITHOUT
    assert sorted([*examples(PAGE_TEXT), *WITHOUT]) == sorted(RULES)


@pytest.mark.slow
@pytest.mark.skipif(bool(missing()), reason=missing())
def test_the_page_has_what_a_run_says(tmp_path: Path) -> None:
    """Word for word; `make rules` writes it."""
    said = {rule: told for rule, (_, told) in examples(PAGE_TEXT).items()}
    assert messages(PAGE_TEXT, tmp_path) == said
    assert not [rule for rule, told in said.items() if told == "nothing\n"]
