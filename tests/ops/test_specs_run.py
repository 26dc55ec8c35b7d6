"""The main job on the project's own specs: correct kernels pass, and every planted bug is found where it is."""

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
Dims = Mapping[str, int]

# By buggy spec: the sizes at which the planted line computes the same as the clean one.
HARMLESS: dict[str, Callable[[Dims], bool]] = {
    "attention": lambda dims: dims["D"] == 1 or dims["N"] == 1,
    "gelu": lambda dims: False,
    "matmul": lambda dims: False,
    "matmul_griddim": lambda dims: dims["K"] == dims["N"],
    "reduce_sum": lambda dims: dims["N"] % 32 == 0,
    "rmsnorm": lambda dims: dims["N"] == 128,
    "softmax": lambda dims: dims["N"] % 128 == 0,
}

SHUFFLES = [
    path.stem for path in (ROOT / "kernels").glob("*.py") if "cuda.shfl_" in path.read_text(encoding="utf-8")
]


@functools.cache
def run(spec: str) -> tuple[int, dict[str, Any]]:
    """Exit code and the spec's part of the JSON report of ``kcheck run``, on the simulator unless the
    kernel shuffles, which Numba's simulator cannot."""
    device = "cpu" if Path(spec).stem in SHUFFLES else "simulator"
    child = subprocess.run(
        [sys.executable, "-m", "kcheck", "run", spec, "--device", device, "--format", "json"],
        cwd=ROOT,
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "0"},  # kcheck switches the simulator on by itself
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert child.stdout, child.stderr[-2000:]
    specs = json.loads(child.stdout)["specs"]
    assert len(specs) == 1
    return child.returncode, specs[0]


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "specs").glob("*.yaml")))
def test_a_correct_kernel_passes(name: str) -> None:
    """Every example and every generated case passes, with no finding about the whole spec; the exit is 0."""
    code, spec = run(f"specs/{name}.yaml")
    assert [case["id"] for case in spec["cases"] if case["status"] != "passed"] == []
    assert spec["findings"] == []
    assert spec["passed"] == spec["planned"] >= 25
    assert code == 0


@pytest.mark.parametrize("name", sorted(HARMLESS))
def test_a_planted_bug_is_found_where_it_is(name: str) -> None:
    """Most cases fail, by wrong values alone; none fails at a size where the bug does no harm; the exit is 1."""
    code, spec = run(f"specs/buggy/{name}.yaml")
    assert code == 1
    assert spec["errors"] == 0
    assert spec["failed"] > spec["planned"] / 2
    for case in spec["cases"]:
        assert {finding["rule"] for finding in case["findings"]} <= {"invariant"}
        if HARMLESS[name](case["dims"]):
            assert case["status"] == "passed", case["id"]
        if case["status"] == "failed":
            assert not all(comparison["passed"] for comparison in case["comparisons"])


def test_the_silent_matmul_fails_exactly_where_k_exceeds_the_grid() -> None:
    """The demonstration: right whenever K = N, wrong whenever K > N."""
    _, spec = run("specs/buggy/matmul_griddim.yaml")
    for case in spec["cases"]:
        assert (case["status"] == "failed") == (case["dims"]["K"] > case["dims"]["N"]), case["id"]
