"""Runs a suite of tests on the cpu device, and returns the outcome of each."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from conformance.numba_cuda_plugin import name_of
from conformance.starved import Idleness
from kcheck.driver.finding_log import collected
from kcheck.driver.session import environment
from kcheck.model import Finding, Level

HERE = Path(__file__).resolve().parent
NUMBA_CUDA = ("--pyargs", "numba.cuda.tests")
CC = "8.0"
LAUNCH_SECONDS = 120  # no launch of the suite takes longer; one that does not end is stopped and fails its test
SILENT_SECONDS = 300.0  # no test of the suite takes longer
_POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one test: ``passed``, ``failed``, ``skipped`` or ``xfailed``; why; how long it took."""

    outcome: str
    reason: str
    seconds: float

    @property
    def is_crash(self) -> bool:
        """Whether the process that ran it is gone."""
        return "crashed while running" in self.reason


@dataclass(frozen=True, slots=True)
class Run:
    """A run of the suite.

    Attributes:
        outcomes: by test, ``cudapy/test_sync.py::TestCudaSync::test_syncwarp``.
        broken: why it did not finish; empty: it did.
        findings: of the device, each rule and line once.
    """

    outcomes: Mapping[str, Outcome]
    broken: str = ""
    findings: Sequence[Finding] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of comparing one launch.

    Attributes:
        test, kernel: the test that made it, and the kernel.
        code: a digest of the kernel's PTX.
        verdict: a name of :mod:`conformance.verdicts`.
        detail: the first difference; empty: none.
    """

    test: str
    kernel: str
    code: str
    verdict: str
    detail: str


def read_verdicts(path: Path) -> list[Verdict]:
    """The records that ``--widths`` wrote."""
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [Verdict(name_of(test), *rest) for test, *rest in lines]


def run_suite(
    workers: int,
    *,
    tests: Sequence[str] = NUMBA_CUDA,
    without: Path | None = None,
    only: Collection[str] = (),
    widths: Path | None = None,
    silent: float = SILENT_SECONDS,
    sanitize: Mapping[str, Level] = MappingProxyType({}),
) -> Run:
    """Run tests under pytest. Compiled kernels come from an empty cache, so that every run does the same.

    Args:
        workers: processes.
        tests: what pytest gets to collect.
        without: a file that names tests to skip, one per line.
        only: the tests to run; none: all.
        widths: a file to which each launch's comparison of widths is written.
        silent: seconds in which some test must begin or end; otherwise the run is stopped.
        sanitize: levels of sanitizers, as for ``kcheck exec``.
    """
    with tempfile.TemporaryDirectory(prefix="kcheck-conformance-") as folder:
        record = Path(folder) / "record.jsonl"
        record.touch()
        told = str(Path(folder) / "findings.jsonl")
        variables = environment(dict(os.environ), told, CC, LAUNCH_SECONDS, sanitize)
        variables["PYTHONPATH"] += os.pathsep + str(HERE)
        variables["KCHECK_CACHE_DIR"] = folder
        command = [sys.executable, "-m", "pytest", "-c", str(HERE / "pytest.ini"), "--record", str(record)]
        command += ["-n", str(workers), "--max-worker-restart", "4", "-q", "--tb=no", "--disable-warnings", *tests]
        if without is not None:
            command += ["--without", str(without)]
        if only:
            names = Path(folder) / "only.txt"
            names.write_text("".join(f"{test}\n" for test in only))
            command += ["--only", str(names)]
        if widths is not None:
            command += ["--widths", str(widths)]
        # A separate session, so that all of its processes can be stopped at once.
        suite = subprocess.Popen(command, env=variables, cwd=folder, start_new_session=True)
        try:
            is_silent = not watch(suite, record, silent)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(suite.pid, signal.SIGKILL)
            suite.wait()
        outcomes, running = read_record(record)
        findings = collected(told)
    broken = ""
    if is_silent:
        tests = ", ".join(running) or "none"
        broken = f"nothing happened for {silent:.0f} s; stopped. Tests that were running: {tests}"
    elif suite.returncode not in (0, 1):  # pytest's "all passed" and "some failed"
        broken = f"pytest ended with status {suite.returncode}; its words are above"
    return Run(outcomes, broken, findings)


def watch(suite: subprocess.Popen[bytes], record: Path, silent: float) -> bool:
    """Wait for the end; False if the record did not grow for too long. ``suite`` leads a session."""
    size, idleness = 0, Idleness(suite.pid)
    while suite.poll() is None:
        time.sleep(_POLL_SECONDS)
        grown = record.stat().st_size
        if grown != size:
            size = grown
            idleness.restart()
        elif idleness.update() > silent:
            return False
    return True


def read_record(record: Path) -> tuple[dict[str, Outcome], list[str]]:
    """Outcomes, and the tests that began and did not end."""
    outcomes: dict[str, Outcome] = {}
    running: dict[str, None] = {}
    for line in record.read_text().splitlines():
        test, what, reason, seconds = json.loads(line)
        if what == "began":
            running[test] = None
        elif what == "ended":
            running.pop(test, None)
        else:
            before = outcomes.get(test)
            spent = seconds + (before.seconds if before else 0)
            if before is None or ORDER.index(what) < ORDER.index(before.outcome):
                outcomes[test] = Outcome(what, reason, spent)
            else:
                outcomes[test] = Outcome(before.outcome, before.reason, spent)
    return outcomes, list(running)


ORDER = ("failed", "passed", "xfailed", "skipped")
"""Outcomes by precedence: the test's is the first of these that any of its phases and subtests has."""
