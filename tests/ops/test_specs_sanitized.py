"""The project's own correct kernels under every sanitizer: none cries wolf."""

import json
from pathlib import Path
from typing import Any

import pytest
from forked_python import environment, run_module

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


SPECS = sorted(path.stem for path in (ROOT / "specs").glob("*.yaml"))
WHOLE = (
    "cumsum",
    "histogram",
    "matmul",
)
"""Every sanitizer on every case costs ten seconds of a core for each op, most of it to compile: these daily, the
others under ``make soak``."""
OTHERS = [name for name in SPECS if name not in WHOLE]
GROUP = 8


def run(names: list[str], *options: str) -> tuple[int, list[dict[str, Any]]]:
    """Exit code and the specs of the JSON report of ``kcheck run`` on the cpu device."""
    words = ("kcheck", "run", *(f"specs/{name}.yaml" for name in names), "--device", "cpu", "--format", "json")
    child = run_module((*words, *options), ROOT, environment(), seconds=600)
    assert child.stdout, child.stderr[-2000:]
    return child.returncode, json.loads(child.stdout)["specs"]


@pytest.mark.parametrize("name", [*WHOLE, *(pytest.param(name, marks=pytest.mark.soak) for name in OTHERS)])
def test_a_correct_kernel_is_clean_under_every_sanitizer(name: str) -> None:
    """On the cpu device, all at level error and on every case: no finding, of the whole spec neither; exit 0."""
    code, (spec,) = run([name], "--sanitize", "all")
    assert [case["id"] for case in spec["cases"] if case["status"] != "passed" or case["findings"]] == []
    for sanitizer in ("racecheck", "initcheck", "synccheck", "overflow"):
        assert spec["sanitizers"][sanitizer] == {"level": "error", "cases": spec["planned"]}
    assert spec["findings"] == []
    assert spec["passed"] == spec["planned"] >= 25
    assert code == 0


@pytest.mark.parametrize(
    "names", [OTHERS[at : at + GROUP] for at in range(0, len(OTHERS), GROUP)], ids=lambda names: f"{names[0]}.."
)
def test_the_other_correct_kernels_pass(names: list[str]) -> None:
    """The first example of each, under every sanitizer: no finding; exit 0. Picked out: so `artifact` need not
    compile every specialization."""
    code, specs = run(names, "--cases", "0", "-k", "example_0", "--sanitize", "all")
    assert [spec["op"] for spec in specs] == names
    for spec in specs:
        assert [case["id"] for case in spec["cases"] if case["status"] != "passed" or case["findings"]] == []
        assert spec["findings"] == []
        assert spec["passed"] == spec["planned"] == 1
    assert code == 0
