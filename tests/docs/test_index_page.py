"""docs/index.md: its kernels, reference and specs pass as a reader copies them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from forked_python import environment, run_module

from kcheck.device.cpu import missing

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/index.md").read_text("utf-8")
FILES = dict(re.findall(r"^```\w+\n(?:#|//) (\S+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
"""What the page shows, by the path in the first line of each block."""


@pytest.mark.slow
@pytest.mark.skipif(bool(missing()), reason=missing())
def test_the_three_kernels_pass_as_shown(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text, "utf-8")
    (tmp_path / "kcheck.yaml").write_text("")
    words = ("kcheck", "run", "--device", "cpu", "--cases", "3")
    ran = run_module(words, tmp_path, environment(), seconds=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "3 specs passed" in ran.stdout
