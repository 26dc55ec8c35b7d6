"""``raise`` and ``assert`` in kernels on the cpu device: reported, at no cost to the code that a GPU would get."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from cpu_project import CpuProject, environment

from kcheck.device.cpu import missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

SPEC = """
kcheck: 1
op: op
kernel: k.py:op
reference: r.py:op
dims: {N: [70]}
inputs: {x: {shape: [N], values: ones}}
outputs: {y: [N]}
launch: {args: [x, y], grid: [2], block: [64]}
cases: {count: 1}
"""
REFERENCE = "def op(x):\n    return 2 * x\n"
KERNEL = """
@cuda.jit(device=True)
def twice(v):
    assert v < LIMIT, "too large"
    return 2 * v


@cuda.jit(OPTIONS)
def op(x, y):
    i = cuda.grid(1)
    if i == LANE:
        raise ValueError("lane", LANE)
    cuda.syncthreads()
    if i < x.shape[0]:
        y[i] = twice(x[i])
"""


def kernel(lane="128", limit="5", options=""):
    """A kernel in which thread ``lane`` of 128 raises, and so does every thread if ``limit`` is at most 1."""
    return KERNEL.replace("LANE", lane).replace("LIMIT", limit).replace("OPTIONS", options)


KERNELS = {
    "clean": kernel(),
    "one_lane": kernel(lane="67"),
    "device_function": kernel(limit="1"),
    "bare": kernel(lane="3").replace('ValueError("lane", 3)', "IndexError"),
    "debug": kernel(lane="67", options="debug=True, opt=False"),
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The project, and its report: from empty caches, and once more from full ones."""
    project = CpuProject(tmp_path_factory.mktemp("raising") / "a project")
    for name, text in KERNELS.items():
        project.add(name, SPEC, text, REFERENCE)
    cache = str(tmp_path_factory.mktemp("cache"))
    return project, [project.report(KCHECK_CACHE_DIR=cache) for _ in range(2)]


@pytest.mark.parametrize(
    ("name", "message", "line", "thread", "count"),
    [
        ("one_lane", "a thread raised ValueError: ('lane', 67)", 'raise ValueError("lane", 67)', [1, 3], 1),
        ("device_function", "a thread raised AssertionError: too large", "assert v < 1", [0, 0], 70),
        ("bare", "a thread raised IndexError", "raise IndexError", [0, 3], 1),
    ],
)
def test_what_a_thread_raises_fails_its_case(ran, name, message, line, thread, count):
    """Exception and message, the line of the raise, block and thread, and in how many threads, with a fix."""
    project, reports = ran
    for report in reports:
        (case,) = report[name]["cases"]
        finding = case["findings"][0]
        assert (case["status"], finding["rule"], finding["message"]) == ("failed", "launch", message)
        assert project.line(name, finding).startswith(line)
        assert [finding["block"][0], finding["thread"][0]] == thread
        assert finding["count"] == count
        assert "debug=True" in finding["fix"]


def test_a_check_that_holds_reports_nothing(ran):
    """A kernel that could raise, and does not, passes."""
    for report in ran[1]:
        (case,) = report["clean"]["cases"]
        assert (case["status"], case["findings"]) == ("passed", [])


def test_a_kernel_for_debugging_is_reported_alike(ran):
    """With debug=True numba-cuda raises the exception from the launch; it is the thread's, and reported once."""
    project, reports = ran
    for report in reports:
        (case,) = report["debug"]["cases"]
        assert [f["message"] for f in case["findings"] if f["rule"] == "launch"] == [
            "a thread raised ValueError: ('lane', 67)"
        ]
        finding = case["findings"][0]
        assert project.line("debug", finding) == 'raise ValueError("lane", 67)'
        assert (finding["block"], finding["thread"]) == ([1, 0, 0], [3, 0, 0])


def test_another_message_is_compiled_anew(tmp_path):
    """An edit of nothing but the text of an exception shows, though the code that runs stays the same."""
    project = CpuProject(tmp_path / "a project")
    for text in ("too large", "too big"):
        project.add("edited", SPEC, kernel(limit="1").replace("too large", text), REFERENCE)
        (case,) = project.report()["edited"]["cases"]
        assert case["findings"][0]["message"] == f"a thread raised AssertionError: {text}"


# With the assertion in it, a compiler would not fuse the product into the sum: it has another use.
COMPILED = """
import json, os, sys
from kcheck.driver import link
from kcheck.driver.install import install, settings
if sys.argv[1] == "plain":
    kept = tuple(p for p in link.PATCHES["numba.cuda.lowering"] if p is not link.patch_raises)
    link.PATCHES = {**link.PATCHES, "numba.cuda.lowering": kept}
found = []
device = install(settings(os.environ), found.append, print)
import numpy as np
from numba import cuda

@cuda.jit
def op(x, y, z):
    i = cuda.grid(1)
    product = x[i] * y[i]
    z[i] += product + y[i]
    assert product < 0.5, "large"

x, y = (cuda.to_device(np.random.default_rng(n).random(256, dtype=np.float32)) for n in range(2))
z = cuda.to_device(np.zeros(256, np.float32))
for _ in range(2):
    op[4, 64](x, y, z)
(made,) = op.overloads.values()
print(json.dumps([
    made.library.get_cubin().code.decode(), made.inspect_llvm(), made.regs_per_thread,
    z.copy_to_host().tobytes().hex(), [finding.message for finding in found],
]))
"""


def test_code_bits_and_registers_are_those_without_the_report():
    """PTX, LLVM IR, registers and results are the same; what raises is reported, and memory is written once."""

    def compiled(how):
        words = [sys.executable, "-W", "ignore", "-c", COMPILED, how]
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=300, env=environment())
        return json.loads(done.stdout)

    reported, plain = compiled("reported"), compiled("plain")
    assert "fma.rn.f32" in reported[0]
    assert reported[:4] == plain[:4]
    assert reported[4] == ["a thread raised AssertionError: large"] * 2
    assert plain[4] == []
