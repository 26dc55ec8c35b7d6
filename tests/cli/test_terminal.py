"""The progress bar: on a terminal's stderr, and nowhere else."""

from __future__ import annotations

import os
import pty
import subprocess

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
