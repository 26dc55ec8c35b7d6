"""A kernel compiles for ``artifact:`` beside its cases, in a child process that never outlives the spec."""

import importlib.util
import subprocess
import time

import pytest

from kcheck.device import artifact, choose
from kcheck.model import CaseFinished, Compiling, RunFinished, SpecFinished, SpecStarted
from kcheck.runner import Options, run

KERNEL = "@cuda.jit\ndef twice(x, y):\n    i = cuda.grid(1)\n    if i < x.size:\n        y[i] = 2 * x[i]\n"
REFERENCE = "def twice(x):\n    return 2 * x\n"
SPEC = """
kcheck: 1
op: twice
kernel: k.py:twice
reference: r.py:twice
dims: {N: [3]}
inputs: {x: [N]}
outputs: {y: [N]}
launch: {args: [x, y], grid: [1], block: [32]}
cases: {count: 2}
artifact: {forbidden_patterns: ["\\\\.f32"]}
"""


@pytest.fixture
def children(monkeypatch):
    """The compiler's processes, as they are started."""
    begun = []
    popen = subprocess.Popen

    def recorded(command, *args, **keywords):
        process = popen(command, *args, **keywords)
        if "kcheck.device.artifact" in command:
            begun.append(process)
        return process

    monkeypatch.setattr(artifact.subprocess, "Popen", recorded)
    return begun


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("nvidia") is None, reason="NVVM is not installed")
def test_compiling_begins_with_the_spec_and_is_waited_for_at_its_end(project, children):
    """The child runs when the spec has started; with its cases done, an event says what is waited for."""
    found = []
    for event in run([project.spec(SPEC, KERNEL, REFERENCE)], Options(), choose("simulator")):
        found.append(event)
        if isinstance(event, CaseFinished):
            assert len(children) == 1
    kinds = [type(event) for event in found[1:]]
    assert kinds == [SpecStarted, CaseFinished, CaseFinished, Compiling, SpecFinished, RunFinished]
    (finding,) = found[-2].findings
    assert "forbidden pattern" in finding.message
    assert children[0].returncode == 0


@pytest.mark.parametrize("ending", ["interrupt", "interrupt while waiting", "abandoned", "max failures"])
def test_the_child_is_ended_with_the_spec(project, children, monkeypatch, ending):
    """Ctrl-C, a consumer that goes away and --max-failures leave no compiler behind, and do not wait for it."""
    kernel = KERNEL.replace("2 *", "3 *") if ending == "max failures" else KERNEL
    started = time.monotonic()
    stream = run([project.spec(SPEC, kernel, REFERENCE)], Options(max_failures=1), choose("simulator"))
    rest = []
    if ending == "max failures":
        rest = list(stream)
    else:
        wanted = Compiling if ending == "interrupt while waiting" else CaseFinished
        next(event for event in stream if isinstance(event, wanted))
        if ending == "abandoned":
            stream.close()
        else:
            rest = [stream.throw(KeyboardInterrupt()), *stream]
    (child,) = children
    assert child.returncode is not None
    assert child.returncode != 0
    assert time.monotonic() - started < 30
    if ending.startswith("interrupt"):
        assert [type(event) for event in rest] == [SpecFinished, RunFinished]
        assert rest[-1].interrupted
    if ending == "max failures":
        assert "artifact was not checked: only a part of the cases was run" in rest[-2].notes


def test_a_part_of_the_cases_compiles_nothing(project, children):
    """With -k or --case-seed no child is begun, and a note says that the artifact was not checked."""
    for options in (Options(keyword="iter"), Options(case_seed=3)):
        events = list(run([project.spec(SPEC, KERNEL, REFERENCE)], options, choose("simulator")))
        assert any("artifact was not checked" in note for note in events[-2].notes)
    assert children == []


def test_without_a_compiler_the_artifact_is_left_out_and_said_so(project, children, monkeypatch):
    """Where the extras cu12 and cu13 are missing the kernel is not to blame: a note has the fix."""

    def fails(name):
        raise RuntimeError(name)

    device = choose("simulator")
    monkeypatch.setattr(artifact.import_module("cuda.pathfinder"), "load_nvidia_dynamic_lib", fails)
    artifact.no_compiler.cache_clear()
    try:
        events = list(run([project.spec(SPEC, KERNEL, REFERENCE)], Options(), device))
    finally:
        artifact.no_compiler.cache_clear()
    assert "artifact was not checked: numba-cuda's compiler is not installed; pip install 'kcheck[cu13]'" in (
        events[-2].notes
    )
    assert events[-2].findings == ()
    assert children == []
