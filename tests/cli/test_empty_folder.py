"""A folder without specs is described in the same words by every command."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_project import Kcheck


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        (("run",), "; add -r to search subfolders"),
        (("validate",), "; add -r to search subfolders"),
        (("lint",), "; add -r to search subfolders"),
        (("calibrate",), "; add -r to search subfolders"),
        (("baseline", "save", "v1"), ""),
        (("cases",), ""),
    ],
    ids=lambda value: value[0] if value and isinstance(value, tuple) else "",
)
def test_a_folder_without_specs_has_one_message(
    kcheck: Kcheck, project: Path, command: tuple[str, ...], hint: str
) -> None:
    """Exit code 5, the folder, and -r where the command has it."""
    (project / "empty").mkdir()
    done = kcheck(*command, "empty")
    assert (done.returncode, done.stderr) == (5, f"kcheck: nothing selected: no specs in empty{hint}\n")
