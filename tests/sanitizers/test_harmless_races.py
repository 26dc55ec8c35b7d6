"""Races that are warnings by default, and errors where racecheck is set to error."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "device"))

from cpu_project import CpuProject
from cpu_project import environment as environment_of_tests
from forked_python import run_module

from kcheck.cli.sanitize import Sanitize
from kcheck.device.cpu import missing
from kcheck.driver.session import environment, read_levels
from kcheck.model import STRICT, Finding, Level, Strict

SPEC = """
kcheck: 1
op: op
kernel: k.py:op
reference: r.py:op
dims: {N: [64]}
inputs: {x: {shape: [N], dtype: int32, values: {integers: [1, 9]}}}
outputs: {y: {shape: [1], dtype: int32}}
launch: {args: [x, y], grid: [1], block: [64]}
cases: {count: 1}
"""
REFERENCE = "def op(x):\n    return {'y': x.max(keepdims=True)}\n"
KERNEL = """
@cuda.jit
def op(x, y):
    best = cuda.shared.array(1, int32)
    i = cuda.threadIdx.x
    if i == 0:
        best[0] = 0
    cuda.syncthreads()
    if x[i] > best[0]:
        cuda.atomic.max(best, 0, x[i])
    cuda.syncthreads()
    if i == 0:
        y[0] = best[0]
"""


@pytest.mark.parametrize(
    ("level", "severity"), [("error", "warn"), (STRICT, "error"), ("warn", "warn"), ("off", None)]
)
def test_a_lenient_finding_is_an_error_only_where_its_level_is_set_to_error(
    level: Level, severity: str | None
) -> None:
    at_level = Finding("racecheck", "", severity="warn", lenient=True).at_level(level)
    assert (at_level and at_level.severity) == severity


@pytest.mark.parametrize("level", ["error", STRICT])
def test_any_other_warning_stays_one(level: Level) -> None:
    at_level = Finding("racecheck", "", severity="warn").at_level(level)
    assert at_level is not None
    assert at_level.severity == "warn"


@pytest.mark.parametrize(
    ("word", "is_set"), [("racecheck", False), ("racecheck=error", True), ("all=error", True)]
)
def test_a_name_alone_is_the_default_level(word: str, is_set: bool) -> None:
    """In a run, and in the programs of ``kcheck exec``, which get it through their environment."""
    kind = Sanitize()
    levels = kind.levels([kind.convert(word, None, None)])
    assert levels["racecheck"] == "error"
    assert isinstance(levels["racecheck"], Strict) == is_set
    passed_on = read_levels(environment({}, "findings", None, None, levels)["KCHECK_SANITIZE"])
    assert {name: isinstance(level, Strict) for name, level in passed_on.items()} == dict.fromkeys(levels, is_set)


@pytest.mark.slow
@pytest.mark.skipif(bool(missing()), reason=missing())
def test_a_spec_makes_harmless_races_errors(tmp_path: Path) -> None:
    """A test before an atomic passes with a warning, and fails a spec that says ``racecheck: error``."""
    project = CpuProject(tmp_path / "a project")
    project.add("lenient", SPEC, KERNEL, REFERENCE)
    project.add("strict", SPEC + "sanitize: {racecheck: error}\n", KERNEL, REFERENCE)
    report = project.report(KCHECK_CACHE_DIR=str(tmp_path / "cache"))
    found = {}
    for name in ("lenient", "strict"):
        (case,) = report[name]["cases"]
        found[name] = [case["status"], *((f["rule"], f["severity"]) for f in case["findings"])]
    assert found == {"lenient": ["passed", ("racecheck", "warn")], "strict": ["failed", ("racecheck", "error")]}


@pytest.mark.slow
@pytest.mark.skipif(bool(missing()), reason=missing())
def test_a_failure_of_the_command_line_is_not_fixed_without_it(tmp_path: Path) -> None:
    """``--sanitize racecheck=error`` makes a harmless race fail; later runs without the option pass it with a
    warning, and leave the failure open, and ``reproduce`` and ``minimize`` still judge it as that run did."""
    project = CpuProject(tmp_path / "a project")
    (project.root / "specs").mkdir()
    project.add("op", SPEC, KERNEL, REFERENCE)
    (project.root / "op.yaml").rename(project.root / "specs/op.yaml")

    def kcheck(*words: str) -> tuple[int, str]:
        variables = {key: value for key, value in environment_of_tests().items() if key != "KCHECK_STORE"}
        variables["KCHECK_CACHE_DIR"] = str(tmp_path / "cache")
        done = run_module(("kcheck", *words), project.root, variables, seconds=300)
        return done.returncode, done.stdout

    assert kcheck("run", "--device", "cpu", "--sanitize", "racecheck=error")[0] == 1
    assert kcheck("run", "--device", "cpu")[0] == 0
    code, text = kcheck("reproduce", "last")
    assert (code, text.splitlines()[1][:11]) == (1, "STILL FAILS")
    assert "checked with --sanitize racecheck=error, as when it failed" in " ".join(text.split())
    code, text = kcheck("minimize", "last", "--max-iters", "10")
    assert (code, "racecheck" in text) == (0, True)
