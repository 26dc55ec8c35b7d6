"""Reading expressions: what is accepted, and what a message says."""

from __future__ import annotations

import pytest

from kcheck.symbolic import ExpressionError, check_scalar, evaluate, fractional, names, parse


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("", 1, "the expression is empty; write an integer, a name or a formula"),
        ("  ", 1, "the expression is empty; write an integer, a name or a formula"),
        ("N +", 4, "expected a value, found the end of the expression"),
        ("N M", 3, "expected an operator, found 'M'; put an operator between them"),
        ("2 N", 3, "expected an operator, found 'N'; put an operator between them"),
        ("(N) (M)", 5, "expected an operator, found '('; put an operator between them"),
        ("2N", 1, "'2N' is not a number; write numbers in decimal: 64, 1_000_000, 0.5, 1e-5"),
        ("0x10", 1, "'0x10' is not a number; write numbers in decimal: 64, 1_000_000, 0.5, 1e-5"),
        ("012", 1, "'012' is not a number; write 12: a number cannot start with 0"),
        ("1__0", 1, "'1__0' is not a number; write numbers in decimal: 64, 1_000_000, 0.5, 1e-5"),
        ("1e999", 1, "the number 1e999 is too large for a float64"),
        ("9" * 90, 1, f"the integer {'9' * 37}... is too large; the limit is 256 bits"),
        ("N * ceildv(M, 2)", 5, "unknown function 'ceildv'; did you mean 'ceildiv'?"),
        (
            "open(1)",
            1,
            "unknown function 'open'; available: min, max, abs, sqrt, log2, ceildiv, next_pow2, exp, log, "
            "sum, mean, all, any",
        ),
        ("ceildiv(N)", 1, "ceildiv takes 2 arguments, not 1"),
        ("abs(N, 2)", 1, "abs takes 1 argument, not 2"),
        ("min()", 1, "min takes at least 1 argument, not 0"),
        ("max(N, M", 4, "this parenthesis is never closed; add ')'"),
        ("N)", 2, "this parenthesis has no opening one"),
        ("N, M", 2, "unexpected comma outside a call"),
        ("N = M", 3, "'=' is not a comparison; write '=='"),
        ("N && M", 3, "'&&' is not allowed in an expression; write 'and'"),
        ("N ^ 2", 3, "'^' is not allowed in an expression; write '**' for a power"),
        ("N × M", 3, "'×' is not allowed in an expression; write '*'"),
        ("N ≤ M", 3, "'≤' is not allowed in an expression; write '<='"),
        ("q.shape", 2, "'.' is not allowed in an expression; attributes are not supported in expressions"),
        ("q[0]", 2, "'[' is not allowed in an expression; subscripts are not supported in expressions"),
        ("N if M else K", 3, "'if' is not allowed in an expression"),
        ("True", 1, "'True' is not allowed in an expression"),
        ("not", 4, "expected a value, found the end of the expression"),
        ("1 + not N", 5, "'not' needs parentheses here; write (not ...)"),
        ("max(v, axis=0, 1)", 16, "there is an argument after axis; put axis last"),
        ("max(v, w, axis=0)", 1, "max takes axis with one array only"),
        ("abs(v, axis=0)", 8, "abs takes no axis"),
        ("sum(v, dim=0)", 8, "sum has no keyword argument 'dim'; only 'axis' is available; use '==' to compare"),
        ("\x00", 1, "'\\x00' is not allowed in an expression"),
        ("N" * 3000, 1, "the expression is 3000 characters long; the limit is 2000"),
        (
            "(" * 1500,
            51,
            "the expression is nested more than 50 levels deep; move a part of it into a derived dim",
        ),
        (
            "-" * 1500 + "1",
            51,
            "the expression is nested more than 50 levels deep; move a part of it into a derived dim",
        ),
        (
            "1" + "+1" * 900,
            202,
            "the expression has more than 100 operators; move a part of it into a derived dim",
        ),
        (
            "2" + "**2" * 600,
            151,
            "the expression is nested more than 50 levels deep; move a part of it into a derived dim",
        ),
    ],
)
def test_a_wrong_expression_says_where_and_what(text: str, column: int, message: str) -> None:
    """Every way to write an expression wrongly has its column, its sentence and, where one is known, its fix."""
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert (caught.value.column, str(caught.value)) == (column, message)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1_000_000", 1_000_000),
        (".5 + 1.", 1.5),
        ("1e-5", 1e-5),
        ("-2 ** 2", -4),
        ("2 ** -1", 0.5),
        ("2 ** 3 ** 2", 512),
        ("7 // -2", -4),
        ("-7 % 3", 2),
        ("1 < 2 < 3", True),
        ("3 > 2 > 2", False),
        ("not 1 == 2 and 3", 3),
        ("0 and 1 // 0", 0),
        ("N == 0 or M % N == 0", True),
        ("ceildiv(65, 64) + next_pow2(65)", 130),
        ("next_pow2(0)", 1),
        ("min(3, 1, 2) + max(3, 1)", 4),
        ("log2(8)", 3.0),
        ("(1 < 2) + 1", 2),
    ],
)
def test_an_expression_means_what_python_means(text: str, value: float) -> None:
    """Precedence, chained comparisons, floor division and short circuits are Python's."""
    result = evaluate(parse(text), {"N": 0, "M": 5})
    assert (result, type(result)) == (value, type(value))


def test_a_name_before_a_parenthesis_is_a_function() -> None:
    """An array may be called mean, and mean(mean) is the function of the array."""
    assert names(parse("mean(mean) + max")) == {"mean", "max"}


@pytest.mark.parametrize("text", ["sum(N)", "max(N)", "max(N, axis=0)", "exp(1)"])
def test_sizes_may_not_use_what_invariants_may(text: str) -> None:
    """Reductions, axis, exp and log are read, and refused outside invariants."""
    with pytest.raises(ExpressionError, match=r"is only available in invariants|at least 2 arguments here"):
        check_scalar(parse(text))


@pytest.mark.parametrize(
    ("text", "is_fraction"),
    [("N / 2", True), ("1 + N / 2", True), ("max(N / 2, 1)", True), ("N / 2 // 1", False), ("log2(N)", False)],
)
def test_a_true_division_makes_a_fraction(text: str, is_fraction: bool) -> None:
    """N / 2 is no size unless something makes it whole again."""
    assert (fractional(parse(text)) is not None) == is_fraction
