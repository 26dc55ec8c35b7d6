"""A plan of more cases than are kept in memory: the same cases each time, and memory that does not grow."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence

import pytest

from kcheck.errors import SpecError
from kcheck.generator import expand, plan
from kcheck.model import Case, OpSpec
from kcheck.rng import derive
from kcheck.runner import Recalled
from kcheck.runner.queue import queue

COUNT = 15_000
"""More than the candidates from which the first cases are chosen."""


@pytest.fixture(name="spec")
def wide_spec(build: Callable[..., OpSpec]) -> OpSpec:
    """Nearly every case has other dims."""
    dims = dict.fromkeys("ABCD", (1, 5_000))
    array = {"shape": ("A", "B"), "layouts": ("contiguous", "strided"), "values": ("normal", "zeros")}
    return build(dims, inputs={"x": array}, dtypes=("float32", "float16"))


@pytest.fixture(name="cases")
def long_plan(spec: OpSpec) -> Sequence[Case]:
    return plan(spec, count=COUNT, master=4)


def test_each_seed_comes_once(cases: Sequence[Case]) -> None:
    """As many cases as asked for; every case is that of its label."""
    assert len(cases) == len({case.seed for case in cases}) == COUNT
    assert {case.label for case in cases} == {"least", "largest", *(f"iter_{n}" for n in range(COUNT - 2))}


def test_a_place_has_the_same_case_each_time(spec: OpSpec, cases: Sequence[Case]) -> None:
    """By index, by slice, from the end, and in a second plan."""
    listed = list(cases)
    again = plan(spec, count=COUNT, master=4)
    for place in (0, 1_999, 2_000, 11_999, 12_000, COUNT - 1):
        case = cases[place]
        assert case == listed[place] == again[place] == cases[place - COUNT]
        assert case == expand(spec, case.seed, case.label)
    assert list(cases[1_990:2_010]) == listed[1_990:2_010]
    with pytest.raises(IndexError):
        cases[COUNT]


def alive() -> int:
    """How many cases are in memory."""
    gc.collect()
    return sum(isinstance(one, Case) for one in gc.get_objects())


def test_a_plan_keeps_its_first_cases_only(spec: OpSpec) -> None:
    """The others are gone once they have been looked at."""
    before = alive()
    cases = plan(spec, count=6_000, master=4)
    assert sum(1 for _ in cases) == 6_000
    assert alive() - before <= 2_000
    del cases
    assert alive() == before


def test_a_late_case_that_cannot_be_expanded_is_refused_before_the_first(build: Callable[..., OpSpec]) -> None:
    dims = {"N": (1, 10**9)}
    sizes = [expand(build(dims), derive(4, f"iter_{n}")).dims["N"] for n in range(COUNT)]
    late = next(size for size in sizes[13_000:] if size not in sizes[:13_000])
    spec = build(dims, params={"p": {"expr": f"1 / (N - {late})"}})
    plan(spec, count=13_000, master=4)
    with pytest.raises(SpecError, match=f"divides by zero for N={late}"):
        plan(spec, count=COUNT, master=4)


def test_a_queue_is_its_plan_but_for_what_failed(spec: OpSpec, cases: Sequence[Case]) -> None:
    """Open failures move to the front; shards are slices of it."""
    failed = cases[13_000], cases[40]
    queued = queue(spec, cases, [Recalled(case, None) for case in failed])
    order = [40, 13_000, *(n for n in range(COUNT) if n not in (40, 13_000))]
    assert [one.case.label for one in queued] == [cases[n].label for n in order]
    for begin, stop in ((0, 1), (1, 3), (2, 30), (0, COUNT), (12_990, 13_010)):
        part = queued[begin:stop]
        assert [one.case.label for one in part] == [cases[n].label for n in order[begin:stop]]
        assert len(part) == stop - begin
    assert queued[-1].case == cases[COUNT - 1]
