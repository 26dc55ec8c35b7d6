"""The project's own correct kernels under every sanitizer: none cries wolf."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


SPECS = sorted(path.stem for path in (ROOT / "specs").glob("*.yaml"))
WHOLE = (
    "cumsum",
    "histogram",
    "matmul",
    "softmax",
)
"""Every sanitizer on every case costs ten seconds of a core for each op, most of it to compile: daily, the others
get their examples and a few cases."""
FEW = 3


@pytest.mark.parametrize(
    ("name", "cases"),
    [
        *((name, None) for name in WHOLE),
        *((name, FEW) for name in SPECS if name not in WHOLE),
        *(pytest.param(name, None, marks=pytest.mark.soak) for name in SPECS if name not in WHOLE),
    ],
)
def test_a_correct_kernel_is_clean_under_every_sanitizer(name: str, cases: int | None) -> None:
    """On the cpu device, all at level error and on every case: no finding, of the whole spec neither; exit 0."""
    command = [sys.executable, "-m", "kcheck", "run", f"specs/{name}.yaml", "--device", "cpu"]
    child = subprocess.run(
        [*command, "--sanitize", "all", "--format", "json", *(["--cases", str(cases)] if cases else [])],
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
    assert spec["passed"] == spec["planned"] >= (cases or 25)
    assert child.returncode == 0
