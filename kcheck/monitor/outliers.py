"""The default outlier detector: finds calls with unusual inputs by a sample of each input.

Source of the threshold: adaptive conformal inference (Gibbs and Candès, NeurIPS 2021). A threshold that rises by
``gain * (1 - share)`` at each flag, and falls by ``gain * share`` otherwise, flags this share of any bounded
scores in the long run, whatever their distribution.
"""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kcheck.alignment import ceil_div

Array: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.float64]

FEATURES = 32
"""The maximum number of features that are examined, evenly spread over those of an input."""
ELEMENTS = 512
"""The maximum number of elements that are examined in a call."""
SHAPES = 1024
"""The maximum number of shapes that are remembered."""
STATES = 8
"""The maximum number of different feature counts with separate statistics."""
RATE = 0.02
"""The weight of a call in the running centers and scales."""
GAIN = 0.3
TOP = 12.0
"""The highest score, which the first NaN gets."""
LEAST = 1e-300
_ONES: Floats = np.ones(ELEMENTS)


class ExecutionOutlierDetector(ABC):
    """Decides which calls are always checked. Subclass it to use another rule."""

    @abstractmethod
    def is_outlier(self, data: Any) -> bool:
        """Whether an input differs from earlier ones.

        Args:
            data: the first array among the arguments of the call, of its own framework. It must not be changed.
        """

    @abstractmethod
    def reset(self) -> None:
        """Forget all inputs. Called when a checker starts."""


@dataclass(slots=True, eq=False)
class _Running:
    """The usual value of a number and its usual deviation. A single value changes them little."""

    middle: float = 0.0
    scale: float = 0.25

    def score(self, value: float, rate: float) -> float:
        """How many scales a value is above the usual one. Then updates the statistics with the value."""
        away = value - self.middle
        above = away / self.scale
        limit = 4 * self.scale
        self.middle += rate * max(-limit, min(limit, away))
        self.scale = max(1e-3, self.scale + rate * (min(abs(away), limit) - self.scale))
        return above


@dataclass(slots=True, eq=False)
class _Rare:
    """How often something happens."""

    share: float = 0.0

    def score(self, happens: bool) -> float:
        """The score of the event: TOP the first time,
        lower the more often it happens, and 0 if it does not happen."""
        self.share += RATE * (happens - self.share)
        return min(TOP, -3 * math.log(self.share)) if happens else 0.0


@dataclass(slots=True, eq=False)
class _State:
    """The statistics of inputs with the same number of features.

    Attributes:
        middle, scale: the usual value of each statistic, and its usual deviation. The first half of the statistics
            are means of features, the second half logarithms of their spreads.
    """

    middle: Floats
    scale: Floats
    calls: int = 0


class OutlierDetector(ExecutionOutlierDetector):
    """Flags inputs that are shifted, collapsed, exploding or not finite, or have a new shape.

    Axis 0 of an input is the batch, all others are features. In each call it looks at up to 512 elements, spread
    evenly over up to 32 features, and compares their means and their spreads with a running center and scale for
    each. In the long run it flags ``share`` of the calls, plus every new shape.

    Its memory is constant, and a call takes some microseconds. It may miss a single NaN in a large input, but it
    examines different elements in each call.

    >>> import numpy as np
    >>> from kcheck.monitor import OutlierDetector
    >>> detector = OutlierDetector(share=0.02)
    >>> rng = np.random.default_rng(0)
    >>> flags = [detector.is_outlier(rng.standard_normal((32, 64))) for _ in range(1000)]
    >>> bool(0.01 < np.mean(flags) < 0.04)
    True
    >>> detector.is_outlier(np.zeros((32, 64))), detector.is_outlier(np.full((32, 64), np.nan))
    (True, True)

    Args:
        share: the share of the calls that are flagged, in (0, 1).

    Raises:
        ValueError: the share is not in (0, 1).
    """

    def __init__(self, share: float = 0.02) -> None:
        if not 0 < share < 1:
            raise ValueError(f"share is {share}; it must be between 0 and 1")
        self.share = share
        self._lock = threading.Lock()
        self._forget()

    def reset(self) -> None:
        """Forget all inputs."""
        with self._lock:
            self._forget()

    def _forget(self) -> None:
        self._shapes: dict[tuple[tuple[int, ...], str], None] = {}
        self._states: dict[int, _State] = {}
        self._threshold = 2.0
        self._broken, self._collapsed = _Rare(), _Rare()
        self._last = math.nan
        self._mean, self._most = _Running(), _Running()
        self._calls = 0

    def is_outlier(self, data: Any) -> bool:
        """Whether an input differs from earlier ones. Integers, bools and empty inputs are judged by shape only.

        Args:
            data: a NumPy array, or an object that NumPy can view as one.
        """
        array = data if isinstance(data, np.ndarray) else np.asarray(data)
        with self._lock:
            new = self._is_new_shape(array)
            if array.dtype.kind != "f" or not array.size:
                return new
            self._calls += 1
            with np.errstate(all="ignore"):
                score = self._scored(_block(array, self._calls))
            flagged = score > self._threshold
            self._threshold += GAIN * (flagged - self.share)
            return new or flagged

    def _is_new_shape(self, array: Array) -> bool:
        key = (array.shape, array.dtype.str)
        if key in self._shapes:
            return False
        if len(self._shapes) >= SHAPES:
            del self._shapes[next(iter(self._shapes))]
        self._shapes[key] = None
        return True

    def _scored(self, block: Floats) -> float:
        """How unusual the examined elements are, at most TOP. Then updates the statistics with them."""
        rows, features = block.shape
        ones = _ONES[:rows]
        values = np.empty(2 * features)
        means = values[:features]
        np.dot(ones, block, means)
        means *= 1 / rows
        broken = not math.isfinite(float(_ONES[:features].dot(means)))
        if score := self._broken.score(broken):
            return score
        if score := self._collapsed.score(self._is_collapsed(block)):
            return score
        state = self._states.get(features)
        if state is None:
            if len(self._states) >= STATES:
                del self._states[next(iter(self._states))]
            state = self._states[features] = _State(values.copy(), np.zeros(2 * features))
        block -= state.middle[:features]
        np.abs(block, block)
        spreads = values[features:]
        np.dot(ones, block, spreads)
        spreads += LEAST
        np.log(spreads, spreads)
        state.calls += 1
        if state.calls == 1:
            state.middle[features:] = spreads
            return TOP
        values -= state.middle
        return self._compared(state, values)

    def _compared(self, state: _State, away: Floats) -> float:
        """The score of statistics from their distances to the usual values. Updates ``state``."""
        middle, scale, rate = state.middle, state.scale, max(RATE, 1 / state.calls)
        if state.calls == 2:
            np.abs(away, scale)
        if state.calls & 15 == 2:  # the scale of a constant statistic shrinks; keep it above 0
            np.maximum(scale, 1e-6 * np.abs(middle) + 1e-30, out=scale)
        away /= scale
        distance = np.abs(away)
        mean = float(_ONES[: len(distance)].dot(distance)) / len(distance)
        most = float(distance[distance.argmax()])
        np.minimum(distance, 4, out=distance)
        np.copysign(distance, away, away)
        away *= scale
        away *= rate
        middle += away
        distance *= rate
        distance += 1 - rate
        scale *= distance
        return min(
            TOP,
            max(
                self._mean.score(math.log(mean + 1e-9), rate),
                self._most.score(math.log(most + 1e-9), rate),
            ),
        )

    def _is_collapsed(self, block: Floats) -> bool:
        """Whether all rows are the same, or all features of the only row."""
        rows, features = block.shape
        if rows > 1:
            return bool(block[0, 0] == block[-1, 0] and (block == block[0]).all())
        if features > 1:
            return bool(block[0, 0] == block[0, -1] and (block == block[0, 0]).all())
        last, self._last = self._last, float(block[0, 0])
        return last == self._last


def _block(array: Array, turn: int) -> Floats:
    """Up to ELEMENTS elements as rows of up to FEATURES features; other rows in each call."""
    if array.ndim < 2:
        array = array.reshape(-1, 1)
    elif array.ndim > 2:
        array = array.reshape(len(array), -1) if array.flags.c_contiguous else _thinned(array)
    rows, features = array.shape
    across = ceil_div(features, FEATURES)
    down = -(-rows * min(features, FEATURES) // ELEMENTS)
    start = turn % down if down > 1 else 0
    return array[start::down, ::across].astype(np.float64)


def _thinned(array: Array) -> Array:
    """A copy of some elements of an array that cannot be viewed as rows."""
    kept = FEATURES
    slices = [slice(None, None, ceil_div(array.shape[0], ELEMENTS))]
    for size in array.shape[1:]:
        step = ceil_div(size, kept)
        slices.append(slice(None, None, step))
        kept = max(1, kept // ceil_div(size, step))
    part = array[tuple(slices)]
    return part.reshape(len(part), -1)
