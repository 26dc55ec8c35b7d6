"""Runs on a Dask cluster of processes on this machine: peak memory of the client, and a worker that is killed.

Part of `make scale`; alone:

    python -m benchmarks.clustering 1000 20000      these numbers of cases
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

CASES = (1_000, 20_000, 100_000)
KILLED = 20_000
"""The run in which a worker is killed, and whose verdicts are compared with those of a local run."""

_SPEC = """\
kcheck: 1
op: op
function: ops.py:op
reference: ops.py:reference
dims: {N: 1..64}
inputs: {x: [N]}
outputs: {y: [N]}
"""
_OPS = """\
def reference(x):
    return 2 * x


def op(x):
    return x + x + (x.size == 17)
"""
SECTION = """\
## On a cluster

Cases of an array function on a Dask cluster of {workers} workers on this machine (`kcheck run --executor dask`);
one in 64 fails. Peak memory of the client, with the text report and without the store.

| cases | seconds | client, peak | |
|---:|---:|---:|---|
{rows}
"""


@dataclass(frozen=True)
class ClusterRun:
    """One run of the client. ``peak``: bytes of its resident memory."""

    cases: int
    seconds: float
    peak: int
    killed: str = ""


class LocalProcesses:
    """A scheduler and workers of one thread each."""

    def __init__(self, folder: Path, workers: int) -> None:
        self._folder = folder
        self._environment = {**os.environ, "KCHECK_CACHE_DIR": str(folder / "cache")}
        file = folder / "scheduler.json"
        self._processes = [self._dask("scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", str(file))]
        while not file.exists() or not file.read_text().endswith("}"):
            time.sleep(0.05)
        self.address: str = json.loads(file.read_text())["address"]
        self.workers = [self.worker() for _ in range(workers)]

    def worker(self) -> subprocess.Popen[bytes]:
        """Start one more worker."""
        self._processes.append(
            self._dask("worker", self.address, "--nthreads", "1", "--no-nanny", "--no-dashboard")
        )
        return self._processes[-1]

    def end(self) -> None:
        """End all of them."""
        for process in self._processes:
            process.kill()
            process.wait()

    def _dask(self, *words: str) -> subprocess.Popen[bytes]:
        with open(self._folder / "log", "ab") as log:
            command = [sys.executable, "-m", "dask", *words]
            return subprocess.Popen(command, env=self._environment, cwd=self._folder, stdout=log, stderr=log)


@contextmanager
def cluster(workers: int) -> Iterator[tuple[LocalProcesses, Path]]:
    """A cluster, and the folder of a project."""
    with tempfile.TemporaryDirectory() as name:
        project = Path(name, "project")
        project.mkdir()
        for file, text in (("kcheck.yaml", ""), ("op.yaml", _SPEC), ("ops.py", _OPS)):
            (project / file).write_text(text)
        processes = LocalProcesses(Path(name), workers)
        try:
            yield processes, project
        finally:
            processes.end()


def client(project: Path, cases: int, *words: str, victim: subprocess.Popen[bytes] | None = None) -> ClusterRun:
    """Run `kcheck run`. ``victim``: is killed in the midst of the run."""
    command = [sys.executable, "-m", "kcheck", "run", "op.yaml", "--cases", str(cases), "--no-store", *words]
    begun = time.monotonic()
    process = subprocess.Popen(command, cwd=project, stdout=subprocess.DEVNULL)
    if victim is not None:
        threading.Timer(4 + cases / 8000, victim.kill).start()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):  # some of the cases fail
        raise RuntimeError(f"exit code {process.returncode}: {' '.join(command)}")
    return ClusterRun(cases, time.monotonic() - begun, used.ru_maxrss << 10)


def verdicts(report: Path) -> list[tuple[str, str]]:
    """The id and the verdict of each case of a report."""
    (spec,) = json.loads(report.read_text())["specs"]
    return [(case["id"], case["status"]) for case in spec["cases"]]


def compared(processes: LocalProcesses, project: Path, cases: int) -> str:
    """What came of a run in which a worker is killed, compared with a local run.

    Raises:
        RuntimeError: a case is lost, runs twice, or has another verdict.
    """
    where = ("--executor", "dask", "--scheduler", processes.address)
    local, spread = project / "local.json", project / "spread.json"
    client(project, cases, "--format", "json", "-o", str(local))
    victim = processes.workers[0]
    client(project, cases, "--format", "json", "-o", str(spread), *where, victim=victim)
    if victim.poll() is None:
        raise RuntimeError("the run was over before a worker was killed")
    if verdicts(local) != verdicts(spread):
        raise RuntimeError(f"the verdicts of {cases} cases differ from those of a local run")
    processes.workers[0] = processes.worker()
    return f"a worker killed in another run of {cases:,}: the same verdicts as locally, none lost, none twice"


def section(counts: tuple[int, ...] = CASES, workers: int = 2) -> str:
    """The section of docs/scale.md."""
    rows = []
    with cluster(workers) as (processes, project):
        where = ("--executor", "dask", "--scheduler", processes.address)
        client(project, 10, *where)  # the workers import kcheck
        # All peaks first: that of a process includes its parent's memory, and comparing reports takes much.
        runs = [client(project, cases, *where) for cases in counts]
        for cases, ran in zip(counts, runs, strict=True):
            note = compared(processes, project, cases) if cases == KILLED or counts == (cases,) else ""
            rows.append(f"| {cases:,} | {ran.seconds:.0f} | {ran.peak / 1e6:.0f} MB | {note} |")
            print(rows[-1], flush=True)
    return SECTION.format(workers=workers, rows="\n".join(rows))


if __name__ == "__main__":
    print(section(tuple(map(int, sys.argv[1:])) or CASES))
