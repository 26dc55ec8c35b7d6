"""Sanitizers as the user of ``kcheck run --device cpu`` meets them: exit codes, levels, reports. Every kernel here
computes what its reference does: what fails it is the sanitizer alone."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET

import pytest
from cpu_project import CpuProject

from kcheck.device.cpu import missing

pytestmark = [pytest.mark.skipif(bool(missing()), reason=missing()), pytest.mark.slow]

SPEC = """
kcheck: 1
op: op
kernel: k.py:op
reference: r.py:op
dims: {N: [70]}
inputs: {x: [N]}
outputs: {y: [N]}
launch: {args: [x, y], grid: [1], block: [96]}
cases: {count: 2}
"""
REFERENCE = "def op(x):\n    return 2 * x\n"
BODY = """
@cuda.jit
def op(x, y):
    s = cuda.shared.array(96, int32)
    i = cuda.threadIdx.x
LINE
    cuda.syncthreads()
    if i < x.size and s[i] != 123456789:
        y[i] = 2 * x[i]
"""
LINES = {
    "clean": "    s[i] = i",
    "racecheck": "    s[i // 2 * 2] = i; s[i // 2 * 2 + 1] = i",
    "initcheck": "    if i > 0: s[i] = i",
    # 96**5 wraps to -436207616
    "overflow": "    b = int32(cuda.blockDim.x); w = int32(int32(b * b * b * b) * b); s[i + w + 436207616] = i",
}
RULES = [name for name in LINES if name != "clean"]
LEVEL = {"overflow": "sanitize: {overflow: error}\n"}  # the others are errors where nobody says so


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> CpuProject:
    """A spec for each rule."""
    made = CpuProject(tmp_path_factory.mktemp("sanitizers") / "a project")
    for name, line in LINES.items():
        made.add(name, SPEC + LEVEL.get(name, ""), BODY.replace("LINE", line), REFERENCE)
    return made


def is_told(rule: str, text: str) -> bool:
    """Whether a report has a finding of the rule in full."""
    return re.search(rf"^ +{rule} ", text, re.MULTILINE) is not None


@pytest.mark.parametrize("rule", RULES)
def test_a_finding_is_a_failure_in_every_report(project, rule):
    """Exit code 1; the text, the JSON and the JUnit report name the rule, and how many cases were seen."""
    done = project.run(f"{rule}.yaml", "--format", "text", "--format", "json", "-o", f"{rule}.json",
                       "--format", "junit", "-o", f"{rule}.xml")  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    assert is_told(rule, done.stdout)
    (spec,) = json.loads((project.root / f"{rule}.json").read_text())["specs"]
    assert spec["sanitizers"][rule] == {"level": "error", "cases": 2}
    assert {finding["rule"] for case in spec["cases"] for finding in case["findings"]} == {rule}
    assert all(rule in case["sanitizers"] for case in spec["cases"])
    document = ET.parse(project.root / f"{rule}.xml")
    assert [failure.get("type") for failure in document.iter("failure")] == [rule, rule]
    properties = {each.get("name"): each.get("value") for each in document.iter("property")}
    assert properties[rule] == "error, 2 of 2 cases"


@pytest.mark.parametrize(
    "rule", [rule if rule == "racecheck" else pytest.param(rule, marks=pytest.mark.soak) for rule in RULES]
)
def test_levels(project, rule):
    """Off: exit code 0 and not a word. Warn: exit code 0 and a warning. By the spec or by the command line."""
    off = project.run(f"{rule}.yaml", "--sanitize", f"{rule}=off")
    assert (off.returncode, is_told(rule, off.stdout)) == (0, False), off.stdout
    warned = project.run(f"{rule}.yaml", "--sanitize", f"{rule}=warn")
    assert warned.returncode == 0
    assert is_told(rule, warned.stdout)
    assert "1 warning" in warned.stdout
    project.add(f"{rule}_off", SPEC + f"sanitize: {{{rule}: off}}\n", BODY.replace("LINE", LINES[rule]), REFERENCE)
    assert project.run(f"{rule}_off.yaml").returncode == 0
    assert project.run(f"{rule}_off.yaml", "--sanitize", "all").returncode == 0
    assert project.run(f"{rule}_off.yaml", "--sanitize", rule).returncode == 1


def test_the_clean_twin_passes_with_everything_on(project):
    """With every sanitizer an error and seeing every case, the twin that is right has no finding."""
    done = project.run("clean.yaml", "--sanitize", "all", "--format", "json")
    assert done.returncode == 0, done.stdout
    (spec,) = json.loads(done.stdout)["specs"]
    assert [case["findings"] for case in spec["cases"]] == [[], []]
    assert {name: seen["cases"] for name, seen in spec["sanitizers"].items() if name in RULES} == dict.fromkeys(
        RULES, 2
    )


NEIGHBOUR = """
@cuda.jit
def op(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = 2 * x[i]
        if y[(i + 1) % x.size] == 123456789:
            y[i] = 0
"""
WORKSPACE = """
@cuda.jit
def twice(x, w, y):
    i = cuda.grid(1)
    if i < x.size:
        w[i] = x[i]
        if w[(i + 1) % x.size] != 123456789:
            y[i] = 2 * x[i]

def op(x, y):
    twice[1, 96](x, cuda.to_device(np.zeros(70, np.float32)), y)
"""
BY_LAUNCHER = SPEC.replace("kernel: k.py:op\n", "launcher: k.py:op\n").replace(
    "launch: {args: [x, y], grid: [1], block: [96]}\n", ""
)
SHARED = BODY.replace("LINE", LINES["racecheck"])


@pytest.mark.parametrize(
    ("spec", "kernel", "named", "status"),
    [
        (SPEC, NEIGHBOUR, "", 1),
        (SPEC, NEIGHBOUR, "y", 0),
        (SPEC, NEIGHBOUR, "shared", 1),
        (SPEC, SHARED, "y", 1),
        (SPEC, SHARED, "shared", 0),
        (BY_LAUNCHER, WORKSPACE, "shared", 1),
    ],
    ids=[
        "none is allowed",
        "its own",
        "shared for global",
        "global for shared",
        "all shared",
        "a launcher's array",
    ],
)
def test_allow_races_silences_the_arrays_it_names_and_no_other(tmp_path, spec, kernel, named, status):
    """``shared`` stands for shared memory, and for no array in global memory that has no name in the spec."""
    made = CpuProject(tmp_path / "a project")
    made.add("op", f"{spec}allow_races: [{named}]\nsanitize: {{initcheck: off}}\n", kernel, REFERENCE)
    done = made.run(".", "--format", "json")
    assert done.returncode == status, done.stdout + done.stderr
    (told,) = json.loads(done.stdout)["specs"]
    rules = {finding["rule"] for case in told["cases"] for finding in case["findings"]}
    assert rules == ({"racecheck"} if status else set())
