"""The examples of docs/rules.md: runs them; ``make rules`` writes what kcheck says of them into the page."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/rules.md"
EXAMPLE = re.compile(r"^## ([\w-]+)\n(.*?)^```python\n(.*?)^```\n\n```\n(.*?)^```$", re.MULTILINE | re.DOTALL)

LINK = r"\[this line\]\(\d+\)"


def examples(page: str) -> dict[str, tuple[str, str]]:
    """By rule: the code of its example, and what the page says that kcheck says."""
    return {rule: (code, said) for rule, _, code, said in EXAMPLE.findall(page)}


def head(page: str) -> str:
    """What every example begins with."""
    found = re.search(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def messages(page: str, folder: Path) -> dict[str, str]:
    """By rule what a run says of its example: the messages of that rule, each with its fix."""
    (folder / "kcheck.yaml").write_text("specs: [specs]\n")
    (folder / "specs").mkdir()
    found = examples(page)
    for rule, (code, _) in found.items():
        (folder / f"specs/{rule}.py").write_text(f"{head(page)}\n\n{code}")
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "KCHECK_STORE": str(folder / "store")}
    variables.pop("NUMBA_ENABLE_CUDASIM", None)
    run = [sys.executable, "-m", "kcheck", "run", "specs", "--device", "cpu", "--cases", "6"]
    run += ["--no-store", "--strict", "--sanitize", "all", "--format", "sarif"]
    done = subprocess.run(run, cwd=folder, env=variables, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode in (1, 2), done.stderr
    report = json.loads(done.stdout)
    return {rule: _said(report, rule) for rule in found}


def _said(report: dict[str, Any], rule: str) -> str:
    """What a SARIF report says of a rule in the file that is named after it, its first result."""
    (run,) = report["runs"]
    for result in run["results"]:
        place = result["locations"][0]["physicalLocation"]
        if result["ruleId"] == rule and Path(place["artifactLocation"]["uri"]).stem == rule:
            lines = result["message"]["text"].splitlines()
            kept = [line for line in lines if not line.startswith(("Replay", "Smallest"))]
            return "".join(f"{re.sub(LINK, '[this line]', line)}\n" for line in kept)
    return "nothing\n"


def rewritten(page: str, said: dict[str, str]) -> str:
    """The page with these messages."""

    def renewed(found: re.Match[str]) -> str:
        start, end = found.start(4) - found.start(), found.end(4) - found.start()
        return found[0][:start] + said[found[1]] + found[0][end:]

    return EXAMPLE.sub(renewed, page)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        text = PAGE.read_text("utf-8")
        PAGE.write_text(rewritten(text, messages(text, Path(name))), "utf-8")
