"""``--jobs`` on the command line. What workers do with a plan is in ``tests/runner/test_remote.py``."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from function_project import timeless, write_functions
from small_project import Kcheck


@pytest.fixture
def ops(tmp_path: Path) -> Kcheck:
    """``kcheck`` in a project of array functions, which start quickly."""
    marks = tmp_path / "marks"
    marks.mkdir()
    write_functions(tmp_path, marks)
    return Kcheck(tmp_path)


def test_the_report_is_that_of_one_process(ops: Kcheck) -> None:
    """Byte for byte but for times and the command, whatever set the number of workers."""
    found = []
    for jobs in ("1", "3"):
        done = ops("run", "wrong.yaml", "right.yaml", "--format", "json", KCHECK_JOBS=jobs)
        assert done.returncode == 1, done.stderr
        found.append(timeless(json.loads(done.stdout)))
    assert found[0] == found[1]


def test_a_function_that_ends_its_process_fails_the_cases_in_which_it_does(ops: Kcheck) -> None:
    """Exit code 1. The other cases have verdicts, and so has the next spec."""
    done = ops("run", "fatal.yaml", "right.yaml", "-j2", "--format", "json")
    assert done.returncode == 1, done.stderr
    fatal, right = json.loads(done.stdout)["specs"]
    wrong = [case for case in fatal["cases"] if case["status"] != "passed"]
    assert wrong
    assert all(case["dims"] == {"N": 6} and case["findings"][0]["rule"] == "worker" for case in wrong)
    assert "exit code 7" in wrong[0]["findings"][0]["message"]
    assert (fatal["passed"], fatal["failed"], fatal["errors"]) == (12 - len(wrong), len(wrong), 0)
    assert right["passed"] == 12


def test_cases_that_do_not_end_stop_their_spec_only(ops: Kcheck) -> None:
    """``--timeout`` in workers: after three, the other cases of the spec are skipped, and the next spec runs."""
    done = ops("run", "hangs.yaml", "right.yaml", "-j2", "--timeout", "0.5", "--format", "json")
    assert done.returncode == 1, done.stderr
    hangs, right = json.loads(done.stdout)["specs"]
    wrong = [case for case in hangs["cases"] if case["status"] != "passed"]
    assert {case["findings"][0]["rule"] for case in wrong} == {"timeout"}
    assert hangs["passed"] > 0  # the sizes that end are checked
    assert len(wrong) == 3 or hangs["skipped"] == 0
    assert hangs["passed"] + hangs["failed"] + hangs["skipped"] == 12
    assert right["passed"] == 12


def test_ci_runs_with_workers(ops: Kcheck) -> None:
    """``KCHECK_JOBS`` sets the workers of `kcheck ci`; its report is that of one process."""
    found = []
    for jobs in ("1", "2"):
        shutil.rmtree(ops.folder / ".kcheck", ignore_errors=True)  # else the second run starts with the failures
        done = ops("ci", "right.yaml", "wrong.yaml", "-o", f"out{jobs}", KCHECK_JOBS=jobs)
        assert done.returncode == 1, done.stderr
        found.append(timeless(json.loads((ops.folder / f"out{jobs}/report.json").read_text())))
    assert found[0] == found[1]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_costs_the_report_and_no_verdict(ops: Kcheck) -> None:
    """Exit code 2 says that the report is lost; the report that goes elsewhere is whole."""
    done = ops("run", "wrong.yaml", "-j2", "--format", "junit", "-o", "/dev/full", "--format", "json")
    assert done.returncode == 2
    assert "the disk is full" in done.stderr
    assert json.loads(done.stdout)["summary"]["failed"] >= 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_workers_end_with_the_run(ops: Kcheck, number: signal.Signals, code: int) -> None:
    """After Ctrl-C, and if the run is killed: nothing is left running."""
    process = subprocess.Popen(
        ops.command("run", "endless.yaml", "-j2", "--timeout", "0"),
        cwd=ops.folder,
        env=ops.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while not (running := list(ops.folder.glob("marks/endless.*"))):
        assert process.poll() is None
        time.sleep(0.02)
    worker = int(running[0].suffix[1:])
    assert worker != process.pid
    process.send_signal(number)
    assert process.wait(60) == code
    while _runs(worker):  # the kernel ends it; the test's own limit is the limit here
        time.sleep(0.02)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{process}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize("jobs", ["0", "many", "257"])
def test_a_number_of_workers_that_cannot_be_is_refused(ops: Kcheck, jobs: str) -> None:
    """With what to write instead."""
    done = ops("run", "right.yaml", "--jobs", jobs)
    assert done.returncode == 2
    assert "or auto" in done.stderr


def test_the_settings_of_the_project_set_jobs(ops: Kcheck) -> None:
    """``jobs:`` in kcheck.yaml, as a number or ``auto``."""
    (ops.folder / "kcheck.yaml").write_text("jobs: auto\n")
    assert "jobs" in (shown := ops("config").stdout)
    assert "auto" in shown
    (ops.folder / "kcheck.yaml").write_text("jobs: 0\n")
    done = ops("config")
    assert done.returncode == 2
    assert "kcheck.yaml:1" in done.stderr
