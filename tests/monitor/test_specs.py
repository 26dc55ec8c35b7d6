"""Monitored functions with a spec: the noise floor judges, and mismatches are saved as cases."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forked_python import environment, run_module

import kcheck
from kcheck.errors import UserError
from kcheck.monitor import EquivalenceChecker, Mismatch
from kcheck.store.kcase import read_kcase

CHECKOUT = Path(__file__).resolve().parents[2]
ALL = {"sample_probability": 1.0}
SPEC = """\
kcheck: 1
op: shift
function: ops.py:shift
reference: references.py:shift
dims: {M: 1..40, N: 1..400}
params: {by: {dtype: float32, values: [0.5, 2]}}
inputs: {x: [M, N]}
outputs: {y: [M, N]}
"""
OPS = """\
import numpy as np


def shift(x, by):
    y = x + by
    if x.shape[1] > 64:
        y[:, 64:] = 0  # only the first 64 columns are right
    return y
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in {
        "kcheck.yaml": "",
        "ops.py": OPS,
        "references.py": "def shift(x, by):\n    return x + by\n",
        "specs/shift.yaml": SPEC,
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(textwrap.dedent(text))
    return tmp_path


def monitored(project: Path, *arguments: Any, **keys: Any) -> tuple[EquivalenceChecker, Any]:
    names: dict[str, Any] = {}
    exec((project / "ops.py").read_text(), names)
    checker = EquivalenceChecker()
    return checker, checker.equivalent(*arguments, spec=project / "specs/shift.yaml", **keys)(names["shift"])


def test_a_saved_mismatch_is_reproduced_and_minimized(project: Path) -> None:
    checker, shift = monitored(project, None, "save")
    rng = np.random.default_rng(0)
    with checker.start(**ALL):
        for columns in (64, 300):
            shift(rng.standard_normal((3, columns)).astype(np.float32), by=2.0)
    assert (checker.stats().checked, checker.stats().mismatches) == (2, 1)
    (file,) = (project / ".kcheck/monitor").glob("shift-*.kcase")
    saved = read_kcase(file)
    assert saved.verdict is not None
    assert saved.verdict.case.dims == {"M": 3, "N": 300}

    spec = project / "specs/shift.yaml"
    assert kcheck.reproduce(spec, file).result == "fails"
    smallest = kcheck.minimize(spec, file, strategy="dims")
    assert smallest is not None
    assert smallest.dims == {"M": 1, "N": 65}

    variables = {**environment(), "COLUMNS": "80"}
    for command, code, shown in (
        ("reproduce", 1, "STILL FAILS  same bits"),
        ("minimize", 0, "fails when N > 64, for any M"),
    ):
        words = ("kcheck", command, str(file.relative_to(project)))
        done = run_module(words, project, variables, seconds=300)
        assert done.returncode == code, done.stdout + done.stderr
        assert shown in done.stdout


def test_the_noise_floor_judges_in_place_of_the_tolerances(project: Path) -> None:
    """An error of 1e-5 is within the default rtol; the sum of two numbers in float32 is not that far off."""
    found: list[Mismatch] = []
    checker, _ = monitored(project, None)
    off = checker.equivalent(None, found.append, spec=project / "specs/shift.yaml")(
        lambda x, by: (x + by) * np.float32(1.00001)
    )
    plain = checker.equivalent(lambda x, by: x + by, found.append)(lambda x, by: (x + by) * np.float32(1.00001))
    with checker.start(**ALL):
        off(np.ones((2, 3), np.float32), 0.5)
        plain(np.ones((2, 3), np.float32), 0.5)
    assert len(found) == 1
    assert found[0].verdict is not None
    assert found[0].verdict.comparisons[0].method == "conditioned"
    assert found[0].ground_truth_result.tolist() == [[1.5] * 3] * 2


def test_a_reference_replaces_that_of_the_spec(project: Path) -> None:
    found: list[Mismatch] = []
    checker, shift = monitored(project, lambda x, by: x + 2 * by, found.append)
    with checker.start(**ALL):
        shift(np.ones((2, 3), np.float32), 0.5)
    assert found[0].ground_truth_result.tolist() == [[2.0] * 3] * 2


def test_a_function_in_place_writes_to_the_arguments_that_are_named_as_the_outputs() -> None:
    spec = kcheck.Spec(
        "double",
        dims={"N": range(1, 100)},
        inputs={"x": ["N"]},
        outputs={"y": ["N"]},
        reference=lambda x: 2 * x,
    )
    found: list[Mismatch] = []
    checker = EquivalenceChecker()

    @checker.equivalent(None, found.append, spec=spec)
    def double(x: np.ndarray, y: np.ndarray) -> None:
        y[:] = 2 * x
        y[7:] = 0

    with checker.start(**ALL):
        for size in (7, 8):
            double(np.ones(size, np.float32), np.zeros(size, np.float32))
    assert [mismatch.number for mismatch in found] == [2]


def test_a_call_that_is_not_a_case_of_the_spec_is_an_error_that_is_counted(
    project: Path, caplog: pytest.LogCaptureFixture
) -> None:
    checker, _ = monitored(project, None)
    shift = checker.equivalent(None, spec=project / "specs/shift.yaml")(lambda x, by: x + by)
    with checker.start(**ALL):
        shift(np.ones(3, np.float32), 0.5)
        shift(np.ones((1, 3), np.float64), 0.5)
    assert checker.stats().reference_errors == 2
    assert "could not be compared: shift: the input x has shape [3], but the spec declares [M, N]" in caplog.text
    assert "Traceback" not in caplog.text
    assert "the input x has shape [3], but the spec declares [M, N]" in caplog.text
    assert "the dtype T of the inputs is float64, but the spec allows float32" in caplog.text


def test_a_function_needs_parameters_with_the_names_of_the_spec(project: Path) -> None:
    with pytest.raises(UserError, match="has the parameters a, by, but not 'x'"):
        EquivalenceChecker().equivalent(None, spec=project / "specs/shift.yaml")(lambda a, by: a)
