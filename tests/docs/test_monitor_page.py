"""docs/monitor.md: its examples run and print what it shows; its tables are those of the commands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/monitor.md").read_text("utf-8")


def test_the_examples_run_and_print_the_report_of_the_page() -> None:
    done = subprocess.run(
        [sys.executable, "tests/docs/page_blocks.py", "docs/monitor.md"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("6 blocks ran\n")
    (shown,) = re.findall(r"^```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    place = re.compile(r"^\S+:\d+: call (\d) of __\w+__\.")
    assert place.sub(r"call \1 of ", done.stdout).startswith(place.sub(r"call \1 of ", shown))


def test_the_page_has_the_results_of_its_commands() -> None:
    """A million calls: every wrong call that was checked was found."""
    soak = dict(re.findall(r"^\| ([^|]+) \| ([\d,]+) \|$", PAGE, re.MULTILINE))
    assert soak["calls"] == "1,000,000"
    assert soak["wrong calls"] == "100"
    assert soak["wrong calls that were found"] == soak["wrong calls that were checked"]
    assert soak["false mismatches"] == soak["calls dropped"] == "0"
    assert re.search(r"^\| torch \| \d", PAGE, re.MULTILINE)
