"""gpuemu's client over kcheck: each example of its API reference, its guide for kernel authors and its README."""

from __future__ import annotations

import doctest
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import kcheck
from kcheck.compat import gpuemu
from kcheck.compat.gpuemu.history import HISTORY
from kcheck.device.artifact import no_compiler

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this project, whose specs are ops, and with no results of other tests."""
    monkeypatch.chdir(ROOT)
    HISTORY.records.clear()
    HISTORY.waiting.clear()


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(np.float32(x) - np.float32(x).max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def gelu_reference(inputs: dict, **kwargs: object) -> np.ndarray:
    """As the guide writes references: of a dict."""
    x = inputs["x"]
    return 0.5 * x * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3)))


def gelu(x: np.ndarray) -> np.ndarray:
    """A correct op: it computes float16 in float32."""
    wide = np.float32(x)
    with np.errstate(over="ignore"):
        return np.float32(gelu_reference({"x": wide}))


def gelu_without_tail(x: np.ndarray) -> np.ndarray:
    """The last part of a tile of 64 is not written."""
    y = gelu(x)
    if y.shape[-1] % 64:
        y[..., y.shape[-1] // 64 * 64 :] = 0
    return y


@pytest.fixture
def client() -> gpuemu.Client:
    gpuemu.register("fused_gelu", reference=gelu_reference, inputs=["x"])
    return gpuemu.Client()


class Array:
    """An array of a framework that is not installed here: all that it has is DLPack."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = np.ascontiguousarray(array)

    def __dlpack__(self, **how: object) -> object:
        return self._array.__dlpack__(**how)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


# The API reference.


def test_ping_and_the_context_manager() -> None:
    with gpuemu.Client(socket_path=None, timeout_ms=30000) as client:
        assert client.ping() == "pong"
        assert set(client.ping()) == {"version", "protocol_version", "uptime_secs"}


def test_validate_op_get_result_and_list_results(client: gpuemu.Client) -> None:
    x = np.float32([[1, 2, 3], [0, 0, 0]])
    result = client.validate_op("softmax", inputs={"x": x}, output=softmax(x), dtype="float32", seed=7)
    assert (result.passed, result.seed, result.op_name, result.failures, result.repro_info) == (
        True, 7, "softmax", [], None,
    )  # fmt: skip
    assert result.max_diff < 1e-6
    assert result.max_rel_diff < 1e-6
    assert result.timestamp[:2] == "20"
    assert isinstance(result.duration_ms, int)
    assert client.get_result(7) is result
    assert client.get_result(8) is None
    wrong = client.validate_op("softmax", {"x": x}, softmax(x) * np.float32(1.01))
    assert not wrong.passed
    assert [each.seed for each in client.list_results(limit=1)] == [wrong.seed]
    assert client.list_failures() == [wrong]
    info = wrong.repro_info
    assert (info.shape, info.strides, info.dtype, info.layout) == ((2, 3), (12, 4), "float32", "contiguous")
    assert info.input_snapshot["x"].tolist() == x.tolist()


def test_the_quick_start_of_the_client(client: gpuemu.Client) -> None:
    def my_flash_attn(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
        return softmax(np.float32(q) @ np.float32(k).T / np.sqrt(np.float32(q.shape[1]))) @ np.float32(v)

    def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
        scores = q @ k.T / np.sqrt(q.shape[1])
        e = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True) @ v

    names = ["N", "D"]
    schema = {
        "name": "flash_attention",
        "dims": [{"name": "N", "candidates": [1, 7, 32]}, {"name": "D", "candidates": [8, 16]}],
        "inputs": [{"name": name, "dims": names} for name in "qkv"],
        "output": {"name": "o", "dims": names},
    }
    gpuemu.register("flash_attention", reference=reference)
    results = client.fuzz_op_client_side(
        "flash_attention",
        run_op=lambda inputs: my_flash_attn(inputs["q"], inputs["k"], inputs["v"]),
        iterations=5,
        seed=1,
        op_schema=schema,
        dtypes=["float32"],
        value_distribution="normal",
    )
    assert f"{results.passed}/{results.total}" == "5/5", results.failures


def test_linked_shapes_come_from_the_schema(client: gpuemu.Client) -> None:
    gpuemu.register("product", reference=lambda a, b: a @ b)
    schema = {
        "name": "product",
        "dims": [{"name": name, "candidates": [1, 3, 8]} for name in "MKN"],
        "inputs": [{"name": "a", "dims": ["M", "K"]}, {"name": "b", "dims": ["K", "N"]}],
        "output": {"name": "c", "dims": ["M", "N"]},
    }
    for case in client.get_test_batch("product", count=4, seed=5, op_schema=schema, dtypes=["float32"]):
        a, b = case["inputs"]["a"], case["inputs"]["b"]
        assert a.shape[1] == b.shape[0]
        assert client.submit_output("product", case["inputs"], a @ b, case["seed"]).passed


def test_fuzz_op_runs_what_can_be_run(client: gpuemu.Client) -> None:
    """The function of a spec, or one that is registered."""

    @kcheck.op(
        "late", dims={"N": range(1, 40)}, inputs={"x": ["N"]}, outputs={"y": ["N"]}, reference=lambda x: x + 1
    )
    def late(x: np.ndarray) -> np.ndarray:
        return x + (x.size < 9)

    gpuemu.register("late", late)
    results = client.fuzz_op("late", seed=12345, iterations=10)
    assert results.seed == 12345
    assert results.total == 10 == results.passed + results.failed
    assert 0 < results.failed == len(results.failures)
    for failure in results.failures:
        assert f"Seed {failure.seed}: {failure.failures[0]['message']}".count("beyond tolerance") == 1
    found = client.minimize(results.failures[0].seed)
    assert (found.original_seed, found.minimized_shape) == (results.failures[0].seed, (9,))
    assert not found.result.passed
    gpuemu.register("fused_gelu", reference=gelu_reference, inputs=["x"], run=lambda inputs: gelu(inputs["x"]))
    sizes = {"batch_sizes": [1, 2], "seq_lengths": [3], "hidden_dims": [5, 8]}
    results = client.fuzz_op("fused_gelu", iterations=4, seed=1, dtypes=["float32"], layouts=["Strided"], **sizes)
    assert (results.passed, results.total) == (4, 4), results.failures


def test_reproduce_runs_the_function_again(client: gpuemu.Client) -> None:
    results = client.fuzz_op_client_side("fused_gelu", lambda inputs: gelu_without_tail(inputs["x"]), 6, seed=42)
    assert results.failed
    repro = client.reproduce(results.failures[0].seed)
    assert repro.result.op_name == "fused_gelu"
    assert not repro.result.passed
    assert repro.inputs["x"].shape == results.failures[0].repro_info.shape
    with pytest.raises(gpuemu.ClientError, match="no result of this process has the seed 12"):
        client.reproduce(12)


def test_a_test_case_is_that_of_its_seed(client: gpuemu.Client) -> None:
    first, second = (client.get_test_case("softmax", seed=99) for _ in range(2))
    assert set(first) == {"seed", "inputs", "shape", "dtype", "layout"}
    assert first["seed"] == 99
    assert first["inputs"]["x"].tobytes() == second["inputs"]["x"].tobytes()
    assert client.submit_output("softmax", first["inputs"], softmax(first["inputs"]["x"]), first["seed"]).passed


def test_the_loop_over_a_batch(client: gpuemu.Client) -> None:
    for case in client.get_test_batch("softmax", count=5, seed=3):
        out = softmax(case["inputs"]["x"])
        assert client.submit_output("softmax", case["inputs"], out, case["seed"]).passed


@pytest.mark.parametrize("wrong", [False, True])
def test_the_context_manager_takes_the_name_of_the_op_alone(wrong: bool) -> None:
    x = np.float32([[1, 2, 3]])
    with gpuemu.validate_op("softmax", inputs={"x": x}, raise_on_failure=False) as ctx:
        output = softmax(x) + wrong
        ctx.set_output(output)
    assert ctx.result.passed is not wrong


def test_a_baseline_is_a_file(client: gpuemu.Client, project) -> None:
    with pytest.raises(gpuemu.ClientError, match="there are no results to save"):
        client.set_baseline("v1")
    client.validate_op("fused_gelu", {"x": np.float32([1, 2])}, gelu(np.float32([1, 2])))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project.root)
        written = client.store_baseline("v1")
        assert json.loads((project.root / written).read_text())["ops"]["fused_gelu"]["passed"] == 1
    with pytest.raises(gpuemu.ClientError, match="is not a valid tag"):
        client.set_baseline("../v1")


PTX = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry one(.param .u64 p) {
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [p];
    mov.u64 %rd2, 1;
    st.global.u64 [%rd1], %rd2;
    ret;
}
"""


@pytest.mark.skipif(bool(no_compiler()), reason="needs the assembler")
def test_the_kernels_of_a_ptx_text_are_measured(client: gpuemu.Client) -> None:
    (found,) = client.lint_kernel(PTX, "one")
    assert (found["kernel_name"], found["passed"], found["violations"]) == ("one", True, [])
    assert found["metrics"]["register_count"] > 0
    assert found["metrics"]["spill_count"] == 0


def test_shapes_dtypes_and_layouts(client: gpuemu.Client) -> None:
    shapes = gpuemu.fuzz_shapes(min_dims=2, max_dims=3, min_size=2, max_size=9)
    for shape in (next(shapes) for _ in range(20)):
        assert len(shape) in (2, 3)
        assert all(2 <= size <= 9 for size in shape)
    assert list(gpuemu.fuzz_dtypes()) == ["float32", "float16"]
    assert list(gpuemu.fuzz_dtypes(include=["float64", "int8"], exclude=["int8"])) == ["float64"]
    assert {"contiguous", "strided", "channels_last"} <= set(gpuemu.fuzz_layouts())
    for generator in (
        gpuemu.fuzz_shapes_seeded,
        gpuemu.fuzz_dtypes_seeded,
        gpuemu.fuzz_layouts_seeded,
        lambda seed: gpuemu.fuzz_layouts_seeded(seed, (2, 3, 4)),
        lambda seed: gpuemu.fuzz_shapes_seeded(seed, batch_sizes=[1, 2], seq_lengths=[64]),
    ):
        one, same, other = ([next(made) for _ in range(9)] for made in map(generator, (1, 1, 2)))
        assert one == same != other


def test_default_shapes_fit_into_memory() -> None:
    shapes = gpuemu.fuzz_shapes()
    assert max(int(np.prod(next(shapes))) for _ in range(50)) <= 2**20


def test_tensors_of_a_seed() -> None:
    tensor = gpuemu.generate_random_tensor(seed=3, shape=(4, 5), dtype="float32", domain=(-1.0, 1.0))
    assert tensor.tobytes() == gpuemu.generate_random_tensor(3, (4, 5)).tobytes()
    assert tensor.dtype == np.float32
    assert -1 <= tensor.min() < tensor.max() <= 1
    assert not np.array_equal(*(gpuemu.generate_random_tensor(3, (9,), domain=name) for name in ("a", "b")))
    assert set(gpuemu.generate_random_tensor(1, (99,), "int8", (0, 3)).tolist()) == {0, 1, 2}


def test_the_fuzzer() -> None:
    config = gpuemu.FuzzConfig(
        iterations=6, max_dims=3, max_size=32, dtypes=["float32", "float16"], layouts=["strided"]
    )
    first, second = (gpuemu.SeededFuzzer(42, config).next_test_case() for _ in range(2))
    assert (first.seed, first.shape, first.dtype, first.layout) == (
        second.seed, second.shape, second.dtype, second.layout,
    )  # fmt: skip
    assert first.inputs["input"].tobytes() == second.inputs["input"].tobytes()
    fuzzer = gpuemu.SeededFuzzer(42, config)
    assert fuzzer.run(np.tanh).passed == 6
    results = gpuemu.SeededFuzzer(42, config).run(lambda x: x * 2, reference=lambda x: x * 3)
    assert results.failed == 6
    assert "beyond tolerance" in results.failures[0].failures[0]


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (lambda x: x / 0, "the output has NaN or infinite elements, and the inputs have none"),
        (lambda x: np.add(x, 1, out=x), "the input input was changed"),
        (lambda x: np.random.default_rng().random(9), "two calls with the same inputs gave different bits"),
        (lambda x: 1 // 0, "the op raised ZeroDivisionError"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_without_a_reference_the_fuzzer_finds_what_no_op_may_do(op: Callable, message: str) -> None:
    results = gpuemu.SeededFuzzer(1, gpuemu.FuzzConfig(iterations=1, max_size=8)).run(op)
    assert message in results.failures[0].failures[0]["message"]


def test_random_numbers() -> None:
    rng = gpuemu.SeededRng(42)
    assert rng.derive("test").seed == gpuemu.derive_seed(42, "test")
    assert rng.choice(["a"]) == "a"
    assert 3 <= rng.gen_range(3, 9) < 9
    assert 0 <= rng.gen_f32() < 1
    assert rng.gen_u64() < 2**64
    assert rng.randn((2, 3)).shape == rng.randn(2, 3).shape == (2, 3)
    assert gpuemu.random_seed() != gpuemu.generate_seed()


def test_tolerances() -> None:
    tolerance = gpuemu.ToleranceConfig.for_dtype("float32")
    assert tolerance == gpuemu.ToleranceConfig(atol=1e-5, rtol=1e-5)
    assert tolerance.scale(2.0).to_dict() == {"atol": 2e-5, "rtol": 2e-5}
    assert gpuemu.ToleranceConfig.strict() == gpuemu.ToleranceConfig(1e-7, 1e-7)
    assert gpuemu.ToleranceConfig.relaxed() == gpuemu.ToleranceConfig(1e-3, 1e-3)
    profile = gpuemu.ToleranceProfile
    assert profile.get("production") == profile.for_production()
    assert profile.for_production().atol < tolerance.atol < profile.for_testing().atol
    assert profile.get("cross-framework") == profile.for_cross_framework()
    assert profile.for_testing().get("float16").atol > profile.for_testing().atol
    assert gpuemu.get_recommended_tolerance("float32", "jax", "matmul").atol == pytest.approx(2.25e-5)
    with pytest.raises(ValueError, match="atol is -1; use a number that is not negative"):
        gpuemu.ToleranceConfig(-1, 0)
    with pytest.raises(kcheck.UserError, match="unknown profile 'prodction'; did you mean 'production'"):
        profile.get("prodction")


def test_a_calibrated_tolerance_accepts_the_op() -> None:
    found = gpuemu.calibrate_tolerance(
        op_fn=lambda x: np.sin(x), ref_fn=lambda x: np.sin(np.float64(x)), shapes=[(100,), (7, 9)], n_samples=20
    )
    assert 0 < found.atol < 1e-6
    x = np.float32([0.5, 1.5])
    gpuemu.register("sine", reference=lambda x: np.sin(x))
    client = gpuemu.Client()
    assert client.validate_op("sine", {"x": x}, np.sin(x), atol=found.atol, rtol=found.rtol).passed
    assert not client.validate_op("sine", {"x": x}, np.sin(x) + 1e-5, atol=found.atol, rtol=found.rtol).passed


# The guide for kernel authors.


def test_fuzzing_with_diverse_shapes(client: gpuemu.Client) -> None:
    from kcheck.compat.gpuemu.client import Client
    from kcheck.compat.gpuemu.frameworks.pytorch import validate_pytorch
    from kcheck.compat.gpuemu.validate import fuzz_dtypes, fuzz_shapes

    client, tried = Client(), 0
    for batch, seq, hidden in fuzz_shapes(batch=[1, 2], seq=[1, 64], hidden=[65]):
        for dtype in fuzz_dtypes(["float32", "float16"]):
            x = Array(np.linspace(-3, 3, batch * seq * hidden).reshape(batch, seq, hidden).astype(dtype))
            with validate_pytorch(client, "fused_gelu", {"x": x}) as ctx:
                ctx["output"] = Array(gelu(np.from_dlpack(x)).astype(dtype))
            assert ctx.result.passed
            tried += 1
    assert tried == 8


def test_layout_fuzzing(client: gpuemu.Client) -> None:
    """Every view stays inside the array that it is a view of."""
    from kcheck.compat.gpuemu.validate import fuzz_layouts

    base_shape = (2, 6, 9)
    base = np.random.default_rng(0).standard_normal(base_shape).astype(np.float32)
    seen = set()
    for shape, strides in fuzz_layouts(base_shape):
        last = sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
        assert last < base.size
        x = np.lib.stride_tricks.as_strided(base, shape, [stride * 4 for stride in strides])
        with gpuemu.validate_pytorch(client, "fused_gelu", {"x": x}) as ctx:
            ctx["output"] = gelu(x)
        seen.add((shape, strides))
    assert len(seen) == 4  # contiguous, two swaps of axes, every second element


def test_drop_in_fuzzing(client: gpuemu.Client) -> None:
    results = client.fuzz_op_client_side(
        "fused_gelu",
        run_op=lambda inputs: Array(gelu_without_tail(inputs["x"])),
        iterations=6,
        seed=42,
    )
    assert 0 < results.passed < results.total == 6
    for f in results.failures:
        assert f"  Seed {f.seed}: {f.failures[0]['message']}".endswith(f.failures[0])
    again = client.fuzz_op_client_side("fused_gelu", op_fn=lambda inputs: gelu(inputs["x"]), iterations=6, seed=42)
    assert again.passed == 6, again.failures


def test_minimizing_finds_the_smallest_shape(client: gpuemu.Client) -> None:
    results = client.fuzz_op_client_side("fused_gelu", lambda inputs: gelu_without_tail(inputs["x"]), 6, seed=42)
    seed = results.failures[0].seed
    result = client.minimize(seed, strategy="binary-search-dims", max_iters=100)
    assert result.minimized_shape == (1, 1, 1)
    assert isinstance(result.minimized_seed, int)
    assert not result.result.passed
    assert client.minimize(seed, strategy="binary-search-values", max_iters=30).result.failures
    with pytest.raises(gpuemu.ClientError, match="unknown strategy 'dims'; use binary-search-dims or"):
        client.minimize(seed, strategy="dims")


@pytest.mark.parametrize("manager", ["validate_pytorch", "validate_jax", "validate_tensorflow"])
def test_the_managers_raise_on_a_wrong_output_and_compare_with_the_inputs_as_they_were(
    client: gpuemu.Client, manager: str
) -> None:
    x = np.float32([1, 2, 3])
    with pytest.raises(gpuemu.ValidationError, match="fused_gelu failed: output") as failed:  # noqa: SIM117
        with getattr(gpuemu, manager)(client, "fused_gelu", {"x": Array(x)}) as ctx:
            ctx["output"] = Array(gelu(x) + 1)
    assert not failed.value.result.passed
    with getattr(gpuemu, manager)(client, "fused_gelu", {"x": x}) as ctx:
        ctx["output"] = gelu(x)
        x[:] = 0  # an op in place
    with pytest.raises(gpuemu.ClientError, match="the block set no output"):  # noqa: SIM117
        with getattr(gpuemu, manager)(client, "fused_gelu", {"x": x}):
            pass
    with pytest.raises(gpuemu.ClientError, match="no input is a torch tensor that requires a gradient"):  # noqa: SIM117
        with getattr(gpuemu, manager)(client, "fused_gelu", {"x": x}, check_backward=True):
            pass


def test_validate_sees_every_call_in_the_block(client: gpuemu.Client) -> None:
    with gpuemu.validate(client, gelu, reference=lambda x: gelu_reference({"x": x})) as checked:
        for size in (1, 65):
            checked(np.linspace(-2, 2, size, dtype=np.float32))
    assert [result.passed for result in checked.results] == [True, True]
    with pytest.raises(gpuemu.ValidationError, match="gelu_without_tail failed"):  # noqa: SIM117
        with gpuemu.validate(client, gelu_without_tail, reference=lambda x: gelu_reference({"x": x})) as checked:
            checked(np.linspace(-2, 2, 65, dtype=np.float32))


def test_a_float64_result_of_a_float32_op_is_converted(client: gpuemu.Client) -> None:
    """NumPy makes float64 of float32 and a float64 constant; gpuemu converts, so this is not a failure."""
    x = np.linspace(-2, 2, 30, dtype=np.float32)
    assert gelu_reference({"x": x}).dtype == np.float64
    assert client.validate_op("fused_gelu", {"x": x}, gelu_reference({"x": x}), dtype="float32").passed


def test_the_precision_of_an_op_without_a_spec_is_that_of_its_inputs(client: gpuemu.Client) -> None:
    """As for specs: a float64 constant makes float64 of a float32 op, whose errors are those of float32."""
    x = np.linspace(-2, 2, 30, dtype=np.float32)
    wide = np.float64(gelu(x))
    assert client.validate_op("fused_gelu", {"x": x}, wide).passed
    assert not client.validate_op("fused_gelu", {"x": np.float64(x)}, wide).passed
    assert not client.validate_op("fused_gelu", {"x": x}, wide, dtype="float64").passed


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: c.validate_op("softmx", {}, 1), "there is no op 'softmx'; did you mean 'softmax'"),
        (lambda c: c.fuzz_op("fused_gelu"), "nothing runs 'fused_gelu': its reference is registered, not the op"),
        (lambda c: c.fuzz_op("softmax", batch_sizes=[1]), "sizes cannot be replaced in an op that has a spec"),
        (lambda c: c.fuzz_op("softmax", dtypes=["int8"]), "softmax does not support int8; its dtypes are float32"),
        (lambda c: c.fuzz_op_client_side("softmax"), "pass the function that runs the op as run_op="),
        (lambda c: c.validate_op("softmax", {"y": np.ones(2)}, np.ones(2)), "no input 'x'; the inputs are x"),
        (lambda c: c.validate_op("softmax", {"x": np.ones(2)}, np.ones(2)), "[2], but the spec declares [M, N]"),
        (
            lambda c: c.validate_op("softmax", {"x": np.ones((1, 2), "f")}, np.ones((1, 2)), dtype="float23"),
            "there is no dtype 'float23'; did you mean 'float32'?",
        ),
        (lambda c: gpuemu.register("nothing"), "nothing: register either a spec or a reference"),
    ],
)  # fmt: skip
def test_what_is_refused_says_why(client: gpuemu.Client, call: Callable, message: str) -> None:
    with pytest.raises(kcheck.UserError) as refused:
        call(client)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    "module",
    ["client", "validate", "rng", "tolerances", "frameworks.pytorch", "frameworks.jax", "frameworks.tensorflow"],
)
def test_the_modules_of_gpuemu_have_their_names(module: str) -> None:
    from importlib import import_module

    assert import_module(f"kcheck.compat.gpuemu.{module}")


def test_every_exported_name_is_documented_and_its_example_runs() -> None:
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner(verbose=False)
    for name in gpuemu.__all__:
        assert getattr(gpuemu, name).__doc__, name
        for test in finder.find(getattr(gpuemu, name), name, globs={}):
            runner.run(test)
    assert runner.tries > 20
    assert runner.failures == 0
    assert callable(gpuemu.validate)  # the function, not the module of this name
