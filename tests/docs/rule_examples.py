"""docs/rules.md: ``make rules`` writes it from the rules, and from what kcheck says of their examples."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kcheck.rules import ADVICE, NAMES, rule

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/rules.md"
HEAD = """\
import kcheck
import numpy as np
from numba import cuda, float32, int32


def twice(x):
    return 2 * x
"""
"""What every example begins with."""
START = f"""\
# Each check by example

This page shows, for each rule, what it finds, a small kernel with the error, and kcheck's message. `make rules`
writes it from the files of the rules, and a test compares the messages with those of a run. Every example begins
with these lines:

```python
{HEAD}```
"""
ADVISED = """\
## Warnings about compiled code

`kcheck run` shows these warnings as notes, and `kcheck lint` lists them; [lint.md](lint.md) says how kcheck finds
them.
"""
SAID = re.compile(
    r"^## ([\w-]+)\n(?:(?!^## ).*\n)*?^```python\n(?:.*\n)*?^```\n\n```\n((?:.*\n)*?)^```$", re.MULTILINE
)
EXAMPLES = [name for name in NAMES if rule(name).code]

LINK = r"\[this line\]\(\d+\)"


def page(said: Mapping[str, str]) -> str:
    """The page. ``said``: by rule, what kcheck says of its example."""
    parts = [START]
    for name in EXAMPLES:
        if name == next(each for each in ADVICE if each in EXAMPLES):
            parts.append(ADVISED)
        about = rule(name)
        level = " This is a warning by default." if about.level == "warn" and name not in ADVICE else ""
        paragraphs = (f"**{about.title}.** {about.why}{level}", about.fix, f"Example: {_lowered(about.example)}")
        text = "\n\n".join(_wrapped(each) for each in paragraphs if each)
        parts.append(f"## {name}\n\n{text}\n\n```python\n{about.code}```\n\n```\n{said[name]}```\n")
    without = (_wrapped(f"- `{name}`: {rule(name).no_example}", "  ") for name in NAMES if name not in EXAMPLES)
    return "\n".join([*parts, "## Without an example\n", *without, ""])


def _lowered(text: str) -> str:
    """A sentence after a colon."""
    return text[:1].lower() + text[1:]


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False, subsequent_indent=indent)


def said_on(text: str) -> dict[str, str]:
    """By rule, what a page says that kcheck says."""
    return dict(SAID.findall(text))


def messages(folder: Path) -> dict[str, str]:
    """By rule what a run, or `kcheck lint`, says of its example: the first message of that rule, with its fix."""
    (folder / "kcheck.yaml").write_text("specs: [specs]\n")
    (folder / "specs").mkdir()
    for name in EXAMPLES:
        (folder / f"specs/{name}.py").write_text(f"{HEAD}\n\n{rule(name).code}")
    alone = [name for name in EXAMPLES if rule(name).options]
    advised = [name for name in EXAMPLES if name in ADVICE]
    report = _run(folder, *(f"specs/{name}.py" for name in EXAMPLES if name not in (*alone, *advised)))
    said = {name: _said(report, name) for name in EXAMPLES}
    for name in alone:
        said[name] = _said(_run(folder, f"specs/{name}.py", *rule(name).options), name)
    lint = _kcheck(folder, "lint", *(f"specs/{name}.py" for name in advised), "--format", "json")
    return {**said, **{name: _advised(lint, name) for name in advised}}


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


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        PAGE.write_text(page(messages(Path(made))), "utf-8")
