"""A project of kernels of several kinds, and ``kcheck run`` on all of them in one process."""

from __future__ import annotations

import json
import os
import subprocess
import textwrap
from pathlib import Path
from typing import Any

from forked_python import run_module

CHECKOUT = Path(__file__).parents[2]

REFERENCES = """
import numpy as np


def double(x):
    return 2 * x


def scale(x, a):
    return a * x


def total(x):
    return x.sum(axis=1)
"""


class KindsProject:
    """Kernels, references and specs in a folder.

    Args:
        root: the folder, which is made.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in ("specs", "kernels", "references", "include"):
            (root / folder).mkdir(parents=True)
        (root / "kcheck.yaml").write_text("")
        (root / "references/r.py").write_text(REFERENCES)

    def write(self, path: str, text: str) -> Path:
        """Write a file, its text dedented."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text).lstrip("\n"))
        return file

    def spec(self, op: str, text: str) -> Path:
        """Write ``specs/op.yaml``: an input ``x`` and an output ``y`` of N elements, unless it has others."""
        keys = {line.partition(":")[0] for line in textwrap.dedent(text).splitlines()}
        rest = {
            "reference": "references/r.py:double",
            "dims": "{N: [1, 70, 256]}",
            "inputs": "{x: [N]}",
            "outputs": "{y: [N]}",
            "launch": '{args: [x, y, {N: int32}], grid: ["ceildiv(N, 64)"], block: [64]}',
            "cases": "{count: 4}",
        }
        if "launcher" in keys:
            rest.pop("launch")
        more = "".join(f"{key}: {value}\n" for key, value in rest.items() if key not in keys)
        return self.write(f"specs/{op}.yaml", f"kcheck: 1\nop: {op}\n{textwrap.dedent(text).strip()}\n{more}")

    def kcheck(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run ``kcheck`` there."""
        clean = {k: v for k, v in os.environ.items() if k not in ("NUMBA_ENABLE_CUDASIM", "KCHECK_CC", "COLUMNS")}
        variables = {**clean, "PYTHONPATH": str(CHECKOUT), "COLUMNS": "200", **more}
        return run_module(("kcheck", *words), self.root, variables, seconds=600)

    def report(self, *words: str, **more: str) -> dict[str, dict[str, Any]]:
        """``kcheck run`` on all specs: those of its JSON report, by op."""
        done = self.kcheck("run", *(words or ("specs",)), "--device", "cpu", "--format", "json", **more)
        assert done.returncode in (0, 1, 2), done.stderr
        return {Path(spec["path"]).stem: spec for spec in json.loads(done.stdout)["specs"]}
