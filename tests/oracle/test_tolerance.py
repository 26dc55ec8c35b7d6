"""The noise floor: no false alarm on hard data, no miss on benign data, for classics and their clean twins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle_bench import Bench
from scipy import special

from kcheck.model import Status
from kcheck.oracle import judge
from kcheck.oracle import noise as module

GENERATOR = np.random.default_rng(11)
DATA = {
    "normal": GENERATOR.normal(size=(6, 500)),
    "offset": 1000 + GENERATOR.normal(size=(6, 500)),
    "all_negative": -GENERATOR.uniform(0.5, 10, (6, 500)),
    "cancelling": np.concatenate(
        [1e4 + GENERATOR.normal(size=(6, 250)), -1e4 + GENERATOR.normal(size=(6, 250))], 1
    ),
}


def add(x: Any) -> Any:
    """A loop over the last axis, in the array's own precision."""
    total = np.zeros(x.shape[:-1], x.dtype)
    for k in range(x.shape[-1]):
        total = total + x[..., k]
    return total


def softmax(x: Any, pad: float) -> Any:
    wide = np.full((x.shape[0], 512), pad, x.dtype)
    wide[:, : x.shape[1]] = x
    e = np.exp(wide - wide.max(axis=1, keepdims=True))
    return (e / add(e)[:, None])[:, : x.shape[1]]


def matmul(x: Any, keep: int) -> Any:
    total = np.zeros((6, 6), x.dtype)
    for k in range(0, 500, 100):
        total = total * keep + x[:, k : k + 100] @ x[:, k : k + 100].T
    return total


def attention(x: Any, scale: float) -> Any:
    q = x[:, :32]
    scores = add(q[:, None] * q[None]) * x.dtype.type(scale)
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    return e / add(e)[:, None] @ x[:, 32:64]


def gelu(x: Any, half: float) -> Any:
    return x.dtype.type(half) * x * (1 + special.erf(x / x.dtype.type(np.sqrt(2))))


def rmsnorm(x: Any, count: int) -> Any:
    return x / np.sqrt(add(x * x) / x.dtype.type(count) + x.dtype.type(1e-6))[:, None]


SOFTMAX = "def ref(x):\n    e = np.exp(x - x.max(1, keepdims=True))\n    return e / e.sum(1, keepdims=True)\n"
ATTENTION = """
def ref(x):
    s = x[:, :32] @ x[:, :32].T / np.sqrt(32)
    e = np.exp(s - s.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True) @ x[:, 32:64]
"""
MATMUL = "def ref(x):\n    return x @ x.T\n"
GELU = "from scipy.special import erf\ndef ref(x):\n    return 0.5 * x * (1 + erf(x / np.sqrt(2)))\n"
RMSNORM = "def ref(x):\n    return x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6)\n"

CLASSICS: dict[str, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "softmax padded with 0": (SOFTMAX, lambda x: softmax(x, -np.inf), lambda x: softmax(x, 0.0)),
    "matmul acc = for acc +=": (
        "def ref(x):\n    return x @ x.T\n",
        lambda x: matmul(x, 1),
        lambda x: matmul(x, 0),
    ),
    "attention without its scale": (ATTENTION, lambda x: attention(x, 32**-0.5), lambda x: attention(x, 1.0)),
    "gelu without 0.5": (GELU, lambda x: gelu(x, 0.5), lambda x: gelu(x, 1.0)),
    "rmsnorm with the wrong count": (RMSNORM, lambda x: rmsnorm(x, 500), lambda x: rmsnorm(x, 512)),
    "sum without the tail": ("def ref(x):\n    return x.sum(1)\n", add, lambda x: add(x[:, :448])),
}


def status(
    bench: Bench, source: str, kernel: Callable[[Any], Any], x: Any, dtype: str = "float32", **options: Any
) -> Any:
    """The verdict on a kernel that computes in float32 and rounds its result to ``dtype``."""
    spec = bench.spec(source, {"x": dtype}, {"y": dtype}, **options)
    arrays = bench.arrays(spec, {"x": x}, {"y": (1,)})
    given = np.array(arrays.allocation("x").view())
    with np.errstate(all="ignore"):
        result = kernel(given.astype(np.float64 if dtype == "float64" else np.float32))
    arrays = bench.arrays(spec, {"x": x}, {"y": np.shape(result)})
    return judge(spec, arrays, bench.outcome(arrays, {"y": result}))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("classic", CLASSICS)
def test_a_correct_kernel_passes_on_hard_data(bench: Bench, classic: str, data: str, dtype: str) -> None:
    """Naive sequential sums raise no alarm, with an offset, with cancellation, in any dtype."""
    source, clean, _ = CLASSICS[classic]
    found = status(bench, source, clean, DATA[data], dtype)
    assert found.status is Status.PASSED, found


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("classic", CLASSICS)
def test_a_buggy_twin_fails_on_benign_data(bench: Bench, classic: str, dtype: str) -> None:
    """The twin that differs in one argument fails on normal data, also in 16 bits."""
    source, _, buggy = CLASSICS[classic]
    assert status(bench, source, buggy, DATA["normal"], dtype).status is Status.FAILED


@pytest.mark.parametrize("length", [33, 500])
def test_one_dropped_term_is_caught(bench: Bench, length: int) -> None:
    """A float32 sum that leaves out its last term fails, on normal data and with an offset of 1000."""
    for data in ("normal", "offset"):
        x = DATA[data][:, :length]
        source = "def ref(x):\n    return x.sum(1)\n"
        assert status(bench, source, lambda x: add(x[:, :-1]), x).status is Status.FAILED
        assert status(bench, source, add, x).status is Status.PASSED


def test_a_one_pass_variance_fails_where_it_loses_its_digits(bench: Bench) -> None:
    """E[x^2] - E[x]^2 passes on centered data and fails with an offset: it is less stable than the reference."""
    source = "def ref(x):\n    return x.var(1)\n"

    def one_pass(x: Any) -> Any:
        count = x.dtype.type(x.shape[1])
        return add(x * x) / count - (add(x) / count) ** 2

    assert status(bench, source, one_pass, DATA["normal"]).status is Status.PASSED
    assert status(bench, source, one_pass, DATA["offset"]).status is Status.FAILED


def test_overflow_on_the_way_is_counted_not_judged(bench: Bench) -> None:
    """x*x overflows in float32 and not in float64: what the kernel gives there is not judged, and counted."""
    source = "def ref(x):\n    return np.sqrt(x * x)\n"
    found = status(bench, source, lambda x: np.sqrt(x * x), np.array([1e30, 2.0]))
    assert found.status is Status.PASSED
    assert found.comparisons[0].not_judged == 1
    assert (
        status(bench, source, lambda x: np.sqrt(x * x) * np.float32(1.01), np.array([1e30, 2.0])).status
        == "failed"
    )


def test_compute_widens_what_is_accepted(bench: Bench) -> None:
    """Accumulating in float16 fails by default and passes where the spec says `compute: float16`."""
    source = "def ref(x):\n    return x.sum(1)\n"
    kernel = lambda x: add(x.astype(np.float16))  # noqa: E731
    assert status(bench, source, kernel, DATA["normal"], "float16").status is Status.FAILED
    assert status(bench, source, kernel, DATA["normal"], "float16", compute="float16").status is Status.PASSED


def test_a_reference_that_hides_its_operations_is_said_so(bench: Bench) -> None:
    """np.asarray drops the model: a sequential sum still passes, a dropped tail fails, and a note says why."""
    source = "def ref(x):\n    return np.asarray(x).sum(1)\n"
    hard = DATA["offset"]
    found = status(bench, source, add, hard)
    assert found.status is Status.PASSED
    assert "np.asarray" in " ".join(found.notes)
    assert status(bench, source, lambda x: add(x[:, :448]), hard).status is Status.FAILED


HIDDEN = {
    "assigned to a plain array": "p = np.zeros(x.shape)\n    p[:] = x * 1.1\n    return p.sum(1)",
    "assigned row by row": "p = np.zeros(x.shape)\n    for n in range(6): p[n] = x[n] * 1.1\n    return p.sum(1)",
    "an output of a ufunc": "p = np.empty(x.shape)\n    np.multiply(x, 1.1, out=p)\n    return p.sum(1)",
    "a new array": "return np.array([row * 1.1 for row in x]).sum(1)",
    "Python's floats": "return np.array([sum(row.tolist()) for row in x * 1.1])",
    "np.asarray of a result": "return np.asarray(x * 1.1).sum(1)",
}
"""References that sum up where roundings are not seen, after an operation that is."""


@pytest.mark.parametrize("name", HIDDEN)
def test_a_reference_that_leaves_the_model_on_the_way_raises_no_alarm(bench: Bench, name: str) -> None:
    """A sequential sum passes, and a note says that the estimate is coarse; a dropped tail fails, without it."""
    source = f"def ref(x):\n    {HIDDEN[name]}\n"
    x = 1000 + GENERATOR.normal(size=(6, 4000))
    found = status(bench, source, lambda x: add(x * np.float32(1.1)), x)
    assert found.status is Status.PASSED
    assert "more coarsely" in " ".join(found.notes)
    found = status(bench, source, lambda x: add(x[:, :3990] * np.float32(1.1)), x)
    assert (found.status, found.notes) == (Status.FAILED, ())


def test_a_plain_array_of_results_is_no_coarser_than_the_results(bench: Bench) -> None:
    """Each row is summed under the model: where that is enough, there is no note."""
    source = "def ref(x):\n    p = np.zeros(6)\n    for n in range(6): p[n] = x[n].sum()\n    return p\n"
    found = status(bench, source, add, DATA["offset"])
    assert (found.status, found.notes) == (Status.PASSED, ())


@pytest.mark.parametrize("body", ["x", "x.T", "x[:, :0] @ x[:0].T.reshape(0, 6)", "np.maximum(x, 0)", "x[[1, 0]]"])
def test_a_reference_that_rounds_nothing_hides_nothing(bench: Bench, body: str) -> None:
    """Copies, gathers, maxima and empty products have no roundings to estimate, and no note."""
    source = f"def ref(x):\n    return {body}\n"
    found = status(bench, source, lambda x: eval(body, {"x": x, "np": np}) + np.float32(1), DATA["normal"])
    assert found.status is Status.FAILED
    assert found.notes == ()


def test_a_reference_that_refuses_other_arrays_still_works(bench: Bench) -> None:
    """One that insists on exactly np.ndarray is evaluated on moved inputs."""
    source = "def ref(x):\n    assert type(x) is np.ndarray\n    return x * 3\n"
    assert status(bench, source, lambda x: x * 3, DATA["normal"]).status is Status.PASSED
    assert status(bench, source, lambda x: x * np.float32(3.0001), DATA["normal"]).status is Status.FAILED


def test_an_easy_case_calls_the_reference_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where every error is a rounding of the output, the floor is not evaluated; where not, it is, and bounded.

    A reference is called again in its first case, to see whether it repeats.
    """
    source = "from pathlib import Path\ndef ref(x):\n    Path(__file__).open('a').write('#')\n    return x * 3\n"
    for factor, most in ((3.0, 1), (4.0, 3 + module.DRAWS)):
        status(bench, source, lambda x, factor=factor: x * np.float32(factor), DATA["normal"])
        assert 1 <= (bench.root / f"references_{bench.files}.py").read_text().count("#") - 2 <= most


def test_the_same_case_is_judged_alike(bench: Bench) -> None:
    """Two judgments of one case are equal to the last digit of the floor."""
    source, _, buggy = CLASSICS["softmax padded with 0"]
    one, two = (status(bench, source, buggy, DATA["normal"]) for _ in range(2))
    assert one.comparisons == two.comparisons


def test_more_draws_never_narrow_the_floor(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The floor is a largest value: with more draws it grows or stays."""
    source, _, buggy = CLASSICS["sum without the tail"]
    few = status(bench, source, buggy, DATA["normal"]).comparisons[0]
    monkeypatch.setattr(module, "DRAWS", 16)
    many = status(bench, source, buggy, DATA["normal"]).comparisons[0]
    assert many.floor >= few.floor


def test_subnormal_outputs_have_a_floor(bench: Bench) -> None:
    """A float16 probability far below the normal range is off by half a subnormal step, which is no failure."""
    x = np.array([[0.0, -14.0, -15.5, -16.2]])
    found = status(bench, SOFTMAX, lambda x: np.exp(x - x.max()) / np.exp(x - x.max()).sum(), x, "float16")
    assert found.status is Status.PASSED


def test_an_independent_softmax_agrees(bench: Bench) -> None:
    """scipy.special.softmax in float64, rounded to float32, is within the floor of the written-out reference."""
    found = status(bench, SOFTMAX, lambda x: special.softmax(x.astype(np.float64), axis=1), DATA["cancelling"])
    assert found.status is Status.PASSED
