"""The tests of Triton kernels with one version of Triton; writes its row in docs/triton.md.

    .venv-triton-3.6.0/bin/python conformance/triton_versions.py

Runs with the version that is installed beside this interpreter; ``make triton-versions`` does so for each one.
"""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "triton.md"
TESTS = ("tests/triton", "tests/kinds/test_triton_kernels.py")
_BEGIN, _END = "<!-- versions -->\n", "<!-- /versions -->"


def outcome(text: str) -> dict[str, int]:
    """Counts in pytest's last line, such as ``{"passed": 120, "skipped": 3}``."""
    return {word: int(number) for number, word in re.findall(r"(\d+) (\w+)", text.splitlines()[-1])}


def with_row(page: str, version: str, row: str) -> str:
    """The page with the row of a version, in the order of versions."""
    head, begin, rest = page.partition(_BEGIN)
    table, end, tail = rest.partition(_END)
    if not begin or not end:
        raise SystemExit(f"{PAGE} lacks its markers")
    rows = {line.split("|")[1].strip(): line for line in table.splitlines()[2:] if line}
    rows[version] = row
    lines = [
        "| Triton | passed | failed | skipped |",
        "|---|---:|---:|---:|",
        *(rows[name] for name in sorted(rows)),
    ]
    return head + begin + "\n".join(lines) + "\n" + end + tail


def main() -> int:
    """Run, write, and return 1 if a test fails."""
    version = importlib.metadata.version("triton")
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", *TESTS]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    print(done.stdout, end="")
    count = outcome(done.stdout)
    failed = count.get("failed", 0) + sum(number for word, number in count.items() if word.startswith("error"))
    row = f"| {version} | {count.get('passed', 0)} | {failed} | {count.get('skipped', 0)} |"
    PAGE.write_text(with_row(PAGE.read_text(), version, row))
    return int(done.returncode != 0)


if __name__ == "__main__":
    sys.exit(main())
