"""``kcheck ci``: every step runs, the worst exit code wins, and all reports are written."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from forked_python import run_module
from test_action import KERNEL, SPEC, Repository


def ci(repository: Repository, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_module(("kcheck", "ci", *arguments), repository.folder, repository.environ, seconds=300)


@pytest.mark.slow
def test_every_step_runs_and_the_worst_exit_code_wins(tmp_path: Path) -> None:
    """An invalid spec is exit 2, and the others run all the same; without a baseline nothing is compared."""
    repository = Repository(tmp_path)
    (repository.folder / "specs/typo.yaml").write_text("kcheck: 1\nopp: typo\n")
    result = ci(repository, "--baseline", "main", "-o", "out")
    assert result.returncode == 2
    assert "note: there is no baseline 'main' yet, so nothing was compared" in result.stdout
    assert result.stdout.splitlines()[-4:] == [
        "validate  an error in a spec, a reference or the settings",
        "run       an error in a spec, a reference or the settings",
        "lint      an error in a spec, a reference or the settings",
        "reports   out",
    ]
    assert sorted(path.name for path in (repository.folder / "out").iterdir()) == [
        "code-quality.json", "comment.md", "junit.xml", "kcheck.sarif", "lint.txt", "report.html", "report.json",
    ]  # fmt: skip
    assert "ERROR" in (repository.folder / "out/comment.md").read_text()


@pytest.mark.slow
def test_a_regression_fails_the_job(tmp_path: Path) -> None:
    """A kernel that is still correct but needs more than the baseline allows."""
    repository = Repository(tmp_path)
    (repository.folder / "specs/double.yaml").write_text(SPEC + "regression: {instructions: +0}\n")
    saved = run_module(("kcheck", "baseline", "save", "main"), repository.folder, repository.environ, seconds=300)
    assert saved.returncode == 0, saved.stderr
    slower = KERNEL.replace(
        "y[i] = x[i] + x[i]", "y[i] = x[i] + x[i]\n        y[i] = y[i] * 1 if i != 77 else x[0]"
    )
    (repository.folder / "kernels/k.py").write_text(slower)
    result = ci(repository, "--quick", "--baseline", "main")
    command = json.loads((repository.folder / "kcheck-reports/report.json").read_text())["command"]
    assert "--cases 5 --no-lint --time-budget 3" in command
    assert "--jobs auto" in command
    assert result.returncode == 1, result.stdout + result.stderr
    assert result.stdout.splitlines()[-4:] == [
        "validate  passed",
        "run       passed",
        "diff      failed",
        "reports   kcheck-reports",
    ]
    assert "### Worse than the baseline" in (repository.folder / "kcheck-reports/comment.md").read_text()
    (change,) = [
        each
        for each in json.loads((repository.folder / "kcheck-reports/diff.json").read_text())["changes"]
        if each["kind"] == "worse"
    ]
    assert change["measure"] == "instructions"
