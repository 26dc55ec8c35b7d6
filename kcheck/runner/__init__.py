"""Runs specs: from a list of them to a stream of events."""

from kcheck.runner.calibrate import Calibrator, Measured
from kcheck.runner.options import Options, Recalled
from kcheck.runner.reproduce import Known, Reproduced, Result, reproduce
from kcheck.runner.run import run
from kcheck.runner.select import parse as parse_keyword
from kcheck.runner.select import select
from kcheck.runner.summary import Summary

__all__ = [
    "Calibrator",
    "Known",
    "Measured",
    "Options",
    "Recalled",
    "Reproduced",
    "Result",
    "Summary",
    "parse_keyword",
    "reproduce",
    "run",
    "select",
]
