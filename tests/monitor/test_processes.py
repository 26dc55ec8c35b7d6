"""A checker and the processes of a program: import, fork, spawn, exit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False, timeout=120
    )


def program(what: str) -> tuple[list[str], str]:
    """The lines that the program prints, and its stderr."""
    done = python(str(ROOT / "tests/monitor/monitored_child.py"), what)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_child_of_multiprocessing_checks_its_own_calls_to_the_end(method: str) -> None:
    """A child that is forked has the checker running; one that is spawned starts its own. Both drain it."""
    lines, _ = program(method)
    assert lines == ["mismatch 4", "child 0", "mismatch 2", "parent True 1"]


def test_a_fork_while_other_threads_call() -> None:
    """The child has none of the parent's threads, waiting calls, counts and locks."""
    lines, _ = program("bare-fork")
    assert lines[:2] == ["mismatch 4", "child 8 8"]
    assert lines[-1] == "parent True 1"


def test_a_fork_waits_for_an_import_of_the_thread_that_checks() -> None:
    """Or the child would wait forever for the lock of a module that a thread of the parent imports."""
    lines, _ = program("fork-import")
    assert lines == ["loaded", "mismatch 1", "mismatch 2", "parent True 1"]


def test_the_interpreter_exits_cleanly_while_calls_wait() -> None:
    """What waits is checked first."""
    lines, errors = program("exit")
    assert sorted(lines) == ["end", "mismatch 2"]
    assert errors == "2 of 2 calls checked; mismatches: 1, errors of references: 0, of copies: 0, dropped: 0\n"


def test_the_interpreter_exits_although_a_reference_does_not_end() -> None:
    lines, errors = program("stuck")
    assert lines == ["end"]
    assert errors == "0 of 2 calls checked; mismatches: 0, errors of references: 0, of copies: 0, dropped: 1\n"


def test_importing_the_monitor_imports_neither_numba_nor_torch_nor_the_oracle() -> None:
    code = (
        "import sys, kcheck.monitor, kcheck\n"
        "assert kcheck.monitor.equivalent\n"
        "heavy = ('numba', 'torch', 'jax', 'ml_dtypes', 'yaml', 'kcheck.api', 'kcheck.oracle', 'kcheck.model')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = python("-c", code)
    assert done.stdout == "[]\n", done.stderr
