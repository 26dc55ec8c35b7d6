"""``kcheck run`` on GitHub Actions, and reports for code hosts written by the command."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from small_project import Kcheck


def test_github_actions_gets_annotations_and_a_summary_unasked(kcheck: Kcheck, tmp_path: Path) -> None:
    """The text report stays on stdout; annotations go to stderr, where the runner reads them, too."""
    summary = tmp_path / "summary.md"
    arguments = ("run", "specs/good.yaml", "specs/buggy/bad.yaml")
    on_github = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)}
    result = kcheck(*arguments, **on_github)
    assert result.returncode == 1
    assert "1 of 2 specs failed" in result.stdout
    assert "::" not in result.stdout
    assert "::error file=kernels/k.py,line=15,title=kcheck mismatch (bad)::y[" in result.stderr
    assert "## kcheck: 1 of 2 specs failed" in summary.read_text()
    elsewhere = kcheck(*arguments)
    assert "::error" not in elsewhere.stdout + elsewhere.stderr


def test_annotations_can_be_requested_anywhere(kcheck: Kcheck) -> None:
    """Once: not again because the run is on GitHub."""
    result = kcheck("run", "specs/buggy/bad.yaml", "--format", "github", GITHUB_ACTIONS="true")
    assert result.stdout.count("::error ") == 1
    assert "::error" not in result.stderr


def test_paths_are_relative_to_the_checkout(kcheck: Kcheck) -> None:
    """A project in a folder of a repository: code hosts need paths from the repository's root."""
    subprocess.run(["git", "init", "-q", str(kcheck.folder.parent)], check=True)
    kcheck(
        "run", "specs/buggy/bad.yaml", "--format", "sarif", "-o", "r.sarif", "--format", "gitlab", "-o", "q.json"
    )
    (result,) = json.loads((kcheck.folder / "r.sarif").read_text())["runs"][0]["results"]
    artifact = result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert artifact["uri"] == "a%20project/kernels/k.py"
    (entry,) = json.loads((kcheck.folder / "q.json").read_text())
    assert entry["location"]["path"] == "a project/kernels/k.py"
