"""What tests of several packages share.

Where there is no GPU, ``numba.cuda`` is its simulator in the process of the tests: decided here, before anything
imports it. A test that needs the real one starts a process of its own.
"""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest

from kcheck.device.cuda import driver_answers

# Whatever a test runs in this checkout must not depend on what failed before, nor be remembered; tests of the
# store
# take this out of the environment of what they start.
os.environ.setdefault("KCHECK_STORE", "off")
os.environ.pop("GITHUB_ACTIONS", None)  # on GitHub, the runs of the tests would annotate the change
os.environ.pop("GITHUB_STEP_SUMMARY", None)

if not driver_answers():
    os.environ.setdefault("NUMBA_ENABLE_CUDASIM", "1")


class Project:
    """A user's project in a temporary folder: files, and the specs that are loaded from it."""

    def __init__(self, root: Path) -> None:
        self._base = root
        self._count = 0
        self._begin()

    def _begin(self) -> None:
        """A new root: a module that was imported once stays as it was."""
        self._count += 1
        self.root = self._base / f"project {self._count}"
        self.root.mkdir()
        (self.root / "kcheck.yaml").write_text("")

    def write(self, path: str, text: str) -> Path:
        """Write a file, its text dedented."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text).lstrip("\n"))
        return file

    def spec(self, text: str, kernel: str = "", reference: str = "", name: str = "op"):
        """Load a spec of ``k.py`` and ``r.py``, in which what kernels commonly import is imported."""
        from kcheck.specfile import load_spec

        if kernel and (self.root / "k.py").exists():
            self._begin()
        head = "import math\nimport numpy as np\n"
        if kernel:
            numba = "from numba import cuda, float32, float64, int32\n"
            self.write("k.py", head + numba + textwrap.dedent(kernel))
        if reference:
            self.write("r.py", head + textwrap.dedent(reference))
        return load_spec(self.write(f"{name}.yaml", text))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """An empty project."""
    return Project(tmp_path)
