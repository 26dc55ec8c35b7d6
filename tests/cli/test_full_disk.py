"""A full disk costs a report or the stored results, never the verdicts on the terminal: exit code 2, no fault."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from small_project import Kcheck

from kcheck.cli.full import full_disk

GOOD = ("run", "--device", "simulator", "specs/good.yaml")
pytestmark = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")


def test_a_report_that_does_not_fit_is_lost_and_the_verdicts_stay(kcheck: Kcheck) -> None:
    """The report on the terminal is whole; the last line says what is lost."""
    done = kcheck(*GOOD, "--format", "text", "-o", "-", "--format", "json", "-o", "/dev/full")
    assert done.returncode == 2
    assert "1 spec passed" in done.stdout
    assert done.stderr.splitlines()[-1] == (
        "kcheck: error: -o /dev/full: cannot be written: the disk is full; free some space, or choose another "
        "disk. The report was not written"
    )


@pytest.mark.parametrize("arguments", [GOOD, ("schema",), ("cases", "specs/good.yaml")])
def test_a_full_disk_behind_stdout_is_not_an_internal_error(kcheck: Kcheck, arguments: tuple[str, ...]) -> None:
    """Exit code 2 and one message, whatever the command."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            kcheck.command(*arguments),
            cwd=kcheck.folder,
            env=kcheck.environment,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 2, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("kcheck: ")]
    assert "the disk is full" in line
    assert "Exception ignored" not in done.stderr


def test_the_other_report_is_written_when_stdout_is_full(kcheck: Kcheck, project: Path) -> None:
    """Reports fail one by one."""
    with open("/dev/full", "w") as full:
        command = kcheck.command(*GOOD, "--format", "text", "--format", "json", "-o", "r.json")
        done = subprocess.run(command, cwd=kcheck.folder, env=kcheck.environment, stdout=full, check=False)
    assert done.returncode == 2
    assert json.loads((project / "r.json").read_text())["specs"][0]["op"] == "good"


def test_the_disk_is_found_behind_other_errors() -> None:
    """An error that wraps that of the disk is told as a full disk, with the file."""
    error = RuntimeError("could not compile")
    error.__cause__ = OSError(28, "No space left on device", "cache/kernel")
    assert full_disk(error).startswith("cache/kernel: cannot be written: the disk is full")
    assert full_disk(RuntimeError("other")) == ""
