"""``function:`` in a spec: a Python function over arrays, checked in this process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import kcheck
from kcheck.errors import SpecError

SPEC = """\
kcheck: 1
op: scale
function: ops.py:{name}
reference: ops.py:reference
dims: {{M: 1..6, N: 1..40}}
dtypes: [float32, float16]
inputs: {{x: {{shape: [M, N], layouts: [contiguous, transposed, reversed]}}}}
params: {{a: {{dtype: float32, values: [0.5, 3.0]}}}}
outputs: {{y: [M, N]}}
cases: {{count: 12}}
{more}"""
OPS = '''
import itertools
import time

import numpy as np

CALLS = itertools.count()


def reference(x, a):
    return a * x


def right(x, a):
    return (a * x.astype(np.float32)).astype(x.dtype)


def tail(x, a):
    y = right(x, a)
    y[:, 32:] = 0
    return y


def in_place(x, a):
    x *= a.astype(x.dtype)
    return x.copy()


def wide(x, a):
    return right(x, a).astype(np.float64)


def raising(x, a, M):
    if M > 3:
        raise ValueError("too many rows")
    return right(x, a)


def leaving(x, a, M):
    if M > 3:
        raise SystemExit(0)
    return right(x, a)


def aborting(x, a, M):
    if M > 3:
        raise type("Abort", (BaseException,), {})("too many rows")
    return right(x, a)


def changing(x, a):
    return right(x, a) + np.asarray(next(CALLS) % 2 * 1e-7, x.dtype) * x


def endless(x, a):
    while True:
        try:
            time.sleep(0.01)
        except Exception:
            pass


def everything(**given):
    assert sorted(given) == ["M", "N", "a", "x"]
    assert given["x"].shape == (given["M"], given["N"])
    return {"y": right(given["x"], given["a"])}


class Tensor:
    """An array of another framework: DLPack and nothing else."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **how):
        return self.array.__dlpack__(max_version=how.get("max_version"))

    def __dlpack_device__(self):
        return (1, 0)


def foreign(x, a):
    return Tensor(np.ascontiguousarray(right(x, a)))


def unequal(x, a):
    return right(x, a)[:, :-1]
'''


@pytest.fixture
def path(tmp_path: Path):
    """Writes the spec of a function of OPS, and returns its path."""
    (tmp_path / "kcheck.yaml").write_text("")
    (tmp_path / "ops.py").write_text(OPS)

    def write(name: str, more: str = "") -> Path:
        (tmp_path / "spec.yaml").write_text(SPEC.format(name=name, more=more))
        return tmp_path / "spec.yaml"

    return write


@pytest.mark.parametrize("name", ["right", "everything", "foreign"])
def test_a_correct_function_passes_on_the_host(path, name: str) -> None:
    report = kcheck.check(path(name))
    assert report.ok, report
    assert report.device == "host"


@pytest.mark.parametrize(
    ("name", "rule", "message"),
    [
        ("tail", "mismatch", "beyond tolerance"),
        ("in_place", "mutated", "input x was changed"),
        ("wide", "output", "the output y is float64, but the spec declares float32 in this case"),
        ("unequal", "output", "the output y has shape ["),
        ("raising", "launch", "the function raised ValueError: too many rows"),
        ("leaving", "launch", "the function raised SystemExit: 0"),
        ("aborting", "launch", "the function raised Abort: too many rows"),
        ("changing", "nondeterministic", "two launches of the same case differ"),
    ],
)
def test_what_a_function_does_wrong_is_found(path, name: str, rule: str, message: str) -> None:
    report = kcheck.check(path(name))
    assert report.failures
    assert {failure.rule for failure in report.failures} == {rule}
    assert any(message in str(failure.verdict).replace("\n             ", " ") for failure in report.failures)


def test_the_json_report_of_the_host_fits_its_schema(path) -> None:
    schema = json.loads((Path(__file__).resolve().parents[2] / "schema/report.schema.json").read_text("utf-8"))
    jsonschema.validate(kcheck.check(path("tail")).to_dict(), schema)


def test_an_exception_names_the_line_of_the_user(path) -> None:
    (finding,) = kcheck.check(path("raising")).failures[0].verdict.findings
    line = OPS.splitlines().index('        raise ValueError("too many rows")') + 1
    assert finding.place is not None
    assert (Path(finding.place.file).name, finding.place.line) == ("ops.py", line)


def test_a_function_that_does_not_end_is_stopped(path) -> None:
    """Although it catches every Exception; after three cases the others are skipped, as for kernels."""
    report = kcheck.check(path("endless"), timeout=0.2)
    assert [failure.rule for failure in report.failures] == ["timeout"] * 3
    assert not report.ok


def test_an_input_that_the_function_may_write_is_no_finding(path) -> None:
    assert kcheck.check(path("in_place", "mutates: [x]\n")).ok


def test_nondeterminism_can_be_allowed(path) -> None:
    assert kcheck.check(path("changing", "deterministic: false\n")).ok


def test_sanitizers_that_need_a_kernel_are_said_to_be_unavailable(path) -> None:
    report = kcheck.check(path("right"))
    (note,) = report.notes
    assert note == "not checked for array functions: memcheck, racecheck, initcheck, synccheck, overflow"
    assert {name for verdict in report for name in verdict._model.checked} == {"mutated", "nondeterministic"}


def test_a_failure_is_minimized_to_the_smallest(path) -> None:
    spec = path("tail")
    found = kcheck.minimize(spec, kcheck.check(spec).failures[0])
    assert found is not None
    assert dict(found.dims) == {"M": 1, "N": 33}
    assert found.matters[0] == "fails when N > 32, for any M"


def test_a_failure_is_reproduced(path) -> None:
    spec = path("tail")
    failure = kcheck.check(spec).failures[0]
    assert kcheck.reproduce(spec, failure).result == "fails"
    assert kcheck.reproduce(path("right"), failure).result == "passes"


def test_a_function_of_python_is_checked() -> None:
    spec = kcheck.Spec(
        "twice",
        dims={"N": range(1, 9)},
        inputs={"x": ["N"]},
        outputs={"y": ["N"], "z": ["N"]},
        function=lambda x: (x + x, 4 * x),
        reference=lambda x: {"y": 2 * x, "z": 4 * x},
        cases={"count": 4},
    )
    assert kcheck.check(spec).ok


def test_the_layouts_of_a_case_reach_a_numpy_function(path) -> None:
    seen = set()

    def function(x, a):
        seen.add(x.strides[0] < x.strides[1] if x.shape[0] > 1 and x.shape[1] > 1 else None)
        return (a * x.astype(np.float32)).astype(x.dtype)

    assert kcheck.check(kcheck.load_spec(path("right"), function=function)).ok
    assert {True, False} <= seen


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        (
            "kernel: ops.py:right\n",
            "'kernel' cannot be used with 'function': it runs the op; remove 'kernel' or 'function'",
        ),
        (
            "artifact: {max_registers: 9}\n",
            "'artifact' cannot be used with 'function': there is no compiled kernel",
        ),
        ("framework: numpi\n", "did you mean 'numpy'?"),
        ("framework: {torch: tpu}\n", "unknown device 'tpu'; did you mean 'cpu'?"),
    ],
)
def test_what_does_not_fit_a_function_is_refused(path, more: str, fault: str) -> None:
    with pytest.raises(SpecError) as refused:
        kcheck.load_spec(path("right", more))
    assert fault in str(refused.value), refused.value


def test_an_alias_does_not_fit_a_function(path) -> None:
    spec = path("right")
    spec.write_text(spec.read_text().replace("y: [M, N]", "y: {shape: [M, N], alias: x}"))
    with pytest.raises(SpecError, match="a function returns its outputs; remove 'alias'"):
        kcheck.load_spec(spec)


def test_a_parameter_that_the_spec_does_not_have_is_refused(path) -> None:
    spec = path("odd")
    (spec.parent / "ops.py").write_text(OPS + "\n\ndef odd(x, scale):\n    return x\n")
    with pytest.raises(SpecError, match="function 'odd' takes 'scale', which kcheck does not pass"):
        kcheck.load_spec(spec)


def test_a_framework_without_a_function_is_refused(project) -> None:
    text = (
        "{kcheck: 1, op: o, framework: torch, outputs: {y: [1]}, kernel: 'k.py:k',"
        " launch: {args: [y], grid: [1], block: [1]}, reference: 'r.py:r'}"
    )
    with pytest.raises(SpecError, match="'framework' needs 'function'; kernels get device arrays"):
        project.spec(text, "@cuda.jit\ndef k(y):\n    pass", "def r():\n    return 1")


def test_a_framework_that_is_not_installed_is_named_with_its_extra(path) -> None:
    with pytest.raises(SpecError, match=r"tensorflow cannot be imported: .*; pip install 'kcheck\[tensorflow\]'"):
        kcheck.check(path("right", "framework: tensorflow\n"))


def test_a_spec_with_a_kernel_extends_to_a_function(path) -> None:
    """The contract of a kernel, checked with a function: cases and values are the same."""
    base = path("right")
    other = base.parent / "other.yaml"
    other.write_text("{kcheck: 1, op: other, extends: spec.yaml, function: 'ops.py:tail'}\n")
    one = [failure.seed for failure in kcheck.check(path("tail")).failures]
    assert [failure.seed for failure in kcheck.check(other).failures] == one
    by_kernel = base.parent / "kernel.yaml"
    by_kernel.write_text(
        base.read_text().replace("function: ops.py:right", "kernel: k.py:k").replace("op: scale", "op: third")
        + "launch: {args: [x, a, y], grid: [1], block: [1]}\nartifact: {max_registers: 64}\n"
    )
    (base.parent / "k.py").write_text("from numba import cuda\n\n\n@cuda.jit\ndef k(x, a, y):\n    pass\n")
    other.write_text("{kcheck: 1, op: other, extends: kernel.yaml, function: 'ops.py:right'}\n")
    assert kcheck.check(other).ok


def kcheck_in(folder: Path, *words: str) -> str:
    """What a command of kcheck prints in a project."""
    environment = {**os.environ, "PYTHONPATH": str(Path(kcheck.__file__).parents[1]), "COLUMNS": "100"}
    done = subprocess.run(
        [sys.executable, "-m", "kcheck", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_errors_of_a_function_are_a_baseline_and_an_envelope(path) -> None:
    spec = path("right")
    saved = kcheck_in(spec.parent, "baseline", "save", "v1", spec.name)
    assert "wrote baselines/v1.json: 1 op, 0 specializations, 12 cases" in saved
    assert "12 of 12 cases passed on host" in kcheck_in(spec.parent, "baseline", "show", "v1")
    assert "since v1: 0 regressions" in kcheck_in(spec.parent, "diff", "v1")
    worse = OPS.replace("(a * x.astype(np.float32))", "(a * x.astype(np.float32) * np.float32(1.0000001))", 1)
    (spec.parent / "ops.py").write_text(worse)
    assert "WORSE   error p95" in kcheck_in(spec.parent, "diff", "v1")
    assert kcheck.calibrate(spec, cases=50).envelopes["float32"].largest > 1e-7
