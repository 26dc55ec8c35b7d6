"""The launch path: what reaches a kernel, and what is read off memory afterwards."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from kcheck.device import choose
from kcheck.device.launching import LaunchingDevice
from kcheck.device.plan import LaunchFault
from kcheck.device.simulator.backend import SimulatorBackend
from kcheck.errors import KernelError
from kcheck.generator import expand, materialize
from kcheck.model import DTYPES, LAYOUTS, LEAST_AXES, SANITIZERS, Finding
from kcheck.specfile import load_function


def run(project, spec, kernel, seed=1):
    """The outcome of one case, and its arrays."""
    device = choose("simulator")
    loaded = project.spec(spec, kernel, "def op():\n    return 0\n")
    device.prepare(loaded)
    arrays = materialize(loaded, expand(loaded, seed))
    return device.run(loaded, arrays, timeout=20.0), arrays


def head(body):
    """A spec with its files named."""
    return f"kcheck: 1\nop: op\nreference: r.py:op\n{body}"


COPY = """
@cuda.jit
def op(x, y):
    i, j = cuda.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        y[i, j] = x[i, j]
"""


def copy_spec(dtype, layouts_in, layouts_out):
    """Copy x to y."""
    return head(
        f"kernel: k.py:op\ndims: {{M: [5], N: [7]}}\ninputs: {{x: {{shape: [M, N], dtype: {dtype}, "
        f"layouts: [{layouts_in}]}}}}\n"
        f"outputs: {{y: {{shape: [M, N], dtype: {dtype}, layouts: [{layouts_out}]}}}}\n"
        "launch: {args: [x, y], grid: ['ceildiv(M, 4)', 'ceildiv(N, 4)'], block: [4, 4]}\n"
    )


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if LEAST_AXES[name] <= 2])
def test_every_layout_reaches_the_kernel(project, layout):
    """A copy kernel gives back x whatever the layouts of x and y, and touches no gap and no guard."""
    out = layout if layout != "broadcast" else "contiguous"
    outcome, arrays = run(project, copy_spec("float32", layout, out), COPY)
    assert outcome.findings == ()
    np.testing.assert_array_equal(outcome.outputs["y"], arrays.allocation("x").view())
    assert outcome.outputs["y"].flags.c_contiguous


@pytest.mark.parametrize("dtype", list(DTYPES))
def test_every_dtype_reaches_the_kernel(project, dtype):
    """The bits of every dtype come through a kernel unchanged."""
    outcome, arrays = run(project, copy_spec(dtype, "strided", "strided"), COPY)
    assert outcome.findings == ()
    assert outcome.outputs["y"].dtype == DTYPES[dtype].numpy
    assert outcome.outputs["y"].tobytes() == arrays.allocation("x").view().tobytes()


def test_arguments_are_dims_strides_params_and_arrays_in_order(project):
    """A dim is int64 or what it is declared as, a stride counts elements, a param has its dtype."""
    spec = head(
        "kernel: k.py:op\ndims: {N: [6]}\n"
        "inputs: {x: {shape: [2, N], layouts: [transposed]}}\n"
        "params: {a: {dtype: float16, values: [0.1]}}\n"
        "outputs: {y: {shape: [5], dtype: float64}}\n"
        "launch: {args: [y, N, {N: int32}, {stride: [x, 0]}, {stride: [x, 1]}, a], grid: [1], block: [1]}\n"
    )
    outcome, _ = run(
        project,
        spec,
        """
        @cuda.jit
        def op(y, n, n32, s0, s1, a):
            y[0] = n.dtype.itemsize * 100 + n
            y[1] = n32.dtype.itemsize * 100 + n32
            y[2] = s0
            y[3] = s1
            y[4] = a
        """,
    )
    assert outcome.findings == ()
    assert outcome.outputs["y"].tolist() == [806.0, 406.0, 1.0, 2.0, float(np.float16(0.1))]


def test_a_grid_of_three_dimensions_reaches_every_block_and_thread(project):
    """grid 2x3x2 of blocks 2x2x2 counts every one of its 96 threads once."""
    spec = head(
        "kernel: k.py:op\ndims: {N: [1]}\ninputs: {x: {shape: [4, 6, 4], dtype: int32, values: zeros}}\n"
        "outputs: {y: {dtype: int32, shape: [4, 6, 4], alias: x}}\n"
        "launch: {args: [y], grid: [2, 3, 2], block: [2, 2, 2]}\n"
    )
    outcome, _ = run(
        project, spec, "@cuda.jit\ndef op(y):\n    i, j, k = cuda.grid(3)\n    cuda.atomic.add(y, (i, j, k), 1)\n"
    )
    assert outcome.findings == ()
    assert (outcome.outputs["y"] == 1).all()


FILL = "@cuda.jit\ndef op(y):\n    i = cuda.grid(1)\n    if i < y.shape[0]:\n        y[i] = 1\n"


def fill_spec(n="5", grid="1", block="32", shared="0"):
    return head(
        f"kernel: k.py:op\ndims: {{N: [{n}]}}\noutputs: {{y: [N]}}\n"
        f"launch: {{args: [y], grid: ['{grid}'], block: ['{block}'], shared: '{shared}'}}\n"
    )


def test_a_grid_with_a_0_is_not_launched_and_elements_stay_unwritten(project):
    """Nothing runs; an output with elements is then unwritten, which says why; one without is whole."""
    outcome, _ = run(project, fill_spec(grid="N // 8"), FILL)
    (finding,) = outcome.findings
    assert finding.rule == "unwritten"
    assert "the grid or block contains a 0" in finding.message
    assert outcome.unwritten["y"].all()
    outcome, _ = run(project, fill_spec(n="0", grid="N"), FILL)
    assert outcome.findings == ()
    assert outcome.outputs["y"].shape == (0,)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"grid": "N - 6"}, "negative"),
        ({"grid": "sqrt(N)"}, "whole number"),
        ({"grid": "1 // (N - 5)"}, "zero"),
        ({"block": "N * 410"}, "along x"),
        ({"grid": "2 ** 31"}, "along x"),
        ({"shared": "1024 * 1024"}, "shared memory"),
    ],
)
def test_a_launch_that_cuda_would_refuse_is_a_finding(project, change, says):
    """Sizes that are negative, not whole, not computable, or too large: rule launch, placed in the spec."""
    outcome, _ = run(project, fill_spec(**change), FILL)
    (finding,) = outcome.findings
    assert finding.rule == "launch"
    assert says in finding.message
    assert finding.place.file.endswith("op.yaml")
    assert outcome.outputs == {}


def test_one_element_is_counted_as_one(project):
    """What is found wrong of an array with a single element is said in the singular."""
    kernel = "@cuda.jit\ndef op(x, y):\n    x[0] = 3\n"
    spec = head(
        "kernel: k.py:op\ndims: {N: [1]}\ninputs: {x: [N]}\noutputs: {y: [N]}\n"
        "launch: {args: [x, y], grid: [1], block: [1]}\n"
    )
    mutated, unwritten = run(project, spec, kernel)[0].findings
    assert "was changed in 1 of 1 element: x[0] was" in mutated.message
    assert unwritten.message == "1 of 1 element of y was never written, the first at y[0]"


def test_unwritten_is_exact_even_for_a_kernel_that_writes_the_poison(project):
    """Bytes 0x5A that a kernel wrote are written; only what it left out is unwritten."""
    spec = head(
        "kernel: k.py:op\ndims: {N: [9]}\noutputs: {y: {shape: [N], dtype: uint8, layouts: [strided]}}\n"
        "launch: {args: [y], grid: [1], block: [9]}\n"
    )
    kernel = "@cuda.jit\ndef op(y):\n    i = cuda.grid(1)\n    if i != 4: y[i] = 0x5A\n"
    outcome, _ = run(project, spec, kernel)
    assert np.flatnonzero(outcome.unwritten["y"]).tolist() == [4]
    assert [(f.rule, f.index) for f in outcome.findings] == [("unwritten", (4,))]
    outcome, _ = run(project, spec, kernel.replace("if i != 4: ", ""))
    assert outcome.findings == ()
    assert (outcome.outputs["y"] == 0x5A).all()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_what_is_added_to_a_fresh_output_is_far_off(project, dtype):
    """A kernel that adds to an output which nobody cleared must not be right by luck: a poison next to 0 would be
    rounded away. It tells where no initcheck looks."""
    spec = head(
        f"kernel: k.py:op\ndims: {{N: [9]}}\noutputs: {{y: {{shape: [N], dtype: {dtype}}}}}\n"
        "launch: {args: [y], grid: [1], block: [9]}\n"
    )
    outcome, _ = run(project, spec, "@cuda.jit\ndef op(y):\n    y[cuda.grid(1)] += 1\n")
    assert outcome.findings == ()
    assert (np.abs(outcome.outputs["y"]) > 100).all()


SCALE = "@cuda.jit\ndef op(x, y):\n    i = cuda.grid(1)\n    x[i] = 3\n"


@pytest.mark.parametrize(
    ("allowed", "rules"),
    [
        ("outputs: {y: {shape: [N], dtype: float32}}", ["mutated", "unwritten"]),
        ("outputs: {y: {shape: [N], dtype: float32}}\nmutates: [x]", ["unwritten"]),
        ("outputs: {y: {shape: [N], alias: x}}", []),
    ],
)
def test_an_input_may_change_only_where_the_spec_says_so(project, allowed, rules):
    """A kernel that writes x is a finding, unless x is in mutates or an output is its alias."""
    spec = head(
        f"kernel: k.py:op\ndims: {{N: [8]}}\ninputs: {{x: [N]}}\n{allowed}\n"
        "launch: {args: [x, y], grid: [1], block: [8]}\n"
    )
    outcome, arrays = run(project, spec, SCALE)
    assert [finding.rule for finding in outcome.findings] == rules
    if not rules:
        assert (outcome.outputs["y"] == 3).all()
        assert not (arrays.allocation("y").view() == 3).all(), "the case's own arrays stay as they were"


LAUNCHER = """
@cuda.jit
def square(x, t):
    i = cuda.grid(1)
    if i < x.size:
        t[i] = x[i] * x[i]

@cuda.jit
def total(t, y):
    s = float64(0)
    for i in range(t.size):
        s += t[i]
    y[0] = s

def launch(x, y, N, factor, threads=32):
    t = cuda.device_array(N, np.float32)
    square[(N + threads - 1) // threads, threads](x, t)
    total[1, 1](t, y)
"""

LAUNCHER_SPEC = head(
    "launcher: k.py:launch\ndims: {N: [70]}\ninputs: {x: [N]}\nparams: {factor: {dtype: float32, values: [1.0]}}\n"
    "outputs: {y: {shape: [1], dtype: float64}}\n"
)


def test_a_launcher_may_launch_several_kernels(project):
    """It is called by keyword with what its signature names; what has a default may be left out of the spec."""
    outcome, arrays = run(project, LAUNCHER_SPEC, LAUNCHER)
    assert outcome.findings == ()
    x = arrays.allocation("x").view()
    np.testing.assert_allclose(outcome.outputs["y"], (x * x).astype(np.float64).sum(), rtol=1e-12)


def test_what_a_launcher_allocates_holds_no_value_until_written(project):
    """A kernel that skips its first element leaves NaN in the sum, the same in every run."""
    kernel = LAUNCHER.replace("if i < x.size:", "if 0 < i < x.size:")
    assert np.isnan(run(project, LAUNCHER_SPEC, kernel)[0].outputs["y"]).all()


@pytest.mark.parametrize(
    ("spec", "kernel", "says"),
    [
        (fill_spec(), "def op(y):\n    y[0] = 1\n", "op is not a kernel"),
        (fill_spec(), FILL.replace("cuda.jit", "cuda.jit(device=True)"), "op is a device function"),
    ],
)
def test_a_function_that_does_not_fit_the_spec_is_refused_before_any_case(project, spec, kernel, says):
    """The message starts with the user's file and line and ends in the fix."""
    with pytest.raises(KernelError) as caught:
        run(project, spec, kernel)
    assert says in str(caught.value)
    assert "k.py:" in str(caught.value)


def test_a_launcher_that_raises_fails_its_case_at_its_line(project):
    """Rule launch, with the line of the launcher that raised."""
    kernel = LAUNCHER.replace("    t = cuda", "    t = x.nothing\n    t = cuda")
    (finding,) = run(project, LAUNCHER_SPEC, kernel)[0].findings
    assert (finding.rule, finding.place.line) == ("launch", 19)
    assert "nothing" in finding.message


def test_a_guard_that_was_written_is_a_finding_with_its_place(project):
    """A launcher reaches outside the array by a wider view; the first byte past its end is named."""
    kernel = """
    def launch(y):
        memory = y._ary
        beyond = np.lib.stride_tricks.as_strided(memory, (memory.size + 1,))
        beyond[:] = 2
    """
    spec = head("launcher: k.py:launch\ndims: {N: [6]}\noutputs: {y: [N]}\n")
    (finding,) = run(project, spec, kernel)[0].findings
    assert (finding.rule, finding.array) == ("guard", "y")
    assert "past its end" in finding.message
    assert "now 2.0" in finding.message


def test_a_cooperative_grid_waits_for_all_its_blocks(project):
    """this_grid().sync() holds every block back until all have come."""
    spec = head(
        "kernel: k.py:op\ndims: {N: [4]}\n"
        "outputs: {y: {shape: [N], dtype: int32}, z: {shape: [N], dtype: int32}}\n"
        "launch: {args: [y, z], grid: [N], block: [1], cooperative: true}\n"
    )
    kernel = """
    @cuda.jit
    def op(y, z):
        i = cuda.grid(1)
        y[i] = i
        cuda.cg.this_grid().sync()
        z[i] = y[(i + 1) % 4]
    """
    outcome, _ = run(project, spec, kernel)
    assert outcome.findings == ()
    assert outcome.outputs["z"].tolist() == [1, 2, 3, 0]


def test_two_runs_of_a_racy_kernel_give_the_same_bits(project):
    """The order of threads is a function of the launch alone, so verdicts repeat."""
    kernel = """
    @cuda.jit
    def op(x, y):
        i = cuda.grid(1)
        for k in range(300):
            y[0] = y[0] * float32(0.999) + x[i]
    """
    spec = head(
        "kernel: k.py:op\ndims: {N: [64]}\ninputs: {x: [N]}\noutputs: {y: {shape: [1], dtype: float32}}\n"
        "launch: {args: [x, y], grid: [2], block: [32]}\n"
    )
    first, second = (run(project, spec, kernel)[0].outputs["y"].tobytes() for _ in range(2))
    assert first == second


@pytest.mark.parametrize("when", ["before", "after"])
def test_ctrl_c_while_a_thread_is_started_is_the_interrupt_and_nothing_stays(project, monkeypatch, when):
    """KeyboardInterrupt on either side of an OS thread's start comes out as such, and the next case runs."""
    from kcheck.device.simulator import schedule

    device = choose("simulator")
    loaded = project.spec(fill_spec(), FILL, "def op():\n    return 0\n")
    device.prepare(loaded)
    arrays = materialize(loaded, expand(loaded, 1))
    start = schedule.SimulatorThread.start

    def interrupted(worker):
        if when == "after":
            start(worker)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(schedule.SimulatorThread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            device.run(loaded, arrays, timeout=20.0)
    outcome = device.run(loaded, arrays, timeout=20.0)
    assert outcome.findings == ()
    assert device.lost == ""
    assert not [thread for thread in threading.enumerate() if isinstance(thread, schedule.SimulatorThread)]


def test_names_are_put_back_even_if_stopping_is_interrupted(project, monkeypatch):
    """A second Ctrl-C, while threads are being ended, leaves the kernel's module with its own names."""
    from kcheck.device.simulator import schedule

    device = choose("simulator")
    loaded = project.spec(fill_spec(), FILL, "def op():\n    return 0\n")
    kernel = load_function(loaded.root, loaded.kernel)
    arrays = materialize(loaded, expand(loaded, 1))
    names = dict(kernel.py_func.__globals__)
    stop = schedule.Grid.stop

    def interrupted(grid):
        stop(grid)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(schedule.Grid, "stop", interrupted)
        with pytest.raises(KeyboardInterrupt):
            device.run(loaded, arrays, timeout=20.0)
    assert kernel.py_func.__globals__ == names
    assert device.run(loaded, arrays, timeout=20.0).findings == ()


def test_what_a_kernel_prints_is_shown_once(project, capsys):
    """The launches that are made again, in other orders and over other poison, are not heard."""
    kernel = COPY.replace("    if i", '    if i == 0 and j == 0:\n        print("here")\n    if i', 1)
    outcome, _ = run(project, copy_spec("float32", "contiguous", "contiguous"), kernel)
    assert outcome.findings == ()
    assert "nondeterministic" in outcome.checked  # so there were such launches
    assert capsys.readouterr().out == "here\n"


class NeverEnds(SimulatorBackend):
    """A device on which every launch runs into its time limit. ``limits``: seconds that each launch was given."""

    sanitizers = SANITIZERS

    def __init__(self):
        super().__init__()
        self.limits = []

    def launch(self, job, spec, deadline, schedule):
        """Note the limit, and do not wait for it."""
        self.limits.append(deadline - time.monotonic())
        raise LaunchFault(Finding("timeout", "still running"))


@pytest.mark.parametrize("instrument", [(), ("racecheck", "initcheck")])
def test_an_endless_case_is_stopped_at_its_time_limit(project, instrument):
    """The launch with sanitizers and the plain launch after it share the limit of the case."""
    backend = NeverEnds()
    loaded = project.spec(copy_spec("float32", "contiguous", "contiguous"), COPY, "def op():\n    return 0\n")
    outcome = LaunchingDevice(backend).run(
        loaded, materialize(loaded, expand(loaded, 1)), timeout=20.0, instrument=instrument
    )
    assert [finding.rule for finding in outcome.findings] == ["timeout"]
    assert 19 < sum(backend.limits) <= 20
