"""The hooks, run by the real pre-commit on a scratch repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

CHECKOUT = Path(__file__).parents[2]
TIME_LIMIT = 900  # seconds; pre-commit installs kcheck and all it needs

KERNEL = """\
from numba import cuda


@cuda.jit
def double(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] * 2
"""
SPEC = """\
kcheck: 1
op: double
kernel: kernels/double.py:double
reference: references/double.py:double
dims: {N: [1, 5]}
inputs: {x: [N]}
outputs: {y: [N]}
launch: {args: [x, y], grid: [1], block: [8]}
cases: {count: 2}
"""


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [
            "git",
            "-c",
            "user.name=Test",
            "-c",
            "user.email=test@example.org",
            "-c",
            "commit.gpgsign=false",
            *arguments,
        ],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
        env=without_git_variables(),
    )
    return done.stdout


def without_git_variables() -> dict[str, str]:
    """The tests may themselves run within a git hook, which sets GIT_DIR and the like."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}


def hooks() -> list[dict[str, object]]:
    loaded = yaml.safe_load((CHECKOUT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert isinstance(loaded, list)
    return loaded


def test_hooks_are_the_two_that_are_promised() -> None:
    """There are kcheck-validate and kcheck-run; the latter never runs twice at a time."""
    by_id = {hook["id"]: hook for hook in hooks()}
    assert set(by_id) == {"kcheck-validate", "kcheck-run"}
    assert by_id["kcheck-run"]["require_serial"] is True
    assert all(hook["language"] == "python" for hook in by_id.values())


def test_manifest_is_valid_for_pre_commit() -> None:
    """pre-commit itself accepts the manifest."""
    command = [sys.executable, "-m", "pre_commit", "validate-manifest", str(CHECKOUT / ".pre-commit-hooks.yaml")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


class Scratch:
    """A user's repository with the hooks configured."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self.folder = folder
        self.environment = {**without_git_variables(), "PRE_COMMIT_HOME": str(cache), "PRE_COMMIT_COLOR": "never"}

    def write(self, path: str, text: str) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        git(self.folder, "add", path)

    def run(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pre_commit", "run", "--verbose"],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT,
        )


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scratch]:
    """A project whose pre-commit uses the hooks of this checkout as it stands, committed or not."""
    base = tmp_path_factory.mktemp("hook")
    source = base / "kcheck"
    names = git(CHECKOUT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    for name in filter(None, names):
        if (CHECKOUT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(CHECKOUT / name, source / name)
    git(source, "init", "-q", "-b", "main")
    git(source, "add", "-A")
    git(source, "commit", "-q", "-m", "as it stands")
    revision = git(source, "rev-parse", "HEAD").strip()
    folder = base / "a project"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    scratch = Scratch(folder, base / "cache")
    scratch.write("kcheck.yaml", "")
    scratch.write(
        ".pre-commit-config.yaml",
        textwrap.dedent(
            f"""\
            repos:
              - repo: {source}
                rev: {revision}
                hooks:
                  - id: kcheck-validate
                  - id: kcheck-run
                    args: [--device, simulator]
            """
        ),
    )
    scratch.write("kernels/double.py", KERNEL)
    scratch.write("references/double.py", "def double(x):\n    return x * 2\n")
    scratch.write("specs/double.yaml", SPEC)
    git(folder, "commit", "-q", "-m", "start")
    yield scratch
    shutil.rmtree(base / "cache", ignore_errors=True)  # an environment of several hundred megabytes


@pytest.mark.slow
def test_hooks_guard_a_commit(scratch: Scratch) -> None:
    """Good files and files of no spec pass; a bug in a kernel and a mistake in a spec are stopped."""
    # A kernel changes for the better: its spec runs, though the spec itself is not staged.
    scratch.write("kernels/double.py", KERNEL.replace("x[i] * 2", "x[i] + x[i]"))
    done = scratch.run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 spec passed" in done.stdout
    git(scratch.folder, "commit", "-q", "-m", "good")

    # Files that no spec uses, a YAML file that is no spec among them.
    scratch.write("scripts/other tool.py", "print('nothing to do with it')\n")
    scratch.write("compose.yaml", "services: {}\n")
    done = scratch.run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "spec passed" not in done.stdout
    git(scratch.folder, "commit", "-q", "-m", "other")

    # A bug in the kernel.
    scratch.write("kernels/double.py", KERNEL.replace("x[i] * 2", "x[i] * 3"))
    done = scratch.run()
    assert done.returncode == 1
    assert "exit code: 1" in done.stdout
    assert "--case-seed" in done.stdout
    scratch.write("kernels/double.py", KERNEL)

    # A mistake in the spec.
    scratch.write("specs/double.yaml", SPEC.replace("{x: [N]}", "{x: [M]}"))
    done = scratch.run()
    assert done.returncode == 1
    assert "exit code: 2" in done.stdout
    assert "specs/double.yaml:6:" in done.stdout
