"""A checkout in a folder whose name has a blank: its make targets and its commands work."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from kcheck.device.cpu import missing

ROOT = Path(__file__).resolve().parents[2]
FILES = (
    "Makefile",
    "benchmarks/Makefile",
    "conformance/Makefile",
    "pyproject.toml",
    "kernels/buggy/softmax_pad_zero.py",
    "references/softmax.py",
    "schema/op-spec.schema.json",
    "specs/softmax.yaml",
    "specs/buggy/softmax_pad_zero.yaml",
)
SPEC = "specs/buggy/softmax_pad_zero.yaml"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a run needs of this checkout, and its Python, in a folder with a blank."""
    folder = tmp_path_factory.mktemp("home of a user") / "my checkout"
    shutil.copytree(ROOT / "kcheck", folder / "kcheck")  # with its byte code, which every process would make again
    for file in FILES:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, folder / file)
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


def run(checkout: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """A command in the checkout, with its own kcheck."""
    variables = {**os.environ, "PYTHONPATH": str(checkout), "KCHECK_CACHE_DIR": str(checkout / "cache")}
    return subprocess.run(
        words, cwd=checkout, env=variables, capture_output=True, text=True, check=False, timeout=300
    )


def test_make_names_the_commands_of_the_checkout(checkout: Path) -> None:
    """Make splits its words at blanks: no target may have the folder of the checkout in it."""
    done = run(checkout, "make", "--no-print-directory", "--dry-run", "help", "bench", "layers", "types")
    assert done.returncode == 0, done.stderr
    assert str(checkout) not in done.stdout


@pytest.mark.skipif(bool(missing()), reason=missing())
def test_a_failure_is_found_and_replayed(checkout: Path) -> None:
    """The line to paste runs as it is printed."""
    python = str(checkout / ".venv" / "bin" / "python")
    found = run(checkout, python, "-m", "kcheck", "run", SPEC, "--cases", "0", "--device", "cpu", "--no-lint")
    assert found.returncode == 1, found.stderr
    whole = re.sub(r" \\\n +", " ", found.stdout)  # long commands are continued on the next line
    (replay,) = (line.split(maxsplit=1)[1] for line in whole.splitlines() if line.startswith("  replay"))
    command, *words = shlex.split(replay)
    assert command == "kcheck"
    again = run(checkout, python, "-m", "kcheck", *words)
    assert again.returncode == 1, again.stderr
    assert "mismatch" in again.stdout


@pytest.mark.skipif(bool(missing()), reason=missing())
def test_a_program_runs_under_exec(checkout: Path) -> None:
    """It starts another Python, with a folder of kcheck's in its path."""
    (checkout / "a program.py").write_text(
        "import numpy as np\nfrom numba import cuda\n@cuda.jit\ndef one(x):\n    x[cuda.threadIdx.x] = 1\n"
        "x = cuda.to_device(np.zeros(4, np.float32))\none[1, 4](x)\nprint(x.copy_to_host())\n"
    )
    python = str(checkout / ".venv" / "bin" / "python")
    done = run(checkout, python, "-m", "kcheck", "exec", "--", python, "a program.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[1. 1. 1. 1.]\n"


def test_commands_of_a_fix_are_quoted(checkout: Path) -> None:
    """The shell would take two words for a path with a blank."""
    venv.create(checkout / "bare", symlinks=True)
    bare, python = (str(checkout / name / "bin" / "python") for name in ("bare", ".venv"))
    (checkout / "imports.py").write_text("import numba\n")
    done = run(checkout, python, "-m", "kcheck", "exec", "--", bare, "imports.py")
    assert f"install kcheck there ({shlex.quote(bare)} -m pip install kcheck)" in done.stderr
    assert f"kcheck exec -- {shlex.quote(python)} ..." in done.stderr
