"""Runs Triton's own tests in chunks: a process for each, so that a crash or a hang costs one test.

What came of each test is kept in a file, and a run that was stopped goes on where it was.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

from conformance.suite import Outcome, read_record, watch
from kcheck.driver.finding_log import collected, read_finding
from kcheck.driver.session import environment
from kcheck.model import Finding, Level

HERE = Path(__file__).resolve().parent
LAUNCH_SECONDS = 120
SILENT_SECONDS = 240.0
CHUNK = 80


@dataclass(frozen=True, slots=True)
class Suite:
    """Tests and how to run them.

    Attributes:
        folder: the one with ``conftest.py`` and ``language``.
        cc: the compute capability.
        sanitize: levels of sanitizers, as for ``kcheck exec``.
        silent: seconds in which some test must begin or end.
        options: further options of pytest.
    """

    folder: Path
    cc: str
    sanitize: Mapping[str, Level] = field(default_factory=dict)
    silent: float = SILENT_SECONDS
    options: Sequence[str] = ()

    def command(self, file: str, *words: str) -> list[str]:
        """pytest on one file."""
        command = [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", str(self.folder)]
        command += ["-p", "triton_plugin", "-p", "no:cacheprovider", "-q", "--tb=short", "--disable-warnings"]
        return [*command, *self.options, *words, file]

    def variables(self, findings: Path) -> dict[str, str]:
        """The environment of a process under ``kcheck exec``."""
        changed = environment(dict(os.environ), str(findings), self.cc, LAUNCH_SECONDS, self.sanitize)
        changed["PYTHONPATH"] += os.pathsep + str(HERE)
        return changed


@dataclass
class Kept:
    """What is known about a suite so far: outcomes by test, and the findings of the device.

    Attributes:
        sizes: the number of tests of each file that this run has read.
    """

    path: Path
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Kept:
        """From its file; empty if there is none."""
        kept = cls(path)
        lines = path.read_text().splitlines() if path.exists() else []
        for line in lines:
            row = json.loads(line)
            kept._take({name: Outcome(*fields) for name, fields in row["outcomes"].items()}, _findings(row))
        return kept

    def _take(self, outcomes: Mapping[str, Outcome], findings: Sequence[Finding]) -> None:
        self.outcomes.update(outcomes)
        self.findings += findings

    def add(self, outcomes: Mapping[str, Outcome], findings: Sequence[Finding]) -> None:
        """Remember what came of a chunk, also after this process."""
        self._take(outcomes, findings)
        row = {
            "outcomes": {name: (o.outcome, o.reason, o.seconds) for name, o in outcomes.items()},
            "findings": [asdict(finding) for finding in findings],
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")


def _findings(row: Mapping[str, list[dict[str, object]]]) -> list[Finding]:
    return [read_finding(fields) for fields in row["findings"]]


def names_of(suite: Suite, file: str) -> list[str]:
    """The tests of a file, such as ``language/test_core.py``.

    Raises:
        RuntimeError: pytest cannot read it.
    """
    with tempfile.TemporaryDirectory(prefix="kcheck-conformance-") as folder:
        names = Path(folder, "names.txt")
        command = suite.command(file, "--names", str(names))
        done = subprocess.run(
            command,
            cwd=suite.folder,
            env=suite.variables(Path(folder, "findings.jsonl")),
            capture_output=True,
            text=True,
        )
        if not names.exists():
            raise RuntimeError(f"pytest cannot read {file}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return names.read_text().splitlines()


def sample(tests: Sequence[str], every: int) -> list[str]:
    """One test of each group of that many, by a hash of its name, so that it is always the same."""
    return [test for test in tests if zlib.crc32(test.encode()) % every == 0]


def run_tests(suite: Suite, tests: Sequence[str], kept: Kept, workers: int) -> Iterator[str]:
    """Run the tests that have no outcome yet; a line after each chunk."""
    left = [test for test in tests if test not in kept.outcomes]
    by_file: dict[str, list[str]] = {}
    for test in left:
        by_file.setdefault(test.partition("::")[0], []).append(test)
    chunks = [
        (file, mine[start : start + CHUNK])
        for file, mine in by_file.items()
        for start in range(0, len(mine), CHUNK)
    ]
    with ThreadPoolExecutor(workers) as pool:
        for file, outcomes, findings in pool.map(lambda chunk: _run_whole(suite, *chunk), chunks):
            kept.add(outcomes, findings)
            passed, failed = (sum(o.outcome == kind for o in outcomes.values()) for kind in ("passed", "failed"))
            yield f"{file}: {len(outcomes)} tests, {passed} passed, {failed} failed"


def _run_whole(suite: Suite, file: str, tests: Sequence[str]) -> tuple[str, dict[str, Outcome], list[Finding]]:
    """Run a chunk to its end, in another process after each one that is lost."""
    outcomes: dict[str, Outcome] = {}
    findings: list[Finding] = []
    left = list(tests)
    while left:
        done, found = run_chunk(suite, file, left)
        if not done:
            done = {left[0]: Outcome("failed", "the process ended before the first test", 0)}
        outcomes |= done
        findings += found
        left = [test for test in left if test not in outcomes]
    return file, outcomes, findings


def run_chunk(suite: Suite, file: str, tests: Collection[str]) -> tuple[dict[str, Outcome], list[Finding]]:
    """Run tests of one file in one process, until it ends; the test that ends it fails."""
    with tempfile.TemporaryDirectory(prefix="kcheck-conformance-") as folder:
        record, only, told = (Path(folder, name) for name in ("record.jsonl", "only.txt", "findings.jsonl"))
        record.touch()
        only.write_text("".join(f"{test}\n" for test in tests))
        command = suite.command(file, "--record", str(record), "--only", str(only))
        with Path(folder, "log.txt").open("wb") as log:
            process = subprocess.Popen(
                command,
                cwd=suite.folder,
                env=suite.variables(told),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            try:
                is_silent = not watch(process, record, suite.silent)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        outcomes, running = read_record(record)
        why = (
            f"hangs: stopped after {suite.silent:.0f} s"
            if is_silent
            else f"the process crashed ({process.returncode})"
        )
        for test in running:
            outcomes[test] = Outcome("failed", why, 0)
        return outcomes, collected(str(told))
