"""Every command in a process that Python starts, with its own imports: other tests fork most of theirs."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from small_project import Kcheck, write_project

from kcheck.cli.main import COMMANDS

PROGRAM = "import sys; print(sys.argv)"
LINES: dict[str, tuple[tuple[str, ...], int]] = {
    "init": (("new",), 0),
    "try": (("kernels/k.py:double",), 0),
    "doctor": ((), 0),
    "run": (("specs/good.yaml", "specs/buggy/bad.yaml"), 1),
    "ci": (("specs/good.yaml", "-o", "out"), 0),
    "validate": ((), 0),
    "coverage": ((), 0),
    "cases": (("specs/good.yaml",), 0),
    "spec": (("print", "kernels/k.py"), 2),
    "prove": (("specs/good.yaml",), 0),
    "lint": (("specs/good.yaml",), 0),
    "grade": (("specs/good.yaml", "kernels/k.py", "--cases", "1"), 0),
    "exec": (("--", sys.executable, "-c", PROGRAM), 2),  # it does not use the device
    "failures": ((), 0),
    "show": (("last",), 0),
    "reproduce": (("last",), 1),
    "minimize": (("last",), 0),
    "export": (("last", "-o", "case.kcase"), 0),
    "runs": ((), 0),
    "report": (("--format", "html", "-o", "r.html"), 0),
    "merge": (("report.json", "report.json"), 2),
    "keygen": (("new.key",), 0),
    "verify": (("report.json", "--key", "kcheck.key.pub"), 2),
    "gc": ((), 0),
    "baseline": (("list",), 0),
    "diff": (("v1",), 0),
    "calibrate": (("specs/good.yaml",), 0),
    "lsp": ((), 0),
    "config": ((), 0),
    "completion": (("bash",), 0),
    "schema": ((), 0),
}
"""Each command with arguments and its exit code."""


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Kcheck:
    """A project with a store that has a baseline, a report and a failure, which is the last."""
    root = tmp_path_factory.mktemp("processes") / "a project"
    write_project(root)
    kcheck = Kcheck(root)
    kcheck.environment.pop("KCHECK_STORE")
    assert kcheck("baseline", "save", "v1", "specs/good.yaml").returncode == 0
    assert kcheck("run", "specs/buggy/bad.yaml", "--format", "json", "-o", "report.json").returncode == 1
    return kcheck


def test_no_command_is_left_out() -> None:
    """The table has them all."""
    assert list(LINES) == list(COMMANDS)


@pytest.mark.parametrize("command", LINES)
def test_a_command_imports_what_it_needs(failed: Kcheck, command: str) -> None:
    """Exit code as documented, and neither a traceback nor a warning of Python."""
    words, code = LINES[command]
    done = failed.start(command, *words)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert "Warning" not in done.stderr


NUMBERS = re.compile(r" *[\d.,:]+")  # a longer number takes one of the blanks before it


@pytest.mark.parametrize(
    "words", [("run", "specs"), ("run", "--device", "simulator", "specs"), ("rum",), ()], ids=str
)
def test_a_forked_command_says_and_ends_as_one_that_is_started(failed: Kcheck, words: tuple[str, ...]) -> None:
    """The same lines on the same streams, but for times, and the same exit code."""
    forked, started = failed(*words), failed.start(*words)
    assert forked.returncode == started.returncode
    for one, other in ((forked.stdout, started.stdout), (forked.stderr, started.stderr)):
        assert NUMBERS.sub("#", one) == NUMBERS.sub("#", other)
    assert forked.args == started.args


def test_forked_commands_share_nothing(failed: Kcheck, tmp_path: Path) -> None:
    """Neither variables nor folder nor what was imported are left for the next command."""
    write_project(tmp_path / "other")
    other = Kcheck(tmp_path / "other")
    (other.folder / "references/r.py").write_text("def double(x):\n    return x * 3\n")
    words = ("run", "--no-store", "--device", "simulator", "specs/good.yaml")
    codes = [kcheck(*words, KCHECK_CASES=cases).returncode for kcheck in (failed, other) for cases in ("1", "no")]
    assert codes == [0, 2, 1, 2]
    assert failed(*words).returncode == 0
