"""Outlier detectors: how many calls they flag, and what they flag at once."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
import monitor_outliers

from kcheck.monitor import ExponentialRunningCentroidExecutionOutlierDetector, OutlierDetector
from kcheck.monitor.outliers import FEATURES

SHAPES = [(1, 1), (1, 4096), (32, 64), (512, 1), (100, 512)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_share_is_within_a_factor_of_two_of_the_target_and_unusual_inputs_are_flagged_at_once(
    shape: tuple[int, int],
) -> None:
    """The sweep of docs/monitor.md, on fewer shapes: four streams, five kinds of unusual inputs."""
    found = monitor_outliers.measured([shape], calls=1500)
    monitor_outliers.check(found)
    assert set(found.shares) == {"stationary", "drifting", "wandering", "heavy"}
    assert {what for _, what, _, _ in found.unusual} >= {"shifted", "NaN", "new shape"}
    assert len(found.unusual) == (12 if shape == (1, 1) else 20)


def test_the_sweep_refuses_a_wrong_share_and_a_missed_input() -> None:
    right = monitor_outliers.Measured({"stationary": [0.6, 1.9]}, [("stationary", "NaN", (1, 1), True)])
    monitor_outliers.check(right)
    for shares, flagged in (([0.4, 1.0], True), ([1.0, 2.1], True), ([1.0], False)):
        wrong = monitor_outliers.Measured({"stationary": shares}, [("stationary", "NaN", (1, 1), flagged)])
        with pytest.raises(AssertionError, match="stationary"):
            monitor_outliers.check(wrong)


UNUSUAL = {
    "shifted": lambda x: x + 40,
    "one feature shifted": lambda x: x + 40 * (np.arange(x.shape[1]) == 0),
    "negated and shifted": lambda x: -x - 40,
    "collapsed": lambda x: np.full_like(x, 0.1),
    "rows collapsed": lambda x: np.broadcast_to(x[:1], x.shape),
    "exploding": lambda x: x * 1e4,
    "infinite": lambda x: np.where(x > 0, np.inf, x),
    "NaN": lambda x: np.full_like(x, np.nan),
    "one column NaN": lambda x: np.where(np.arange(x.shape[1]) == 0, np.nan, x),
    "of a new shape": lambda x: x[:-1],
    "of a new dtype": lambda x: x.astype(np.float64),
}


@pytest.mark.parametrize(
    "stream", [monitor_outliers.stationary, monitor_outliers.drifting, monitor_outliers.wandering]
)
@pytest.mark.parametrize("shape", [(32, 16), (8, 1024), (512, 3)], ids=str)
def test_more_kinds_of_unusual_inputs(stream: Callable[..., Iterator[Any]], shape: tuple[int, int]) -> None:
    for name, unusual in UNUSUAL.items():
        inputs, detector = stream(np.random.default_rng(3), shape), OutlierDetector()
        for _ in range(150):
            detector.is_outlier(next(inputs))
        changed = unusual(next(inputs))
        assert detector.is_outlier(changed if "dtype" in name else changed.astype(np.float32)), name


def test_a_nan_does_not_change_what_is_usual() -> None:
    """After NaNs the detector flags as before; inputs that often have NaNs are not flagged each time."""
    inputs = monitor_outliers.stationary(np.random.default_rng(4), (16, 16))
    detector = OutlierDetector(share=0.04)
    flagged = [
        detector.is_outlier(np.full((16, 16), np.nan) if call % 3 == 0 else next(inputs)) for call in range(1500)
    ]
    assert 0.02 <= np.mean(flagged[300:]) <= 0.08
    assert detector.is_outlier(next(inputs) * 1e5)


@pytest.mark.parametrize(
    "value",
    [np.zeros(0), np.float32(3), np.arange(5), np.zeros((3, 0, 2)), np.ones((2, 3, 4, 5)).transpose(3, 1, 0, 2)],
    ids=["empty", "a number", "integers", "no features", "in no order"],
)
def test_inputs_of_any_kind(value: Any) -> None:
    detector = OutlierDetector()
    assert detector.is_outlier(value)  # its shape is new
    assert not detector.is_outlier(value) or np.ndim(value) == 4 or np.size(value) == 1  # which may have collapsed


def test_the_memory_is_constant() -> None:
    detector = OutlierDetector()
    sizes = []
    for call in range(1600):
        rows, features = 1 + call // 40, 1 + call % 40
        detector.is_outlier(np.arange(call, call + rows * features, dtype=float).reshape(rows, features))
        if call in (1199, 1599):
            arrays = [array for state in detector._states.values() for array in (state.middle, state.scale)]
            held = sum(array.nbytes for array in arrays)
            sizes.append((len(detector._shapes), len(detector._states), held))
    assert sizes[0] == sizes[1]  # after 1,200 shapes and after 1,600
    assert sizes[0][:2] == (1024, 8)
    assert max(array.size for array in arrays) <= 2 * FEATURES


def test_a_call_takes_microseconds_whatever_the_size() -> None:
    """At most 20 us on an idle machine (docs/performance.md); here a loose limit, and no growth with the size."""
    times = {}
    for shape in ((1, 256), (512, 4096)):
        detector, x = OutlierDetector(), np.ones(shape, np.float32)
        x[::2] = np.linspace(0, 1, shape[1])
        spent = []
        for _ in range(20):
            begun = time.thread_time()
            for _ in range(20):
                detector.is_outlier(x)
            spent.append((time.thread_time() - begun) / 20)
        times[shape] = min(spent)
    assert times[512, 4096] < 200e-6
    assert times[512, 4096] < 5 * times[1, 256]


def test_the_share_must_be_a_share() -> None:
    with pytest.raises(ValueError, match="share is 0; it must be between 0 and 1"):
        OutlierDetector(share=0)


def test_the_running_centroid_flags_by_its_rule() -> None:
    """The centroid follows slowly; a batch is flagged from 0.8 of the 95th percentile of the distances on."""
    detector = ExponentialRunningCentroidExecutionOutlierDetector()
    rng = np.random.default_rng(0)
    assert detector.is_outlier(rng.standard_normal((64, 4)))
    assert not detector.is_outlier(rng.standard_normal((64, 4)) * 0.5)
    assert detector.is_outlier(rng.standard_normal((64, 4)) + 20)
    assert detector.is_outlier(np.full((64, 4), np.nan))
    detector.reset()
    assert detector.is_outlier(rng.standard_normal((64, 4)))


def test_the_running_centroid_by_hand() -> None:
    """Centroid 0, then 0.01 * 3; distances 0, 0 | 2.97, 2.97: the mean over the median is 2."""
    detector = ExponentialRunningCentroidExecutionOutlierDetector(percentile=0.5, outlier_threshold=1.99)
    assert detector.is_outlier(np.zeros((2, 1)))
    assert detector.is_outlier(np.full((2, 1), 3.0))
    same = ExponentialRunningCentroidExecutionOutlierDetector(percentile=0.5, outlier_threshold=2.01)
    same.is_outlier(np.zeros((2, 1)))
    assert not same.is_outlier(np.full((2, 1), 3.0))
