"""The first screen of the README: a command and what it prints at 80 columns.

``python tests/docs/readme_sample.py`` (``make readme``) runs the command and updates the README.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"


def sample() -> tuple[str, str]:
    """The command of the sample, and the text below it."""
    found = re.search(
        r"^```\n\$ (kcheck run [^\n]*)\n(.*?)^```$", README.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    assert found is not None
    return found[1], found[2]


def printed(command: str) -> str:
    """What the command prints with this checkout's code.

    Two parts depend on the machine and are left out: the line about the device, and notes about sanitizers that
    checked only some cases to save time.
    """
    variables = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "80",
        "KCHECK_STORE": "off",
    }
    line = [sys.executable, "-m", *shlex.split(command)]
    done = subprocess.run(line, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    parts = done.stdout.split("\n\n")[1:]
    return "\n\n".join(part for part in parts if not part.startswith("note"))


def timeless(text: str) -> str:
    """The text without its times."""
    return re.sub(r"\s*\b\d+(\.\d+)? s\b", "", text)


if __name__ == "__main__":
    command, old = sample()
    README.write_text(README.read_text("utf-8").replace(old, printed(command)), "utf-8")
