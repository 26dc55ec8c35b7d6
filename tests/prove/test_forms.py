"""The form of a question: equal for questions that differ only in names, and in nothing else."""

from __future__ import annotations

import pytest

from kcheck.prover.forms import form_of
from kcheck.prover.prover import Answers, Prover
from kcheck.prover.terms import Formula, Poly, Terms


def question(terms: Terms, x: Poly, y: Poly, *, least: int = 3, m: int = 8) -> tuple[Formula, ...]:
    """``x % m + y < least`` and ``y`` is at least 0."""
    rest = terms.sum(terms.mod(x, m), y)
    return terms.compare("lt", rest, terms.number(least)), terms.compare("ge", y, terms.zero)


def test_names_do_not_count() -> None:
    """Variables in the same places, with the same bounds."""
    terms = Terms()
    names = ("a", "b"), ("c", "d")
    forms = [form_of(question(terms, *(terms.var(n, (-9, 99)) for n in pair)))[0] for pair in names]
    assert forms[0] == forms[1]


@pytest.mark.parametrize("change", ["bounds", "number", "modulus", "one variable", "function"])
def test_everything_else_counts(change: str) -> None:
    """Bounds, constants, which variables are the same, and what is a function."""
    terms = Terms()
    x, y = terms.var("x", (-9, 99)), terms.var("y", (-9, 99))
    other = {
        "bounds": question(terms, x, terms.var("z", (-8, 99))),
        "number": question(terms, x, y, least=4),
        "modulus": question(terms, x, y, m=16),
        "one variable": question(terms, x, x),
        "function": question(terms, terms.function("f", (x,), (-9, 99)), y),
    }[change]
    assert form_of(question(terms, x, y))[0] != form_of(other)[0]


def test_an_answer_for_other_names_has_these_names() -> None:
    """The second kernel of a spec asks the same about other registers: its answer comes without the solver."""
    answers: Answers = {}
    found = []
    for name in ("first", "second"):
        terms = Terms()
        x = terms.var(name, (0, 99))
        prover = Prover(terms, 30.0, answers)
        found.append(
            prover.together([terms.compare("lt", terms.number(41), x), terms.compare("lt", x, terms.number(43))])
        )
    assert [answer.values for answer in found] == [{"first": 42}, {"second": 42}]
    assert len(answers) == 1
