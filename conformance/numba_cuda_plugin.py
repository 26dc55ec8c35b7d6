"""What numba-cuda's tests expect of their repository's conftest.py, which the wheel leaves out; a record of what
becomes of each test; and the choice of tests."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest


def pytest_addoption(parser):
    """What :func:`conformance.suite.run_suite` asks for."""
    parser.addoption("--record", help="file for the outcome of each test")
    parser.addoption("--without", help="file with the names of tests to leave out, one on a line")
    parser.addoption("--only", help="file with the names of the tests to run, one on a line")
    parser.addoption("--widths", help="file for what comes of comparing each launch with one lane to a vector")


@pytest.fixture
def initialize_from_pytest_config(request):
    """``CUDATestCase`` writes reproducers of failed file checks when this is set; it is an option there."""
    if request.instance is not None:
        request.instance._dump_failed_filechecks = False


def name_of(nodeid: str) -> str:
    """``cudapy/test_sync.py::TestCudaSync::test_x``, wherever the suite is installed."""
    return nodeid.split("/tests/")[-1].split("conformance/")[-1]


def names_in(path: Path) -> set[str]:
    """The tests that a file names, one on a line; what follows a ``#`` is a comment."""
    lines = (line.partition("#")[0].strip() for line in path.read_text().splitlines())
    return {line for line in lines if line}


def pytest_collection_modifyitems(config, items):
    """Leave out what ``--without`` names, or what ``--only`` does not."""
    for option, is_kept in (("--without", False), ("--only", True)):
        path = config.getoption(option)
        if path:
            named = names_in(Path(path))
            out = [item for item in items if (name_of(item.nodeid) in named) != is_kept]
            config.hook.pytest_deselected(items=out)
            items[:] = [item for item in items if (name_of(item.nodeid) in named) == is_kept]


class Recorder:
    """Lines of ``[test, what, reason, seconds]``; what: began, ended, or the outcome of a phase or a subtest."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def _write(self, nodeid: str, what: str, reason: str = "", seconds: float = 0) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps([name_of(nodeid), what, reason, round(seconds, 2)]) + "\n")

    def pytest_runtest_logstart(self, nodeid, location):
        """A test begins."""
        self._write(nodeid, "began")

    def pytest_runtest_logfinish(self, nodeid, location):
        """A test has ended."""
        self._write(nodeid, "ended")

    def pytest_collectreport(self, report):
        """A file has been read."""
        if report.failed:
            self._write(report.nodeid, "failed", _reason(report))

    def pytest_runtest_logreport(self, report):
        """A phase of a test, or one of its subtests, has ended, or the process that ran it is gone."""
        outcome = report.outcome
        if outcome == "skipped" and hasattr(report, "wasxfail"):
            outcome = "xfailed"
        if report.when == "call" or outcome != "passed":
            self._write(report.nodeid, outcome, _reason(report), getattr(report, "duration", 0))


def _reason(report) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        return crash.message.split("\n")[0][:300]
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])[:300]
    return str(report.longrepr or "").strip().split("\n")[-1][:300]


def pytest_configure(config):
    """Record in the process that sees every report, not in xdist's workers; compare in these."""
    path = config.getoption("--record")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(path))
    widths = config.getoption("--widths")
    if widths and hasattr(config, "workerinput"):
        sys.path.append(str(Path(__file__).resolve().parent.parent))  # conformance, and kcheck too
        from conformance.widths import Comparison

        Comparison(Path(widths)).install()
