"""docs/rules.md: it is made from the rules, and kcheck says of each example what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest
from rule_examples import EXAMPLES, PAGE, messages, page, said_on

import kcheck.rules
from kcheck.device.cpu import missing
from kcheck.model import SANITIZERS
from kcheck.rules import NAMES, rule

TEXT = PAGE.read_text("utf-8")


def test_every_file_is_a_rule() -> None:
    files = {path.stem for path in Path(kcheck.rules.__file__).parent.glob("*.py")}
    assert files - {"__init__", "rule", "language"} == {name.replace("-", "_") for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_a_rule_has_an_example_or_a_reason_why_not(name: str) -> None:
    about = rule(name)
    assert about.title
    assert about.why
    assert bool(about.code) == bool(about.example) != bool(about.no_example)


@pytest.mark.parametrize("name", SANITIZERS)
def test_the_level_of_a_sanitizer_is_its_default(name: str) -> None:
    assert rule(name).level == SANITIZERS[name]


def test_the_page_is_made_from_the_rules() -> None:
    """`make rules` writes it."""
    assert list(said_on(TEXT)) == EXAMPLES
    assert page(said_on(TEXT)) == TEXT


@pytest.mark.slow
@pytest.mark.skipif(bool(missing()), reason=missing())
def test_the_page_has_what_a_run_says(tmp_path: Path) -> None:
    """Word for word."""
    said = said_on(TEXT)
    assert messages(tmp_path) == said
    assert not [name for name, told in said.items() if told == "nothing\n"]
