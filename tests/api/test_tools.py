"""``kcheck.exec`` and ``kcheck.calibrate``: results as values, refusals as errors."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import kcheck
from kcheck.device.artifact import no_compiler

PROGRAM = """
import numpy as np
from numba import cuda

@cuda.jit
def late(x):
    x[cuda.grid(1)] = 1

x = cuda.to_device(np.zeros(30, np.float32))
late[1, 32](x)
print("done")
"""


@pytest.mark.skipif(bool(no_compiler()), reason="needs NVVM")
def test_findings_of_a_program_are_values(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text(PROGRAM)
    done = kcheck.exec([sys.executable, str(tmp_path / "late.py")], capture=True)
    assert not done.ok
    assert {finding.rule for finding in done.findings} == {"memcheck"}
    assert done.findings[0].place is not None
    assert done.findings[0].place.line == PROGRAM.splitlines().index("    x[cuda.grid(1)] = 1") + 1


def test_the_exit_code_is_that_of_the_program() -> None:
    done = kcheck.exec([sys.executable, "-c", "import sys; print('out'); sys.exit(3)"], capture=True)
    assert (done.returncode, done.ok, done.stdout, done.findings) == (3, False, "out\n", ())


def test_the_environment_can_be_given() -> None:
    code = "import os; print(os.environ.get('MINE'), os.environ['KCHECK_CC'])"
    env = {**os.environ, "MINE": "yes"}
    assert kcheck.exec([sys.executable, "-c", code], env=env, cc="9.0", capture=True).stdout == "yes 9.0\n"


@pytest.mark.parametrize(
    ("command", "how", "message"),
    [
        (["no-such-program"], {}, "no-such-program: No such file or directory; give a command, such as python"),
        (["true"], {"sanitize": "mutated"}, "mutated needs a spec that names the arrays; use kcheck.check"),
        (
            ["true"],
            {"sanitize": {"memcheck": "loud"}},
            "sanitizer memcheck: unknown level 'loud'; use error, warn or",
        ),
    ],
)
def test_exec_refuses_wrong_arguments_with_the_fix(command: list[str], how: dict, message: str) -> None:
    with pytest.raises(kcheck.UserError) as refused:
        kcheck.exec(command, **how)
    assert str(refused.value).startswith(message)


def scaled(function, **keys) -> kcheck.Spec:
    return kcheck.Spec(
        "scaled",
        dims={"N": range(1, 65)},
        inputs={"x": ["N"]},
        outputs={"y": ["N"]},
        function=function,
        reference=lambda x: x / 3,
        **keys,
    )


def test_calibration_measures_a_correct_function() -> None:
    found = kcheck.calibrate(scaled(lambda x: x / 3), cases=25)
    assert list(found.envelopes) == ["float32"]
    assert found.envelopes["float32"].cases == 25
    assert 0 < found.envelopes["float32"].envelope < 1e-6


@pytest.mark.parametrize(
    ("function", "cases", "why"),
    [
        (lambda x: x / 2, 25, "cases failed: the kernel may be wrong"),
        (lambda x: x / 3, 5, "5 cases with float32, at least 20 are needed: raise --cases"),
    ],
)
def test_what_cannot_be_calibrated_says_why(function, cases: int, why: str) -> None:
    with pytest.raises(kcheck.UserError) as refused:
        kcheck.calibrate(scaled(function), cases=cases)
    assert why in str(refused.value)


def test_a_function_has_nothing_to_lint() -> None:
    found = kcheck.lint(scaled(lambda x: x / 3))
    assert (found.metrics, found.ok) == ((), True)
    assert found.notes[0].endswith("is an array function: nothing is compiled")
