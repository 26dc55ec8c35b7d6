"""CuPy under kcheck exec: the kernels that it compiles run and are checked, and libraries are refused by name."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("cupy_program.py")
pytestmark = pytest.mark.skipif(importlib.util.find_spec("cupy") is None, reason="no CuPy")


def run(*words: str, **variables: str) -> tuple[int, list[str], str]:
    command = [sys.executable, "-m", "kcheck", "exec", "--", sys.executable, str(PROGRAM), *words]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, env={**os.environ, **variables}
    )
    return done.returncode, done.stdout.splitlines(), done.stderr


def line(text: str) -> int:
    return 1 + next(n for n, each in enumerate(PROGRAM.read_text().splitlines()) if text in each)


def test_kernels_of_cupy_run_without_findings() -> None:
    code, out, err = run("raw", "module", "generated", "arrays", "streams")
    assert out == [
        "raw 500500.0",
        "module 135.0",
        "generated 15.0 4.0 [5. 5.]",
        "arrays [330 405 480 555] [58 59] 1770 [1 1 1 1 1] 29.5",
        "streams 8.0",
    ]
    assert (code, err.splitlines()) == (0, ["kcheck: races were not checked; add --sanitize racecheck"])


def test_a_finding_names_the_line_of_the_python_file() -> None:
    code, _, err = run("raw, one more")
    at = line("y[i + 1] = x[i] + 1")
    assert f"cupy_program.py:{at}: memcheck in add_one_more: writes 4 bytes right past the end" in err
    assert code == 1


def test_a_finding_in_generated_code_names_a_file_that_exists() -> None:
    """CuPy writes the code around ``y = x[i + 1]``."""
    code, _, err = run("shifted")
    found = re.search(
        r"kcheck: (\S+shift-\w+\.cu):(\d+): memcheck in shift: reads 8 bytes right past the end", err
    )
    assert found is not None, err
    assert "y = x[i + 1]" in err
    assert "y = x[i + 1]" in Path(found[1]).expanduser().read_text().splitlines()[int(found[2]) - 1]
    assert code == 1


def test_libraries_of_machine_code_are_named() -> None:
    code, out, _ = run("libraries")
    assert out == [f"kcheck: this function of CuPy needs {name}" for name in ("cuBLAS", "cuFFT")]
    assert code == 0


def test_random_numbers_and_sorts_run_without_curand_and_thrust() -> None:
    """NumPy draws and sorts; CuPy's kernels make the rest from that."""
    code, out, _ = run("drawn", "ordered")
    assert out == [
        "drawn True [0, 1, 2, 3, 4, 5, 6, 7, 8]",
        "True True 0 9",
        "(2, 3) True True",
        "ordered [2 1 3 0] [1 2 3] 1.5",
    ]
    assert code == 0


def test_without_a_compiler_the_program_ends_with_what_to_do(tmp_path: Path) -> None:
    code, _, err = run("raw", PATH=str(tmp_path), KCHECK_CACHE_DIR=str(tmp_path / "cache"))
    assert code == 2
    assert "no C compiler" in err or "builds with a C compiler" in err
