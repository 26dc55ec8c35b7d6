"""CUDA extensions of PyTorch under ``kcheck exec``. Needs PyTorch, nvcc, ninja and a C++ compiler: building the
extension takes a minute or more, once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kcheck.torch_cuda.extensions import unsupported_function
from kcheck.torch_cuda.toolkit import find_toolkit

pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("extension_program.py")
pytestmark = pytest.mark.skipif(
    not (find_toolkit(os.environ) and shutil.which("ninja") and shutil.which("c++")), reason="no compilers"
)


def ran(*names: str) -> subprocess.CompletedProcess[str]:
    """Functions of the program, with the sanitizers that find their bugs."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-m", "kcheck", "exec", "--sanitize", "racecheck", "--", sys.executable]
    command += [str(PROGRAM), *names]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_correct_kernels_of_many_styles_compute_what_pytorch_does_without_a_finding() -> None:
    done = ran("correct")
    assert (done.stdout, done.returncode) == ("correct\n", 0), done.stderr
    assert "memcheck" not in done.stderr
    assert "racecheck" not in done.stderr


def test_checks_of_the_extension_and_of_the_launch_raise_their_own_messages() -> None:
    done = ran("refused")
    assert done.stdout.splitlines() == [
        "a tensor on the cpu: x must be on cuda",
        "an operator for cuda: Could not run 'kcheck_test::smooth' with arguments from the 'CPU' backend",
        "too many threads: CUDA error: invalid configuration argument",
    ], done.stderr


@pytest.mark.parametrize(
    ("name", "rule", "line"),
    [
        ("unchecked", "memcheck in scale_kernel", "if (!CHECKED || i < n) y[i] = a * x[i];"),
        ("unsynced", "racecheck in softmax_kernel", "shared[warp] = sum;"),
        ("together", "racecheck in last_kernel", "if (i < n) y[0] = x[i];"),
    ],
)
def test_a_bug_is_found_at_its_line_of_the_source(name: str, rule: str, line: str) -> None:
    done = ran(name)
    assert done.returncode == 1
    assert "cuda.cu:" in done.stderr
    assert rule in done.stderr, done.stderr
    assert line in done.stderr, done.stderr


def test_a_function_that_kcheck_does_not_have_is_named() -> None:
    error = ImportError("x.so: undefined symbol: _ZN2at4cuda5sleepEl")
    assert unsupported_function(error).startswith("this extension uses at::cuda::sleep(long), which kcheck's")
    assert unsupported_function(ImportError("undefined symbol: main")) == ""
