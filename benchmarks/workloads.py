"""The workloads to measure: for each kernel three sizes, the arguments, the launch, and a check of the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Workload:
    """One kernel of ``kernels.py`` with its plain twin.

    Attributes:
        name: for the table; ``kernel`` and ``plain`` are names in the two modules.
        sizes: arguments of ``make``, smallest first.
        simulated: whether Numba's simulator can run it; it runs the smallest size.
        make: (generator, *size) -> host arrays and scalars by name, in the kernel's order.
        shape: arrays -> (grid, block).
        output: which of the arguments is the result.
        expected: the same in float64 NumPy.
        tolerance: absolute, on the result.
        convert: dtype for the plain twin if Numba has no such dtype for the CPU.
    """

    name: str
    kernel: str
    plain: str
    sizes: tuple[tuple[int, ...], ...]
    simulated: bool
    make: Callable[..., dict[str, Any]]
    shape: Callable[[dict[str, Any]], tuple[Any, Any]]
    output: str
    expected: Callable[[dict[str, Any]], np.ndarray]
    tolerance: float
    convert: type | None = None


def _ceil(n: int, d: int) -> int:
    return -(-n // d)


def _vector(rng: np.random.Generator, n: int) -> dict[str, Any]:
    return {"x": rng.standard_normal(n).astype(np.float32), "out": np.zeros(n, np.float32)}


def _matrix(rng: np.random.Generator, m: int, n: int) -> dict[str, Any]:
    return {"x": rng.standard_normal((m, n)).astype(np.float32), "out": np.zeros((m, n), np.float32)}


def _rows(rng: np.random.Generator, m: int, n: int) -> dict[str, Any]:
    return {"x": rng.standard_normal((m, n)).astype(np.float32), "out": np.zeros(m, np.float32)}


def _product(rng: np.random.Generator, m: int, n: int, k: int) -> dict[str, Any]:
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n)))
    return {"a": a, "b": b, "c": np.zeros((m, n), np.float32)}


def _heads(dtype: type) -> Callable[..., dict[str, Any]]:
    def make(rng: np.random.Generator, n: int) -> dict[str, Any]:
        q, k, v = (rng.standard_normal((n, 32)).astype(dtype) for _ in range(3))
        return {"q": q, "k": k, "v": v, "scale": np.float32(32**-0.5), "out": np.zeros((n, 32), dtype)}

    return make


def _bytes(rng: np.random.Generator, n: int) -> dict[str, Any]:
    return {"x": rng.integers(0, 256, n, dtype=np.uint8), "bins": np.zeros(256, np.int32)}


def _gelu(a: dict[str, Any]) -> np.ndarray:
    x = a["x"].astype(np.float64)
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def _softmax(a: dict[str, Any]) -> np.ndarray:
    e = np.exp(a["x"].astype(np.float64) - a["x"].max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def _attention(a: dict[str, Any]) -> np.ndarray:
    q, k, v = (a[name].astype(np.float64) for name in "qkv")
    s = q @ k.T * 32**-0.5
    e = np.exp(s - s.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True) @ v


def _scan(a: dict[str, Any]) -> np.ndarray:
    x = a["x"].astype(np.float64)
    padded = np.pad(x, (0, -len(x) % 128)).reshape(-1, 128)
    return np.cumsum(padded, 1).reshape(-1)[: len(x)]


_ATTENTION_SIZES = ((64,), (256,), (1024,))

WORKLOADS = (
    Workload(
        "gelu", "gelu", "gelu", ((4096,), (65_536,), (1_048_576,)), True, _vector,
        lambda a: (_ceil(a["x"].size, 256), 256), "out", _gelu, 2e-6,
    ),
    Workload(
        "softmax", "softmax", "softmax", ((16, 256), (128, 1024), (512, 2048)), True, _matrix,
        lambda a: (a["x"].shape[0], 128), "out", _softmax, 1e-6,
    ),
    Workload(
        "tiled matmul", "matmul", "matmul", ((30, 40, 50), (125, 135, 150), (250, 270, 300)), True,
        _product,
        lambda a: ((_ceil(a["c"].shape[1], 16), _ceil(a["c"].shape[0], 16)), (16, 16)), "c",
        lambda a: a["a"].astype(np.float64) @ a["b"], 2e-4,
    ),
    Workload(
        "warp reduction", "row_sums", "row_sums", ((64, 64), (512, 256), (4096, 256)), False, _rows,
        lambda a: (_ceil(a["x"].shape[0], 4), 128), "out", lambda a: a["x"].astype(np.float64).sum(1), 1e-3,
    ),
    Workload(
        "flash attention f32", "attention", "attention", _ATTENTION_SIZES, True, _heads(np.float32),
        lambda a: (a["q"].shape[0] // 64, 64), "out", _attention, 1e-5,
    ),
    Workload(
        "flash attention f16", "attention", "attention", _ATTENTION_SIZES, True, _heads(np.float16),
        lambda a: (a["q"].shape[0] // 64, 64), "out", _attention, 2e-3, convert=np.float32,
    ),
    Workload(
        "histogram", "histogram", "histogram", ((4096,), (65_536,), (1_048_576,)), True, _bytes,
        lambda a: (min(_ceil(a["x"].size, 128), 64), 128), "bins",
        lambda a: np.bincount(a["x"], minlength=256).astype(np.float64), 0.0,
    ),
    Workload(
        "block scan", "scan", "scan", ((4096,), (65_536,), (1_048_576,)), True, _vector,
        lambda a: (_ceil(a["x"].size, 128), 128), "out", _scan, 1e-3,
    ),
)  # fmt: skip
"""Every kernel that ``make bench`` measures. Numba's simulator has no shuffles."""
