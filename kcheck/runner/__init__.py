"""Runs a list of specs, and yields a stream of events."""

from kcheck.runner.calibrate import Calibrator, Measured
from kcheck.runner.deadline import Deadline
from kcheck.runner.execute import Executed, execute
from kcheck.runner.options import Options, Recalled
from kcheck.runner.queue import makes
from kcheck.runner.reproduce import KnownFailure, ReplayResult, Reproduced, as_judged, current, reproduce
from kcheck.runner.run import run, run_with
from kcheck.runner.select import parse as parse_keyword
from kcheck.runner.select import select
from kcheck.runner.summary import Summary

__all__ = [
    "Calibrator",
    "Deadline",
    "Executed",
    "KnownFailure",
    "Measured",
    "Options",
    "Recalled",
    "ReplayResult",
    "Reproduced",
    "Summary",
    "as_judged",
    "current",
    "execute",
    "makes",
    "parse_keyword",
    "reproduce",
    "run",
    "run_with",
    "select",
]
