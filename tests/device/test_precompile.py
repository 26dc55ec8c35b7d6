"""Specializations are compiled ahead of the cases, in a second process, to where the first one looks."""

import importlib.util
import os
import subprocess
import sys
import threading

import pytest
from cpu_project import HEAD, environment

from kcheck.children import may_fork
from kcheck.device.specialize import in_order, signatures
from kcheck.generator import plan

KERNEL = "@cuda.jit\ndef twice(x, y):\n    i = cuda.grid(1)\n    if i < x.size:\n        y[i] = x[i] + x[i]\n"
REFERENCE = "def twice(x):\n    return 2 * x\n"
SPEC = """
kcheck: 1
op: twice
kernel: k.py:twice
reference: r.py:twice
dims: {N: [3, 40]}
dtypes: [float32, float64]
inputs: {x: {shape: [N], layouts: [contiguous, strided]}}
outputs: {y: {shape: [N], layouts: [contiguous, strided]}}
launch: {args: [x, y], grid: [2], block: [32]}
artifact: {}
cases: {count: 20}
"""

# Everything is compiled ahead; then nothing can be compiled any more, and the run is as any other.
AHEAD = """
import sys, time
from pathlib import Path
from kcheck.generator import plan
from kcheck.device import choose
from kcheck.device.precompile import begin
from kcheck.runner import Options, run
from kcheck.specfile import load_function, load_spec

device = choose("cpu", ["sm_80"])
spec = load_spec(Path("op.yaml"))
device.prepare(spec)
for function in spec.functions:
    load_function(spec.root, function)
sanitizers = [name for name in device.instruments if spec.sanitize[name] != "off"]
cases = plan(spec, count=20, master=0)
ahead = begin(spec, cases, sanitizers)
while ahead.running:
    time.sleep(0.05)
ahead.cancel()
print(begin(spec, cases, sanitizers))

def refuse(*arguments, **options):
    raise SystemExit("compiled again")

import kcheck.ptx.compile, kcheck.device.assembler, numba.cuda.dispatcher
kcheck.ptx.compile.lower = kcheck.device.assembler.link = refuse
numba.cuda.dispatcher._Kernel.__init__ = refuse
for event in run([spec], Options(), device):
    print(type(event).__name__, *(finding.message for finding in getattr(event, "findings", ())))
"""


def test_the_order_is_that_of_the_cases(project) -> None:
    """Signatures in the order in which cases first declare them, then the others; each once."""
    spec = project.spec(SPEC, KERNEL, REFERENCE)
    cases = plan(spec, count=40, master=0)
    letters = {"contiguous": "C", "strided": "A"}
    seen = dict.fromkeys((c.dtypes["T"], letters[c.layouts["x"]], letters[c.layouts["y"]]) for c in cases)
    told = [(x.dtype, x.layout, y.layout) for x, y in in_order(spec, cases)]
    assert told == list(seen)
    assert in_order(spec, ()) == signatures(spec)
    (first, *_) = in_order(spec, cases[7:])
    assert [*in_order(spec, cases[7:8])] == [first, *(s for s in signatures(spec) if s != first)]


def test_process_with_a_thread_of_the_user_is_not_forked() -> None:
    """Such a thread may hold a lock that the copy would wait for; threads of kcheck are idle between launches."""
    for name, expected in (("kcheck-worker", True), ("mine", False)):
        end = threading.Event()
        thread = threading.Thread(target=end.wait, name=name)
        thread.start()
        try:
            assert may_fork() == expected
        finally:
            end.set()
            thread.join()


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("nvidia") is None, reason="NVVM is not installed")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="nothing is compiled ahead on a single processor")
def test_what_was_compiled_ahead_is_not_compiled_again(tmp_path) -> None:
    """Kernels, machine code with and without checks, and the assembler's answers are found; and then there is
    nothing to do ahead."""
    (tmp_path / "k.py").write_text(HEAD + KERNEL)
    (tmp_path / "r.py").write_text(REFERENCE)
    (tmp_path / "op.yaml").write_text(SPEC)
    (tmp_path / "kcheck.yaml").write_text("")
    env = environment(KCHECK_CACHE_DIR=str(tmp_path / "cache"))
    words = [sys.executable, "-c", AHEAD]
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    nothing, *events = done.stdout.splitlines()
    assert nothing == "None"
    assert events == [
        "RunStarted",
        "SpecStarted",
        *["CaseFinished"] * 20,
        "Compiling",
        "SpecFinished",
        "RunFinished",
    ]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("nvidia") is None, reason="NVVM is not installed")
def test_what_cannot_be_kept_is_not_compiled_ahead_again(tmp_path) -> None:
    """A kernel whose code links a file (the sum of two float16) cannot be kept: that is noted the first time."""
    (tmp_path / "k.py").write_text(HEAD + KERNEL)
    (tmp_path / "r.py").write_text(REFERENCE)
    (tmp_path / "op.yaml").write_text(SPEC.replace("[float32, float64]", "[float16]"))
    (tmp_path / "kcheck.yaml").write_text("")
    env = environment(KCHECK_CACHE_DIR=str(tmp_path / "cache"))
    words = [sys.executable, "-c", AHEAD.partition("def refuse")[0]]
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (0, "None\n"), done.stderr


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("nvidia") is None, reason="NVVM is not installed")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="nothing is compiled ahead on a single processor")
def test_code_for_the_first_case_of_a_watched_round_is_compiled_once(tmp_path) -> None:
    """The process that runs the cases compiles it at once, so the other process leaves it alone."""
    (tmp_path / "k.py").write_text(HEAD + KERNEL)
    (tmp_path / "r.py").write_text(REFERENCE)
    (tmp_path / "op.yaml").write_text(SPEC)
    (tmp_path / "kcheck.yaml").write_text("")
    ahead = AHEAD.partition("print(begin")[0].replace(
        "begin(spec, cases, sanitizers)", "begin(spec, cases, sanitizers, any_stride=True)"
    )
    told = (
        "from kcheck.device.precompile import _missing, of_any_stride\n"
        "known = of_any_stride(spec, cases)\n"
        "print(len(known), _missing(spec, known) == [known[0]])\n"
    )
    env = environment(KCHECK_CACHE_DIR=str(tmp_path / "cache"))
    words = [sys.executable, "-c", ahead + told]
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (0, "2 True\n"), done.stderr


TEMPLATE = """template <int N>
__global__ void twice(const float *x, float *y) {
    __shared__ float tile[N];
    if (threadIdx.x < N) tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x < N) y[threadIdx.x] = 2 * tile[N - 1 - threadIdx.x];
}
"""
TEMPLATE_SPEC = """
kcheck: 1
op: twice
kernel: k.cu:twice<{N}>
reference: r.py:twice
dims: {N: [3, 8, 20, 31]}
inputs: {x: [N]}
outputs: {y: [N]}
launch: {args: [x, y], grid: [1], block: [32]}
cases: {count: 12}
"""
# The first case is cold, so the code of the others is compiled in forks; then this process compiles nothing.
CODES_AHEAD = """
import os, time
from pathlib import Path
from kcheck.generator import materialize, plan
from kcheck.device import choose
from kcheck.runner import Options, run
from kcheck.runner.ahead import CodeAhead
from kcheck.runner.execute import every_instrument
from kcheck.specfile import load_spec

device = choose("cpu", ["sm_80"])
spec = load_spec(Path("op.yaml"))
device.prepare(spec)
cases, instrument = plan(spec, count=12, master=0), every_instrument(spec, device)

def follow(number):
    ahead = CodeAhead(spec, device, cases, instrument, 20.0)
    device.run(spec, materialize(spec, cases[number]), timeout=20.0, instrument=instrument)
    ahead.follow(number)
    if ahead._ahead is None:
        return False
    while ahead._ahead.running:
        time.sleep(0.05)
    ahead.cancel()
    return True

print(follow(0), device.compiled)
print(follow(len(cases) - 1), device.compiled)
ends = list(run([spec], Options(sanitize={name: "error" for name in device.instruments}), device))
print(ends[-2].passed, device.compiled)
"""


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("nvidia") is None, reason="NVRTC is not installed")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="nothing is compiled ahead on a single processor")
def test_the_code_of_later_cases_is_compiled_ahead_once_one_is_cold(tmp_path) -> None:
    """Each set of template arguments is other code. A case that finds its code in the caches starts nothing."""
    (tmp_path / "k.cu").write_text(TEMPLATE)
    (tmp_path / "r.py").write_text("def twice(x):\n    return 2 * x[::-1]\n")
    (tmp_path / "op.yaml").write_text(TEMPLATE_SPEC)
    (tmp_path / "kcheck.yaml").write_text("")
    env = environment(KCHECK_CACHE_DIR=str(tmp_path / "cache"))
    words = [sys.executable, "-c", CODES_AHEAD]
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stdout.splitlines() == ["True 1", "False 1", "12 1"]
