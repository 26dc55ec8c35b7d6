"""A small project, and ``kcheck`` as a process in it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from forked_python import run_module, start_module

CHECKOUT = Path(__file__).parents[2]

KERNELS = """\
from numba import cuda


@cuda.jit
def double(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] + x[i]


@cuda.jit
def triple(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] * 3


@cuda.jit
def loud(x, y):
    i = cuda.grid(1)
    if i == 0:
        print("a kernel prints")
    if i < x.size:
        y[i] = x[i] + x[i]
"""
REFERENCES = """\
print("a reference file prints")


def double(x):
    return x * 2


def broken(x):
    raise RuntimeError("no truth to be had")
"""
SPEC = """\
kcheck: 1
op: {op}
tags: [{tag}]
kernel: kernels/k.py:{kernel}
reference: references/r.py:{reference}
dims: {{N: [1, 2, 5]}}
inputs: {{x: [N]}}
outputs: {{y: [N]}}
launch: {{args: [x, y], grid: [1], block: [8]}}
cases: {{count: 2}}
"""
SPECS = {
    "specs/good.yaml": {"op": "good", "tag": "clean", "kernel": "double", "reference": "double"},
    "specs/loud.yaml": {"op": "loud", "tag": "clean", "kernel": "loud", "reference": "double"},
    "specs/buggy/bad.yaml": {"op": "bad", "tag": "buggy", "kernel": "triple", "reference": "double"},
    "specs/broken/lost.yaml": {"op": "lost", "tag": "broken", "kernel": "double", "reference": "broken"},
}


def write_project(root: Path) -> None:
    """Good specs in specs/, one that fails in specs/buggy/, and below specs/broken/ what is not a verdict."""
    for path, words in SPECS.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(SPEC.format(**words))
    (root / "specs/broken/typo.yaml").write_text(SPEC.format(**SPECS["specs/good.yaml"]).replace("dims", "dimms"))
    for folder, text in (("kernels/k.py", KERNELS), ("references/r.py", REFERENCES)):
        (root / folder).parent.mkdir()
        (root / folder).write_text(text)
    (root / "kernels/unused.py").write_text("")
    (root / "kcheck.yaml").write_text("")


class Kcheck:
    """Runs ``python -m kcheck`` in a folder, away from a terminal and from settings of whoever runs the tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "NUMBA_ENABLE_CUDASIM")
        }
        self.environment["PYTHONPATH"] = str(CHECKOUT)

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "kcheck", *arguments]

    def __call__(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        variables = {**self.environment, **environment}
        return run_module(("kcheck", *arguments), self.folder, variables, seconds=120)

    def start(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """As a call, but Python starts the process, and imports what it needs."""
        variables = {**self.environment, **environment}
        return start_module(("kcheck", *arguments), self.folder, variables, seconds=120)
