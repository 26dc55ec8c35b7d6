"""Fixtures for the tests of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_project import Kcheck, write_project


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The small project, in a folder with a space in its name."""
    root = tmp_path / "a project"
    write_project(root)
    return root


@pytest.fixture
def kcheck(project: Path) -> Kcheck:
    """``kcheck`` run in the small project."""
    return Kcheck(project)


@pytest.fixture
def stored(kcheck: Kcheck) -> Kcheck:
    """``kcheck`` as users have it: with a store."""
    kcheck.environment = {name: value for name, value in kcheck.environment.items() if name != "KCHECK_STORE"}
    kcheck.environment["COLUMNS"] = "80"
    return kcheck
