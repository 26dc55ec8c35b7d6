"""Calls compared with their reference while a checker runs: what is found, not invented, and counted."""

from __future__ import annotations

import logging
import pydoc
import random
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from kcheck.errors import UserError
from kcheck.monitor import EquivalenceChecker, Mismatch, MismatchError, Stats, equivalent

ALL = {"sample_probability": 1.0}


def twice(x: np.ndarray) -> np.ndarray:
    return x + x


def wrong_at_three(x: np.ndarray) -> np.ndarray:
    """Twice its argument, but not for 3."""
    return np.where(x == 3, 7, 2 * x)


def accounted(stats: Stats) -> bool:
    """Whether every chosen call ended up in one place."""
    ends = stats.checked + stats.reference_errors + stats.copy_errors + stats.raised + stats.pending
    return stats.sampled + stats.outliers == ends + sum(stats.dropped.values())


def test_every_planted_mismatch_is_found_and_none_is_invented() -> None:
    found: list[Mismatch] = []
    checker = EquivalenceChecker()
    double = checker.equivalent(twice, found.append)(wrong_at_three)
    with checker.start(**ALL):
        for n in range(200):
            double(np.full(5, n % 50, np.float32))
    assert [mismatch.number for mismatch in found] == [4, 54, 104, 154]
    stats = checker.stats()
    assert (stats.calls, stats.sampled, stats.checked, stats.mismatches) == (200, 200, 200, 4)
    assert accounted(stats)
    assert (stats.pending, stats.queue_bytes) == (0, 0)


def test_a_mismatch_has_inputs_results_the_comparison_and_the_callers_stack() -> None:
    found: list[Mismatch] = []
    checker = EquivalenceChecker()
    double = checker.equivalent(twice, found.append)(wrong_at_three)
    with checker.start(**ALL):
        returned = double(x=np.float32([1, 3]))
    (mismatch,) = found
    assert returned.tolist() == [2, 7]
    assert mismatch.inputs[0].tolist() == mismatch.kwargs["x"].tolist() == [1, 3]
    assert mismatch.original_result.tolist() == [2, 7]
    assert mismatch.ground_truth_result.tolist() == [2, 6]
    assert mismatch.comparison is not None
    assert mismatch.comparison.worst == (1,)
    assert mismatch.stack[-1].filename == __file__
    assert mismatch.stack[-1].line == "returned = double(x=np.float32([1, 3]))"
    assert str(mismatch).splitlines()[0].endswith("wrong_at_three differs from the reference")
    assert "result[1]: 1 of 2 elements (50%) beyond tolerance" in str(mismatch)


def test_later_changes_of_inputs_and_results_neither_hide_nor_fake_a_mismatch() -> None:
    gate = threading.Event()
    found: list[Mismatch] = []

    def reference(x: np.ndarray) -> np.ndarray:
        gate.wait(30)
        return 2 * x

    checker = EquivalenceChecker()
    double = checker.equivalent(reference, found.append)(wrong_at_three)
    with checker.start(**ALL):
        for value in (1, 3):
            x = np.full(4, value, np.float32)
            result = double(x)
            x[:] = 100
            result[:] = 200
        gate.set()
    assert [mismatch.inputs[0][0] for mismatch in found] == [3]


@pytest.mark.parametrize(
    "reference",
    [lambda x, y: (2 * x, 3 * x), lambda x, y: (np.multiply(x, 3, out=y), np.multiply(x, 2, out=x), None)[-1]],
    ids=["returns", "in place"],
)
@pytest.mark.parametrize("bug", [False, True])
def test_a_function_in_place_is_compared_with_its_inputs_as_they_were(
    reference: Callable[..., Any], bug: bool
) -> None:
    """The reference returns what the changed arguments should be, or writes to its own copies."""
    found: list[Mismatch] = []
    checker = EquivalenceChecker()

    @checker.equivalent(reference, found.append)
    def scale(x: np.ndarray, y: np.ndarray) -> None:
        y[:] = 3 * x
        x *= 2
        if bug:
            x[-1] = 0

    with checker.start(**ALL):
        x, y = np.ones(3), np.zeros(3)
        scale(x, y)
        assert x[0] == 2
        scale(np.ones(3), np.full(3, 3.0))  # the output is right already
    assert len(found) == (2 if bug else 0)
    if bug:
        assert found[0].args[0].tolist() == [1, 1, 1]
        assert found[0].comparisons[0].output == "result[0]"


@pytest.mark.parametrize(
    ("returned", "expected", "sentence"),
    [
        (np.ones(3), np.ones((3, 1)), "result has shape [3], but the reference returned [3, 1]"),
        ((np.ones(1), 2), (np.ones(1),), "result has 2 values, but the reference returned 1"),
        ({"y": 1.0}, {"z": 1.0}, "result['z'] is missing"),
        (np.ones(1), "none", "result is a ndarray, but the reference returned a str"),
    ],
)
def test_results_of_another_structure_differ(returned: Any, expected: Any, sentence: str) -> None:
    found: list[Mismatch] = []
    checker = EquivalenceChecker()
    with checker.start(**ALL):
        checker.equivalent(lambda: expected, found.append)(lambda: returned)()
    assert found[0].differences[0] == sentence
    assert sentence in str(found[0])


def test_nan_and_infinity_where_the_reference_has_them_are_right() -> None:
    values = np.array([np.nan, np.inf, -np.inf, 1.0])
    found: list[Mismatch] = []
    checker = EquivalenceChecker()
    same = checker.equivalent(lambda x: values, found.append)(lambda x: x)
    with checker.start(**ALL):
        same(values)
        same(np.array([1.0, np.inf, -np.inf, 1.0]))
        same(np.array([np.nan, -np.inf, -np.inf, 1.0]))
    assert [mismatch.number for mismatch in found] == [2, 3]


def test_an_exception_of_the_reference_is_counted_and_logged_and_does_not_reach_the_caller(
    caplog: pytest.LogCaptureFixture,
) -> None:
    checker = EquivalenceChecker()

    def reference(x: np.ndarray) -> np.ndarray:
        raise ZeroDivisionError("in the reference")

    same = checker.equivalent(reference)(lambda x: x)
    with checker.start(**ALL):
        for _ in range(300):
            same(np.ones(2))
    assert checker.stats().reference_errors == 300
    assert accounted(checker.stats())
    logged = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(logged) == 11  # the first ten, and the hundredth
    assert "ZeroDivisionError: in the reference" in caplog.text
    assert "300 of 300 calls" not in caplog.text
    assert "errors of references: 300" in caplog.text


def test_an_exception_of_the_function_reaches_the_caller_and_frees_its_copies() -> None:
    checker = EquivalenceChecker()

    @checker.equivalent(twice)
    def broken(x: np.ndarray) -> np.ndarray:
        raise ValueError("mine")

    with checker.start(**ALL):
        for _ in range(3):
            with pytest.raises(ValueError, match="mine"):
                broken(np.ones(1000))
        stats = checker.stats()
    assert (stats.raised, stats.queue_bytes) == (3, 0)
    assert accounted(stats)


def test_the_policy_raise_raises_at_the_next_call_or_at_stop() -> None:
    checker = EquivalenceChecker()
    double = checker.equivalent(twice, "raise")(wrong_at_three)
    checker.start(**ALL)
    double(np.full(2, 3.0))
    checker.flush()
    with pytest.raises(MismatchError, match="call 1 of"):
        double(np.ones(2))
    for _ in range(2):
        double(np.ones(2))
    double(np.full(2, 3.0))
    with pytest.raises(MismatchError, match="call 4 of") as raised:
        checker.stop()
    assert raised.value.mismatches[0].number == 4
    assert not checker.is_running()


def test_an_exception_of_on_mismatch_is_counted_logged_and_raised_at_stop(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def on_mismatch(mismatch: Mismatch) -> None:
        raise AssertionError("the kernel differs")

    checker = EquivalenceChecker()
    double = checker.equivalent(twice, on_mismatch)(wrong_at_three)
    checker.start(**ALL)
    double(np.full(2, 3.0))
    double(np.full(2, 3.0))
    with pytest.raises(AssertionError, match="the kernel differs"):
        checker.stop()
    assert checker.stats().callback_errors == 2
    assert "on_mismatch of" in caplog.text


def test_calls_without_room_are_dropped_and_counted() -> None:
    """Of calls of 800 bytes each way, one is being checked and two wait; the others are dropped."""
    gate = threading.Event()
    checked: list[float] = []

    def reference(x: np.ndarray) -> np.ndarray:
        gate.wait(30)
        checked.append(float(x[0]))
        return x

    for policy, expected in (("drop-newest", [0, 1, 2]), ("drop-oldest", [0, 8, 9])):
        gate.clear()
        checked.clear()
        checker = EquivalenceChecker()
        same = checker.equivalent(reference, outlier_detector=False)(lambda x: x.copy())
        checker.start(max_queue_bytes=4800, policy=policy, **ALL)
        for n in range(10):
            same(np.full(100, float(n)))
            while n == 0 and len(checker._run.waiting):  # until it is being checked
                pass
        assert checker.stats().queue_bytes == 4800
        gate.set()
        checker.stop()
        assert checked == expected
        assert checker.stats().dropped == {"full": 7}
        assert checker.stats().peak_queue_bytes == 4800
        assert accounted(checker.stats())


def test_the_number_of_calls_that_wait_can_be_limited() -> None:
    gate = threading.Event()
    checker = EquivalenceChecker()
    same = checker.equivalent(lambda x: gate.wait(30) and x, outlier_detector=False)(lambda x: x)
    checker.start(2, 1.0)
    for n in range(6):
        same(np.ones(1))
        while n == 0 and len(checker._run.waiting):
            pass
    gate.set()
    checker.stop()
    assert checker.stats().dropped == {"full": 3}


def test_a_call_that_can_never_fit_is_counted() -> None:
    checker = EquivalenceChecker()
    same = checker.equivalent(twice)(lambda x: x)
    with checker.start(max_queue_bytes=100, policy="block", **ALL):
        same(np.ones(100))
    assert checker.stats().dropped == {"too large": 1}


def test_stop_while_callers_wait_for_room() -> None:
    """With the policy `block`, stop() wakes the callers, and what they brought is counted."""
    gate = threading.Event()
    checker = EquivalenceChecker()
    same = checker.equivalent(lambda x: gate.wait(30) and x, outlier_detector=False)(lambda x: x)
    checker.start(max_queue_bytes=1600, policy="block", **ALL)
    same(np.ones(100))
    threads = [threading.Thread(target=same, args=(np.ones(100),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    stopping = threading.Thread(target=checker.stop)
    stopping.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    gate.set()
    stopping.join(30)
    stats = checker.stats()
    assert stats.checked >= 1
    assert stats.checked + stats.dropped.get("stopped", 0) == stats.sampled <= 5
    assert stats.queue_bytes == 0


def test_stop_without_drain_drops_what_waits() -> None:
    gate = threading.Event()
    checker = EquivalenceChecker()
    same = checker.equivalent(lambda x: gate.wait(30) and x, outlier_detector=False)(lambda x: x)
    checker.start(**ALL)
    for _ in range(5):
        same(np.ones(3))
    threading.Timer(0.2, gate.set).start()
    checker.stop(drain=False)
    stats = checker.stats()
    assert stats.checked <= 1
    assert stats.checked + stats.dropped["stopped"] == 5
    same(np.ones(3))
    assert checker.stats().calls == 5


def test_eight_threads() -> None:
    found: list[Mismatch] = []
    checker = EquivalenceChecker()
    double = checker.equivalent(twice, found.append)(wrong_at_three)

    def calls(first: int) -> None:
        for n in range(first, first + 200):
            double(np.full(3, 3.0 if n % 100 == 0 else 1.0))

    with checker.start(workers=2, **ALL):
        threads = [threading.Thread(target=calls, args=(200 * n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    stats = checker.stats()
    assert (stats.calls, stats.checked, stats.mismatches) == (1600, 1600, 16)
    assert len({mismatch.number for mismatch in found}) == 16


def test_several_checkers_at_once() -> None:
    first, second = EquivalenceChecker(), EquivalenceChecker()
    one, other = first.equivalent(twice)(wrong_at_three), second.equivalent(twice)(wrong_at_three)
    with first.start(**ALL):
        one(np.ones(1))
        with second.start(sample_probability=0.0):
            other(np.ones(1))
            other(np.ones(1))
            assert second.is_running()
            assert not EquivalenceChecker.is_running()
    other(np.ones(1))
    assert (first.stats().calls, second.stats().calls) == (1, 2)


def test_the_sampler_has_a_generator_of_its_own() -> None:
    checker = EquivalenceChecker()
    same = checker.equivalent(lambda x: x, outlier_detector=False)(lambda x: x)
    before, numpys = random.getstate(), np.random.get_state()[1].copy()
    with checker.start(sample_probability=0.25):
        for _ in range(2000):
            same(np.ones(1))
    assert random.getstate() == before
    assert np.array_equal(np.random.get_state()[1], numpys)
    assert 400 < checker.stats().sampled < 600  # 5 standard deviations


def test_the_probability_can_be_changed_and_a_function_may_have_its_own() -> None:
    checker = EquivalenceChecker()
    same = checker.equivalent(lambda x: x, outlier_detector=False)(lambda x: x)
    always = checker.equivalent(lambda x: x, outlier_detector=False, sample_probability=1.0)(wrong_at_three)
    with checker.start(sample_probability=0.0):
        same(np.ones(1))
        always(np.zeros(1))
        assert checker.stats().sampled == 1
        checker.set_sample_probability(1.0)
        same(np.ones(1))
        assert checker.stats().sampled == 2


def test_a_reference_may_call_a_monitored_function() -> None:
    checker = EquivalenceChecker()
    inner = checker.equivalent(lambda x: x)(lambda x: x)
    outer = checker.equivalent(lambda x: inner(x))(lambda x: x)
    with checker.start(**ALL):
        outer(np.ones(1))
    assert checker.stats().calls == 1


def test_unusual_inputs_are_checked_although_the_probability_is_zero() -> None:
    found: list[Mismatch] = []
    checker = EquivalenceChecker()
    double = checker.equivalent(twice, found.append)(lambda x: np.where(x > 1e6, 0, 2 * x))
    rng = np.random.default_rng(0)
    with checker.start(sample_probability=0.0):
        for _ in range(100):
            double(rng.standard_normal((8, 8)))
        double(rng.standard_normal((8, 8)) * 1e9)
    assert [mismatch.number for mismatch in found] == [101]
    assert checker.stats().outliers < 15


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"policy": "drop-old"}, "unknown policy 'drop-old'; did you mean 'drop-oldest'?"),
        ({"sample_probability": 1.5}, "the sample probability is 1.5; it must be between 0 and 1"),
        ({"workers": 0}, "max_queue_bytes and workers must be positive, max_execution_queue_size 0 or positive"),
    ],
)
def test_settings_that_are_not_allowed(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as refused:
        EquivalenceChecker().start(**arguments)
    assert str(refused.value) == message


def test_a_decorator_without_a_reference_or_with_an_unknown_policy_is_refused() -> None:
    checker = EquivalenceChecker()
    with pytest.raises(UserError, match="needs a reference"):
        checker.equivalent()
    with pytest.raises(UserError, match="use a function, 'raise', 'log' or 'save'"):
        checker.equivalent(twice, "ignore")
    with pytest.raises(UserError, match="on_mismatch='save' needs spec="):
        checker.equivalent(twice, "save")
    with pytest.raises(TypeError, match="unexpected keyword argument 'rtoll'"):
        checker.equivalent(twice, rtoll=1)


async def coroutine(x: np.ndarray) -> np.ndarray:
    return 2 * x


def generator(x: np.ndarray) -> Iterator[np.ndarray]:
    yield 2 * x


@pytest.mark.parametrize("function", [coroutine, generator])
def test_a_function_that_has_not_run_when_it_returns_is_refused(function: Callable[..., Any]) -> None:
    """Its result, a coroutine or a generator, would differ from that of every reference."""
    with pytest.raises(
        UserError, match=f"{function.__name__} is a {function.__name__}; decorate the function that"
    ):
        EquivalenceChecker().equivalent(twice)(function)


@pytest.mark.parametrize("function", [equivalent, EquivalenceChecker().equivalent], ids=["function", "method"])
def test_help_shows_the_arguments_with_their_defaults(function: Callable[..., Any]) -> None:
    shown = " ".join(pydoc.render_doc(function, renderer=pydoc.plaintext).splitlines()[2].split())
    plain = re.sub(r": '[^']*'", "", shown).partition(") ->")[0]
    assert plain == (
        "equivalent(reference = None, on_mismatch = None, *, rtol = 0.01, atol = 1e-08, outlier_detector = None, "
        "sample_probability = None, spec = None, **theirs"
    )


def test_the_counts_as_prometheus_text() -> None:
    checker = EquivalenceChecker()

    def named(x: np.ndarray) -> np.ndarray:
        return x

    named.__module__, named.__qualname__ = "app", 'f["x"]'
    monitored = checker.equivalent(twice)(named)
    with checker.start(**ALL):
        monitored(np.ones(2))
    text = checker.stats().prometheus()
    assert 'kcheck_monitor_mismatches_total{function="app.f[\\"x\\"]"} 1\n' in text
    assert "# TYPE kcheck_monitor_calls_total counter\n" in text
    assert "kcheck_monitor_queue_bytes 0\n" in text
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(names) == len(set(names)) == 12
