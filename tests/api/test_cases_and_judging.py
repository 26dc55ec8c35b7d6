"""``kcheck.cases``, ``validate`` and ``assert_close``: the caller runs the op, kcheck judges."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import kcheck


def reference(x, w):
    return {"y": x * w, "total": (x * w).sum(axis=-1)}


@pytest.fixture(scope="module")
def spec() -> kcheck.Spec:
    return kcheck.Spec(
        "weighted",
        dims={"M": range(1, 9), "N": range(1, 33)},
        inputs={"x": {"shape": ["M", "N"], "layouts": ["contiguous", "strided", "reversed"]}, "w": ["M", "N"]},
        outputs={"y": ["M", "N"], "total": ["M"]},
        reference=reference,
    )


def test_a_correct_op_passes_every_case(spec: kcheck.Spec) -> None:
    for case in kcheck.cases(spec, count=20):
        y = case.inputs["x"] * case.inputs["w"]
        verdict = case.judge({"y": y, "total": y.sum(axis=-1)})
        assert verdict.passed, verdict


def test_outputs_may_be_a_tuple_in_order(spec: kcheck.Spec) -> None:
    for case in kcheck.cases(spec, count=3):
        y = case.inputs["x"] * case.inputs["w"]
        assert case.judge((y, y.sum(axis=-1))).passed


def test_a_reference_may_return_a_tuple_in_the_order_of_the_outputs() -> None:
    """As the op may. The noise floor of each output is that of its own element of the tuple."""
    spec = kcheck.Spec(
        "spread",
        dims={"N": range(1, 65)},
        inputs={"x": ["N"]},
        outputs={"largest": [], "total": {"shape": [], "dtype": "float32"}},
        reference=lambda x: (x.max(), x.sum()),
    )
    for case in kcheck.cases(spec, count=20):
        x = case.inputs["x"]
        assert case.judge((x.max(), x[::-1].sum())).passed
        assert not case.judge((x.max() + 1, x.sum())).passed
    swapped = kcheck.case_of(spec, seed=next(c.seed for c in kcheck.cases(spec, count=9) if c.dims["N"] > 3))
    x = swapped.inputs["x"]
    assert [c.passed for c in swapped.judge((x.sum(), x.max())).comparisons] == [False, False]


def test_validate_takes_a_tuple_of_outputs_in_the_order_of_the_reference() -> None:
    x = np.linspace(1, 2, 7, dtype=np.float32)
    assert kcheck.validate("both", {"x": x}, (x * 2, x.sum()), lambda x: (x * 2, x.sum())).passed
    wrong = kcheck.validate("both", {"x": x}, (x * 2, x.sum() * 2), lambda x: [2 * x, x.sum()])
    assert [(c.output, c.passed) for c in wrong.comparisons] == [("output_0", True), ("output_1", False)]
    short = kcheck.validate("both", {"x": x}, (x * 2, x[:3]), lambda x: (2 * x, x))
    assert short.findings[0].message == "the output output_1 has shape [3], but the reference returned [7]"
    lost = kcheck.validate("both", {"x": x}, (x, x), lambda x: (x, x, x))
    assert lost.findings[0].message == "the reference returned 3 values for 2 outputs"


def exponential(x):
    return np.exp(x - x.max())


def flushed(y: np.ndarray) -> np.ndarray:
    """As JAX and TensorFlow compute on a CPU."""
    return np.where(np.abs(y) < np.finfo(y.dtype).tiny, 0, y).astype(y.dtype)


def test_an_output_with_flushed_subnormals_passes_if_it_is_said_and_otherwise_a_note_says_how() -> None:
    """np.asarray(y) of a JAX array has lost where it is from."""
    x = np.linspace(-95, 0, 40, dtype=np.float32)
    given = ("exp", {"x": x}, flushed(exponential(x)), exponential)
    assert kcheck.validate(*given, flushes_subnormals=True).passed
    told = kcheck.validate(*given)
    assert told.rule == "mismatch"
    assert told.notes == (
        "exp: output would pass if subnormal numbers were flushed to 0: if JAX or TensorFlow computed it on a CPU"
        ", pass their array itself, or flushes_subnormals=True",
    )
    kcheck.assert_close(given[2], reference=exponential, inputs={"x": x}, flushes_subnormals=True)
    with pytest.raises(AssertionError) as refused:
        kcheck.assert_close(given[2], reference=exponential, inputs={"x": x})
    assert "flushes_subnormals=True" in str(refused.value).replace("\n             ", " ")
    spec = kcheck.Spec(
        "scale",
        dims={"N": [64]},
        inputs={"x": {"shape": ["N"], "values": "subnormal"}},
        outputs={"y": ["N"]},
        reference=lambda x: 4 * x,
    )
    for case in kcheck.cases(spec, count=3):
        y = flushed(4 * flushed(case.inputs["x"]))
        assert case.judge(y, flushes_subnormals=True).passed
        assert "subnormal" in case.judge(y).notes[0]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda y: np.where(np.arange(40) == 39, 2, flushed(y)).astype(np.float32),
        lambda y: np.zeros_like(y),
        lambda y: y * np.float32(1.001),
    ],
    ids=["and something else", "zeros", "no subnormal lost"],
)
def test_what_flushing_does_not_explain_gets_no_note_and_fails_although_it_is_allowed(wrong) -> None:
    x = np.linspace(-95, 0, 40, dtype=np.float32)
    y = wrong(exponential(x))
    assert kcheck.validate("exp", {"x": x}, y, exponential).notes == ()
    assert not kcheck.validate("exp", {"x": x}, y, exponential, flushes_subnormals=True).passed


def test_subnormals_are_not_flushed_where_the_caller_says_so() -> None:
    """flushes_subnormals=False holds for arrays of JAX, too, as on a GPU."""
    kind = type("Array", (np.ndarray,), {"__module__": "jaxlib._jax"})
    x = np.linspace(-95, 0, 40, dtype=np.float32)
    y = flushed(exponential(x)).view(kind)
    assert kcheck.validate("exp", {"x": x}, y, exponential).passed
    assert kcheck.validate("exp", {"x": x.view(kind)}, np.asarray(y), exponential).passed
    assert not kcheck.validate("exp", {"x": x}, y, exponential, flushes_subnormals=False).passed


def test_derivatives_are_judged_with_the_outputs(spec: kcheck.Spec) -> None:
    """c is drawn for each output; the derivative of sum(y * c) + sum(total * c) by x is (c_y + c_total) * w."""
    for case in kcheck.cases(spec, count=3):
        x, w = case.inputs["x"], case.inputs["w"]
        c = case.cotangents
        assert {name: array.shape for name, array in c.items()} == {"y": x.shape, "total": x.shape[:1]}
        y, upstream = x * w, c["y"] + c["total"][:, None]
        assert case.judge((y, y.sum(axis=-1)), gradients={"x": upstream * w, "w": upstream * x}).passed
        wrong = case.judge((y, y.sum(axis=-1)), gradients={"x": upstream * w, "w": c["y"] * x})
        assert (wrong.rule, wrong.findings[0].array) == ("gradient", "w")
        transposed = case.judge((y, y.sum(axis=-1)), gradients={"x": np.float64(upstream * w)})
        assert "the derivative by x is float64" in str(transposed)
    with pytest.raises(
        kcheck.UserError, match="'v' is not a floating-point input; the floating-point inputs are x, w"
    ):
        case.judge((y, y.sum(axis=-1)), gradients={"v": x})


def test_an_op_may_write_to_the_outputs_of_the_case(spec: kcheck.Spec) -> None:
    for case in kcheck.cases(spec, count=3):
        np.multiply(case.inputs["x"], case.inputs["w"], out=case.outputs["y"])
        case.outputs["total"][...] = case.outputs["y"].sum(axis=-1)
        assert case.judge().passed


def test_an_output_that_was_not_written_is_wrong(spec: kcheck.Spec) -> None:
    case = next(kcheck.cases(spec, count=1))
    np.multiply(case.inputs["x"], case.inputs["w"], out=case.outputs["y"])
    assert case.judge().rule == "mismatch"


@pytest.fixture
def one(spec: kcheck.Spec) -> kcheck.Case:
    return kcheck.case_of(spec, seed=3)


def right(case: kcheck.Case) -> dict:
    y = np.asarray(case.inputs["x"] * case.inputs["w"])
    return {"y": y, "total": y.sum(axis=-1)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda out: {"y": out["y"]}, "the output total is missing"),
        (lambda out: {**out, "totals": out["total"]}, "'totals' is not an output of the spec"),
        (lambda out: out["y"], "1 value was returned, but the spec declares 2 outputs (y, total)"),
        (
            lambda out: {**out, "total": out["total"][None]},
            "the output total has shape [1, 3], but the spec declares [3]",
        ),
        (
            lambda out: {**out, "y": out["y"].astype("f8")},
            "the output y is float64, but the spec declares float32",
        ),
        (lambda out: {**out, "y": object()}, "the output y is a object, not an array; pass an array or a number"),
        (lambda out: None if out is None else (), "0 values were returned"),
    ],
    ids=["missing", "unknown", "one of two", "shape", "dtype", "no array", "empty"],
)
def test_what_is_not_an_output_is_a_finding(spec: kcheck.Spec, change, message: str) -> None:
    case = next(case for case in kcheck.cases(spec, count=100) if case.dims["M"] == 3)
    verdict = case.judge(change(right(case)))
    assert not verdict.passed
    assert verdict.rule == "output"
    assert message in str(verdict).replace("\n             ", " ")


def test_a_changed_input_is_a_finding(one: kcheck.Case) -> None:
    out = right(one)
    one.inputs["w"][0, 0] += 1
    verdict = one.judge(out)
    assert [finding.rule for finding in verdict.findings] == ["mutated"]


def test_a_write_between_the_elements_of_a_strided_input_is_a_finding(spec: kcheck.Spec) -> None:
    case = next(case for case in kcheck.cases(spec, count=50) if case.layouts["x"] == "strided")
    out = right(case)
    x = case.inputs["x"]
    np.lib.stride_tricks.as_strided(x, (x.size,), (x.itemsize,))[:2] = 7  # as a kernel that ignores strides does
    assert "guard" in [finding.rule for finding in case.judge(out).findings]


def test_the_same_seed_is_the_same_case(spec: kcheck.Spec) -> None:
    first, second = (kcheck.case_of(spec, seed=99) for _ in range(2))
    assert first.inputs["x"].tobytes() == second.inputs["x"].tobytes()
    assert first.id == second.id


def test_a_reference_that_raises_is_an_error_not_a_failure() -> None:
    def broken(x):
        raise ZeroDivisionError("no luck")

    verdict = kcheck.validate("op", {"x": np.ones(2)}, np.ones(2), broken)
    assert verdict.status == "error"
    assert "the reference raised ZeroDivisionError: no luck" in str(verdict)


def test_an_output_of_another_shape_than_the_references_is_a_failure_of_the_output() -> None:
    x = np.ones((5, 7), np.float32)
    verdict = kcheck.validate("double", {"x": x}, (x + x)[:4], lambda x: x + x)
    assert (verdict.status, verdict.rule) == ("failed", "output")
    assert verdict.findings[0].message == "the output output has shape [4, 7], but the reference returned [5, 7]"
    with pytest.raises(
        AssertionError, match=r"the output actual has shape \[\], but the reference returned \[7\]"
    ):
        kcheck.assert_close(x.sum(), reference=lambda x: x.sum(axis=0), inputs={"x": x})


@pytest.mark.parametrize("wrong", [False, True])
def test_a_ufunc_is_a_reference(wrong: bool) -> None:
    """NumPy's functions take their arguments by position only; the first is called x."""
    x = np.linspace(-3, 3, 50, dtype=np.float32)
    assert kcheck.validate("tanh", {"x": x}, np.tanh(x) + wrong, np.tanh).passed is not wrong
    spec = kcheck.Spec("tanh", dims={"N": [1, 9]}, inputs={"x": ["N"]}, outputs={"y": ["N"]}, reference=np.tanh)
    assert [case.judge(np.tanh(case.inputs["x"]) + wrong).passed for case in kcheck.cases(spec, count=2)] == [
        not wrong,
        not wrong,
    ]
    with pytest.raises(kcheck.SpecError, match="takes 'x', which kcheck does not pass"):
        kcheck.validate("tanh", {"input": x}, np.tanh(x), np.tanh)


def test_validate_takes_numbers_as_params() -> None:
    x = np.float32([1, 2, 3])
    verdict = kcheck.validate(
        "axpy", {"x": x, "a": 2.5, "n": 3}, x * np.float32(2.5) + 3, lambda x, a, n: a * x + n
    )
    assert verdict.passed, verdict


def test_validate_takes_the_keys_of_a_spec() -> None:
    x = np.float32([1, 2, 3])
    loose = {"float32": {"atol": 1, "rtol": 0}}
    assert kcheck.validate("op", {"x": x}, x + 0.5, lambda x: x, tolerance=loose).passed
    assert not kcheck.validate("op", {"x": x}, x + 0.5, lambda x: x).passed
    negative = kcheck.validate("op", {"x": -x}, -x, lambda x: x, invariants=[{"non_negative": "output"}])
    assert negative.rule == "invariant"


def test_a_sum_that_cancels_is_no_false_alarm_and_a_lost_term_is_found() -> None:
    """What a fixed tolerance cannot do: the error of a cancelling sum is larger than the smallest of its terms."""
    x = kcheck.values("cancelling", 4096, "float32", seed=5) * 1000
    total = np.float32(0)
    for term in x:
        total += term
    kcheck.assert_close(total, reference=lambda x: x.sum(), inputs={"x": x})
    x = np.full(64, 0.125, np.float32)
    with pytest.raises(AssertionError, match="not close"):
        kcheck.assert_close(x[:-1].sum(), reference=lambda x: x.sum(), inputs={"x": x})


@pytest.mark.parametrize(
    ("dtype", "near", "far"),
    [("float64", 1e-11, 1e-9), ("float32", 1e-6, 1e-4), ("float16", 1e-3, 1e-1), ("bfloat16", 1e-2, 1e-1)],
)
def test_without_a_reference_the_tolerance_is_that_of_the_dtype(dtype: str, near: float, far: float) -> None:
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    expected = np.ones(8)
    kcheck.assert_close((expected * (1 + near)).astype(kind), expected)
    with pytest.raises(AssertionError, match="8 of 8 elements"):
        kcheck.assert_close((expected * (1 + far)).astype(kind), expected)


@pytest.mark.parametrize(
    ("actual", "expected", "message"),
    [
        (np.ones((2, 3)), np.ones((3, 2)), r"shape \[2, 3\], expected \[3, 2\]"),
        (np.array([1, 2]), np.array([1, 3]), r"actual\[1\]: 1 of 2 elements \(50%\)"),
        (np.array([1, 2]), np.array([1.0, 2.0]), "actual is int64, expected is float64"),
        (np.float32([1, np.nan]), np.float32([1, 2]), r"NaN where the\s+reference is finite"),
        (np.float32([np.inf]), np.float32([-np.inf]), r"infinite with\s+the wrong sign"),
    ],
    ids=["shape", "integers", "kind", "nan", "inf"],
)
def test_assert_close_says_what_differs(actual: np.ndarray, expected: np.ndarray, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        kcheck.assert_close(actual, expected)


def test_assert_close_needs_one_of_expected_and_reference() -> None:
    x = np.ones(2)
    for wrong in ({}, {"expected": x, "reference": lambda: x}):
        with pytest.raises(kcheck.UserError, match="either an expected array, or a reference"):
            kcheck.assert_close(x, **wrong)
    with pytest.raises(kcheck.UserError, match="a reference needs its inputs"):
        kcheck.assert_close(x, reference=lambda x: x)


def test_a_failing_verdict_shows_the_worst_elements_and_a_map() -> None:
    x = np.ones((4, 16), np.float32)
    wrong = x.copy()
    wrong[:, 12:] = 5
    text = str(kcheck.validate("op", {"x": x}, wrong, lambda x: x))
    assert text.splitlines()[:4] == [
        "op: failed",
        "  mismatch   output[1, 15]: 16 of 64 elements (25%) beyond tolerance",
        "  actual     5",
        "  expected   1",
    ]
    assert text.count("············████") == 4
    assert max(map(len, text.splitlines())) <= 80
