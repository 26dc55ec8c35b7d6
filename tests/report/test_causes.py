"""Which failing cases are one bug, and in which order bugs explain each other."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import fake_events
import pytest

from kcheck.model import CaseFinished, Comparison, Finding, Span, Status
from kcheck.report.causes import causes, explained, place_words, warned
from kcheck.report.detail import rows
from kcheck.report.paragraph import warning_rows


def at(rule: str, line: int, other: int = 0, *, array: str | None = None, file: str = "k.py") -> Finding:
    return Finding(
        rule,
        f"{rule} found",
        array=array,
        kernel="k",
        block=(0, 0, 0),
        place=Span(file, line),
        other_place=Span(file, other) if other else None,
    )


def of(rule: str, array: str) -> Finding:
    return Finding(rule, f"{rule} found", array=array)


def failing(number: int, *shown: Finding | Comparison, checked: tuple[str, ...] = ("racecheck",)) -> CaseFinished:
    findings = tuple(each for each in shown if isinstance(each, Finding))
    comparisons = tuple(each for each in shown if isinstance(each, Comparison))
    return fake_events.case(
        number=number, status=Status.FAILED, findings=findings, comparisons=comparisons, checked=checked
    )


WRONG = fake_events.mismatch("y")
ORDER = [
    "memcheck",
    "synccheck",
    "racecheck",
    "initcheck",
    "unwritten",
    "mismatch",
    "invariant",
    "nondeterministic",
]


@pytest.mark.parametrize(("first", "second"), list(pairwise(ORDER)))
def test_a_rule_explains_the_rules_after_it(first: str, second: str) -> None:
    """A case that shows two symptoms belongs to the one that explains the other, whichever was found first."""

    def shows(rule: str) -> Finding | Comparison:
        return WRONG if rule == "mismatch" else at(rule, 10)

    (cause,) = causes([failing(0, shows(second), shows(first))])
    assert cause.rule == first


def test_faults_of_the_launch_explain_everything() -> None:
    """What raises, does not end or does not compile comes before any access that it made."""
    for rule in ("launch", "timeout", "compile"):
        (cause,) = causes([failing(0, at("memcheck", 3), at(rule, 9))])
        assert cause.rule == rule


def test_a_race_explains_an_access_outside_an_array_on_another_line() -> None:
    """The race may have changed the index. An access outside an array that is one side of the race causes it."""
    (cause,) = causes([failing(0, at("memcheck", 12), at("racecheck", 3, 5))])
    assert (cause.rule, dict(cause.also)) == ("racecheck", {"invalid accesses": 1})
    (cause,) = causes([failing(0, at("memcheck", 5), at("racecheck", 3, 5))])
    assert cause.rule == "memcheck"
    (cause,) = causes([failing(0, at("memcheck", 12), at("racecheck", 3, 5)), failing(1, at("memcheck", 12))])
    assert cause.rule == "memcheck", "one case shows it without the race"


def test_an_uninitialized_index_explains_the_access_with_it() -> None:
    (cause,) = causes([failing(0, at("memcheck", 12), at("initcheck", 12))])
    assert cause.rule == "initcheck"


def test_of_errors_in_all_cases_the_one_on_the_first_line_is_the_cause() -> None:
    """A name that is undefined on line 91 makes calls fail that come later in the file."""
    found = at("compile", 145), at("compile", 91), at("compile", 152)
    cause, *_ = causes([failing(n, *found) for n in range(3)])
    assert cause.found[0].place == Span("k.py", 91)


def test_a_rule_without_a_place_in_the_order_explains_values_only() -> None:
    """A rule that the order does not name comes after the sanitizers and before the values."""
    (cause,) = causes([failing(0, WRONG, at("new rule", 3))])
    assert cause.rule == "new rule"
    (cause,) = causes([failing(0, at("new rule", 3), at("unwritten", 3))])
    assert cause.rule == "unwritten"


def test_what_follows_is_counted() -> None:
    """Symptoms that a cause explains are counted over its cases, not told as bugs of their own."""
    race, late = at("racecheck", 28, 31), at("initcheck", 35)
    (cause,) = causes([failing(0, race, late, WRONG), failing(1, race, late), failing(2, race)])
    assert [event.verdict.case.label for event in cause.cases] == ["iter_0", "iter_1", "iter_2"]
    assert cause.also == (("uninitialized reads", 2), ("wrong values", 1))


def test_a_case_that_only_shows_a_consequence_is_another_cause() -> None:
    """Wrong values in a case that racecheck checked and found clean are not blamed on a race elsewhere."""
    first, second = causes([failing(0, at("racecheck", 28, 31), WRONG), failing(1, WRONG)])
    assert (first.rule, second.rule) == ("racecheck", "mismatch")
    assert [event.verdict.case.label for event in second.cases] == ["iter_1"]


def test_wrong_values_in_a_case_that_the_sanitizer_did_not_check_follow_from_its_finding() -> None:
    """Racecheck may see a part of the cases, to save time: the others are not a second bug, and are counted."""
    (cause,) = causes([failing(0, at("racecheck", 28, 31), WRONG), failing(1, WRONG, checked=())])
    assert len(cause.cases) == 1
    assert len(cause.unseen) == 1
    assert cause.also == (("wrong values", 2),)


def test_the_number_of_further_races_is_no_cause() -> None:
    """It has no source line; the race that has one leads, even if fewer cases show that."""
    spec = Span("specs/k.yaml", 4)
    more = [Finding("racecheck", f"{n} more races on other lines", kernel="k", place=spec) for n in (346, 1397)]
    (cause,) = causes([failing(0, more[0]), failing(1, at("racecheck", 3), more[1])])
    assert cause.found[0].place == Span("k.py", 3)
    assert (len(cause.cases), cause.also) == (2, (("more races", 1),))


def test_races_that_share_a_line_are_one_cause() -> None:
    """Two tiles are loaded on two lines and read on one: one barrier is missing."""
    both = failing(0, at("racecheck", 28, 31), at("racecheck", 29, 31))
    (cause,) = causes([both, failing(1, at("racecheck", 29, 31))])
    assert len(cause.cases) == 2
    assert [finding.place.line for finding in cause.found if finding.place] == [28, 29]
    assert cause.also == (("races at lines 29 and 31", 2),)


def test_accesses_on_separate_lines_are_separate_causes() -> None:
    """Two missing guards are two bugs, each counted in every case that shows it."""
    a, b = at("memcheck", 28, array="a"), at("memcheck", 29, array="b")
    first, second = causes([failing(0, b), failing(1, a, b), failing(2, a), failing(3, b)])
    assert [len(first.cases), len(second.cases)] == [3, 2]
    assert first.also == (("invalid accesses at line 28", 1),)


def test_a_line_in_two_files_or_kernels_is_two_causes() -> None:
    """A source line is a file and a number, and a kernel."""
    assert len(causes([failing(0, at("memcheck", 3)), failing(1, at("memcheck", 3, file="other.py"))])) == 2


def test_two_arrays_on_one_line_are_one_cause() -> None:
    """``y[i] = q[i]`` past the end of both is one missing guard."""
    assert len(causes([failing(0, at("memcheck", 22, array="q")), failing(1, at("memcheck", 22, array="y"))])) == 1


def test_outputs_that_are_wrong_together_are_one_cause() -> None:
    """Values and indices of a maximum are wrong together in one case: wrong indices alone are the same bug."""
    index = fake_events.mismatch("index")
    (cause,) = causes([failing(0, WRONG, index), failing(1, index), failing(2, of("invariant", "index"), index)])
    assert len(cause.cases) == 3
    assert cause.rule == "mismatch"


def test_outputs_that_are_never_wrong_together_are_separate_causes() -> None:
    """No case ties them together."""
    assert len(causes([failing(0, WRONG), failing(1, fake_events.mismatch("z"))])) == 2


def test_values_that_are_wrong_in_two_ways_are_one_cause() -> None:
    """An output that is NaN in one case and off in another is told once."""
    nan = fake_events.mismatch("y", why="NaN where the reference is finite")
    assert len(causes([failing(0, WRONG), failing(1, nan)])) == 1


def test_the_simplest_case_of_the_rule_is_shown() -> None:
    """Of its cases the one with the smallest sizes that shows the rule itself."""
    (cause,) = causes(
        [
            failing(7, WRONG),
            failing(3, WRONG),
            failing(1, of("invariant", "y")),
            failing(5, WRONG, of("invariant", "y")),
        ]
    )
    assert cause.simplest.verdict.case.label == "iter_3"


def test_warnings_are_no_cause() -> None:
    """A finding of severity warn does not fail a case."""
    warning = Finding("racecheck", "same value", severity="warn", place=Span("k.py", 3))
    (cause,) = causes([failing(0, warning, WRONG)])
    assert cause.rule == "mismatch"


def harmless(line: int, other: int = 0, rule: str = "racecheck", file: str = "k.py") -> Finding:
    return replace(at(rule, line, other, file=file), severity="warn", lenient=True)


def explained_of(*cases: CaseFinished) -> tuple[list[tuple[tuple[str, int], ...]], list[str]]:
    """What follows from each cause of the failing cases, and the places of the warnings that remain."""
    bad = [event for event in cases if event.verdict.status is Status.FAILED]
    found, left = explained(causes(bad), warned(cases))
    return [cause.also for cause in found], [str(one.finding.place) for one in left]


def test_a_harmless_race_of_a_line_that_races_is_no_second_bug() -> None:
    """The same race changes no value in some cases, those that pass among them: it is counted with the bug."""
    passed = fake_events.case(number=2, findings=(harmless(28, 31),))
    also, left = explained_of(
        failing(0, at("racecheck", 28, 31)), failing(1, at("racecheck", 28, 31), harmless(28)), passed
    )
    assert also == [(("racecheck warnings", 1),)]
    assert left == []


def test_a_warning_that_only_failing_cases_show_follows_from_an_earlier_rule() -> None:
    """Threads that miss a barrier race on other lines, harmlessly by chance."""
    also, left = explained_of(failing(0, at("synccheck", 12), harmless(40)), failing(1, at("synccheck", 12)))
    assert also == [(("racecheck warnings", 1),)]
    assert left == []


def test_a_number_of_further_warnings_follows_from_a_cause_of_their_rule() -> None:
    """It has no line, and other cases show it, too."""
    more = replace(harmless(4, file="specs/k.yaml"), block=None, message="318 more races on other lines")
    also, left = explained_of(failing(0, at("racecheck", 3), more), fake_events.case(number=2, findings=(more,)))
    assert (left, also[0]) == ([], (("racecheck warnings", 1),))


def test_harmless_races_of_one_missing_barrier_are_one_warning() -> None:
    """They share a source line and have the same fix; one with another fix, or on other lines, is another."""
    barrier = [replace(harmless(line, 25), fix="add a barrier") for line in (23, 24)]
    atomic = replace(harmless(22, 25), fix="use an atomic")
    more = replace(harmless(4, file="specs/k.yaml"), block=None, message="318 more races on other lines")
    cases = [fake_events.case(number=n, findings=(*barrier, atomic, harmless(40, 41), more)) for n in (1, 2)]
    _, left = explained([], warned(cases))
    assert [(place_words(one.finding), [place_words(other.finding) for other in one.also]) for one in left] == [
        ("races at lines 23 and 25", ["races at lines 24 and 25", "more races"]),
        ("races at lines 22 and 25", []),
        ("races at lines 40 and 41", []),
    ]
    rows = {row.label: row.text for row in warning_rows(left[0], 2, lambda place: "")}
    assert rows["also"] == "races at lines 24 and 25 in 2 of 2, more races in 2 of 2"


def test_a_warning_that_may_be_the_reason_is_shown() -> None:
    """An early return before a barrier may be why memory is uninitialized; a harmless race in a case that passes
    has nothing to do with a bug on other lines."""
    returned = harmless(9, rule="synccheck")
    assert explained_of(failing(0, at("initcheck", 12), returned))[1] == ["k.py:9:1"]
    passed = fake_events.case(number=2, findings=(harmless(40),))
    assert explained_of(failing(0, at("racecheck", 28, 31), harmless(40)), passed)[1] == ["k.py:40:1"]


@pytest.mark.parametrize(("first", "second"), list(pairwise(ORDER)))
def test_a_case_in_full_shows_causes_first(first: str, second: str) -> None:
    """`kcheck show` and JUnit have the order of the console, whichever was found first."""
    shown = [WRONG if rule == "mismatch" else at(rule, 10) for rule in (second, first)]
    labels = [row.label for row in rows(failing(0, *shown), lambda place: "")]
    assert [label for label in labels if label in ORDER] == [first, second]


def test_a_case_with_several_like_warnings_counts_once() -> None:
    """A kernel of a launcher may have the same race in several launches."""
    cases = [
        fake_events.case(
            number=n, findings=(replace(at("racecheck", 7), severity="warn", index=(i,)) for i in (1, 2))
        )
        for n in range(3)
    ]
    (warning,) = warned(cases)
    assert [event.verdict.case.id for event in warning.cases] == [event.verdict.case.id for event in cases]
