"""Which cases are instrumented, on seconds that a test makes up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kcheck.runner.budget import ALWAYS, SHARE, Budget


def chosen(cases: list[tuple[float, float, int]], budget: Budget | None = None) -> list[bool]:
    """For a spec of cases (seconds without, seconds in instrumented code, bytes): which are instrumented."""
    budget = budget or Budget()
    budget.begin(len(cases))
    found = []
    for rest, spent, size in cases:
        found.append(budget.allows(size))
        budget.add(rest, spent if found[-1] else 0.0, size)
    return found


def test_cheap_checks_see_every_case() -> None:
    """Where instrumented code takes less than twice the rest, no case goes without."""
    assert all(chosen([(0.01, 0.019, 100)] * 200))


def test_dear_checks_see_the_first_cases_of_every_spec() -> None:
    """Where a single case takes more than the run has, the first are seen all the same, in each spec anew."""
    budget = Budget()
    for _ in range(3):
        assert chosen([(0.01, 100.0, 100)] * 20, budget) == [True] * ALWAYS + [False] * (20 - ALWAYS)


def test_a_compilation_is_paid_by_the_cases_to_come() -> None:
    """Two seconds of compiling at the first case are less than twice what 200 cases of 10 ms will take."""
    assert all(chosen([(0.5, 2.0, 100)] + [(0.01, 0.005, 100)] * 199))


def test_small_cases_go_first_where_time_is_short() -> None:
    """Of cases whose checks cost ten times the rest and go by size, small ones are taken more often than large."""
    cases = [(0.01, 0.01, 100), (0.01, 1.0, 10_000)] * 200
    found = chosen(cases)[ALWAYS:]
    small, large = found[1::2], found[::2]
    assert sum(small) > 0.9 * len(small)
    assert sum(large) < 0.1 * len(large)


def test_one_spec_s_time_serves_another() -> None:
    """The limit is the run's: what cheap specs leave, a dear one may use."""
    dear = [(0.01, 0.1, 100)] * 40
    alone = sum(chosen(dear))
    budget = Budget()
    chosen([(0.1, 0.0, 100)] * 40, budget)
    assert alone < 20 < sum(chosen(dear, budget)) == 40


@given(
    st.lists(
        st.tuples(st.floats(0.001, 0.1), st.floats(0.0, 1.0), st.integers(0, 10**6)), min_size=30, max_size=150
    )
)
def test_what_was_foreseen_wrongly_is_bounded(cases: list[tuple[float, float, int]]) -> None:
    """Beyond twice the rest of the run there are the first cases, and what one projection was wrong by: a case is
    taken only where twice the rest, had every case to come the mean of those before, would pay for it."""
    found = chosen(cases)
    done_rest = spent = 0.0
    for number, ((rest, cost, _), taken) in enumerate(zip(cases, found, strict=True)):
        if taken and number >= ALWAYS:
            mean = sum(case[0] for case in cases[1:number]) / (number - 1)
            assert spent <= SHARE * (done_rest + (len(cases) - number) * mean) * (1 + 1e-9)
        done_rest += rest
        spent += cost if taken else 0.0
