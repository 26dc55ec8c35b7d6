"""Envelopes from the events of a run."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcheck.device import choose
from kcheck.runner import Calibrator, Options, run
from kcheck.runner.calibrate import LEAST, MARGIN, envelope, measured_spec

SPEC = """
kcheck: 1
op: third
kernel: k.py:third
reference: r.py:third
dims: {N: 1..40}
inputs: {x: {shape: [N], values: normal}}
outputs: {y: [N]}
launch: {args: [x, y, N], grid: ["ceildiv(N, 32)"], block: [32]}
tolerance: calibrated
cases: {count: 5, seed: 3}
"""
KERNEL = "@cuda.jit\ndef third(x, y, n):\n    i = cuda.grid(1)\n    if i < n:\n        y[i] = x[i] / 3\n"
REFERENCE = "def third(x):\n    return x / 3\n"


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=200))
def test_an_envelope_holds_95_percent_and_half_as_much_again(errors: list[float]) -> None:
    """At most 5% of the errors are above the percentile, which is one of them; the envelope is 1.5 of it."""
    found = envelope(errors, "float32")
    assert sum(error > found.p95 for error in errors) <= 0.05 * len(errors)
    assert found.p95 in errors
    assert found.envelope == max(MARGIN * found.p95, 2.0**-24)
    assert found.largest == max(errors)
    assert found.median <= found.p95 <= found.largest


def test_one_wild_case_in_twenty_does_not_widen_the_envelope() -> None:
    """The largest of 20 errors is beyond the percentile."""
    assert envelope([*[1e-6] * 19, 5.0], "float32").p95 == 1e-6
    assert envelope([*[1e-6] * 18, 5.0, 5.0], "float32").p95 == 5.0


def test_an_exact_kernel_may_round_once() -> None:
    """Errors that are all 0 leave one unit roundoff of the output's dtype."""
    assert envelope([0.0] * 20, "float16").envelope == 2.0**-11


def measure(project, kernel=KERNEL, count=30, spec=SPEC, **options):
    """What a calibrator says of one spec."""
    made = measured_spec(project.spec(spec, kernel, REFERENCE), count, None)
    calibrator = Calibrator([made], **options)
    (found,) = [m for event in run([made], Options(), choose("simulator")) if (m := calibrator.handle(event))]
    return found


def test_a_run_is_measured_on_cases_of_its_own(project):
    """The seeds are not those of `kcheck run`; one error per case, about half a unit roundoff of the result."""
    found = measure(project)
    assert found.refusal == ""
    (errors,) = found.errors.values()
    assert len(errors) == 30
    assert found.spec.seed != 3
    assert 1e-9 < max(errors) < 2.0**-24
    made = found.calibration("cpu", {"kcheck": "1", "numba-cuda": "2"})
    assert (made.cases, made.seed, set(made.envelopes)) == (30, found.spec.seed, {"float32"})
    assert measured_spec(found.spec, 7, 11).seed == 11


def test_a_failing_kernel_is_not_measured_unless_asked(project):
    """The command that shows the failures is told; with `failing` their errors count."""
    kernel = KERNEL.replace("/ 3", "/ 3.01")
    found = measure(project, kernel)
    assert found.failed
    assert "30 of 30 cases failed" in found.refusal
    assert found.see.endswith(f"op.yaml' --cases 30 --seed {found.spec.seed}")
    found = measure(project, kernel, failing=True)
    assert found.refusal == ""
    assert math.isclose(max(found.errors["float32"]), 0.01 / 3.01 / 2, rel_tol=0.9)


def test_too_few_cases_are_refused(project):
    """A percentile of 19 cases is their largest."""
    assert f"19 cases with float32, at least {LEAST} are needed" in measure(project, count=LEAST - 1).refusal


def test_a_case_that_cannot_be_judged_is_no_verdict_on_the_kernel(project):
    """A broken reference refuses the op, and not as a failure."""
    made = measured_spec(project.spec(SPEC, KERNEL, "def third(x):\n    return x[:0]\n"), 20, None)
    calibrator = Calibrator([made])
    (found,) = [m for event in run([made], Options(), choose("simulator")) if (m := calibrator.handle(event))]
    assert "1 of 1 cases could not be checked" in found.refusal
    assert not found.failed


@pytest.mark.parametrize("dtype", ["int32", "bool"])
def test_an_op_of_integers_has_nothing_to_calibrate(project, dtype):
    """Integers and bools are exact."""
    spec = SPEC.replace("outputs: {y: [N]}", f"outputs: {{y: {{shape: [N], dtype: {dtype}}}}}")
    spec = spec.replace(
        "inputs: {x: {shape: [N], values: normal}}", f"inputs: {{x: {{shape: [N], dtype: {dtype}}}}}"
    )
    made = project.spec(spec, KERNEL.replace("x[i] / 3", "x[i]"), "def third(x):\n    return x\n")
    calibrator = Calibrator([measured_spec(made, 3, None)])
    events = run([measured_spec(made, 3, None)], Options(), choose("simulator"))
    (found,) = [m for event in events if (m := calibrator.handle(event))]
    assert found.nothing
    assert found.refusal == ""
