"""Which notes about rounding and ties hold for a whole spec, also where its cases are in several parts."""

from __future__ import annotations

from kcheck.model import Case, Status, Verdict
from kcheck.oracle.judge import rounding_note, tie_note
from kcheck.oracle.ties import Tie
from kcheck.runner.common_notes import CommonNotes, not_of_all

X = rounding_note("op", "x", "float16", "compute in float32")
Y = tie_note("op", "y", Tie("a", "the reference picks the first of equal values"))
CASE = Case("op.yaml", "op", "iter_0", 0, {}, {}, {}, {}, {})


def told(*cases: tuple[Status, tuple[str, ...]]) -> tuple[str, ...]:
    found = CommonNotes()
    for status, notes in cases:
        assert found.take(Verdict(CASE, status, "cpu", notes=notes)).notes == tuple(
            n for n in notes if n == "else"
        )
    return found.notes


def test_a_note_that_each_failing_case_has_is_kept() -> None:
    assert told((Status.FAILED, (X, "else")), (Status.PASSED, ()), (Status.FAILED, (Y, X))) == (X,)


def test_a_failing_case_without_it_ends_it() -> None:
    assert told((Status.FAILED, (X,)), (Status.FAILED, ())) == ()
    assert told((Status.FAILED, ()), (Status.FAILED, (X,))) == ()
    assert told((Status.FAILED, (X,)), (Status.ERROR, ())) == ()


def test_parts_of_a_spec_agree() -> None:
    assert not_of_all([(True, [X, "else"]), (True, ["else"])]) == {X}
    assert not_of_all([(True, [X]), (False, [])]) == frozenset()
    assert not_of_all([(True, [X, Y]), (True, [Y])]) == {X}
