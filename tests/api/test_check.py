"""``kcheck.check``, ``reproduce`` and ``minimize`` with kernels of this process, on the simulator or a GPU."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numba import cuda

import kcheck
from kcheck.device.cuda import driver_answers

DEVICE = "gpu" if driver_answers() else "simulator"


@pytest.fixture(scope="module")
def kernels():
    @cuda.jit
    def triple(x, y):
        i = cuda.grid(1)
        if i < x.size:
            y[i] = 3 * x[i]

    @cuda.jit
    def triple_of_even(x, y):
        i = cuda.grid(1)
        if i < x.size - x.size % 2:
            y[i] = 3 * x[i]

    return {"good": triple, "bad": triple_of_even}


def spec_of(kernel, **keys) -> kcheck.Spec:
    return kcheck.Spec(
        "triple",
        dims={"N": range(1, 12)},
        inputs={"x": ["N"]},
        outputs={"y": ["N"]},
        kernel=kernel,
        launch={"args": ["x", "y"], "grid": [1], "block": [16]},
        reference=lambda x: 3 * x,
        **keys,
    )


def test_a_good_kernel_of_this_process_passes(kernels) -> None:
    report = kcheck.check(spec_of(kernels["good"]), cases=5, device=DEVICE)
    assert report.ok, report
    assert (report.cases, report.device, report.failures) == (5, DEVICE, ())


def test_a_bad_kernel_is_a_value_with_its_inputs(kernels) -> None:
    report = kcheck.check(spec_of(kernels["bad"]), cases=11, device=DEVICE)
    assert not report.ok
    failing = {failure.case.dims["N"] for failure in report.failures}
    assert failing
    assert all(size % 2 for size in failing)
    failure = report.failures[0]
    assert failure.rule == failure.findings[0].rule == "unwritten"
    assert failure.inputs["x"].shape == (failure.case.dims["N"],)
    again = kcheck.reproduce(spec_of(kernels["bad"]), failure, device=DEVICE)
    assert again.result == "fails"
    assert again.inputs["x"].tobytes() == failure.inputs["x"].tobytes()
    assert kcheck.reproduce(spec_of(kernels["good"]), failure, device=DEVICE).result == "passes"


def test_a_failing_case_shrinks_to_the_smallest(kernels) -> None:
    spec = spec_of(kernels["bad"])
    report = kcheck.check(spec, cases=11, device=DEVICE)
    found = kcheck.minimize(spec, report.failures[-1], device=DEVICE)
    assert dict(found.dims) == {"N": 1}
    assert found.matters[0] == "fails when N % 2 != 0"
    assert kcheck.minimize(spec_of(kernels["good"]), report.failures[-1], device=DEVICE) is None


def test_a_seed_alone_reproduces_a_case(kernels) -> None:
    spec = spec_of(kernels["bad"])
    seed = kcheck.check(spec, cases=11, device=DEVICE).failures[0].seed
    assert kcheck.reproduce(spec, seed, device=DEVICE).result == "fails"


def test_the_replay_of_a_spec_in_python_is_a_call(kernels) -> None:
    failure = kcheck.check(spec_of(kernels["bad"]), cases=11, device=DEVICE).failures[0]
    assert failure.replay == f"kcheck.reproduce(spec, {failure.seed}, device='{DEVICE}')"


def test_the_json_is_that_of_the_command(kernels) -> None:
    report = kcheck.check(spec_of(kernels["bad"]), cases=11, device=DEVICE)
    document = json.loads(report.to_json())
    assert document == report.to_dict()
    assert document["summary"]["failed"] == len(report.failures)
    assert document["specs"][0]["op"] == "triple"


def test_reports_are_shown_in_notebooks_without_markup_of_the_text(kernels) -> None:
    report = kcheck.check(spec_of(kernels["bad"]), cases=11, device=DEVICE)
    assert report._repr_html_().startswith("<pre ")
    assert "&#x27;" in report._repr_html_()  # the quotes of the replay line
    assert "FAIL " in str(report)


def test_a_file_is_checked_with_another_kernel(project, kernels) -> None:
    spec = project.spec(
        "{kcheck: 1, op: triple, dims: {N: [4]}, inputs: {x: [N]}, outputs: {y: [N]}, kernel: 'k.py:missing',"
        " launch: {args: [x, y], grid: [1], block: [16]}, reference: 'r.py:triple'}",
        "@cuda.jit\ndef missing(x, y):\n    pass",
        "def triple(x):\n    return 3 * x",
    )
    path = Path(spec.root) / spec.path
    assert kcheck.check(path, kernel=kernels["good"], cases=2, device=DEVICE).ok
    assert not kcheck.check(path, cases=2, device=DEVICE).ok


def test_levels_of_sanitizers_apply(kernels) -> None:
    report = kcheck.check(spec_of(kernels["bad"]), cases=11, device=DEVICE, sanitize={"unwritten": "off"})
    assert report.ok


def test_unknown_words_are_refused(kernels) -> None:
    with pytest.raises(kcheck.UserError, match="unknown sanitizer 'racechek'; did you mean 'racecheck'"):
        kcheck.check(spec_of(kernels["good"]), sanitize="racechek")
    with pytest.raises(kcheck.DeviceUnavailable, match="unknown device 'tpu'"):
        kcheck.check(spec_of(kernels["good"]), device="tpu")


def test_the_case_of_another_op_is_refused(kernels) -> None:
    failure = kcheck.check(spec_of(kernels["bad"]), cases=11, device=DEVICE).failures[0]
    with pytest.raises(kcheck.UserError, match="the failure is a case of triple, not of softmax"):
        kcheck.reproduce("specs/softmax.yaml", failure)


def test_a_reference_that_raises_is_not_ok(kernels) -> None:
    def broken(x):
        return np.ones(1000)

    spec = kcheck.Spec(
        "triple",
        dims={"N": [3]},
        inputs={"x": ["N"]},
        outputs={"y": ["N"]},
        kernel=kernels["good"],
        launch={"args": ["x", "y"], "grid": [1], "block": [16]},
        reference=broken,
    )
    report = kcheck.check(spec, cases=2, device=DEVICE)
    assert not report.ok
    assert report.failures[0].verdict.status == "error"


def test_a_failure_is_reproduced_at_the_levels_of_its_check(kernels) -> None:
    """A failure that only a stricter level shows is not called fixed by a run at the level of the spec."""
    spec = spec_of(kernels["bad"], sanitize={"unwritten": "off"})
    failure = kcheck.check(spec, cases=11, device=DEVICE, sanitize={"unwritten": "error"}).failures[0]
    assert kcheck.reproduce(spec, failure, device=DEVICE).result == "fails"
    found = kcheck.minimize(spec, failure, device=DEVICE)
    assert found is not None
    assert dict(found.dims) == {"N": 1}
