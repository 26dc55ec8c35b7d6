"""``reference: none``: sanitizers, invariants and ``deterministic`` judge, and the report says what did not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from forked_python import run_module

KERNELS = """
from numba import cuda


@cuda.jit
def right(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] * x[i]


@cuda.jit
def negative(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = -x[i] * x[i] - 1


@cuda.jit
def far(x, y):
    i = cuda.grid(1)
    if i <= x.size:
        y[i] = x[i] * x[i]


@cuda.jit
def endless(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = 1 / (x[i] - x[i])
"""

SPEC = """
kcheck: 1
op: {name}
kernel: k.py:{name}
reference: none
dims: {{N: 1..200}}
inputs: {{x: [N]}}
outputs: {{y: [N]}}
launch: {{args: [x, y], grid: ["ceildiv(N, 64)"], block: [64]}}
invariants: [finite, {{non_negative: y}}, "max(y) <= max(x * x) * 1.001"]
cases: {{count: 6}}
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Specs without a reference of a correct kernel and of three wrong ones."""
    made = tmp_path_factory.mktemp("none")
    (made / "kcheck.yaml").write_text("")
    (made / "k.py").write_text(KERNELS)
    for name in ("right", "negative", "far", "endless"):
        (made / f"{name}.yaml").write_text(SPEC.format(name=name))
    off = "sanitize: {" + ", ".join(f"{name}: off" for name in SANITIZERS) + "}\n"
    nothing = "".join(line + "\n" for line in SPEC.splitlines() if not line.startswith("invariants"))
    (made / "nothing.yaml").write_text(nothing.format(name="right").replace("op: right", "op: nothing") + off)
    return made


SANITIZERS = (
    "memcheck", "racecheck", "initcheck", "synccheck", "overflow", "unwritten", "mutated", "nondeterministic",
)  # fmt: skip


def test_sanitizers_and_invariants_judge_alone(root: Path) -> None:
    """An invariant finds a wrong value, memcheck a wrong address, and a right kernel passes with a note."""
    done = run_module(("kcheck", "run", ".", "--device", "cpu", "--format", "json"), root, {}, seconds=300)
    specs = {spec["op"]: spec for spec in json.loads(done.stdout)["specs"]}
    assert {op: spec["status"] for op, spec in specs.items()} == {
        "right": "passed", "negative": "failed", "far": "failed", "endless": "failed", "nothing": "passed",
    }  # fmt: skip
    note = "right: values were not compared: the spec has no reference"
    assert note in specs["right"]["notes"]
    rules = {op: {finding["rule"] for finding in spec["findings"]} for op, spec in specs.items()}
    assert rules["nothing"] == {"vacuous"}


def test_the_text_and_junit_reports_say_that_values_were_not_compared(root: Path) -> None:
    """A reader must not take such a spec for one whose values are right."""
    words = ("run", "right.yaml", "negative.yaml", "--device", "cpu", "--format", "text", "-o", "-")
    words += ("--format", "junit", "-o", "j.xml", "--format", "html", "-o", "h.html")
    done = run_module(("kcheck", *words), root, {}, seconds=300)
    assert "values were not compared: the spec has no reference" in done.stdout
    assert "y[0] is -" in done.stdout
    for name in ("j.xml", "h.html"):
        assert "values were not compared" in (root / name).read_text()


def test_strict_fails_a_spec_that_checks_nothing(root: Path) -> None:
    """Without a reference, invariants and sanitizers, no kernel could fail."""
    run = ("kcheck", "run", "--device", "cpu", "--strict")
    assert run_module((*run, "right.yaml"), root, {}, seconds=300).returncode == 0
    done = run_module((*run, "nothing.yaml"), root, {}, seconds=300)
    assert done.returncode == 1
    assert "nothing is checked" in done.stdout
