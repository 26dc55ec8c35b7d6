"""The hooks, run by the real pre-commit on a scratch repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import tomllib
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
SHUFFLING = """\
import numpy as np
from numba import cuda, float32


@cuda.jit
def double(x, y):
    i = cuda.threadIdx.x
    shared = cuda.shared.array(32, float32)
    v = x[i] if i < x.size else np.float32(0)
    shared[i ^ 1] = 2 * cuda.shfl_xor_sync(0xFFFFFFFF, v, 1)
    cuda.syncthreads()
    if i < x.size:
        y[i] = shared[i]
"""
DECLARED = """\
import kcheck


def twice(x):
    return x * 2


@kcheck.op(dims={"N": [1, 5]}, inputs={"x": ["M"]}, outputs={"y": ["N"]}, reference=twice)
def declared(x):
    return x + x


raise SystemExit("the file was run")
"""
SPEC = """\
kcheck: 1
op: double
kernel: kernels/double.py:double
reference: references/double.py:double
dims: {N: [1, 5]}
inputs: {x: [N]}
outputs: {y: [N]}
launch: {args: [x, y], grid: [1], block: [32]}
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


def test_hooks_install_the_compiler_that_the_project_pins() -> None:
    """Without numba-cuda's CUDA wheels kernels would run on the simulator, where nothing looks for races."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (pin,) = (each for each in project["dependencies"] if each.startswith("numba-cuda"))
    wanted = pin.replace("numba-cuda", "numba-cuda[cu13]", 1)
    for hook in hooks():
        assert hook["additional_dependencies"] == [wanted], f"{hook['id']}: pre-commit would install {hook}"


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
    """Good kernels and files of no spec pass; a wrong result, a race and a mistake in a spec are stopped."""
    # A kernel changes for the better: its spec runs, though the spec itself is not staged. It shuffles between
    # the lanes of a warp, which the simulator cannot.
    scratch.write("kernels/double.py", SHUFFLING)
    done = scratch.run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 spec passed" in done.stdout
    assert "cpu" in done.stdout
    assert "kcheck: warning" not in done.stdout
    git(scratch.folder, "commit", "-q", "-m", "good")

    # Files that no spec uses, a YAML file that is no spec among them.
    scratch.write("scripts/other tool.py", "print('nothing to do with it')\n")
    scratch.write("compose.yaml", "services: {}\n")
    done = scratch.run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "spec passed" not in done.stdout
    git(scratch.folder, "commit", "-q", "-m", "other")

    # A mistake in a spec that is declared in Python: kcheck-validate finds it without running the file.
    scratch.write("kernels/declared.py", DECLARED)
    done = scratch.run()
    validate = done.stdout.partition("kcheck run")[0]
    assert done.returncode == 1
    assert "exit code: 2" in validate
    assert "kernels/declared.py:" in validate
    git(scratch.folder, "rm", "-q", "-f", "kernels/declared.py")

    # A bug in the kernel.
    scratch.write("kernels/double.py", KERNEL.replace("x[i] * 2", "x[i] * 3"))
    done = scratch.run()
    assert done.returncode == 1
    assert "exit code: 1" in done.stdout
    assert "--case-seed" in done.stdout

    # A race in the kernel: without the barrier a thread may read before another one has written.
    scratch.write("kernels/double.py", SHUFFLING.replace("    cuda.syncthreads()\n", ""))
    done = scratch.run()
    assert done.returncode == 1
    assert "racecheck" in done.stdout
    scratch.write("kernels/double.py", KERNEL)

    # A mistake in the spec.
    scratch.write("specs/double.yaml", SPEC.replace("{x: [N]}", "{x: [M]}"))
    done = scratch.run()
    assert done.returncode == 1
    assert "exit code: 2" in done.stdout
    assert "specs/double.yaml:6:" in done.stdout
