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

from kcheck.lint.advice import ADVICE

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/rules.md"
EXAMPLE = re.compile(r"^## ([\w-]+)\n(.*?)^```python\n(.*?)^```\n\n```\n(.*?)^```$", re.MULTILINE | re.DOTALL)

ALONE = {"timeout": ("--timeout", "2"), "worker": ("--jobs", "2")}
"""Examples that need options of their own: each is a run."""
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
    """By rule what a run, or `kcheck lint`, says of its example: the first message of that rule, with its fix."""
    (folder / "kcheck.yaml").write_text("specs: [specs]\n")
    (folder / "specs").mkdir()
    found = examples(page)
    for rule, (code, _) in found.items():
        (folder / f"specs/{rule}.py").write_text(f"{head(page)}\n\n{code}")
    together = [f"specs/{rule}.py" for rule in found if rule not in ALONE and rule not in ADVICE]
    report = _run(folder, *together)
    said = {rule: _said(report, rule) for rule in found}
    for rule, options in ALONE.items():
        said[rule] = _said(_run(folder, f"specs/{rule}.py", *options), rule)
    advised = [rule for rule in found if rule in ADVICE]
    lint = _kcheck(folder, "lint", *(f"specs/{rule}.py" for rule in advised), "--format", "json")
    return {**said, **{rule: _advised(lint, rule) for rule in advised}}


def _run(folder: Path, *arguments: str) -> dict[str, Any]:
    options = (
        "--device",
        "cpu",
        "--cases",
        "6",
        "--no-store",
        "--strict",
        "--sanitize",
        "all",
        "--format",
        "sarif",
    )
    return _kcheck(folder, "run", *arguments, *options)


def _kcheck(folder: Path, *arguments: str) -> dict[str, Any]:
    """The JSON that a command writes."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "KCHECK_STORE": str(folder / "store")}
    variables.pop("NUMBA_ENABLE_CUDASIM", None)
    words = [sys.executable, "-m", "kcheck", *arguments]
    done = subprocess.run(words, cwd=folder, env=variables, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode in (0, 1, 2), done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def _advised(document: dict[str, Any], rule: str) -> str:
    """What `kcheck lint` says of a rule in the file that is named after it, its first warning."""
    for spec in document["lint"]:
        for metrics in spec["metrics"]:
            for each in metrics["advice"]:
                if each["rule"] == rule and Path(each["place"]["file"]).stem == rule:
                    return f"{spec['op']}: {each['message']}\nFix: {each['fix']}.\n"
    return "nothing\n"


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
