"""Kernel code means on the simulator what Numba makes of it, where Python or NumPy would differ."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kcheck.device import choose
from kcheck.generator import expand, materialize

SPEC = """
kcheck: 1
op: op
kernel: k.py:op
reference: r.py:op
dims: {{N: [4]}}
inputs: {{x: {{shape: [N], dtype: {dtype}, values: {values}}}}}
outputs: {{y: {{shape: [N], dtype: {out}}}}}
launch: {{args: [x, y], grid: [1], block: [4]}}
"""


def compute(project, expression, dtype="float32", values="{constant: 2}", out="float64", head=""):
    """What a kernel stores as y[0] for ``expression`` of x[0], and its findings."""
    device = choose("simulator")
    kernel = f"{head}\n@cuda.jit\ndef op(x, y):\n    i = cuda.grid(1)\n    v = x[i]\n    y[i] = {expression}\n"
    spec = project.spec(SPEC.format(dtype=dtype, values=values, out=out), kernel, "def op(x):\n    return x\n")
    outcome = device.run(spec, materialize(spec, expand(spec, 1)), timeout=20.0)
    assert outcome.findings == ()
    return outcome.outputs["y"][0]


ROWS = [
    # dtype, value, expression, result
    ("float32", "2", "math.exp(v * 1000.0)", math.inf),  # Python raises OverflowError
    ("float32", "-1", "math.sqrt(v)", math.nan),  # ValueError
    ("float32", "0", "math.log(v)", -math.inf),
    ("float32", "0", "1.0 / v", math.inf),
    ("float32", "0", "1.0 / (v * 0 + 0.0)", math.inf),  # ZeroDivisionError for Python's floats
    ("float32", "2", "math.exp(v)", float(np.exp(np.float32(2)))),  # float32 in, float32 out
    ("float32", "2", "math.erf(v)", float(np.float32(math.erf(2)))),
    ("float32", "3", "math.pow(v, 2)", 9.0),
    ("float16", "2", "v * 0.1", 2 * 0.1),  # a float literal is a float64
    ("float16", "2", "HALF * v", 1.0),
    ("float16", "2", "v * v", 4.0),
    ("float32", ".nan", "max(v, 1.0)", 1.0),  # fmax: a NaN loses, on either side
    ("float32", ".nan", "min(1.0, v)", 1.0),
    ("float32", ".nan", "max(v, v)", math.nan),
    ("uint8", "200", "v + v", 400.0),  # integers take part as 64 bits wide
    ("int8", "100", "v * 100", 10000.0),
    ("int32", "7", "v // 2", 3.0),
    ("bool", "true", "v + v", 2.0),
]


@pytest.mark.parametrize(("dtype", "value", "expression", "result"), ROWS)
def test_arithmetic_is_numbas(project, dtype, value, expression, result):
    """One row: a value of a dtype, an expression of it, and what Numba's typing and IEEE 754 make of it."""
    got = compute(project, expression, dtype, f"{{constant: {value}}}", head="HALF = 0.5")
    assert got == result or (math.isnan(got) and math.isnan(result))


@pytest.mark.parametrize(
    ("out", "value", "stored"), [("uint8", 300, 44), ("int8", 200, -56), ("int32", 2**31, -(2**31))]
)
def test_a_store_keeps_the_low_bits(project, out, value, stored):
    """A Python integer that does not fit wraps, as a store on a GPU does; NumPy would raise."""
    assert compute(project, f"{value} + 0 * i", out=out) == stored


def test_names_in_closures_and_from_imports_are_seen_too(project):
    """A kernel made by a factory, with cuda, math and a constant in its closure, and exp imported by name."""
    head = """
from math import exp
def make(scale, cuda, math):
    @cuda.jit(device=True)
    def f(v):
        return exp(v * 1000.0) * 0 + math.floor(scale * cuda.blockDim.x)
    return f
f = make(0.75, cuda, math)
"""
    assert math.isnan(compute(project, "f(v)", head=head))
    assert compute(project, "f(v * 0)", head=head) == 3.0


def test_the_modules_of_kernels_are_as_before_after_a_launch(project):
    """What a launch replaced in a module is put back, and nothing is added."""
    from kcheck.specfile import load_function, load_spec

    compute(project, "max(v, 1.0)", head="HALF = 0.5")
    names = load_function(str(project.root), load_spec(project.root / "op.yaml").kernel).py_func.__globals__
    assert names["math"] is math
    assert type(names["HALF"]) is float
    assert "max" not in names
    assert names["cuda"].__name__ == "numba.cuda"


def test_options_of_jit_that_do_not_change_results_are_taken(project):
    """max_registers, lineinfo and the like do not keep a kernel from the simulator."""
    head = "@cuda.jit(device=True, lineinfo=True, max_registers=32)\ndef f(v):\n    return v + 1\n"
    assert compute(project, "f(v)", head=head) == 3.0
