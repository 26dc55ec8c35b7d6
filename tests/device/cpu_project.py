"""A project of kernels, each with its spec, and ``kcheck run --device cpu`` on all of them in one process."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from forked_python import run_module

CHECKOUT = Path(__file__).parents[2]
HEAD = "import math\nimport numpy as np\nfrom numba import cuda, float32, float64, int32\n"


def environment(**more: str) -> dict[str, str]:
    """That of the tests, as a user's would be: whoever runs the tests may have chosen a device."""
    clean = {k: v for k, v in os.environ.items() if k not in ("NUMBA_ENABLE_CUDASIM", "KCHECK_CC", "COLUMNS")}
    return {**clean, "PYTHONPATH": str(CHECKOUT), **more}


class CpuProject:
    """Kernels and specs in a folder.

    Args:
        root: the folder, which is made.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True)
        (root / "kcheck.yaml").write_text("")

    def add(self, name: str, spec: str, kernel: str, reference: str) -> None:
        """A spec ``name.yaml`` with its kernel in ``name_k.py`` and its reference in ``name_r.py``."""
        (self.root / f"{name}_k.py").write_text(HEAD + kernel)
        (self.root / f"{name}_r.py").write_text("import numpy as np\n" + reference)
        text = spec.replace("k.py:", f"{name}_k.py:").replace("r.py:", f"{name}_r.py:")
        (self.root / f"{name}.yaml").write_text(text.replace("op: op\n", f"op: {name}\n"))

    def line(self, name: str, finding: dict[str, Any]) -> str:
        """The line of a kernel that a finding points at."""
        place = finding["place"]
        assert Path(self.root / place["file"]).name == f"{name}_k.py"
        return (self.root / f"{name}_k.py").read_text().splitlines()[place["line"] - 1].strip()

    def run(self, *arguments: str, device: str = "cpu", **more: str) -> subprocess.CompletedProcess[str]:
        """``kcheck run`` there."""
        words = ("kcheck", "run", *arguments, "--device", device)
        return run_module(words, self.root, environment(**more), seconds=600)

    def report(self, *arguments: str, **more: str) -> dict[str, dict[str, Any]]:
        """The JSON report's specs, by op."""
        done = self.run(*(arguments or (".",)), "--format", "json", **more)
        assert done.returncode in (0, 1, 2), done.stderr
        return {spec["op"]: spec for spec in json.loads(done.stdout)["specs"]}
