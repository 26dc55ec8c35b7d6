"""The main job on Numba's simulator, which interprets kernels: the first ops pass, and their twins are found.

It is slow and cannot shuffle, so it gets a few; all others are run on the cpu device, by test_specs_sanitized.py
and test_twins.py.
"""

import functools
import json
from pathlib import Path
from typing import Any

import pytest
from forked_python import environment, run_module

from benchmarks.evidence.corpus import twins

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
TWINS = {
    twin.name: twin
    for twin in twins()
    if twin.name
    in (
        "attention_unscaled",
        "gelu_no_half",
        "matmul_assigns",
        "matmul_griddim",
        "reduce_sum_floor_grid",
        "rmsnorm_block_mean",
        "softmax_pad_zero",
    )
}


@functools.cache
def run(spec: str, *options: str) -> tuple[int, dict[str, Any]]:
    """Exit code and the spec's part of the JSON report of ``kcheck run`` on the simulator."""
    words = ("kcheck", "run", spec, "--device", "simulator", "--format", "json", *options)
    child = run_module(words, ROOT, environment(), seconds=600)
    assert child.stdout, child.stderr[-2000:]
    specs = json.loads(child.stdout)["specs"]
    assert len(specs) == 1
    return child.returncode, specs[0]


DAILY = ("gelu",)


def _rows(names: set[str]) -> list[object]:
    """Those of every day, and the others under ``make soak``: each takes ten seconds."""
    return [name if name in DAILY else pytest.param(name, marks=pytest.mark.soak) for name in sorted(names)]


@pytest.mark.parametrize("name", _rows({twin.of for twin in TWINS.values()}))
def test_a_correct_kernel_passes(name: str) -> None:
    """Every example and every generated case passes, with no finding about the whole spec; the exit is 0."""
    code, spec = run(f"specs/{name}.yaml")
    assert [case["id"] for case in spec["cases"] if case["status"] != "passed"] == []
    assert spec["findings"] == []
    assert spec["passed"] == spec["planned"] >= 25
    assert code == 0


@pytest.mark.parametrize("name", _rows(set(TWINS)))
def test_a_planted_bug_is_found_where_it_is(name: str) -> None:
    """Cases fail, by wrong values alone; none fails at a size where the bug does no harm; the exit is 1."""
    code, spec = run(f"specs/buggy/{name}.yaml", "--cases", "12")
    assert code == 1
    assert spec["errors"] == 0
    assert spec["failed"] >= 3
    for case in spec["cases"]:
        assert {finding["rule"] for finding in case["findings"]} <= {"invariant"}
        if TWINS[name].is_harmless(case["dims"]):
            assert case["status"] == "passed", case["id"]
        if case["status"] == "failed":
            assert not all(comparison["passed"] for comparison in case["comparisons"])


def test_the_silent_matmul_fails_exactly_where_k_exceeds_the_grid() -> None:
    """The demonstration: right wherever K has no more tiles than N, as in square matrices, and wrong elsewhere."""
    _, spec = run("specs/buggy/matmul_griddim.yaml", "--cases", "12")
    for case in spec["cases"]:
        more = -(-case["dims"]["K"] // 16) > -(-case["dims"]["N"] // 16)
        assert (case["status"] == "failed") == more, case["id"]
