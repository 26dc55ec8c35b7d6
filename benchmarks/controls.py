"""Correct kernels, and classic wrong ones, written in NumPy in the precision and order of a GPU kernel.

Each takes inputs already widened to the compute precision and returns an array in it; the caller rounds to the
output's dtype. ``f`` below is that precision's NumPy type: float32 for float16 and bfloat16 too, as on a GPU.
"""

from __future__ import annotations

import numpy as np
from scipy import special

THREADS = 64  # of a block that reduces a row


# --- ways to add up the last axis


def sequential(x):
    total = np.zeros(x.shape[:-1], x.dtype)
    for k in range(x.shape[-1]):
        total = total + x[..., k]
    return total


def tree(x, threads=THREADS):
    """Each thread strides over the row, then the block adds in a tree."""
    length = x.shape[-1]
    sums = np.zeros((*x.shape[:-1], threads), x.dtype)
    for start in range(0, length, threads):
        part = x[..., start : start + threads]
        sums[..., : part.shape[-1]] += part
    while sums.shape[-1] > 1:
        half = sums.shape[-1] // 2
        sums = sums[..., :half] + sums[..., half:]
    return sums[..., 0]


def reversed_order(x):
    return sequential(x[..., ::-1])


def two_blocks(x):
    half = x.shape[-1] // 2
    return tree(x[..., :half], 32) + tree(x[..., half:], 32)


SUMS = (sequential, tree, reversed_order, two_blocks)


def ulps(x, rng, count):
    """A library function's error: up to ``count`` units in the last place; saturated at 1 it has none. Without a
    generator the function is exact."""
    if rng is None:
        return x
    with np.errstate(all="ignore"):
        moved = x + (rng.uniform(-count, count, x.shape) * np.spacing(x)).astype(x.dtype)
        return np.where(np.isfinite(moved) & (x != 0) & (np.abs(x) != 1), moved, x)


# --- kernels: (inputs, rng) -> output


def sums(add):
    return lambda a, rng: add(a["x"])


def softmax(add):
    def kernel(a, rng):
        x = a["x"]
        e = ulps(np.exp(x - x.max(-1, keepdims=True)), rng, 2)
        return e / add(e)[..., None]

    return kernel


def softmax_online(a, rng):
    x = a["x"]
    largest = np.full(x.shape[:-1], -np.inf, x.dtype)
    total = np.zeros(x.shape[:-1], x.dtype)
    for k in range(x.shape[-1]):
        new = np.maximum(largest, x[..., k])
        total = total * np.exp(largest - new) + np.exp(x[..., k] - new)
        largest = new
    return ulps(np.exp(x - largest[..., None]), rng, 2) * (1 / total)[..., None].astype(x.dtype)


def softmax_exp2(a, rng):
    x = a["x"]
    log2e = x.dtype.type(1.4426950408889634)
    e = ulps(np.exp2(x * log2e - (x.max(-1, keepdims=True) * log2e)), rng, 2)
    return e / tree(e)[..., None]


def matmul(fused, order=1):
    def kernel(a, rng):
        x, y = a["a"], a["b"]
        total = np.zeros((x.shape[0], y.shape[1]), x.dtype)
        for k in range(x.shape[1])[::order]:
            if fused:  # exact product, one rounding (exactly so below float64)
                total = (total.astype(np.float64) + np.outer(x[:, k].astype(np.float64), y[k])).astype(x.dtype)
            else:
                total = total + np.outer(x[:, k], y[k])
        return total

    return kernel


def matmul_split(a, rng):
    half = a["a"].shape[1] // 2
    one = matmul(True)({"a": a["a"][:, :half], "b": a["b"][:half]}, rng)
    return one + matmul(True)({"a": a["a"][:, half:], "b": a["b"][half:]}, rng)


def _scale(q):
    return q.dtype.type(1 / np.sqrt(q.shape[-1]))


def attention(add):
    def kernel(a, rng):
        q, k, v = a["q"], a["k"], a["v"]
        scores = add(q[:, None, :] * k[None, :, :]) * _scale(q)
        e = ulps(np.exp(scores - scores.max(-1, keepdims=True)), rng, 2)
        p = e / add(e)[..., None]
        return add(p[:, None, :] * v.T[None, :, :])

    return kernel


def attention_flash(a, rng):
    q, k, v = a["q"], a["k"], a["v"]
    q = q * _scale(q)
    largest = np.full(q.shape[0], -np.inf, q.dtype)
    total = np.zeros(q.shape[0], q.dtype)
    out = np.zeros((q.shape[0], v.shape[1]), q.dtype)
    for start in range(0, k.shape[0], 32):
        scores = sequential(q[:, None, :] * k[None, start : start + 32, :])
        new = np.maximum(largest, scores.max(-1))
        e = ulps(np.exp(scores - new[:, None]), rng, 2)
        alpha = np.exp(largest - new)
        total = total * alpha + sequential(e)
        out = out * alpha[:, None] + sequential(e[:, None, :] * v[start : start + 32].T[None, :, :])
        largest = new
    return out / total[:, None]


def gelu(a, rng):
    x = a["x"]
    f = x.dtype.type
    return f(0.5) * x * (f(1) + ulps(special.erf(x * f(0.7071067811865476)), rng, 2))


def gelu_fused(a, rng):
    x = a["x"]
    f = x.dtype.type
    half = f(0.5) * x
    erf = ulps(special.erf(x / f(1.4142135623730951)), rng, 1)
    return (half.astype(np.float64) * erf + half).astype(x.dtype)


def gelu_tanh(a, rng):
    x = a["x"]
    f = x.dtype.type
    inner = f(0.7978845608028654) * (x + f(0.044715) * x * x * x)
    return f(0.5) * x * (f(1) + ulps(np.tanh(inner), rng, 2))


def rmsnorm(add):
    def kernel(a, rng):
        x, w = a["x"], a["w"]
        f = x.dtype.type
        mean = add(x * x) / f(x.shape[-1])
        return x * ulps(1 / np.sqrt(mean + f(1e-6)), rng, 2)[..., None] * w

    return kernel


def rmsnorm_inverse_count(a, rng):
    """Multiplies by 1/n, divides by the root."""
    x, w = a["x"], a["w"]
    f = x.dtype.type
    return x / np.sqrt(tree(x * x) * f(1 / x.shape[-1]) + f(1e-6))[..., None] * w


def layernorm(add):
    def kernel(a, rng):
        x = a["x"]
        f = x.dtype.type
        centered = x - (add(x) / f(x.shape[-1]))[..., None]
        variance = add(centered * centered) / f(x.shape[-1])
        return centered * ulps(1 / np.sqrt(variance + f(1e-5)), rng, 2)[..., None]

    return kernel


# --- the classics, as a language model writes them


def softmax_padded_with_zero(a, rng):
    x = a["x"]
    width = -(-x.shape[-1] // THREADS) * THREADS
    padded = np.zeros((*x.shape[:-1], width), x.dtype)
    padded[..., : x.shape[-1]] = x
    e = np.exp(padded - padded.max(-1, keepdims=True))
    return (e / tree(e)[..., None])[..., : x.shape[-1]]


def matmul_last_tile(a, rng):
    last = (a["a"].shape[1] - 1) // 16 * 16
    return matmul(True)({"a": a["a"][:, last:], "b": a["b"][last:]}, rng)


def attention_unscaled(a, rng):
    q = a["q"]
    return attention(tree)({**a, "q": q * q.dtype.type(np.sqrt(q.shape[-1]))}, rng)


def gelu_without_half(a, rng):
    return gelu(a, rng) * a["x"].dtype.type(2)


def rmsnorm_wrong_count(a, rng):
    x, w = a["x"], a["w"]
    f = x.dtype.type
    width = -(-x.shape[-1] // THREADS) * THREADS
    return x / np.sqrt(tree(x * x) / f(width) + f(1e-6))[..., None] * w


def sum_without_tail(a, rng):
    x = a["x"]
    return tree(x[..., : (x.shape[-1] - 1) // THREADS * THREADS])


# --- fp64 references


def softmax_reference(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def attention_reference(q, k, v):
    return softmax_reference(q @ k.T / np.sqrt(q.shape[-1])) @ v


def rmsnorm_reference(x, w):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-6) * w


def layernorm_reference(x):
    centered = x - x.mean(axis=-1, keepdims=True)
    return centered / np.sqrt((centered * centered).mean(axis=-1, keepdims=True) + 1e-5)


def gelu_tanh_reference(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


OPS = {
    # op: (reference, inputs drawn and their shapes, controls, wrong kernel)
    "sum": (lambda x: x.sum(axis=-1), {"x": "MN"}, [sums(add) for add in SUMS], sum_without_tail),
    "softmax": (
        softmax_reference,
        {"x": "MN"},
        [*(softmax(add) for add in SUMS), softmax_online, softmax_exp2],
        softmax_padded_with_zero,
    ),
    "matmul": (
        lambda a, b: a @ b,
        {"a": "MN", "b": "NK"},
        [matmul(False), matmul(True), matmul(True, -1), matmul_split],
        matmul_last_tile,
    ),
    "attention": (
        attention_reference,
        {"q": "MD", "k": "ND", "v": "ND"},
        [attention(sequential), attention(tree), attention_flash],
        attention_unscaled,
    ),
    "gelu": (
        lambda x: 0.5 * x * (1 + special.erf(x / np.sqrt(2))),
        {"x": "MN"},
        [gelu, gelu_fused],
        gelu_without_half,
    ),
    "gelu_tanh": (gelu_tanh_reference, {"x": "MN"}, [gelu_tanh], None),
    "rmsnorm": (
        rmsnorm_reference,
        {"x": "MN", "w": "N"},
        [*(rmsnorm(add) for add in SUMS), rmsnorm_inverse_count],
        rmsnorm_wrong_count,
    ),
    "layernorm": (layernorm_reference, {"x": "MN"}, [layernorm(add) for add in SUMS], None),
}
