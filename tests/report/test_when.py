"""The condition under which the cases of a spec fail: true for each failing one, false for each passing one."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import fake_events
import pytest

from kcheck.model import Case, Distribution
from kcheck.report.paragraph import case_words
from kcheck.report.when import seen_when


def cases(count: int = 60, seed: int = 0) -> list[Case]:
    """Cases with sizes around tiles, two dtypes, three layouts, four distributions."""
    draw = random.Random(seed)

    def one(number: int) -> Case:
        sizes = [0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100]
        changes: dict[str, Any] = {
            "dims": {name: draw.choice(sizes[1:] if number else sizes) for name in "MNK"},
            "dtypes": {"T": draw.choice(["float16", "float32"])},
            "layouts": {"a": draw.choice(["contiguous", "transposed", "strided"]), "b": "contiguous"},
            "values": {"a": Distribution(draw.choice(["normal", "large", "zeros", "ties"]))},
            "params": {"eps": draw.choice([0, 1])},
        }
        return fake_events.case(number=number, **changes).verdict.case

    return [one(number) for number in range(count)]


def split(fails: Callable[[Case], bool], count: int = 60, seed: int = 0) -> str:
    drawn = cases(count, seed)
    return seen_when([case for case in drawn if fails(case)], [case for case in drawn if not fails(case)])


BUGS: list[tuple[str, Callable[[Case], bool]]] = [
    ("every T, K > 1", lambda case: case.dims["K"] > 1),
    ("every T, N % 16 != 0", lambda case: case.dims["N"] % 16 != 0),
    ("T = float16", lambda case: case.dtypes["T"] == "float16"),
    ("every T, a not contiguous", lambda case: case.layouts["a"] != "contiguous"),
    ("every T, a strided", lambda case: case.layouts["a"] == "strided"),
    ("every T, a large", lambda case: case.values["a"].name == "large"),
    ("every T, eps = 0", lambda case: case.params["eps"] == 0),
    ("every T, M > 7, a not contiguous", lambda c: c.dims["M"] > 7 and c.layouts["a"] != "contiguous"),
    ("every T, M > N", lambda case: case.dims["M"] > case.dims["N"]),
]


@pytest.mark.parametrize(("text", "fails"), BUGS)
def test_the_condition_of_a_bug_is_found(text: str, fails: Callable[[Case], bool]) -> None:
    """Each rule that bugs follow, alone and two of them together, from the cases of one run."""
    assert split(fails) == text


def test_a_dim_and_a_dtype_may_have_one_name() -> None:
    """A type variable that is not named is T, and so is many a sequence length."""
    drawn = [replace(case, dims={"T": case.dims["K"]}) for case in cases()]
    failing = [case for case in drawn if case.dims["T"] > 1]
    assert seen_when(failing, [case for case in drawn if case not in failing]) == "every dtype T, T > 1"
    words = list(case_words(failing[0]))
    assert words[:2] == [f"T={failing[0].dims['T']}", f"T={failing[0].dtypes['T']}"]


def test_failures_at_random_have_no_condition() -> None:
    """Where no coordinate tells failing from passing cases, a condition is made up in fewer than 1 of 50 runs."""
    made_up = []
    for number in range(240):
        count, share = (4, 8, 12, 40)[number % 4], (0.2, 0.5, 0.8)[number % 3]
        draw = random.Random(number)
        failing = {case.seed for case in cases(count) if case.dims["K"] and draw.random() < share}
        made_up.append(split(lambda case, failing=failing: case.seed in failing, count))  # type: ignore[misc]
    assert sum(map(bool, made_up)) < 5, made_up


def test_two_explanations_are_none() -> None:
    """Where two coordinates explain the cases equally well neither is told."""
    drawn = [
        fake_events.case(number=n, dims={"M": n, "N": n + 3}, dtypes={}, layouts={}, values={}).verdict.case
        for n in range(20)
    ]
    assert seen_when(drawn[10:], drawn[:10]) == ""


@pytest.mark.parametrize(
    ("passing", "told"), [((32, 64, 96, 128), "K % 32 != 0"), ((8, 64, 96, 40), "K % 8 != 0")]
)
def test_of_several_moduli_the_largest_is_told(passing: tuple[int, ...], told: str) -> None:
    """No size between the multiples of a warp was tried: that 16 passes is less probable."""
    (case,) = cases(1)
    made = [replace(case, dims={**case.dims, "K": size}) for size in (1, 3, 31, 33, 63, 65, 95, 97, *passing)]
    assert seen_when(made[:8], made[8:]) == told


def test_one_empty_case_that_passes_is_told() -> None:
    """A kernel that fails with every size but 0 does so for no other reason."""
    drawn = [
        fake_events.case(number=n, dims={"M": 1 + n, "N": n % 3 + 1, "K": n % 7 if n < 7 else 5}).verdict.case
        for n in range(12)
    ]
    assert seen_when(drawn[1:], drawn[:1]) == "K > 0"


def test_without_passing_cases_nothing_is_said() -> None:
    """All cases fail: there is nothing to tell them from."""
    assert seen_when(cases(5), []) == ""


@pytest.mark.parametrize(("exception", "told"), [(False, "K > 64"), (True, "")])
def test_a_condition_is_confirmed_with_all_of_many_passing_cases(exception: bool, told: str) -> None:
    """It is searched for with the first 2,000."""
    drawn = cases(2)
    passing = [replace(drawn[0], dims={**drawn[0].dims, "K": 1 + n % 64}) for n in range(3_000)]
    if exception:
        passing[2_900] = replace(drawn[0], dims={**drawn[0].dims, "K": 200})
    failing = [replace(drawn[0], dims={**drawn[0].dims, "K": 65 + n}) for n in range(400)]
    assert seen_when(failing, passing) == told
