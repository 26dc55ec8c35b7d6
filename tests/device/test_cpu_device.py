"""The cpu device from outside: how it is chosen, layouts, time limits, what a fault leaves behind, orders."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest
from cpu_project import CpuProject, environment
from interruptible import start

from kcheck.device.cpu import capability, missing
from kcheck.errors import DeviceUnavailable

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

SPEC = """
kcheck: 1
op: op
kernel: k.py:op
reference: r.py:op
dims: {M: [3], N: [70]}
inputs: {x: {shape: [M, N], layouts: [LAYOUT]}}
outputs: {y: {shape: [M, N], layouts: [OUT]}}
launch: {args: [x, y], grid: [M], block: [96]}
cases: {count: 1}
"""
REFERENCE = "def op(x):\n    return 2 * x\n"
CLEAN = """
@cuda.jit
def op(x, y):
    i = cuda.threadIdx.x
    r = cuda.blockIdx.x
    if i < x.shape[1]:
        y[r, i] = 2 * x[r, i]
"""


def spec(layout="contiguous", out="contiguous", more=""):
    return SPEC.replace("LAYOUT", layout).replace("OUT", out) + more


@pytest.fixture
def project(tmp_path) -> CpuProject:
    """An empty project."""
    return CpuProject(tmp_path / "a project")


def run_code(code, **more):
    """Run code in a new process: (exit code, stdout, stderr)."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=environment(**more),
    )
    return done.returncode, done.stdout, done.stderr


CHOOSE = (
    "from kcheck.device import choose\nfrom kcheck.errors import DeviceUnavailable\n"
    "try:\n    d = choose({name!r}, {targets!r}); print(d.name, '|', d.description)\n"
    "except DeviceUnavailable as error: print(error)"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("targets", "asked", "says"),
    [
        ([], {}, "compute capability 8.0"),
        (["sm_90"], {}, "compute capability 9.0"),
        (["sm_80", "sm_90"], {}, "compute capability 9.0"),
        (["sm_90"], {"KCHECK_CC": "8.6"}, "compute capability 8.6"),
    ],
)
def test_the_compute_capability_is_asked_for_or_the_specs_target(targets, asked, says):
    """KCHECK_CC before the targets of the specs, the highest of them, else 8.0."""
    code, said, error = run_code(CHOOSE.format(name="cpu", targets=targets), **asked)
    assert (code, error) == (0, "")
    assert said.startswith("cpu | ")
    assert says in said


@pytest.mark.parametrize(("text", "cc"), [("8.0", (8, 0)), ("sm_90", (9, 0)), ("120", (12, 0))])
def test_a_compute_capability_is_read_as_it_is_written(monkeypatch, text, cc):
    """As NVIDIA writes it in any of three places."""
    monkeypatch.setenv("KCHECK_CC", text)
    assert capability(["sm_75"]) == cc


def test_what_is_no_compute_capability_is_refused(monkeypatch):
    """A typing error is told, with how it is written."""
    monkeypatch.setenv("KCHECK_CC", "ampere")
    with pytest.raises(DeviceUnavailable, match=r"'ampere' is not a compute capability; write it as 8\.0"):
        capability([])


def test_numba_imported_too_early_is_refused():
    """Once numba.cuda has looked for a driver there is no putting another one under it."""
    code, said, _ = run_code("import numba.cuda\n" + CHOOSE.format(name="cpu", targets=[]))
    assert code == 0
    assert "is already imported" in said


NO_COMPILER = """
import cuda.pathfinder
load = cuda.pathfinder.load_nvidia_dynamic_lib
def find(name):
    if name == "nvvm": raise cuda.pathfinder.DynamicLibNotFoundError(name)
    return load(name)
cuda.pathfinder.load_nvidia_dynamic_lib = find
"""


def test_auto_says_why_it_is_the_simulator():
    """Without NVVM the default device is the simulator, with the reason and the fix in one line; cpu refuses."""
    code, said, _ = run_code(NO_COMPILER + CHOOSE.format(name="auto", targets=[]))
    assert (code, said.count("\n")) == (0, 1)
    assert said.startswith("simulator | ")
    assert "not the cpu device: numba-cuda's compiler is not installed; pip install 'kcheck[cu13]'" in said
    _, said, _ = run_code(NO_COMPILER + CHOOSE.format(name="cpu", targets=[]))
    assert said == "--device cpu: numba-cuda's compiler is not installed; pip install 'kcheck[cu13]'\n"


def test_within_exec_there_is_one_device():
    """``kcheck exec -- kcheck run`` would put two drivers under one numba.cuda."""
    code, said, _ = run_code(CHOOSE.format(name="cpu", targets=[]), KCHECK_EXEC="findings.jsonl")
    assert code == 0
    assert said == "--device cpu: `kcheck exec` already uses the cpu device; run kcheck directly\n"


LAYOUTS = ("contiguous", "padded", "strided", "transposed", "offset", "reversed")


@pytest.mark.slow
def test_every_layout_is_read_and_written_in_place(project):
    """A correct kernel passes on views of every layout; one column more is told by the index that it has there."""
    for layout in (*LAYOUTS, "broadcast"):
        out = layout if layout != "broadcast" else "contiguous"
        project.add(f"good_{layout}", spec(layout, out), CLEAN, REFERENCE)
        if layout != "broadcast":
            kernel = CLEAN.replace("y[r, i] = 2", "y[r + 1, i] = 2")
            project.add(f"bad_{layout}", spec(layout, out), kernel, REFERENCE)
    report = project.report()
    for layout in (*LAYOUTS, "broadcast"):
        (case,) = report[f"good_{layout}"]["cases"]
        assert (case["status"], case["findings"]) == ("passed", []), layout
    for layout in LAYOUTS:
        (case,) = report[f"bad_{layout}"]["cases"]
        rules = {finding["rule"]: finding for finding in case["findings"]}
        if layout in ("contiguous", "offset"):
            assert (rules["memcheck"]["array"], rules["memcheck"]["index"]) == ("y", [3, 0])
        else:  # the row after the last one lies between others, or at the other end
            assert rules.keys() & {"memcheck", "guard", "unwritten"}, layout


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["strided", "padded"])
def test_a_gap_that_is_written_is_a_guard_finding(project, layout):
    """The bytes between an array's elements or rows are within it by address: they are looked at afterwards."""
    row_end = CLEAN + "    if i == 69 and r < 2: y[r, 70] = 7\n"
    project.add("gap", spec(out=layout), row_end, REFERENCE)
    (case,) = project.report()["gap"]["cases"]
    (finding,) = case["findings"]
    assert (finding["rule"], finding["array"]) == ("guard", "y")
    assert "in a gap between its elements" in finding["message"]


ENDLESS = CLEAN.replace("    if i < x", "    while y[0, 0] != 3.5 and i >= 0: i = i + 0\n    if i < x")


@pytest.mark.slow
def test_an_endless_kernel_times_out_and_the_next_case_runs(project):
    """--timeout is the kernel's time, compilation left out; the process lives and the next spec passes."""
    project.add("a_endless", spec(), ENDLESS, REFERENCE)
    project.add("b_good", spec(), CLEAN, REFERENCE)
    begun = time.monotonic()
    report = project.report(".", "--timeout", "0.5")
    assert time.monotonic() - begun < 120
    (case,) = report["a_endless"]["cases"]
    assert [(f["rule"], f["kernel"]) for f in case["findings"]] == [("timeout", "op")]
    assert "a_endless" in case["findings"][0]["place"]["file"]
    assert report["b_good"]["cases"][0]["status"] == "passed"


STOPPABLE = """
@cuda.jit
def op(x, y, goes_on):
    i = cuda.threadIdx.x
    while goes_on and y[0, 0] != 3.5: i = i + 0
    if i < 70: y[0, i] = x[0, i]


def go(x, y):
    op[1, 96](x, y, False)
    print("launching", flush=True)
    op[1, 96](x, y, True)
"""


@pytest.mark.slow
def test_ctrl_c_ends_an_endless_kernel(project):
    """One SIGINT: the report is whole, the case is not counted against the kernel, and the exit code is 130."""
    text = spec().replace("launch: {args: [x, y], grid: [M], block: [96]}", "launcher: k.py:go")
    project.add("endless", text, STOPPABLE, REFERENCE)
    words = [sys.executable, "-m", "kcheck", "run", ".", "--device", "cpu", "--timeout", "0", "--format", "json"]
    pipe = subprocess.PIPE
    process = start(words, cwd=project.root, env=environment(), stdout=pipe, stderr=pipe, text=True)
    with process:
        assert "launching\n" in iter(process.stderr.readline, "")
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        said, complained = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in complained  # of a second interrupt, which nobody asked for
    document = json.loads(said)
    assert (document["summary"]["interrupted"], document["summary"]["failed"]) == (True, 0)


@pytest.mark.slow
def test_a_race_between_blocks_shows_as_nondeterministic(project):
    """Every block writes y[0, 0]; with the blocks in another order another one is last."""
    race = CLEAN + "        if i == 0: y[0, 0] = r\n"
    project.add("race", spec(more="deterministic: true\n"), race, REFERENCE)
    project.add("good", spec(more="deterministic: true\n"), CLEAN, REFERENCE)
    report = project.report()
    (case,) = report["race"]["cases"]
    found = [(f["rule"], f["array"], f["index"]) for f in case["findings"]]
    assert ("nondeterministic", "y", [0, 0]) in found
    assert report["good"]["cases"][0]["findings"] == []


@pytest.mark.slow
def test_levels_of_sanitizers(project):
    """synccheck warns or is silent as the spec says; memcheck off is still an end of the launch."""
    skipped = CLEAN.replace("    if i < x", "    if i < 70: cuda.syncthreads()\n    if i < x")
    for level in ("off", "warn"):
        project.add(f"sync_{level}", spec(more=f"sanitize: {{synccheck: {level}}}\n"), skipped, REFERENCE)
    wild = CLEAN.replace("x[r, i]", "x[r + 1, i]")
    project.add("wild", spec(more="sanitize: {memcheck: off}\n"), wild, REFERENCE)
    report = project.report()
    assert report["sync_off"]["cases"][0]["findings"] == []
    assert [f["severity"] for f in report["sync_warn"]["cases"][0]["findings"]] == ["warn"]
    assert report["sync_warn"]["cases"][0]["status"] == "passed"
    assert [(f["rule"], f["array"]) for f in report["wild"]["cases"][0]["findings"]] == [("launch", "x")]


@pytest.mark.slow
def test_a_launcher_that_raises_and_one_that_is_refused(project):
    """What a launcher raises is told with its line; a launch that is refused, by the driver's name for it."""
    text = spec().replace("launch: {args: [x, y], grid: [M], block: [96]}", "launcher: k.py:go")
    for name, body in (
        ("raises", "    raise ValueError('no')\n"),
        ("refused", "    op[1, 96, 0, 1 << 20](x, y)\n"),
    ):
        project.add(name, text, CLEAN + f"\ndef go(x, y):\n{body}", REFERENCE)
    report = project.report()
    (finding,) = report["raises"]["cases"][0]["findings"]
    assert (finding["rule"], project.line("raises", finding)) == ("launch", "raise ValueError('no')")
    (finding,) = report["refused"]["cases"][0]["findings"]
    assert finding["rule"] == "launch"
    assert "CUDA_ERROR_INVALID_VALUE (1)" in finding["message"]


@pytest.mark.slow
def test_another_order_is_tried_unless_floats_are_added_atomically(project):
    """Left out, ``deterministic`` is read off the PTX: a race is found, a sum by atomics is no race."""
    text = SPEC.replace("LAYOUT", "contiguous").replace("OUT", "contiguous")
    project.add("race", text, CLEAN + "        if i == 0: y[0, 0] = r\n", REFERENCE)
    atomic = CLEAN + "        if i == 0: cuda.atomic.add(y, (0, 0), float32(0.1) * (r + 1))\n"
    project.add("atomic", text, atomic, REFERENCE)
    report = project.report()
    rules = {name: {f["rule"] for f in report[name]["cases"][0]["findings"]} for name in ("race", "atomic")}
    assert "nondeterministic" in rules["race"]
    assert "nondeterministic" not in rules["atomic"]
    assert all("deterministic" not in note for spec in report.values() for note in spec["notes"])


@pytest.mark.slow
def test_what_a_kernel_prints_is_shown_once_a_case(project):
    """On stderr, where a report has stdout, and though it is launched again in other orders."""
    kernel = CLEAN.replace("    if i", '    if i == 1 and r == 0:\n        print("one is", i)\n    if i', 1)
    project.add("op", spec(), kernel, REFERENCE)
    done = project.run(".", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == "one is 1\n"
