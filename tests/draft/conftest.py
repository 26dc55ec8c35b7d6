"""What the tests of drafts share."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from kcheck.draft import Sketch, sketch


@pytest.fixture
def drawn(tmp_path: Path):
    """The sketch of the function k in a text."""

    def draw(text: str) -> Sketch:
        path = tmp_path / "k.py"
        path.write_text("from numba import cuda\nimport numpy as np\n" + textwrap.dedent(text))
        return sketch(path, "k")

    return draw
