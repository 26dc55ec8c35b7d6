"""cuda-kernel-verifier's outlier detector, with its names, defaults and rule, for arrays of any framework.

Source: the section on outlier detection of cuda-kernel-verifier's README.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from kcheck.monitor.arrays import as_host
from kcheck.monitor.outliers import ExecutionOutlierDetector, Floats


class ExponentialRunningCentroidExecutionOutlierDetector(ExecutionOutlierDetector):
    """Flags batches that are far from a running centroid; the first batch too.

    Axis 0 of an input is the batch. Each sample has a Euclidean distance from the centroid, an exponential moving
    average of batch means. A batch is an outlier if the mean of its distances is at least
    ``outlier_threshold`` of the quantile ``percentile`` of the last ``max_distances`` distances. It keeps these,
    reads the whole input, and takes longer than :class:`OutlierDetector`. An input with a NaN is an outlier, and
    changes nothing.

    >>> import numpy as np
    >>> from kcheck.monitor import ExponentialRunningCentroidExecutionOutlierDetector
    >>> detector = ExponentialRunningCentroidExecutionOutlierDetector(outlier_threshold=0.9)
    >>> detector.is_outlier(np.ones((8, 4))), detector.is_outlier(np.full((8, 4), 9.0))
    (True, True)

    Args:
        percentile: the quantile of the distances, in [0, 1].
        max_distances: how many distances are kept.
        exponential_alpha: the weight of a batch in the centroid.
        outlier_threshold: a fraction of the percentile.
    """

    def __init__(
        self,
        percentile: float = 0.95,
        max_distances: int = 10_000,
        exponential_alpha: float = 1e-2,
        outlier_threshold: float = 0.8,
    ) -> None:
        self._percentile = percentile
        self._max_distances = max_distances
        self._alpha = exponential_alpha
        self._outlier_threshold = outlier_threshold
        self._lock = threading.Lock()
        self._centroid: Floats | None = None
        self._distances: Floats = np.empty(0)

    def reset(self) -> None:
        """Forget all inputs."""
        with self._lock:
            self._centroid = None
            self._distances = np.empty(0)

    def is_outlier(self, data: Any) -> bool:
        """Whether a batch is far from the centroid.
        A batch with a different number of features starts a new one."""
        batch = np.asarray(as_host(data)).astype(np.float64)
        if not batch.size:
            return False
        batch = batch.reshape(len(batch), -1) if batch.ndim else batch.reshape(1, 1)
        mean = batch.mean(axis=0)
        if not np.isfinite(mean).all():
            return True
        with self._lock:
            first = self._centroid is None or len(self._centroid) != len(mean)
            if first or self._centroid is None:
                self._centroid = mean
                self._distances = np.empty(0)
            else:
                self._centroid += self._alpha * (mean - self._centroid)
            distances = np.sqrt(np.square(batch - self._centroid).sum(axis=1))
            self._distances = np.concatenate([self._distances, distances])[-self._max_distances :]
            scale = float(np.quantile(self._distances, self._percentile))
        return first or float(distances.mean()) >= self._outlier_threshold * scale > 0
