"""``kcheck minimize``: from a stored failure to the smallest one, stored, exported and run again."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from small_project import Kcheck

SPEC = "specs/buggy/bad.yaml"
RUN = ("run", "--device", "simulator", SPEC)
SLOW = """\
import time
from pathlib import Path

import numpy as np


def draw(rng, shape, dtype):
    Path("drawn").open("a").write("x")
    time.sleep(0.1)
    return np.full(shape, 2, dtype)
"""


def edit(project: Path, path: str, before: str, after: str) -> None:
    text = (project / path).read_text()
    assert before in text
    (project / path).write_text(text.replace(before, after))


def failing_seed(kcheck: Kcheck) -> str:
    """The seed of a case that failed."""
    done = kcheck(*RUN)
    assert done.returncode == 1, done.stderr
    found = re.search(r" (\d+)  mismatch ", kcheck("failures").stdout, re.MULTILINE)
    assert found is not None
    return found[1]


def ending(done: subprocess.CompletedProcess[str]) -> str:
    """The line that says how it ended."""
    return next(line for line in done.stdout.splitlines() if re.match(r"[A-Z]{4,}", line))


@pytest.fixture
def large(stored: Kcheck, project: Path) -> Kcheck:
    """A kernel that is wrong above 6 elements, in a spec that draws up to 40."""
    edit(project, SPEC, "N: [1, 2, 5]", "N: 1..40")
    edit(project, SPEC, "block: [8]", "block: [64]")
    edit(project, "kernels/k.py", "y[i] = x[i] * 3", "y[i] = x[i] * (3 if x.size > 6 else 2)")
    return stored


def test_the_smallest_case_is_told_stored_and_run_first(large: Kcheck, project: Path, tmp_path: Path) -> None:
    """What matters is said; reproduce and export take the smallest case, and the next run begins with it."""
    seed = failing_seed(large)
    done = large("minimize", "--seed", seed)
    assert done.returncode == 0, done.stderr
    assert ending(done).startswith("SMALLEST  after ")
    assert "matters    fails when N > 6\n" in done.stdout
    assert "  dims       N=7\n" in done.stdout
    assert f"kcheck reproduce {seed} --op bad" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "N=7 T=float32" in large("failures").stdout
    assert ending(large("reproduce", seed)).startswith("STILL FAILS  same bits")
    assert large("export", seed, "-o", "small.kcase").returncode == 0
    clone = tmp_path / "clone"
    shutil.copytree(project, clone, ignore=shutil.ignore_patterns(".kcheck"))
    elsewhere = Kcheck(clone)
    elsewhere.environment = large.environment
    assert ending(elsewhere("reproduce", "small.kcase")) == "STILL FAILS  same bits"
    assert f"stored_{seed}-N=7" in large(*RUN, "-v").stdout


def test_a_file_is_as_good_as_a_seed(large: Kcheck) -> None:
    """An exported case is minimized without a store."""
    seed = failing_seed(large)
    assert large("export", seed, "-o", "case.kcase").returncode == 0
    before = large("failures").stdout
    done = large("minimize", "case.kcase", "--strategy", "dims", "--no-store", "--device", "simulator")
    assert done.returncode == 0
    assert "  dims       N=7\n" in done.stdout
    assert large("failures").stdout == before


def test_what_passes_or_is_gone_has_no_smallest_case(large: Kcheck, project: Path) -> None:
    """Both exit with 5, and say why."""
    seed = failing_seed(large)
    edit(project, "kernels/k.py", "3 if", "2 if")
    done = large("minimize", seed)
    assert (done.returncode, ending(done)) == (5, "PASSES  on the simulator; there is nothing to shrink")
    edit(project, SPEC, "op: bad", "op: better")
    done = large("minimize", seed)
    assert (done.returncode, ending(done)) == (5, "GONE  the spec no longer has this case")
    assert "no spec declares the op 'bad' any longer" in done.stdout
    assert seed not in large("failures").stdout


def test_runs_that_are_used_up_are_said(large: Kcheck) -> None:
    """The smaller case that was found by then is told, with what ended the search."""
    done = large("minimize", failing_seed(large), "--max-iters", "10")
    assert done.returncode == 0
    assert re.fullmatch(r"SMALLER  after (\d|10) kernel runs, .* s; --max-iters 10 was reached", ending(done))
    assert large("minimize", "1", "--max-iters", "2").returncode == 2


def test_ctrl_c_keeps_what_was_found(large: Kcheck, project: Path) -> None:
    """SIGINT ends the search; the smallest case until then is told, and the exit is 130."""
    edit(project, SPEC, "inputs: {x: [N]}", "inputs: {x: {shape: [N], values: {from: 'kernels/g.py:draw'}}}")
    (project / "kernels/g.py").write_text(SLOW)
    seed = failing_seed(large)
    (project / "drawn").unlink()
    process = subprocess.Popen(
        large.command("minimize", seed, "--no-store", "--op", "bad", "--device", "simulator"),
        cwd=large.folder,
        env=large.environment,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    until = time.monotonic() + 60
    while not ((project / "drawn").is_file() and len((project / "drawn").read_text()) >= 4):
        assert time.monotonic() < until
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "INTERRUPTED  the smallest case so far, after " in said


def test_what_a_kernel_prints_is_not_heard_while_it_is_shrunk(stored: Kcheck, project: Path) -> None:
    """Dozens of launches of somebody's debugging line would drown the answer; the case as given shows it once."""
    edit(project, "kernels/k.py", "y[i] = x[i] * 3", "y[i] = x[i] * 3\n        print('at', i)")
    seed = failing_seed(stored)
    done = stored("minimize", seed)
    assert done.returncode == 0, done.stderr
    assert ending(done).startswith("SMALLEST")
    assert done.stderr.count("at 0\n") == 1
    assert stored("reproduce", seed).stderr.count("at 0\n") == 1


def test_a_condition_holds_for_the_cases_of_the_last_run(stored: Kcheck, project: Path) -> None:
    """A case of the run that contradicts it is named, and the condition is not stated."""
    edit(project, SPEC, "N: [1, 2, 5]", "N: 1..40")
    edit(project, SPEC, "cases: {count: 2}", "cases: {count: 0}\nexamples: [{dims: {N: 1}}, {dims: {N: 37}}]")
    edit(project, SPEC, "block: [8]", "block: [64]")
    wrong = "y[i] = x[i] * (3 if x.size == 1 or x.size == 37 else 2)"
    edit(project, "kernels/k.py", "y[i] = x[i] * 3", wrong)
    assert stored(*RUN).returncode == 1
    seeds = re.findall(r" (\d+)  mismatch .* N=1 ", stored("failures").stdout)
    done = stored("minimize", seeds[0], "--strategy", "dims")
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "fails when" not in said
    assert "no simple condition on the sizes fits all cases: it fails with N=1 T=float32 and with N=37" in said
