"""Array functions as ops of a project, which start quickly, and reports without times: for tests of workers."""

from __future__ import annotations

from pathlib import Path

SPEC = """\
kcheck: 1
op: {name}
function: ops.py:{name}
reference: ops.py:reference
dims: {{N: [1, 2, 3, 4, 5, 6, 7, 8]}}
inputs: {{x: [N]}}
outputs: {{y: [N]}}
cases: {{count: {count}}}
"""
_OPS = """
import os
import time
from pathlib import Path

import helper

MARKS = Path({marks!r})


def reference(x):
    return helper.twice(x)


def right(x):
    return x + x


def wrong(x):
    return x + x + (x.size == 5)


def fatal(x):
    if x.size == 6:
        os._exit(7)
    return x + x


def hangs(x):
    if x.size == 6:
        time.sleep(600)
    return x + x


def slow(x):
    (MARKS / f"slow.{{os.getpid()}}").touch()
    time.sleep(0.01)
    return x + x


def endless(x):
    (MARKS / f"endless.{{os.getpid()}}").touch()
    time.sleep(600)
"""
COUNTS = {"right": 12, "wrong": 12, "fatal": 12, "hangs": 12, "slow": 300, "endless": 4}
"""The ops, and the number of cases of each spec."""


def write_functions(root: Path, marks: Path) -> None:
    """A spec ``NAME.yaml`` for each op. ``slow`` and ``endless`` leave ``NAME.PID`` in the folder of marks."""
    files = {"kcheck.yaml": "", "ops.py": _OPS.format(marks=str(marks))}
    files["helper.py"] = "def twice(x):\n    return 2 * x\n"
    files |= {f"{name}.yaml": SPEC.format(name=name, count=count) for name, count in COUNTS.items()}
    for name, text in files.items():
        (root / name).write_text(text)


def timeless(value: object) -> object:
    """A JSON report without times and without the command."""
    if isinstance(value, dict):
        return {key: timeless(part) for key, part in value.items() if key not in ("time", "command")}
    return [timeless(part) for part in value] if isinstance(value, list) else value
