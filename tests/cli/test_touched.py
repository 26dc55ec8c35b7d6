"""``kcheck run --touched``, as the pre-commit hook calls it: unsupported kernels are reported, and do not fail."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_project import Kcheck

PLAIN = """\
    if i < x.size:
        y[i] = x[i] + x[i]


@cuda.jit
def triple"""
SHUFFLE = """\
    v = x[i] if i < x.size else 0
    v = cuda.shfl_sync(0xFFFFFFFF, v, cuda.laneid)
    if i < x.size:
        y[i] = v + v


@cuda.jit
def triple"""


def said(stderr: str) -> list[str]:
    """What kcheck says itself; the reference file of the project prints, too."""
    return [line for line in stderr.splitlines() if line != "a reference file prints"]


@pytest.fixture
def shuffling(kcheck: Kcheck, project: Path) -> Kcheck:
    """The kernel is correct, and the simulator has no shuffles."""
    kernels = project / "kernels/k.py"
    text = kernels.read_text()
    assert PLAIN in text
    kernels.write_text(text.replace(PLAIN, SHUFFLE))
    spec = project / "specs/good.yaml"
    spec.write_text(spec.read_text().replace("block: [8]", "block: [32]"))
    return kcheck


def test_a_correct_kernel_that_the_device_does_not_support_is_not_blocked(shuffling: Kcheck) -> None:
    """The commit passes, and one line says what was skipped and where it can run."""
    done = shuffling("run", "-q", "--touched", "--device", "simulator", "specs/good.yaml")
    assert done.returncode == 0, done.stdout
    assert "ERROR" not in done.stdout
    (line,) = said(done.stderr)
    assert line.startswith("kcheck: warning: on the simulator, skipped: 2 cases of specs/good.yaml; ")
    assert "cpu" in line


def test_elsewhere_it_is_an_error_with_the_reason(shuffling: Kcheck) -> None:
    """A run that was asked for by hand must not be green for a kernel that did not run."""
    done = shuffling("run", "-q", "--device", "simulator", "specs/good.yaml")
    assert done.returncode == 2
    assert "Numba's simulator has no cuda.shfl_sync" in done.stdout


def test_the_cpu_device_checks_it(shuffling: Kcheck) -> None:
    """As the hook runs it: it passes with nothing left out, so nothing is said."""
    done = shuffling("run", "-q", "--touched", "--device", "cpu", "specs/good.yaml")
    assert done.returncode == 0, done.stdout
    assert said(done.stderr) == []


def test_a_hook_on_the_simulator_names_what_it_did_not_look_for(kcheck: Kcheck) -> None:
    """It passes, and says in one line which sanitizers did not run."""
    done = kcheck("run", "-q", "--touched", "--device", "simulator", "specs/good.yaml")
    assert done.returncode == 0, done.stdout
    (line,) = said(done.stderr)
    assert line.startswith("kcheck: warning: on the simulator, not checked: racecheck, initcheck, overflow; ")


def test_a_bug_is_blocked_on_any_device(kcheck: Kcheck) -> None:
    """Leniency is for what could not run, not for what failed."""
    assert kcheck("run", "-q", "--touched", "--device", "simulator", "specs/buggy/bad.yaml").returncode == 1


def test_the_project_of_init_can_be_committed_without_its_sample(kcheck: Kcheck, tmp_path: Path) -> None:
    """The sample of a bug blocks the commit; it says to delete it first."""
    made = Kcheck(tmp_path / "new")
    made.folder.mkdir()
    assert made("init").returncode == 0
    sample = made.folder / "specs/buggy/row_sum_no_barrier.yaml"
    assert "delete this file before you commit" in sample.read_text()
    files = [str(path.relative_to(made.folder)) for path in made.folder.rglob("*.*") if path.is_file()]
    assert made("run", "-q", "--touched", *files).returncode == 1
    sample.unlink()
    done = made("run", "-q", "--touched", *files)
    assert done.returncode == 0, done.stdout
