"""What is drawn for a terminal alone: the progress bar on its stderr, and a list of cases in its columns."""

from __future__ import annotations

import os
import pty
import subprocess
import termios

import pytest
from small_project import Kcheck

RUN = ("run", "--device", "simulator", "--cases", "2", "specs/good.yaml")


def run_on_terminal(kcheck: Kcheck, *arguments: str, **environment: str) -> tuple[bytes, bytes]:
    """What a run writes to stdout, a pipe, and to stderr, a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        kcheck.command(*arguments),
        cwd=kcheck.folder,
        env={**kcheck.environment, "TERM": "xterm-256color", **environment},
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    drawn = b""
    try:
        while chunk := os.read(ours, 65536):
            drawn += chunk
    except OSError:  # EIO: how Linux says that the other end of a terminal is closed
        pass
    finally:
        os.close(ours)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0, drawn
    return out, drawn


@pytest.mark.parametrize("width", [80, 40])
def test_a_list_of_cases_folds_its_lines_to_the_terminal(kcheck: Kcheck, width: int) -> None:
    """What does not fit follows below, beside the label; a pipe gets one line per case with the same facts."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, width))
    words = ("cases", "specs/good.yaml", "--cases", "4")
    process = subprocess.Popen(kcheck.command(*words), cwd=kcheck.folder, env=kcheck.environment, stdout=theirs)
    assert process.wait(60) == 0
    lines = os.read(ours, 65536).decode().splitlines()
    os.close(theirs)
    os.close(ours)
    assert max(map(len, lines)) <= width
    piped = kcheck(*words).stdout
    assert " ".join(lines).split() == piped.split()
    assert len(lines) > len(piped.splitlines()) == 5
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == [
        line.split()[0] for line in piped.splitlines()
    ]


@pytest.mark.parametrize("arguments", [(), ("--format", "json")])
def test_progress_bar_is_on_stderr_alone(kcheck: Kcheck, arguments: tuple[str, ...]) -> None:
    """On a terminal stderr shows the bar, for reports of any format; a stdout that is a pipe has none of it."""
    out, drawn = run_on_terminal(kcheck, *RUN, *arguments)
    assert b"2/2 cases" in drawn
    assert b"spec 1/1" in drawn
    assert b"\x1b" not in out
    assert b"/2 cases" not in out


@pytest.mark.parametrize(("arguments", "environment"), [(("-q",), {}), ((), {"TERM": "dumb"})])
def test_no_bar_where_none_is_wanted(
    kcheck: Kcheck, arguments: tuple[str, ...], environment: dict[str, str]
) -> None:
    """-q, and a terminal that cannot move its cursor, get no bar."""
    _, drawn = run_on_terminal(kcheck, *RUN, *arguments, **environment)
    assert b"cases" not in drawn
    assert b"\x1b" not in drawn
