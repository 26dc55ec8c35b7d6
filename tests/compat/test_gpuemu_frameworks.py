"""gpuemu's examples on arrays of the frameworks themselves, where these are installed: ``make frameworks``."""

from __future__ import annotations

import numpy as np
import pytest

from kcheck.compat import gpuemu


def reference(inputs: dict, **kwargs: object) -> np.ndarray:
    x = inputs["x"]
    return 0.5 * x * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3)))


@pytest.fixture
def client() -> gpuemu.Client:
    gpuemu.register("fused_gelu", reference=reference, inputs=["x"])
    return gpuemu.Client()


def test_the_loops_of_the_guide_on_torch_tensors(client: gpuemu.Client) -> None:
    torch = pytest.importorskip("torch")

    def fused_gelu(x):
        return torch.nn.functional.gelu(x.float(), approximate="tanh").to(x.dtype)

    for batch, seq, hidden in gpuemu.fuzz_shapes(batch=[1, 2], seq=[1, 64], hidden=[65]):
        for dtype in gpuemu.fuzz_dtypes(["float32", "float16", "bfloat16"]):
            x = torch.randn(batch, seq, hidden, dtype=getattr(torch, dtype), requires_grad=True)
            with gpuemu.validate_pytorch(client, "fused_gelu", {"x": x}) as ctx:
                ctx["output"] = fused_gelu(x)
            assert ctx.result.passed
    base_shape = (2, 6, 9)
    for shape, strides in gpuemu.fuzz_layouts(base_shape):
        x = torch.randn(base_shape).as_strided(shape, strides)
        with gpuemu.validate_pytorch(client, "fused_gelu", {"x": x}) as ctx:
            ctx["output"] = fused_gelu(x)
    results = client.fuzz_op_client_side(
        "fused_gelu", run_op=lambda inputs: fused_gelu(torch.from_numpy(inputs["x"].copy())), iterations=5, seed=42
    )
    assert results.passed == results.total, results.failures


def test_a_torch_module_is_compared_with_its_float64_copy(client: gpuemu.Client) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(8, 3)
    with gpuemu.validate(client, model) as seen:
        model(torch.randn(4, 8))
    assert [result.passed for result in seen.results] == [True]
    wrong = torch.nn.Linear(8, 3)
    wrong.forward = lambda x: torch.nn.functional.linear(x, wrong.weight) + wrong.bias * (x.dtype == torch.float64)
    with pytest.raises(gpuemu.ValidationError), gpuemu.validate(client, wrong):
        wrong(torch.randn(4, 8))


def test_check_backward_compares_torchs_derivatives_with_those_of_the_reference(client: gpuemu.Client) -> None:
    """The upstream gradient is random: with ones, the derivatives of a softmax are all 0."""
    torch = pytest.importorskip("torch")

    class Softmax(torch.autograd.Function):
        mean = 1.0

        @staticmethod
        def forward(ctx, x):
            y = torch.softmax(x.float(), dim=-1)
            ctx.save_for_backward(y)
            return y.to(x.dtype)

        @classmethod
        def backward(cls, ctx, dy):
            (y,) = ctx.saved_tensors
            dy = dy.float()
            return y * (dy - cls.mean * (dy * y).sum(dim=-1, keepdim=True))

    def changed_in_place(x):
        y = torch.exp(x)  # its backward pass needs y as it was
        total = y.sum(dim=-1, keepdim=True)
        return y.div_(total)

    wrong = type("Wrong", (Softmax,), {"mean": 0.0})
    for dtype in (torch.float32, torch.float64):
        x = torch.randn(5, 33, dtype=dtype, requires_grad=True)
        with gpuemu.validate_pytorch(client, "fused_gelu", {"x": x}, check_backward=True) as ctx:
            ctx["output"] = torch.nn.functional.gelu(x, approximate="tanh")
        ctx["output"].sum().backward()  # the graph is still there
    x = torch.randn(5, 33, requires_grad=True)
    with gpuemu.validate_pytorch(client, "softmax", {"x": x}, check_backward=True) as ctx:
        ctx["output"] = Softmax.apply(x)
    with pytest.raises(gpuemu.ValidationError, match=r"the derivative of sum\(y \* c\) with respect to x\["):  # noqa: SIM117
        with gpuemu.validate_pytorch(client, "softmax", {"x": x}, check_backward=True) as ctx:
            ctx["output"] = wrong.apply(x)
    assert not client.list_results(1)[0].passed
    with pytest.raises(gpuemu.ValidationError, match=r"keep x in the graph"):  # noqa: SIM117
        with gpuemu.validate_pytorch(client, "softmax", {"x": x}, check_backward=True) as ctx:
            ctx["output"] = torch.softmax(x.detach(), dim=-1)
    with pytest.raises(gpuemu.ValidationError, match=r"the backward pass raised RuntimeError: .*inplace"):  # noqa: SIM117
        with gpuemu.validate_pytorch(client, "softmax", {"x": x}, check_backward=True) as ctx:
            ctx["output"] = changed_in_place(x)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, while its compiler is imported
def test_check_backward_of_a_compiled_op_whose_graph_cannot_be_kept(client: gpuemu.Client) -> None:
    """torch.compile reuses the memory of what the backward pass needs, and refuses to keep it."""
    torch = pytest.importorskip("torch")
    x = torch.randn(5, 33, requires_grad=True)
    gpuemu.register("gram", reference=lambda x: np.exp(np.sin(x @ x.T)))
    gram = torch.compile(lambda x: (x @ x.T).sin().exp(), dynamic=True)
    with gpuemu.validate_pytorch(client, "gram", {"x": x}, check_backward=True) as ctx:
        ctx["output"] = gram(x)
    assert ctx.result.passed
    with pytest.raises(gpuemu.ValidationError, match=r"the derivative of sum"):  # noqa: SIM117
        with gpuemu.validate_pytorch(client, "gram", {"x": x}, check_backward=True) as ctx:
            ctx["output"] = gram(x) + (x - x.detach()).sum()


def test_jax_arrays(client: gpuemu.Client) -> None:
    jax = pytest.importorskip("jax")
    x = jax.numpy.linspace(-3, 3, 99, dtype="float32")
    with gpuemu.validate_jax(client, "fused_gelu", {"x": x}) as ctx:
        ctx["output"] = jax.nn.gelu(x, approximate=True)
    with pytest.raises(gpuemu.ValidationError):  # noqa: SIM117
        with gpuemu.validate_jax(client, "fused_gelu", {"x": x}) as ctx:
            ctx["output"] = jax.nn.relu(x)


def test_tensorflow_tensors(client: gpuemu.Client) -> None:
    tf = pytest.importorskip("tensorflow")
    x = tf.linspace(-3.0, 3.0, 99)
    with gpuemu.validate_tensorflow(client, "fused_gelu", {"x": x}) as ctx:
        ctx["output"] = tf.nn.gelu(x, approximate=True)
    with gpuemu.validate_tensorflow(client, "fused_gelu", {"x": tf.Variable(x)}, check_gradient=True) as ctx:  # noqa: SIM117
        with ctx["tape"]:
            ctx["output"] = tf.nn.gelu(ctx["inputs"]["x"], approximate=True)
    assert ctx.result.passed
    with pytest.raises(gpuemu.ValidationError, match="the derivative of sum"):  # noqa: SIM117
        with gpuemu.validate_tensorflow(client, "fused_gelu", {"x": x}, check_gradient=True) as ctx:
            ctx["output"] = tf.nn.gelu(x, approximate=True) + 0.5 * (x - tf.stop_gradient(x))
