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


def test_what_was_compiled_is_used() -> None:
    """Compilations in the first cases that no run of so few cases pays for keep no later one from being seen."""
    compiling = [(0.1, 10.0, 100), (0.01, 0.005, 100)] * 2
    assert all(chosen(compiling + [(0.01, 0.005, 100)] * 20))


def test_a_case_larger_than_any_before_is_not_taken_blindly() -> None:
    """A thousand times the bytes are expected to take a thousand times as long."""
    small = [(0.01, 0.01, 100)] * 10
    assert chosen([*small, (0.01, 10.0, 100_000)])[-1] is False
    assert chosen([*small, (0.01, 0.01, 120)])[-1] is True


def test_small_cases_go_first_where_time_is_short() -> None:
    """Of cases that cost once the rest and a hundred times the rest by their size, all small ones are taken."""
    found = chosen([(0.01, 0.01, 100), (0.01, 1.0, 10_000)] * 200)[ALWAYS + 1 :]
    small, large = found[::2], found[1::2]
    assert all(small)
    assert 0 < sum(large) < 0.05 * len(large)


def test_one_spec_s_time_serves_another() -> None:
    """The limit is the run's: what cheap specs leave, a dear one may use."""
    dear = [(0.01, 0.1, 100)] * 40
    alone = sum(chosen(dear))
    budget = Budget()
    chosen([(0.1, 0.0, 100)] * 40, budget)
    assert alone < 20 < sum(chosen(dear, budget)) == 40


@given(
    st.lists(st.tuples(st.floats(0.005, 0.02), st.integers(1, 10**4)), min_size=30, max_size=200),
    st.floats(1e-6, 1e-2),
)
def test_the_limit_is_kept_but_for_what_is_always_taken(cases: list[tuple[float, int]], rate: float) -> None:
    """Whatever the sizes, where cost goes by bytes the seconds spent are at most twice the rest, and beyond that
    the first cases, and twice what one case's rest may be off its median in all of them."""
    made = [(rest, rate * size, size) for rest, size in cases]
    found = chosen(made)
    spent = [cost for (_, cost, _), taken in zip(made, found, strict=True) if taken]
    rest = sum(rest for rest, _, _ in made)
    slack = SHARE * len(made) * (0.02 - 0.005)
    assert sum(spent) <= SHARE * rest + sum(cost for _, cost, _ in made[:ALWAYS]) + slack
