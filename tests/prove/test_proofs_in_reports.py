"""What is proved is in every report of a run, for the kernel as it is now and no other."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from forked_python import run_module
from test_prove_command import PTX, project

FORMATS = ("json", "sarif", "junit", "html", "markdown")
SENTENCE = "memcheck, racecheck, synccheck, overflow: proved for all sizes"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with a correct kernel."""
    return project(tmp_path)


def kcheck(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command in a project, with a cache of its own."""
    environment = {**os.environ, "KCHECK_CACHE_DIR": str(folder / "cache"), "COLUMNS": "80"}
    return run_module(["kcheck", *words], folder, environment, 300)


def run(folder: Path, *words: str) -> str:
    """The text of ``kcheck run`` with a few cases."""
    done = kcheck(folder, "run", "specs/copy.yaml", "--cases", "5", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_each_format_has_what_is_proved(folder: Path) -> None:
    """The console has one line of at most 80 columns."""
    assert "proved" not in run(folder)
    assert kcheck(folder, "prove", "specs/copy.yaml").returncode == 0
    files = [word for name in FORMATS for word in ("--format", name, "-o", f"r.{name}")]
    text = run(folder, "--format", "text", *files)
    assert [line.split(maxsplit=1) for line in text.splitlines() if "proved" in line] == [["note", SENTENCE]]
    assert all(len(line) <= 80 for line in text.splitlines())
    reports = {name: (folder / f"r.{name}").read_text() for name in FORMATS}
    sanitizers = json.loads(reports["json"])["specs"][0]["sanitizers"]
    proved = {name for name, each in sanitizers.items() if each.get("proved")}
    assert proved == {"memcheck", "racecheck", "synccheck", "overflow"}
    assert json.loads(reports["sarif"])["runs"][0]["properties"]["proved"]["specs/copy.yaml"][0] == "memcheck"
    assert re.search(r'name="racecheck" value="error, \d+ of \d+ cases, proved for all sizes"', reports["junit"])
    assert SENTENCE in reports["html"]
    assert SENTENCE in reports["markdown"]


def test_a_proof_is_about_the_kernel_as_it_is_now(folder: Path) -> None:
    """A change of the kernel ends it; so does a change of the spec. A run with --prove proves again."""
    assert SENTENCE in run(folder, "--prove")
    assert SENTENCE in run(folder)
    (folder / "copy.ptx").write_text(PTX.format(guard="ge", more="add.u32 %r5, %r1, 1;"))
    assert "proved" not in run(folder)
    assert SENTENCE in run(folder, "--prove")
    spec = folder / "specs/copy.yaml"
    spec.write_text(spec.read_text().replace("1..1000", "1..1001"))
    assert "proved" not in run(folder)


def test_a_sanitizer_that_is_off_is_not_named(folder: Path) -> None:
    """What a run does not check is not in its report."""
    kcheck(folder, "prove", "specs/copy.yaml")
    assert "memcheck, synccheck, overflow: proved for all sizes" in run(folder, "--sanitize", "racecheck=off")


@pytest.mark.slow
def test_ci_fails_if_something_is_refuted(folder: Path) -> None:
    """The run after it has what was proved."""
    done = kcheck(folder, "ci", "specs/copy.yaml", "--prove", "-o", "out")
    assert "\nprove     passed\n" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0
    assert SENTENCE in (folder / "out/comment.md").read_text()
    assert json.loads((folder / "out/proofs.json").read_text())["proofs"][0]["op"] == "copy"
    (folder / "copy.ptx").write_text(PTX.format(guard="gt", more=""))
    again = kcheck(folder, "ci", "specs/copy.yaml", "--prove", "-o", "out")
    assert "\nprove     failed\n" in again.stdout, again.stdout + again.stderr
    assert again.returncode == 1
