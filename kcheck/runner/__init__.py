"""Runs specs: from a list of them to a stream of events."""

from kcheck.runner.calibrate import Calibrator, Measured
from kcheck.runner.options import Options, Recalled
from kcheck.runner.run import run
from kcheck.runner.select import parse as parse_keyword
from kcheck.runner.select import select
from kcheck.runner.summary import Summary

__all__ = ["Calibrator", "Measured", "Options", "Recalled", "Summary", "parse_keyword", "run", "select"]
