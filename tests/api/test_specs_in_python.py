"""``kcheck.Spec`` and ``kcheck.load_spec``: the checks and messages of a YAML file, at the line of the call."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import kcheck

HERE = "tests/api/test_specs_in_python.py"
OP = {"inputs": {"x": ["N"]}, "outputs": {"y": ["N"]}}


def double(x):
    return 2 * x


def made(**keys) -> kcheck.Spec:
    return kcheck.Spec("double", **{"dims": {"N": [1, 2]}, "reference": double, **OP, **keys})


def test_a_range_is_what_the_yaml_range_is() -> None:
    """The end of Python's range is exclusive, that of ``1..64`` inclusive."""
    assert repr(made(dims={"N": range(1, 65)})) == "Spec('double', N=1..64, x[N] -> y[N])"


def test_a_range_with_a_step_is_the_list_of_its_sizes() -> None:
    assert repr(made(dims={"N": range(32, 129, 32)})) == "Spec('double', N=32|64|96|128, x[N] -> y[N])"


@pytest.mark.parametrize("dtype", [np.float16, np.dtype("float16"), "float16"])
def test_dtypes_of_numpy_are_their_names(dtype: object) -> None:
    (case,) = kcheck.cases(made(dtypes=[dtype]), count=1)
    assert case.inputs["x"].dtype == np.float16


def test_dtypes_of_ml_dtypes_are_their_names() -> None:
    (case,) = kcheck.cases(made(dtypes=[ml_dtypes.bfloat16]), count=1)
    assert case.inputs["x"].dtype == ml_dtypes.bfloat16


def refused(**keys) -> list[str]:
    """The faults of a spec, without the line of the call."""
    with pytest.raises(kcheck.SpecError) as refusal:
        made(**keys)
    found = [str(fault).split(":", 3) for fault in refusal.value.faults]
    assert {file for file, *_ in found} == {HERE}
    return [what.strip() for *_, what in found]


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        ({"inputs": {"x": ["n"]}}, "unknown dim or param 'n' in shape [n]; did you mean 'N'?"),
        ({"referense": double}, "unknown key 'referense'; did you mean 'reference'?"),
        ({"reference": lambda z: z}, "reference 'function' takes 'z', which kcheck does not pass"),
        ({"dims": {"N": range(5, 5)}}, "dims.N: range(5, 5) is not a range of sizes; use an ascending range"),
        ({"dims": {"N": {1, 2}}}, "dims.N: a set cannot be part of a spec; use numbers, strings, lists"),
    ],
    ids=["unknown dim", "unknown key", "reference", "empty range", "set"],
)
def test_errors_are_those_of_a_file(keys: dict, fault: str) -> None:
    assert any(fault.split(";")[0] in text for text in refused(**keys)), refused(**keys)


def test_every_error_is_reported_at_once() -> None:
    assert len(refused(dims={"N": "1..0"}, outputs={"y": ["M"]}, compute="float31")) == 3


def test_the_reference_may_be_any_callable() -> None:
    """A lambda, a nested function and a method: nothing is loaded from a file."""

    class Scale:
        def by_two(self, x):
            return 2 * x

    for reference in (lambda x: 2 * x, Scale().by_two):
        (case,) = kcheck.cases(made(reference=reference), count=1)
        assert case.judge(2 * case.inputs["x"]).passed


def test_values_from_a_python_function() -> None:
    def ones(rng, shape, dtype):
        return np.ones(shape, dtype)

    (case,) = kcheck.cases(made(inputs={"x": {"shape": ["N"], "values": {"from": ones}}}), count=1)
    assert (case.inputs["x"] == 1).all()


def test_a_spec_without_a_kernel_cannot_be_checked_by_kcheck() -> None:
    with pytest.raises(kcheck.UserError, match=r"'double' has no kernel; add kernel= and launch=, or run the op"):
        kcheck.check(made())


def test_keys_of_a_file_can_be_replaced() -> None:
    spec = kcheck.load_spec("specs/softmax.yaml", dims={"M": [3], "N": [4]}, dtypes=["float32"], examples=[])
    (case,) = kcheck.cases(spec, count=1)
    assert (spec.op, dict(case.dims)) == ("softmax", {"M": 3, "N": 4})


def test_a_replaced_kernel_is_compared_with_the_launch() -> None:
    """A kernel with another number of parameters is refused where it was passed."""
    with pytest.raises(kcheck.SpecError, match=r"takes 1 argument, but args has 2"):
        kcheck.load_spec("specs/softmax.yaml", kernel=lambda x: None)


def test_a_missing_file_is_a_spec_error(tmp_path: Path) -> None:
    with pytest.raises(kcheck.SpecError, match="cannot be read: No such file"):
        kcheck.load_spec(tmp_path / "none.yaml")
