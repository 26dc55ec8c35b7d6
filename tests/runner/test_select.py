"""-k expressions over case ids and tags."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcheck.errors import UserError
from kcheck.runner import parse_keyword

CASE = "softmax[iter_12-M=3-N=65-T=float32]"
TAGS = ("control", "slow")


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("softmax", True),
        ("N=65", True),
        ("N=6", False),
        ("N=", True),
        ("iter_1", False),
        ("iter_12", True),
        ("iter", True),
        ("float3", False),
        ("gelu", False),
        ("control", True),
        ("contr", False),
        ("not gelu", True),
        ("not not softmax", True),
        ("gelu or N=65", True),
        ("gelu or N=65 and M=4", False),
        ("(gelu or N=65) and M=3", True),
        ("not (softmax and slow)", False),
        ("softmax[iter_12-", True),
        ("nothing", False),
    ],
)
def test_an_expression_selects_by_part_of_id_or_whole_tag(text, selected):
    """Words combine with and, or, not and parentheses; 'and' binds tighter than 'or'."""
    assert parse_keyword(text)(CASE, TAGS) is selected


@pytest.mark.parametrize(
    ("text", "column"),
    [("and x", 1), ("x or", 5), ("(x", 1), ("x y", 3), ("x )", 3), ("not", 4), ("()", 2), ("x and or y", 7)],
)
def test_a_bad_expression_is_refused_with_its_column(text, column):
    """The message quotes the expression, says the column and ends in the fix."""
    with pytest.raises(UserError, match=rf"column {column}: .*; "):
        parse_keyword(text)


def test_an_empty_expression_is_refused():
    """Blanks select nothing on purpose."""
    with pytest.raises(UserError, match="empty"):
        parse_keyword("  ")


@settings(deadline=None)
@given(st.text(alphabet="ab ()notrd", max_size=40))
def test_any_text_is_an_expression_or_a_user_error(text):
    """No text makes the parser fail in another way."""
    try:
        matcher = parse_keyword(text)
    except UserError:
        return
    assert matcher(CASE, TAGS) in (True, False)


def test_nesting_has_a_limit():
    """A thousand parentheses are refused, not a RecursionError."""
    with pytest.raises(UserError, match="nested too deep"):
        parse_keyword("(" * 1000 + "x" + ")" * 1000)
