"""From outcome to verdict: whose fault it is, what is found, what is said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracle_bench import Bench, invariant

from kcheck.errors import InternalError
from kcheck.model import DTYPES, Bounds, Finding, Outcome, Status
from kcheck.model.launch_facts import LaunchFacts
from kcheck.oracle import judge

DOUBLE = "def ref(x):\n    return 2 * x\n"
X = np.array([1.0, -2.0, 3.0], np.float32)


def verdict(bench: Bench, source: str = DOUBLE, actual: Any = 2 * X, **options: Any) -> Any:
    spec = bench.spec(source, {"x": "float32"}, {"y": "float32"}, **options)
    arrays = bench.arrays(spec, {"x": X}, {"y": np.shape(actual)})
    return judge(spec, arrays, bench.outcome(arrays, {"y": actual}))


def test_a_right_output_passes(bench: Bench) -> None:
    """Equal to the reference: passed, with one comparison and no finding."""
    found = verdict(bench)
    assert found.status is Status.PASSED
    assert [c.output for c in found.comparisons] == ["y"]
    assert found.comparisons[0].method == "conditioned"
    assert found.findings == ()


def test_a_wrong_output_fails_with_its_place(bench: Bench) -> None:
    """One wrong element: failed; the comparison names it, its values, its error and its floor."""
    found = verdict(bench, actual=2 * X + np.float32([0, 0, 0.5]))
    assert found.status is Status.FAILED
    one = found.comparisons[0]
    assert (one.worst, one.actual, one.expected, one.error, one.beyond) == ((2,), 6.5, 6.0, 0.5, 1)
    assert 0 < one.floor < 1e-5
    assert one.allowed == pytest.approx(4 * one.floor)


@pytest.mark.parametrize(
    ("source", "message", "line"),
    [
        ("def ref(x):\n    y = x\n    return y['q']\n", "raised IndexError: only integers", 4),
        ("def ref(x):\n    raise SystemExit(3)\n", "raised SystemExit: 3", 3),
        ("def ref(x):\n    return {'z': x}\n", "returned 'z', which is not an output", 2),
        ("def ref(x):\n    return None\n", "returned None for output 'y'", 2),
        (
            "import numpy as np\ndef ref(x):\n    return 2 * x + 1e-9 * np.random.rand(*x.shape)\n",
            "the reference returns different results for the same inputs",
            3,
        ),
        ("def ref(x):\n    return x[:2]\n", "has shape [2], but the spec declares [3]", 2),
        ("def ref(x):\n    return x + 1j\n", "is complex128, but the spec declares float32", 2),
        ("def ref(x):\n    return ['a', 'b', 'c']\n", "is <U1, but the spec declares float32", 2),
        ("def ref(x):\n    return [[1], [1, 2]]\n", "is not an array", 2),
        ("def ref(x, sclae):\n    return x\n", "parameter 'sclae'", 2),
    ],
)
def test_a_reference_that_cannot_be_used_is_no_fault_of_the_kernel(
    bench: Bench, source: str, message: str, line: int
) -> None:
    """The case is an error whose finding names the reference's file and line."""
    found = verdict(bench, source)
    assert found.status is Status.ERROR
    finding = found.findings[0]
    assert finding.rule == "reference"
    assert message in finding.message
    assert (finding.place.file, finding.place.line) == ("references_1.py", line)


def test_a_reference_that_does_not_import_is_an_error(bench: Bench) -> None:
    """An ImportError of the reference's file is reported, not raised."""
    found = verdict(bench, "import no_such_module_here\ndef ref(x):\n    return x\n")
    assert found.status is Status.ERROR
    assert "no_such_module_here" in found.findings[0].message


@pytest.mark.parametrize(
    ("source", "fix"),
    [
        ("def ref(X):\n    return X\n", "did you mean 'x'?"),
        ("def ref(x):\n    return {'Y': x}\n", "did you mean 'y'?"),
        ("def ref(x):\n    return {'result': x}\n", "the outputs are y"),
        ("def ref(x):\n    return {'yy': x}\n", "did you mean 'y'?"),
    ],
)
def test_names_get_a_suggestion(bench: Bench, source: str, fix: str) -> None:
    """A parameter or output that names nothing is answered with the nearest name, or all of them."""
    assert verdict(bench, source).findings[0].fix == fix


@pytest.mark.parametrize(
    ("dtype", "source", "actual"),
    [
        ("int32", "x * 1.0", [1, 2]),
        ("int64", "x * 2.0**61", [2**61, 2**62]),
        ("uint64", "x * 2.0**62", [2**62, 2**63]),
        ("uint8", "(x * 127.5).astype(np.float16) // 1", [127, 255]),
        ("bool", "x - 1.0", [False, True]),
    ],
)
def test_whole_floats_of_a_reference_are_integers(
    bench: Bench, dtype: str, source: str, actual: list[int]
) -> None:
    """A reference of an integer or bool output may return floats that are whole numbers in range."""
    spec = bench.spec(f"import numpy as np\n\n\ndef ref(x):\n    return {source}\n", {"x": "int32"}, {"y": dtype})
    arrays = bench.arrays(spec, {"x": [1, 2]}, {"y": (2,)})
    assert judge(spec, arrays, bench.outcome(arrays, {"y": actual})).status is Status.PASSED
    wrong = [actual[0], actual[1] - 1]
    assert judge(spec, arrays, bench.outcome(arrays, {"y": wrong})).status is Status.FAILED


@pytest.mark.parametrize(
    ("dtype", "source", "what", "fix"),
    [
        ("int32", "x * 0.5", "y[0] is 0.5", "whole numbers from -2147483648 to 2147483647"),
        ("int32", "x / (x - 2)", "y[1] is inf", "whole numbers from -2147483648 to 2147483647"),
        ("int64", "x * 2.0**62", "y[1] is 9.223372036854776e+18", f"to {2**63 - 1}"),
        ("uint8", "x - 2.0", "y[0] is -1.0", "whole numbers from 0 to 255"),
        ("bool", "x * 1.0", "y[1] is 2.0", "whole numbers from 0 to 1"),
    ],
)
def test_any_other_float_of_an_integer_output_is_an_error_that_names_the_element(
    bench: Bench, dtype: str, source: str, what: str, fix: str
) -> None:
    """An integer output compares exactly: fractions, NaN and numbers out of range have no integer."""
    spec = bench.spec(f"def ref(x):\n    return {source}\n", {"x": "int32"}, {"y": dtype})
    arrays = bench.arrays(spec, {"x": [1, 2]}, {"y": (2,)})
    found = judge(spec, arrays, bench.outcome(arrays, {"y": [1, 1]}))
    assert found.status is Status.ERROR
    assert found.findings[0].message == f"the reference's {what}, but the spec declares {dtype}"
    assert found.findings[0].fix.endswith(fix)


def test_the_reference_is_given_float64_copies(bench: Bench) -> None:
    """Floats arrive as float64 copies, integers as they are, params rounded to their dtype, dims as int."""
    source = """
        def ref(x, h, k, flag, scale, N):
            assert x.dtype == h.dtype == np.float64 and k.dtype == np.int8 and flag.dtype == bool
            assert type(scale) is float and scale == float(np.float32(0.1)) and type(N) is int and N == 3
            x += 1
            return x - 1 + scale
    """
    inputs = {"x": "float32", "h": "bfloat16", "k": "int8", "flag": "bool"}
    spec = bench.spec(source, inputs, {"y": "float32"}, params={"scale": "float32"})
    values = {"x": X, "h": X, "k": [1, 2, 3], "flag": [True, False, True], "scale": 0.1}
    arrays = bench.arrays(spec, values, {"y": (3,)}, N=3)
    found = judge(spec, arrays, bench.outcome(arrays, {"y": X + np.float32(0.1)}))
    assert found.status is Status.PASSED, found
    assert np.array_equal(arrays.allocation("x").view(), X)


@pytest.mark.parametrize(
    "signature",
    ["x, k=5", "x, /", "*args, x", "**given", "x, **given"],
    ids=lambda text: text.replace("*", "+"),
)
def test_signatures(bench: Bench, signature: str) -> None:
    """Defaults, positional-only, and gathered parameters are called as Python means them."""
    body = "given['x']" if signature == "**given" else "x"
    assert verdict(bench, f"def ref({signature}):\n    return 2 * {body}\n").status is Status.PASSED


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_subnormal_numbers_may_become_zero_where_the_framework_flushes_them(bench: Bench, dtype: str) -> None:
    """Both in the results and in the numbers that they are computed of; a normal number may not."""
    smallest = DTYPES[dtype].smallest_normal
    spec = bench.spec("def ref(x):\n    return x * x * 4\n", {"x": dtype}, {"y": dtype})
    root = np.sqrt(np.float64(smallest))
    arrays = bench.arrays(spec, {"x": np.array([root / 4, root * 0.75, root * 2, 1.0])}, {"y": (4,)})
    x = np.float64(arrays.allocation("x").view())
    y = 4 * x * x  # the first is subnormal; the square of the second is, but not its result
    for flushed, passes, without in (
        ([0], True, False),
        ([0, 1], True, False),
        ([2], False, False),
        ([], True, True),
    ):
        actual = np.where(np.isin(np.arange(4), flushed), 0, y)
        for flushes, expected in ((True, passes), (False, without)):
            found = judge(spec, arrays, bench.outcome(arrays, {"y": actual}, flushes=flushes))
            assert (found.status is Status.PASSED) is expected, (flushed, flushes, found)


def test_warnings_of_a_reference_are_kept_quiet(bench: Bench) -> None:
    """Overflow, division by zero and the mean of nothing neither print nor raise (warnings are errors here)."""
    source = """
        def ref(x):
            np.array([]).mean()
            return np.log(0 * x) / 0 * 1e308 * np.float64(1e308) + np.array([1.0]) / 0
    """
    found = verdict(bench, source, actual=np.full(3, np.nan))
    assert found.status is Status.PASSED, found


@pytest.mark.parametrize(
    "result", ["{'n': np.array(3), 'y': x}", "(x, np.array(3))", "[x, 3]", "np.broadcast_arrays(x, 3)[0], 3"]
)
def test_several_outputs_are_a_dict_by_name_or_a_tuple_in_order(bench: Bench, result: str) -> None:
    """The order is that of the spec."""
    spec = bench.spec(f"def ref(x):\n    return {result}\n", {"x": "float32"}, {"y": "float32", "n": "int32"})
    arrays = bench.arrays(spec, {"x": X}, {"y": (3,), "n": ()})
    assert judge(spec, arrays, bench.outcome(arrays, {"y": X, "n": 3})).status is Status.PASSED
    wrong = judge(spec, arrays, bench.outcome(arrays, {"y": X + 1, "n": 3}))
    assert [comparison.passed for comparison in wrong.comparisons] == [False, True]


@pytest.mark.parametrize(
    ("result", "message", "fix"),
    [
        ("{'y': x}", "the reference did not return the output 'n'", "return every declared output"),
        (
            "x",
            "the reference returned a value of type ndarray for 2 outputs",
            "a tuple in the order y, n, or a dict",
        ),
        ("None", "the reference returned nothing for 2 outputs", "a tuple in the order y, n, or a dict"),
        ("(x,)", "the reference returned 1 value for 2 outputs", "a tuple in the order y, n, or a dict"),
        ("(x, 3, x)", "the reference returned 3 values for 2 outputs", "a tuple in the order y, n, or a dict"),
        ("3, x", "the reference's 'y' has shape [], but the spec declares [3]", "return an array of shape [3]"),
    ],
)
def test_another_number_of_outputs_is_an_error_of_the_reference(
    bench: Bench, result: str, message: str, fix: str
) -> None:
    spec = bench.spec(f"def ref(x):\n    return {result}\n", {"x": "float32"}, {"y": "float32", "n": "int32"})
    arrays = bench.arrays(spec, {"x": X}, {"y": (3,), "n": ()})
    found = judge(spec, arrays, bench.outcome(arrays, {"y": X, "n": 3}))
    assert found.status is Status.ERROR
    assert found.findings[0].message == message
    assert fix in found.findings[0].fix


@pytest.mark.parametrize(
    ("result", "shape"),
    [("2 * x,", (3,)), ("x.sum() * 2,", (1,)), ("(2 * x).tolist()", (3,)), ("2 * x[:1],", (1,))],
)
def test_one_output_may_be_a_tuple_of_one(bench: Bench, result: str, shape: tuple[int, ...]) -> None:
    """A tuple of numbers is an array of them."""
    spec = bench.spec(f"def ref(x):\n    return {result}\n", {"x": "float32"}, {"y": "float32"})
    arrays = bench.arrays(spec, {"x": X}, {"y": shape})
    y = 2 * X if shape == (3,) else 2 * X[:1] if "[:1]" in result else np.reshape(2 * X.sum(), 1)
    assert judge(spec, arrays, bench.outcome(arrays, {"y": y})).status is Status.PASSED


@pytest.mark.parametrize(("level", "status"), [("error", "failed"), ("warn", "passed"), ("off", "passed")])
def test_sanitizers_have_the_level_that_the_spec_gives(bench: Bench, level: str, status: str) -> None:
    """`sanitize` makes a race an error, a warning, or nothing."""
    spec = bench.spec(DOUBLE, {"x": "float32"}, {"y": "float32"}, sanitize={"racecheck": level})
    arrays = bench.arrays(spec, {"x": X}, {"y": (3,)})
    outcome = bench.outcome(arrays, {"y": 2 * X}, findings=(Finding("racecheck", "a race"),))
    found = judge(spec, arrays, outcome)
    assert found.status == status
    assert [f.severity for f in found.findings] == ([] if level == "off" else [level])


@pytest.mark.parametrize("level", ["error", "warn"])
def test_a_sanitizer_s_warning_stays_one(bench: Bench, level: str) -> None:
    """A race of equal values is a warning where races are errors: a level never raises what was found."""
    spec = bench.spec(DOUBLE, {"x": "float32"}, {"y": "float32"}, sanitize={"racecheck": level})
    arrays = bench.arrays(spec, {"x": X}, {"y": (3,)})
    race = Finding("racecheck", "two threads write the same value", severity="warn")
    found = judge(spec, arrays, bench.outcome(arrays, {"y": 2 * X}, findings=(race,)))
    assert (found.status, found.findings) == (Status.PASSED, (race,))


NARROW = frozenset({"16-bit"})


def test_rounding_to_16_bits_on_the_way_is_told_from_a_bug(bench: Bench) -> None:
    """A float16 product that is rounded before its sum fails, with a note that says what to change. A wrong sum
    has no note, nor has a kernel that does no arithmetic in float16, nor a spec that says what its kernel
    computes in."""
    source = "def ref(a, x, y):\n    return a * x + y\n"
    types = {"a": "float16", "x": "float16", "y": "float16"}
    a, x, y = (np.float16([value] * 3) for value in (0.1, 1.7, -0.187))
    for actual, compute, narrow, status, notes in (
        (a * x + y, None, NARROW, Status.FAILED, 1),
        (a * x + y, None, None, Status.FAILED, 1),
        (a * x + y, None, frozenset(), Status.FAILED, 0),
        (a * x + y, "float16", NARROW, Status.PASSED, 0),
        (a * x - y, None, NARROW, Status.FAILED, 0),
        (a * x + y + np.float16(0.001), None, NARROW, Status.FAILED, 0),
    ):
        spec = bench.spec(source, types, {"out": "float16"}, compute=compute)
        arrays = bench.arrays(spec, {"a": a, "x": x, "y": y}, {"out": (3,)})
        found = judge(spec, arrays, bench.outcome(arrays, {"out": actual}, facts=LaunchFacts(None, narrow)))
        assert found.status is status
        assert len(found.notes) == notes
        assert all(note.startswith("op: out is within") for note in found.notes)
        assert all(note.endswith("or set 'compute: float16'") for note in found.notes)


@pytest.mark.parametrize(
    ("narrow", "first", "terms", "notes"),
    [
        pytest.param({"16-bit sums"}, 0, 64, 1, id="sums in float16"),
        pytest.param({"16-bit"}, 0, 64, 0, id="only other arithmetic is in float16"),
        pytest.param({"16-bit sums"}, 0, 48, 0, id="a tile of terms is left out"),
        pytest.param({"16-bit sums"}, 60_000, 64, 1, id="a sum overflows on its way"),
    ],
)
def test_matrix_products_that_are_summed_in_float16_are_told_from_a_bug(
    bench: Bench, narrow: set[str], first: float, terms: int, notes: int
) -> None:
    """Their errors grow with the number of terms, so the note does not ask how large they are."""
    generator = np.random.default_rng(0)
    a, b = (generator.standard_normal(shape).astype(np.float16) for shape in ((8, 64), (64, 8)))
    if first:
        a[0, :4], b[:4, 0] = 1, (first, first, -first, -first)
    total = np.zeros((8, 8), np.float16)
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(terms):
            total = total + a[:, k : k + 1] * b[k : k + 1]
    spec = bench.spec("def ref(a, b):\n    return a @ b\n", {"a": "float16", "b": "float16"}, {"y": "float16"})
    arrays = bench.arrays(spec, {"a": a, "b": b}, {"y": (8, 8)})
    found = judge(spec, arrays, bench.outcome(arrays, {"y": total}, facts=LaunchFacts(None, frozenset(narrow))))
    assert found.status is Status.FAILED
    assert [note.partition(": sum matrix products in float32")[0] for note in found.notes] == [
        "op: y is within the rounding of float16 arithmetic"
    ] * notes


TF32 = frozenset({"tf32"})


def cut_to_tf32(array: Any) -> Any:
    """float32 without its last 13 bits, as a tensor core reads it."""
    return (np.asarray(array, np.float32).view(np.uint32) & 0xFFFFE000).view(np.float32)


@pytest.mark.parametrize(
    ("formats", "compute", "status"),
    [
        (TF32, None, Status.PASSED),
        (TF32, "float32", Status.FAILED),
        (frozenset(), None, Status.FAILED),
        (None, None, Status.FAILED),
        (frozenset(), "tf32", Status.PASSED),
    ],
)
def test_products_in_tf32_are_allowed_where_the_kernel_has_them_or_the_spec_says_so(
    bench: Bench, formats: Any, compute: str | None, status: Status
) -> None:
    """Positive terms, whose truncations add up. Another tile of the sum left out fails all the same."""
    generator = np.random.default_rng(1)
    a, b = (generator.random(shape, np.float32) for shape in ((8, 512), (512, 8)))
    types = {"a": "float32", "b": "float32"}
    spec = bench.spec("def ref(a, b):\n    return a @ b\n", types, {"y": "float32"}, compute=compute)
    arrays = bench.arrays(spec, {"a": a, "b": b}, {"y": (8, 8)})
    product = cut_to_tf32(a).astype(np.float64) @ cut_to_tf32(b).astype(np.float64)
    found = judge(spec, arrays, bench.outcome(arrays, {"y": product}, facts=LaunchFacts(None, formats)))
    assert found.status is status
    assert any("TF32" in note for note in found.notes) is (formats == TF32 and compute is None)
    short = a[:, :-4].astype(np.float64) @ b[:-4].astype(np.float64)
    assert (
        judge(spec, arrays, bench.outcome(arrays, {"y": short}, facts=LaunchFacts(None, formats))).status
        is Status.FAILED
    )


def test_an_unwritten_element_fails_once(bench: Bench) -> None:
    """Its own finding fails the case; it is not the worst mismatch and breaks no invariant."""
    spec = bench.spec(
        DOUBLE, {"x": "float32"}, {"y": "float32"}, invariants=(invariant("expression", text="y < 100"),)
    )
    arrays = bench.arrays(spec, {"x": X}, {"y": (3,)})
    unwritten = {"y": np.array([False, True, False])}
    finding = Finding("unwritten", "1 element", array="y", index=(1,))
    outcome = bench.outcome(arrays, {"y": [2, 1e9, 6]}, unwritten=unwritten, findings=(finding,))
    found = judge(spec, arrays, outcome)
    assert found.status is Status.FAILED
    assert found.findings == (finding,)
    assert found.comparisons[0].passed
    assert "never written" in found.notes[0]


def test_a_launch_that_did_not_end_is_not_compared(bench: Bench) -> None:
    """With no outputs the launch's finding fails the case, and the reference is not even loaded."""
    spec = bench.spec("raise RuntimeError\n", {"x": "float32"}, {"y": "float32"})
    arrays = bench.arrays(spec, {"x": X}, {"y": (3,)})
    found = judge(spec, arrays, Outcome(arrays.case, "simulator", {}, {}, (Finding("launch", "it raised"),)))
    assert found.status is Status.FAILED
    assert found.comparisons == ()
    with pytest.raises(InternalError, match="no output"):
        judge(spec, arrays, Outcome(arrays.case, "simulator", {}, {}))


def test_calibrated_says_what_to_do_instead(bench: Bench) -> None:
    """Without an envelope for the output's dtype the case is an error with the fix; integers stay exact."""
    found = verdict(bench, tolerance="calibrated")
    assert found.status is Status.ERROR
    assert found.findings[0].fix == "run: kcheck calibrate specs/op.yaml"
    spec = bench.spec("def ref(x):\n    return x\n", {"x": "int32"}, {"y": "int32"}, tolerance="calibrated")
    arrays = bench.arrays(spec, {"x": [1]}, {"y": (1,)})
    assert judge(spec, arrays, bench.outcome(arrays, {"y": [1]})).status is Status.PASSED


def test_forbidden_nan_in_the_reference_is_the_specs_fault(bench: Bench) -> None:
    """`nan: forbid` with a reference that is NaN is an error that names the element."""
    found = verdict(bench, "def ref(x):\n    return np.sqrt(x)\n", actual=np.sqrt(np.abs(X)), nan="forbid")
    assert found.status is Status.ERROR
    assert found.findings[0].index == (1,)


@pytest.mark.parametrize(
    ("written", "passes"),
    [({}, True), ({"float32": Bounds(0.0, 0.0)}, False), ({"float16": Bounds(1.0, 0.0)}, True)],
)
def test_fixed_tolerances_fill_in_what_is_not_written(
    bench: Bench, written: dict[str, Bounds], passes: bool
) -> None:
    """A dtype that is not written out takes the default; one that is takes what is written."""
    found = verdict(bench, actual=2 * X * np.float32(1 + 5e-6), tolerance=written)
    assert found.comparisons[0].method == "fixed"
    assert (found.status is Status.PASSED) is passes


@pytest.mark.parametrize("nan", ["match", "ignore"])
def test_signalling_nans_are_read_quietly(bench: Bench, nan: str) -> None:
    """An output or input full of signaling NaNs raises no warning, it fails."""
    signaling = np.full(3, 0x7F800001, np.uint32).view(np.float32)
    spec = bench.spec(DOUBLE, {"x": "float32"}, {"y": "float32"}, nan=nan, invariants=(invariant("finite"),))
    arrays = bench.arrays(spec, {"x": X}, {"y": (3,)})
    outcome = Outcome(arrays.case, "simulator", {"y": signaling}, {})
    assert judge(spec, arrays, outcome).status is Status.FAILED
