"""``kcheck run --time-budget``: changed specs first, and what was not run is said. Clocks: tests/runner."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import jsonschema
import pytest
from small_project import CHECKOUT, Kcheck

from kcheck.cli.changed import changed_files, changed_first
from kcheck.specfile import load_spec

FUNCTION = """\
kcheck: 1
op: {op}
function: {op}.py:twice
reference: {op}.py:twice
dims: {{N: [1, 2, 5]}}
inputs: {{x: [N]}}
outputs: {{y: [N]}}
cases: {{count: 3}}
"""
OPS = ("one", "two", "three")


def git(folder: Path, *words: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *words], cwd=folder, check=True, capture_output=True
    )


@pytest.fixture
def functions(tmp_path: Path) -> Path:
    """A checkout with three specs, each with a file of its own, in a folder of the repository."""
    root = tmp_path / "a repository/der größte Ordner"
    (root / "specs").mkdir(parents=True)
    (root / "kcheck.yaml").write_text("")
    for op in OPS:
        (root / f"specs/{op}.yaml").write_text(FUNCTION.format(op=op))
        (root / f"{op}.py").write_text("def twice(x):\n    return x + x\n")
    git(root.parent, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "all")
    return root


def order(root: Path, **environ: str) -> list[str]:
    """The ops in the order of a run with a budget."""
    specs = [load_spec(root / f"specs/{op}.yaml") for op in OPS]
    return [spec.op for spec in changed_first(specs, root, environ)]


def edit(root: Path, op: str) -> None:
    (root / f"{op}.py").write_text("def twice(x):\n    return 2 * x\n")


def test_a_file_that_is_not_committed_brings_its_spec_to_the_front(functions: Path) -> None:
    """Edited or new; the others keep their order."""
    assert order(functions) == ["one", "two", "three"]
    edit(functions, "two")
    assert order(functions) == ["two", "one", "three"]
    git(functions, "stash", "-q")
    (functions / "three.py").unlink()
    git(functions, "commit", "-qam", "delete")
    (functions / "three.py").write_text("def twice(x):\n    return x + x\n")
    assert order(functions)[0] == "three"


def test_a_branch_is_compared_with_where_it_left(functions: Path) -> None:
    """The branch of a pull request, as GitHub names it; what others changed since does not count."""
    git(functions, "checkout", "-qb", "topic")
    edit(functions, "three")
    git(functions, "commit", "-qam", "three")
    (functions / "note").write_text("")
    git(functions, "add", "-A")
    git(functions, "commit", "-qm", "another commit")
    git(functions, "checkout", "-q", "main")
    edit(functions, "one")
    git(functions, "commit", "-qam", "one")
    git(functions, "checkout", "-q", "topic")
    assert order(functions, GITHUB_BASE_REF="main") == ["three", "one", "two"]


def test_the_default_branch_is_compared_with_the_commit_before(functions: Path) -> None:
    """On a push to it."""
    edit(functions, "two")
    git(functions, "commit", "-qam", "two")
    assert order(functions) == ["two", "one", "three"]


def test_without_a_checkout_the_order_stays(tmp_path: Path) -> None:
    """No git, no repository, or a repository without a commit."""
    assert changed_files(tmp_path, {}) == frozenset()
    git(tmp_path, "init", "-q")
    assert changed_files(tmp_path, {"GITHUB_BASE_REF": "main"}) == frozenset()


def test_what_was_not_run_is_said_in_a_line_and_in_the_report(functions: Path) -> None:
    """The exit code is that of the cases that ran."""
    edit(functions, "two")
    found = Kcheck(functions)(
        "run", "--time-budget", "0.000001", "--format", "text", "--format", "json", "-o", "r"
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.splitlines()[2].startswith("stop   specs/two.yaml")
    last = found.stdout.rpartition("\n\n")[2].replace("\n", " ")
    assert last.startswith(
        "stopped after the time budget of 0.00 s · 2 specs not run · 1 case: 1 passed, 2 not run"
    )
    report = json.loads((functions / "r").read_text())
    jsonschema.validate(report, json.loads((CHECKOUT / "schema/report.schema.json").read_text()))
    assert report["summary"]["not_begun"] == ["specs/one.yaml", "specs/three.yaml"]
    assert report["summary"]["time_budget"] == 0.000001


@pytest.mark.parametrize("other", [["--shard", "1/2"], ["--watch"]])
def test_options_that_a_budget_excludes(kcheck: Kcheck, other: list[str]) -> None:
    """The parts of a run must be the same on every machine, and a round of --watch ends by itself."""
    found = kcheck("run", "--time-budget", "1", *other)
    assert found.returncode == 2
    assert f"--time-budget and {other[0]} cannot be combined" in found.stderr
