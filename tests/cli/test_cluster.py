"""``--executor dask`` on a real cluster: processes of Dask on this machine, apart from the client."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from distributed import Client
from function_project import SPEC, timeless, write_functions
from small_project import CHECKOUT, Kcheck

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs signals and locks of Linux")

KERNEL_SPEC = """\
kcheck: 1
op: double
kernel: k.py:double
reference: ops.py:reference
dims: {N: [3, 70]}
inputs: {x: [N]}
outputs: {y: [N]}
launch: {args: [x, y], grid: [1], block: [64]}
cases: {count: 4}
"""
KERNEL = """
from numba import cuda


@cuda.jit
def double(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] + x[i]
"""


class Cluster:
    """A scheduler and two workers of one thread each, and a project in a folder."""

    def __init__(self, folder: Path) -> None:
        self.project, self.marks = folder / "project", folder / "marks"
        self.project.mkdir()
        self.marks.mkdir()
        self._write()
        self.kcheck = Kcheck(self.project)
        self._environment = {**self.kcheck.environment, "KCHECK_CACHE_DIR": str(folder / "cache")}
        self._processes: list[subprocess.Popen[bytes]] = []
        file = folder / "scheduler.json"
        self._start("scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", str(file))
        while not file.exists() or not file.read_text().endswith("}"):
            time.sleep(0.05)
        self.address = json.loads(file.read_text())["address"]
        self.workers = [self.worker(), self.worker()]

    def worker(self, **environment: str) -> subprocess.Popen[bytes]:
        return self._start(
            "worker", self.address, "--nthreads", "1", "--no-nanny", "--no-dashboard", **environment
        )

    def _start(self, *words: str, **environment: str) -> subprocess.Popen[bytes]:
        with open(self.marks.parent / "log", "ab") as log:
            self._processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", "dask", *words],
                    env={**self._environment, **environment},
                    cwd=self.marks.parent,
                    stdout=log,
                    stderr=log,
                )
            )
        return self._processes[-1]

    def _write(self) -> None:
        write_functions(self.project, self.marks)
        for name, text in (("k.py", KERNEL), ("double.yaml", KERNEL_SPEC)):
            (self.project / name).write_text(text)

    def words(self, *arguments: str) -> tuple[str, ...]:
        return ("run", *arguments, "--executor", "dask", "--scheduler", self.address, "--no-store")

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.kcheck.command(*self.words(*arguments)),
            cwd=self.project,
            env=self.kcheck.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def marked(self, name: str) -> list[int]:
        """The processes that have run a case of an op."""
        return [int(mark.suffix[1:]) for mark in self.marks.glob(f"{name}.*")]

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    started = Cluster(tmp_path_factory.mktemp("cluster"))
    yield started
    started.end()


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[Cluster]:
    """For a test that ends workers."""
    started = Cluster(tmp_path)
    yield started
    started.end()


@pytest.mark.slow
def test_the_report_is_that_of_a_local_run(cluster: Cluster) -> None:
    """Byte for byte but for times and the command: order, findings, places, replay lines, lines reached."""
    arguments = ("double.yaml", "wrong.yaml", "right.yaml", "--device", "cpu", "--coverage", "--format", "json")
    local = cluster.kcheck("run", *arguments, "--no-store")
    spread = cluster.kcheck(*cluster.words(*arguments))
    assert (local.returncode, spread.returncode) == (1, 1), spread.stderr
    assert timeless(json.loads(spread.stdout)) == timeless(json.loads(local.stdout))


@pytest.mark.slow
def test_a_case_that_ends_two_processes_fails(cluster: Cluster) -> None:
    """The workers live on, and the other cases have verdicts."""
    done = cluster.kcheck(*cluster.words("fatal.yaml", "right.yaml", "--format", "json"))
    assert done.returncode == 1, done.stderr
    fatal, right = json.loads(done.stdout)["specs"]
    wrong = [case for case in fatal["cases"] if case["status"] != "passed"]
    assert wrong
    assert all(case["dims"] == {"N": 6} and case["findings"][0]["rule"] == "worker" for case in wrong)
    assert "exit code 7" in wrong[0]["findings"][0]["message"]
    assert right["passed"] == 12
    assert all(worker.poll() is None for worker in cluster.workers)


@pytest.mark.slow
def test_baselines_and_calibrations_are_those_of_a_local_run(cluster: Cluster) -> None:
    """The numbers in the files, with worker processes too."""
    (cluster.project / "calibrated.yaml").write_text(
        SPEC.format(name="right", count=30).replace("op: right", "op: calibrated")
    )
    found = []
    spread = ("--executor", "dask", "--scheduler", cluster.address)
    for where in ((), ("-j2",), spread):
        done = cluster.kcheck("baseline", "save", "one", "calibrated.yaml", *where)
        assert done.returncode == 0, done.stderr
        done = cluster.kcheck("calibrate", "calibrated.yaml", "--cases", "30", *where)
        assert done.returncode == 0, done.stderr
        texts = [(cluster.project / name).read_text() for name in ("baselines/one.json", "calibration.yaml")]
        found.append(texts)
        (cluster.project / "calibration.yaml").unlink()
    assert found[0] == found[1] == found[2]
    assert cluster.kcheck("diff", "one", *spread).returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_cases_end_with_the_client(cluster: Cluster, number: signal.Signals, code: int) -> None:
    """After Ctrl-C at once, whatever the case does; if the client is killed, when the case has ended."""
    for mark in cluster.marks.iterdir():
        mark.unlink()
    name = "endless" if number == signal.SIGINT else "slow"
    process = cluster.start(f"{name}.yaml", "--timeout", "0")
    while not (running := cluster.marked(name)):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    process.send_signal(number)
    process.communicate()
    assert process.returncode == code
    while any(_runs(one) for one in running):  # the test's own limit is the limit here
        time.sleep(0.05)


@pytest.mark.slow
def test_the_cases_of_a_worker_that_is_killed_run_again(own_cluster: Cluster) -> None:
    """Its process ends with it. None is lost and none runs twice in the report; a worker that comes takes part."""
    cluster = own_cluster
    process = cluster.start("slow.yaml", "--format", "json")
    while not (running := cluster.marked("slow")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    parent = int(Path(f"/proc/{running[0]}/stat").read_text().rpartition(")")[2].split()[1])
    (victim,) = [worker for worker in cluster.workers if worker.pid == parent]
    victim.kill()
    victim.wait()
    while _runs(running[0]):
        time.sleep(0.02)
    out, told = process.communicate()
    assert process.returncode == 0, told
    (slow,) = json.loads(out)["specs"]
    assert len({case["id"] for case in slow["cases"]}) == len(slow["cases"]) == slow["passed"] == 300


@pytest.mark.slow
def test_workers_with_other_versions_are_not_used(own_cluster: Cluster) -> None:
    """With what differs. If there are no others, the run ends."""
    cluster = own_cluster
    fake = cluster.marks.parent / "other"
    (fake / "numba-9.9.dist-info").mkdir(parents=True)
    (fake / "numba-9.9.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: numba\nVersion: 9.9\n")
    for worker in cluster.workers:
        worker.kill()
        worker.wait()
    cluster.worker(PYTHONPATH=os.pathsep.join([str(fake), str(CHECKOUT)]))
    done = cluster.kcheck(*cluster.words("right.yaml"))
    assert done.returncode == 2
    assert "is not used: numba 9.9 there and numba " in done.stderr
    assert "no worker of" in done.stderr
    cluster.worker()
    with Client(cluster.address, set_as_default=False) as client:
        client.wait_for_workers(2)
    done = cluster.kcheck(*cluster.words("right.yaml"))
    assert done.returncode == 0, done.stderr
    assert "is not used: numba 9.9 there" in done.stderr


def test_a_scheduler_that_does_not_answer_is_told_within_seconds(tmp_path: Path) -> None:
    """Exit code 2, with how to start one."""
    (tmp_path / "kcheck.yaml").write_text("")
    (tmp_path / "ops.py").write_text("def right(x):\n    return x + x\n")
    text = SPEC.format(name="right", count=1).replace("ops.py:reference", "ops.py:right")
    (tmp_path / "right.yaml").write_text(text)
    kcheck = Kcheck(tmp_path)
    done = kcheck("run", "right.yaml", "--executor", "dask", "--scheduler", "tcp://127.0.0.1:9")
    assert done.returncode == 2
    assert "--scheduler tcp://127.0.0.1:9: no scheduler answers" in done.stderr
    assert "dask scheduler" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--executor", "dask"), "--executor dask needs a scheduler"),
        (("--scheduler", "tcp://127.0.0.1:9"), "--scheduler needs --executor dask"),
        (("--executor", "dask", "--scheduler", "tcp://127.0.0.1:9", "-j2"), "cannot be combined"),
        (("--executor", "dask", "--scheduler", "tcp://127.0.0.1:9", "--watch"), "--watch is for the terminal"),
    ],
)
def test_options_that_do_not_fit_are_refused(tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    """With what to write instead."""
    (tmp_path / "kcheck.yaml").write_text("")
    (tmp_path / "ops.py").write_text("def right(x):\n    return x + x\n")
    text = SPEC.format(name="right", count=1).replace("ops.py:reference", "ops.py:right")
    (tmp_path / "right.yaml").write_text(text)
    done = Kcheck(tmp_path)("run", "right.yaml", *arguments)
    assert done.returncode == 2
    assert says in done.stderr


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{process}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"
