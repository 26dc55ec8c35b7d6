"""The name of a test is a sentence that stands alone: it says the rule."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parent.parent
LEANING = re.compile(r"test_(so|nor|and|but|it|its|they|this|that|who|which|then|also|even|yet)_")
"""Words that begin the end of another sentence."""


def test_a_test_name_stands_alone() -> None:
    """``test_one_lane_finds_the_same_races`` says what holds; ``test_so_it_is_at_one_lane`` needs its neighbor."""
    found = [
        f"{path.relative_to(TESTS)}: {node.name}"
        for path in sorted(TESTS.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and LEANING.match(node.name)
    ]
    assert found == []
