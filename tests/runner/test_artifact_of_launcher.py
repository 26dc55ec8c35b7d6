"""``artifact:`` of a launcher looks at every kernel that it launched."""

import importlib.util

import pytest

from kcheck.device import choose
from kcheck.device.cuda import driver_answers
from kcheck.model import SpecFinished
from kcheck.model.compiled import ArrayType, ScalarType
from kcheck.runner import Options, run

KERNELS = """
@cuda.jit
def scale(x, factor, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] * factor


@cuda.jit
def through_float64(y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = math.sqrt(float64(y[i]) * float64(y[i]))


def go(x, y):
    blocks = (x.size + 31) // 32
    scale[blocks, 32](x, np.float32(2), y)
    through_float64[blocks, 32](y)
"""
SPEC = """
kcheck: 1
op: scaled
dims: {N: 1..64}
inputs: {x: {shape: [N], values: all_positive, layouts: [contiguous, strided]}}
outputs: {y: [N]}
launcher: k.py:go
reference: r.py:r
cases: {count: 8}
artifact: {forbidden_patterns: ["\\\\.f64"], max_registers: 255}
"""


@pytest.fixture
def finished(project):
    """The run's last word on the spec, and the kernels that its device saw."""
    spec = project.spec(SPEC, kernel=KERNELS, reference="def r(x): return 2 * x")
    device = choose("gpu" if driver_answers() else "simulator")
    (last,) = (event for event in run([spec], Options(), device) if isinstance(event, SpecFinished))
    return last, device.launched(spec)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("nvidia") is None, reason="NVVM is not installed")
def test_the_kernel_that_offends_is_named(finished) -> None:
    """The one that computes in float64 is found, at its line; the other one is not."""
    last, _ = finished
    assert (last.passed, last.failed) == (8, 0)
    (finding,) = last.findings
    assert finding.kernel == "through_float64"
    assert finding.place.line == 16
    assert last.notes == () or "artifact" not in " ".join(last.notes)


@pytest.mark.slow
@pytest.mark.skipif(driver_answers(), reason="a GPU's Numba keeps the types that it compiled, not those of a call")
def test_launched_kernels_are_seen_with_their_types(finished) -> None:
    """Each kernel once per signature that the cases' layouts gave it."""
    _, launched = finished
    y = ArrayType("float32", 1, "C")
    seen = {(one.kernel, one.signature) for one in launched}
    assert {(one.block, one.shared) for one in launched} == {((32, 1, 1), 0)}
    assert seen == {
        ("scale", (ArrayType("float32", 1, "C"), ScalarType("float32"), y)),
        ("scale", (ArrayType("float32", 1, "A"), ScalarType("float32"), y)),
        ("through_float64", (y,)),
    }
