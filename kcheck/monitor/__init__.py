"""Check functions while a program runs: a decorator compares calls with a reference, in the background.

docs/monitor.md describes it. Importing it imports neither numba nor torch.
"""

from kcheck.monitor import export
from kcheck.monitor.centroid import ExponentialRunningCentroidExecutionOutlierDetector
from kcheck.monitor.checker import EquivalenceChecker
from kcheck.monitor.functions import equivalent
from kcheck.monitor.mismatch import FailureCallbackArgs, Mismatch, MismatchError
from kcheck.monitor.outliers import ExecutionOutlierDetector, OutlierDetector
from kcheck.monitor.stats import FunctionStats, Stats

__all__ = [
    "EquivalenceChecker",
    "ExecutionOutlierDetector",
    "ExponentialRunningCentroidExecutionOutlierDetector",
    "FailureCallbackArgs",
    "FunctionStats",
    "Mismatch",
    "MismatchError",
    "OutlierDetector",
    "Stats",
    "equivalent",
    "export",
]
