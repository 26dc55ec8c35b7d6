"""The project's own correct kernels under every sanitizer: none cries wolf."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "specs").glob("*.yaml")))
def test_a_correct_kernel_is_clean_under_every_sanitizer(name: str) -> None:
    """On the cpu device, all at level error and on every case: no finding, of the whole spec neither; exit 0."""
    command = [sys.executable, "-m", "kcheck", "run", f"specs/{name}.yaml", "--device", "cpu"]
    child = subprocess.run(
        [*command, "--sanitize", "all", "--format", "json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert child.stdout, child.stderr[-2000:]
    (spec,) = json.loads(child.stdout)["specs"]
    assert [case["id"] for case in spec["cases"] if case["status"] != "passed" or case["findings"]] == []
    for sanitizer in ("racecheck", "initcheck", "synccheck", "overflow"):
        assert spec["sanitizers"][sanitizer] == {"level": "error", "cases": spec["planned"]}
    assert spec["findings"] == []
    assert spec["passed"] == spec["planned"] >= 25
    assert child.returncode == 0
