"""The value of an expression: equal to Python's, and bounded before it is computed."""

from __future__ import annotations

import math
import time
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcheck.symbolic import ExpressionError, evaluate, evaluate_size, parse

_ATOMS = st.one_of(
    st.integers(0, 40).map(str),
    st.sampled_from(["0.5", "1e-5", "2.", "N", "M", "K"]),
)


def _join(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    binary = ["+", "-", "*", "/", "//", "%", "**", "<", "<=", ">", ">=", "==", "!=", "and", "or"]
    return st.one_of(
        st.tuples(inner, st.sampled_from(binary), inner).map(" ".join),
        inner.map(lambda text: f"({text})"),
        inner.map(lambda text: f"-({text})"),
        inner.map(lambda text: f"-{text}"),
        inner.map(lambda text: f"(not {text})"),
        st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
        inner.map(lambda text: f"abs({text})"),
    )


@settings(deadline=None, max_examples=400)
@given(
    text=st.recursive(_ATOMS, _join, max_leaves=12),
    sizes=st.fixed_dictionaries({"N": st.integers(0, 70), "M": st.integers(-3, 70), "K": st.integers(1, 3)}),
)
def test_every_value_equals_pythons(text: str, sizes: dict[str, int]) -> None:
    """Wherever kcheck gives a value, Python's own eval gives the same one, of the same type."""
    try:
        ours = evaluate(parse(text), sizes)
    except ExpressionError:
        return  # what is refused is a table below
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = eval(text, {"__builtins__": {}, "min": min, "max": max, "abs": abs}, dict(sizes))
    assert type(ours) is type(theirs)
    assert ours == theirs or (math.isnan(ours) and math.isnan(theirs))


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("1 // (N - N)", 3, "1 // 0 divides by zero"),
        ("5 % 0", 3, "5 % 0 divides by zero"),
        ("ceildiv(1, 0)", 1, "ceildiv(1, 0) is not defined"),
        ("0 ** -1", 3, "0 ** -1 divides by zero"),
        ("sqrt(0 - 1)", 1, "sqrt(-1) is not defined"),
        ("log2(0)", 1, "log2(0) is not defined"),
        ("(0 - 8) ** 0.5", 9, "-8 ** 0.5 is not a real number"),
        ("1e308 * 10", 7, "1e+308 * 10 is too large for a float64"),
        ("10.0 ** 400", 6, "10.0 ** 400 is too large for a float64"),
        ("9**9**9", 2, "9 ** 387420489 is an integer of more than 256 bits"),
        ("n", 1, "unknown name 'n'; did you mean 'N'?"),
        ("next_pow2(N / 2)", 1, "next_pow2 takes an integer, not 1.5; use '//' to divide and round down"),
        ("sum(N)", 1, "sum is only available in invariants, for arrays"),
        ("max(N)", 1, "max takes at least 2 numbers"),
    ],
)
def test_what_has_no_value_says_so(text: str, column: int, message: str) -> None:
    """A value that does not exist, or would not fit, is an error at the operator that makes it."""
    with pytest.raises(ExpressionError) as caught:
        evaluate(parse(text), {"N": 3})
    assert (caught.value.column, str(caught.value)) == (column, message)


@pytest.mark.parametrize(
    "text", ["9**9**9", "2**256", "(2**250) * (2**250)", "2**(2**200)", "-(3**200)", "7**N**N"]
)
def test_sizes_are_bounded_before_they_are_computed(text: str) -> None:
    """A power that would fill the memory is refused at once."""
    start = time.perf_counter()
    with pytest.raises(ExpressionError, match="more than 256 bits"):
        evaluate(parse(text), {"N": 100})
    assert time.perf_counter() - start < 0.5


def test_an_infinity_that_was_handed_in_passes() -> None:
    """A param may be .inf: only an infinity that arises in the expression is an overflow."""
    assert evaluate(parse("x + 1"), {"x": math.inf}) == math.inf


@pytest.mark.parametrize(("text", "message"), [("1.5", "whole number"), ("1 < 2", "whole"), ("0 - 1", "negative")])
def test_a_size_is_whole_and_not_negative(text: str, message: str) -> None:
    """What counts elements cannot be a fraction, a truth or negative; a whole float is taken."""
    with pytest.raises(ExpressionError, match=message):
        evaluate_size(parse(text), {})
    assert evaluate_size(parse("log2(8)"), {}) == 3
