"""Each kind of finding on the simulator: a kernel with the bug, and its clean twin, one line apart."""

from __future__ import annotations

import pytest

from kcheck.device import choose
from kcheck.device.simulator.schedule import SimulatorThread
from kcheck.generator import expand, materialize
from kcheck.oracle import judge

SPEC = """
kcheck: 1
op: op
kernel: k.py:op
reference: r.py:op
dims: {N: [70]}
inputs: {x: [N], w: {shape: [N], dtype: int32, values: {integers: [0, 9]}}}
outputs: {y: [N], ok: {shape: [N], dtype: bool}}
launch: {args: [x, w, y, ok, N], grid: ["ceildiv(N, 32)"], block: [32]}
"""

REFERENCE = "def op(x, w):\n    return {'y': 2 * x, 'ok': w > 3}\n"

CLEAN = """
@cuda.jit
def op(x, w, y, ok, n):
    i = cuda.grid(1)
    s = cuda.shared.array(32, float32)
    if i < n:
        s[cuda.threadIdx.x] = x[i]
    cuda.syncthreads()
    if i < n:
        y[i] = s[cuda.threadIdx.x] * 2
        ok[i] = w[i] > 3
"""


def run(project, kernel, spec=SPEC, timeout=20.0, seed=1):
    """The outcome of one case."""
    device = choose("simulator")
    loaded = project.spec(spec, kernel, REFERENCE)
    device.prepare(loaded)
    return device.run(loaded, materialize(loaded, expand(loaded, seed)), timeout=timeout)


def test_a_correct_kernel_has_no_finding(project):
    """The clean twin of every kernel below: outputs come back whole and nothing is found."""
    outcome = run(project, CLEAN)
    assert outcome.findings == ()
    assert outcome.unwritten == {}
    assert sorted(outcome.outputs) == ["ok", "y"]
    assert outcome.outputs["y"].dtype == "float32"
    assert outcome.outputs["ok"].dtype == "bool"


BUGS = [
    # rule, the clean line, the buggy line, what the finding says
    ("memcheck", "        ok[i] = w[i] > 3", "        ok[i] = w[i + 1] > 3", "reads w[70], whose shape is [70]"),
    ("memcheck", "        y[i] = s", "        y[i + 1] = s", "writes y[70], whose shape is [70]"),
    ("memcheck", "        s[cuda.threadIdx.x] = x[i]", "        s[i] = x[i]", "writes shared memory[32]"),
    (
        "mutated",
        "        ok[i] = w[i] > 3",
        "        ok[i] = w[i] > 3; x[i] = 0",
        "input x was changed in 70 of 70",
    ),
    (
        "unwritten",
        "        ok[i] = w[i] > 3",
        "        ok[i - i % 2] = True",
        "35 of 70 elements of ok were never",
    ),
    ("synccheck", "    cuda.syncthreads()", "    if i < n: cuda.syncthreads()", "others of the block exited"),
    ("launch", "        y[i] = s", "        y[i] = 1 // (i * 0) * s", "ZeroDivisionError"),
    ("launch", "        y[i] = s", "        y[i / 2] = s", "IndexError"),
    ("unsupported", "        ok[i] = w[i] > 3", "        ok[i] = cuda.shfl_sync(-1, 1, 1)", "no cuda.shfl_sync"),
]


@pytest.mark.parametrize(("rule", "clean", "buggy", "says"), BUGS, ids=[f"{b[0]}-{n}" for n, b in enumerate(BUGS)])
def test_a_bug_is_found_by_its_rule(project, rule, clean, buggy, says):
    """One changed line makes exactly the finding of its kind, and the process lives."""
    assert clean in CLEAN
    kernel = CLEAN.replace(clean, buggy, 1)
    outcome = run(project, kernel)
    assert [finding.rule for finding in outcome.findings if finding.rule != "nondeterministic"] == [rule]
    assert says in outcome.findings[0].message
    if rule in ("memcheck", "launch", "synccheck"):
        line = (project.root / "k.py").read_text().splitlines()[outcome.findings[0].place.line - 1]
        assert line.strip() in buggy + kernel.split(buggy)[1].split("\n")[0]
        assert outcome.findings[0].place.file.endswith("k.py")
        assert outcome.findings[0].thread is not None
        assert outcome.findings[0].kernel == "op"


def test_out_of_bounds_names_array_index_block_and_thread(project):
    """An access past the end says which element, and who did it."""
    (finding,) = run(project, CLEAN.replace("w[i]", "w[i + 1]")).findings
    assert (finding.array, finding.index, finding.block, finding.thread) == ("w", (70,), (2, 0, 0), (5, 0, 0))


def test_a_negative_index_wraps_as_on_a_gpu(project):
    """numba-cuda adds the length to a negative index, so x[-1] is the last element and no finding."""
    outcome = run(project, CLEAN.replace("= x[i]", "= x[i - n]"))
    assert outcome.findings == ()


def test_shared_memory_is_new_in_every_block(project):
    """What a block left in shared memory is not what the next one finds: unwritten, it is NaN."""
    kernel = CLEAN.replace("        s[cuda.threadIdx.x] = x[i]", "        if cuda.blockIdx.x == 0: s[i] = x[i]")
    y = run(project, kernel).outputs["y"]
    assert (y[:32] == y[:32]).all()
    assert (y[32:] != y[32:]).all()


@pytest.mark.parametrize("said", ["", "deterministic: true\n"])
def test_a_race_shows_as_nondeterministic(project, said):
    """Every thread writes y[0]; run in another order another one is last. Left out, 'deterministic' is true."""
    kernel = CLEAN.replace("        y[i] = s[cuda.threadIdx.x] * 2", "        y[i] = 1; y[0] = i")
    outcome = run(project, kernel, SPEC + said)
    assert [(f.rule, f.array, f.index) for f in outcome.findings] == [("nondeterministic", "y", (0,))]
    assert run(project, kernel, SPEC + "deterministic: false\n").findings == ()
    assert run(project, CLEAN, SPEC + said).findings == ()


ATOMIC = """
@cuda.jit
def op(x, w, y, ok, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = 0
    cuda.cg.this_grid().sync()
    if i < n:
        cuda.atomic.add(y, 0, x[i])
        ok[i] = True
"""


def test_floats_added_atomically_may_round_in_any_order(project):
    """Atomic adds of floats make 'deterministic' false where it is left out; those of integers do not."""
    assert run(project, ATOMIC).findings == ()
    (finding,) = run(project, ATOMIC, SPEC + "deterministic: true\n").findings
    assert finding.rule == "nondeterministic"
    counting = ATOMIC.replace("cuda.atomic.add(y, 0, x[i])", "y[cuda.atomic.add(w, 0, 1) % n] = i")
    found = run(project, counting, SPEC + "mutates: [w]\n").findings
    assert [finding.rule for finding in found] == ["nondeterministic"]


LARGE = [
    (
        "s = cuda.shared.array(32, float32)",
        "s = cuda.shared.array((1 << 14, 1 << 14), float32)",
        "1,073,741,824 bytes",
    ),
    (
        "s = cuda.shared.array(32, float32)",
        "s = cuda.shared.array(12289, float32)",
        "49,156 bytes; 49,152 are available",
    ),
    ("    cuda.syncthreads()", "    cuda.local.array(131073, float32)", "524,292 bytes; 524,288 are available"),
]


@pytest.mark.parametrize(("clean", "buggy", "says"), LARGE)
def test_more_memory_than_a_gpu_has_is_a_finding(project, clean, buggy, says):
    """A static shared or local array that ptxas would refuse is not allocated; the finding says what there is."""
    outcome = run(project, CLEAN.replace(clean, buggy, 1))
    (finding,) = outcome.findings
    assert finding.rule == "launch"
    assert says in finding.message
    assert finding.place.file.endswith("k.py")


def test_a_launcher_that_asks_for_absurd_memory_is_a_finding(project):
    """4 TiB of device memory are refused before they are taken."""
    launcher = CLEAN + "\ndef go(x, w, y, ok, N):\n    t = cuda.device_array(1 << 40, np.float32)\n"
    spec = SPEC.replace("kernel: k.py:op", "launcher: k.py:go")
    spec = "\n".join(line for line in spec.splitlines() if not line.startswith("launch: "))
    (finding,) = run(project, launcher, spec + "\n").findings
    assert (finding.rule, finding.kernel) == ("launch", None)
    assert "a device array takes 4,398,046,511,104 bytes" in finding.message


def test_sanitize_off_is_silent(project):
    """A barrier that some threads skip is not reported where synccheck is off, and a warning where it says so."""
    kernel = CLEAN.replace("    cuda.syncthreads()", "    if i < n: cuda.syncthreads()")
    for level, told in (("off", []), ("warn", ["warn"]), ("error", ["error"])):
        spec = project.spec(SPEC + f"sanitize: {{synccheck: {level}}}\n", kernel, REFERENCE)
        arrays = materialize(spec, expand(spec, 1))
        outcome = choose("simulator").run(spec, arrays, timeout=20.0)
        assert [finding.severity for finding in judge(spec, arrays, outcome).findings] == told
        assert ("synccheck" in outcome.checked) == (level != "off")


@pytest.mark.parametrize("level", ["warn", "off"])
def test_what_ended_a_launch_is_an_error_at_every_level(project, level):
    """A wild access ends the launch; where memcheck is no error the case still fails, by the launch."""
    kernel = CLEAN.replace("ok[i] = w[i] > 3", "ok[i] = w[i + 1] > 3")
    outcome = run(project, kernel, SPEC + f"sanitize: {{memcheck: {level}}}\n")
    assert [(finding.rule, finding.severity, finding.array) for finding in outcome.findings] == [
        ("launch", "error", "w")
    ]


def test_what_is_not_checked_is_said_once_and_only_if_asked_for(project):
    """A note names the sanitizers that the simulator is not."""
    assert run(project, CLEAN).notes == ("not checked on the simulator: racecheck, initcheck, overflow",)
    off = "sanitize: {racecheck: off, initcheck: off, overflow: off}\n"
    assert run(project, CLEAN, SPEC + off).notes == ()


def test_the_outcome_says_which_sanitizers_saw_it(project):
    """Those that an interpreter can be; of a launch that did not end, not those that look at what it left."""
    every = ("memcheck", "synccheck", "unwritten", "mutated", "nondeterministic")
    assert run(project, CLEAN).checked == every
    assert run(project, CLEAN, SPEC + "deterministic: false\n").checked == every[:-1]
    assert run(project, CLEAN, SPEC + "sanitize: {nondeterministic: off, mutated: off}\n").checked == every[:-2]
    assert run(project, CLEAN.replace("w[i]", "w[i + 1]")).checked == every[:2]


@pytest.mark.parametrize(
    "body",
    [
        "    while True: pass",
        "    while y[0] != 3.5 and i >= 0: i = i + 0",
        "    while True:\n        try: y[i] = 1\n        except: pass",
        "    while True: cuda.syncthreads()",
    ],
)
def test_an_endless_kernel_times_out_and_the_next_case_runs(project, body):
    """The finding names the user's line; every thread is gone; a correct kernel then runs as ever."""
    import threading

    kernel = CLEAN.replace("    if i < n:\n        y[i]", f"{body}\n    if i < n:\n        y[i]")
    (finding,) = run(project, kernel, timeout=0.5).findings
    assert finding.rule == "timeout"
    assert finding.place.file.endswith("k.py")
    assert 11 <= finding.place.line <= 13
    assert finding.thread is not None
    assert choose("simulator").lost == ""
    assert not [thread for thread in threading.enumerate() if isinstance(thread, SimulatorThread)]
    assert run(project, CLEAN).findings == ()


def test_what_ends_a_kernel_ends_nothing_else(project):
    """The garbage collector calls back on whichever thread allocates, but not on those of a kernel: what ends a
    kernel would be raised there. Other threads of the process collect as ever."""
    import gc
    import threading

    run(project, CLEAN)  # imports what a launch needs before each allocation is slow
    callers = []

    def callback(phase, info):  # without locks: it is called anywhere, also where a thread has them
        callers.append(threading.current_thread())

    body = "    while True:\n        try: y[i] = [[]] == 1\n        except: pass"
    kernel = CLEAN.replace("    if i < n:\n        y[i]", f"{body}\n    if i < n:\n        y[i]")
    thresholds = gc.get_threshold()
    gc.callbacks.append(callback)
    gc.set_threshold(1)
    try:
        (finding,) = run(project, kernel, timeout=1.5).findings
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(callback)
    assert finding.rule == "timeout"
    assert callers
    assert not any(isinstance(caller, SimulatorThread) for caller in callers)
    assert gc.isenabled()


def test_a_spin_on_another_threads_flag_comes_to_its_end(project):
    """Threads make progress independently: thread 0 waits for what thread 31 of its block writes."""
    kernel = CLEAN.replace(
        "    cuda.syncthreads()",
        "    if i == 31: y[0] = 7\n    if i == 0:\n        while y[0] != 7: pass\n    cuda.syncthreads()",
    )
    assert run(project, kernel).findings == ()


def test_a_block_and_a_grid_barrier_that_wait_for_each_other_are_found(project):
    """Half of the threads at one kind of barrier, half at the other: a finding, not a hang."""
    kernel = CLEAN.replace(
        "    cuda.syncthreads()",
        "    if i % 2: cuda.cg.this_grid().sync()\n    else: cuda.syncthreads()",
    )
    assert [finding.rule for finding in run(project, kernel).findings] == ["synccheck", "launch"]
