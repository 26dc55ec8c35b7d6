"""docs/frameworks.md: its spec is valid, and its table is what the command prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from kcheck.specfile import load_spec

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/frameworks.md").read_text("utf-8")


def test_the_spec_of_the_page_is_valid(tmp_path: Path) -> None:
    (block,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    for name, text in {
        "kcheck.yaml": "",
        "ops/attention.py": code,
        "references/softmax.py": "def softmax(x):\n    return x\n",
        "specs/softmax.yaml": block,
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    spec = load_spec(tmp_path / "specs/softmax.yaml")
    assert str(spec.function) == "ops/attention.py:softmax"
    assert spec.framework.name == "torch"


def test_the_frameworks_of_ci_have_the_verdicts_of_the_page() -> None:
    """numba.cuda and NumPy fail in the same cases, and as often as the page says of every framework."""
    environment = {k: v for k, v in os.environ.items() if k != "NUMBA_ENABLE_CUDASIM"} | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "tests/functions/same_verdicts.py"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    now = {row[0]: row[-2:] for row in rows(done.stdout)}
    page = {row[0]: row[-2:] for row in rows(PAGE.partition("same verdicts: begin")[2])}
    assert {"numba.cuda", "numpy", "torch", "jax"} <= page.keys()
    assert len(set(map(tuple, page.values()))) == 1
    assert {"numba.cuda", "numpy"} <= now.keys()
    assert all(verdicts == page["numpy"] for verdicts in now.values())


def rows(text: str) -> list[list[str]]:
    """The cells of the rows of a table that has a version in its second column."""
    lines = (line.strip("| \n").split(" | ") for line in text.splitlines() if line.startswith("|"))
    return [cells for cells in lines if len(cells) == 5 and cells[1][:1].isdigit()]
