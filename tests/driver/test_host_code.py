"""What ordinary host code does, on the cpu device: each function of host_program.py."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("host_program.py")
ROOT = Path(__file__).parents[2]
NAMES = [
    node.name
    for node in ast.parse(PROGRAM.read_text()).body
    if isinstance(node, ast.FunctionDef)
    and any(isinstance(d, ast.Name) for d in node.decorator_list)
    and any(getattr(d, "id", "") == "check" for d in node.decorator_list)
]


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    """``ok`` or what was raised, by name; the program runs once."""
    start = "from kcheck.cli.exec import command; command(prog_name='kcheck exec')"
    done = subprocess.run(
        [sys.executable, "-c", start, "--timeout", "60", "--", sys.executable, "-W", "ignore", str(PROGRAM)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CUDA_ENABLE_NRT": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.stdout, done.stderr
    return dict(line.split(": ", 1) for line in done.stdout.splitlines())


@pytest.mark.parametrize("name", NAMES)
def test_host_code(outcomes: dict[str, str], name: str) -> None:
    """It does what it does on a GPU."""
    assert outcomes.get(name) == "ok"
