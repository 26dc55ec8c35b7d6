"""What numba-cuda's tests expect of their repository's conftest.py, which the wheel leaves out; and a record of
what became of each test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

_ORDER = ("failed", "passed", "xfailed", "skipped")  # the first that any phase or subtest of a test has


def pytest_addoption(parser):
    """``--record FILE``: write each test's outcome there, as JSON."""
    parser.addoption("--record", help="file for the outcome of each test")


@pytest.fixture
def initialize_from_pytest_config(request):
    """``CUDATestCase`` writes reproducers of failed file checks when this is set; it is an option there."""
    if request.instance is not None:
        request.instance._dump_failed_filechecks = False


class Recorder:
    """Outcome and, of a failure, its last line, by test: ``cudapy/test_sync.py::TestCudaSync::test_x``."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.outcomes: dict[str, dict[str, str]] = {}

    def pytest_runtest_logreport(self, report):
        """A phase of a test, or one of its subtests, has ended."""
        outcome = report.outcome
        if outcome == "skipped" and hasattr(report, "wasxfail"):
            outcome = "xfailed"
        if report.when != "call" and outcome == "passed":
            return
        name = report.nodeid.split("/tests/")[-1].split("conformance/")[-1]
        before = self.outcomes.get(name)
        if before is None or _ORDER.index(outcome) < _ORDER.index(before["outcome"]):
            self.outcomes[name] = {"outcome": outcome, "reason": _reason(report)}
            with self.path.with_suffix(".jsonl").open("a") as file:  # for whoever watches
                file.write(json.dumps([name, outcome, _reason(report), round(report.duration, 1)]) + "\n")

    def pytest_sessionfinish(self):
        """Everything has run."""
        self.path.write_text(json.dumps(self.outcomes, indent=1, sort_keys=True))


def _reason(report) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        return crash.message.split("\n")[0][:300]
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])[:300]
    return str(report.longrepr or "").strip().split("\n")[-1][:300]


def pytest_configure(config):
    """Record in the process that sees every report, not in xdist's workers."""
    path = config.getoption("--record")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(path))
