"""One spec, one correct op and one with a planted bug, in every framework that is installed: the same verdicts.

``python tests/functions/same_verdicts.py`` prints a table. With ``--write`` (``make frameworks``), it replaces the
table in docs/frameworks.md. The planted bug skips the columns from 32 on.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

import kcheck

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/frameworks.md"
CASES = 60
BEGIN, END = "<!-- same verdicts: begin -->\n", "<!-- same verdicts: end -->\n"
SPEC: dict[str, Any] = {
    "dims": {"M": range(1, 7), "N": {"range": "1..69", "tile": 32}},
    "dtypes": ["float32", "float64"],
    "inputs": {"x": {"shape": ["M", "N"], "values": ["normal", "adversarial"]}},
    "outputs": {"y": ["M", "N"]},
    "cases": {"count": CASES},
}


def reference(x: Any) -> Any:
    return x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1.0)


def numpy_ops() -> dict[str, Callable[..., Any]]:
    def good(x: Any) -> Any:
        return x / np.sqrt((x * x).mean(axis=1, keepdims=True) + x.dtype.type(1))

    def bad(x: Any) -> Any:
        y = good(x)
        y[:, 32:] = 0
        return y

    return {"good": good, "bad": bad}


def torch_ops() -> dict[str, Callable[..., Any]]:
    def good(x: Any) -> Any:
        return x / ((x * x).mean(dim=1, keepdim=True) + 1.0).sqrt()

    def bad(x: Any) -> Any:
        y = good(x)
        y[:, 32:] = 0
        return y

    return {"good": good, "bad": bad}


def jax_ops() -> dict[str, Callable[..., Any]]:
    import jax.numpy as jnp

    def good(x: Any) -> Any:
        return x / jnp.sqrt((x * x).mean(axis=1, keepdims=True) + 1.0)

    def bad(x: Any) -> Any:
        return good(x).at[:, 32:].set(0)

    return {"good": good, "bad": bad}


def tensorflow_ops() -> dict[str, Callable[..., Any]]:
    import tensorflow as tf

    def good(x: Any) -> Any:
        return x / tf.sqrt(tf.reduce_mean(x * x, axis=1, keepdims=True) + 1)

    def bad(x: Any) -> Any:
        y = good(x)
        return tf.concat([y[:, :32], tf.zeros_like(y[:, 32:])], axis=1)

    return {"good": good, "bad": bad}


def numba_ops() -> dict[str, Callable[..., Any]]:
    import math

    from numba import cuda

    @cuda.jit
    def good(x, y):  # type: ignore[no-untyped-def]
        row = cuda.grid(1)
        if row < x.shape[0]:
            total = x[row, 0] * 0
            for i in range(x.shape[1]):
                total += x[row, i] * x[row, i]
            for i in range(x.shape[1]):
                y[row, i] = x[row, i] / math.sqrt(total / x.shape[1] + 1)

    @cuda.jit
    def bad(x, y):  # type: ignore[no-untyped-def]
        row = cuda.grid(1)
        if row < x.shape[0]:
            total = x[row, 0] * 0
            for i in range(x.shape[1]):
                total += x[row, i] * x[row, i]
            for i in range(x.shape[1]):
                y[row, i] = x[row, i] / math.sqrt(total / x.shape[1] + 1) if i < 32 else 0

    return {"good": good, "bad": bad}


OPS = {
    "numba.cuda": numba_ops,
    "numpy": numpy_ops,
    "torch": torch_ops,
    "jax": jax_ops,
    "tensorflow": tensorflow_ops,
}


def installed() -> Iterator[str]:
    """The frameworks that can be imported."""
    for name in OPS:
        if name == "numba.cuda":
            kcheck.use("auto")  # before numba.cuda is imported
        if importlib.util.find_spec(name.partition(".")[0]) is not None:
            yield name


def failing_sizes(name: str, kind: str) -> tuple[kcheck.Report, frozenset[tuple[int, int]]]:
    """The report of an op in a framework, and the sizes of its failing cases."""
    function = OPS[name]()[kind]
    runs: dict[str, Any] = {"function": function, "framework": name}
    if name == "numba.cuda":
        runs = {"kernel": function, "launch": {"args": ["x", "y"], "grid": [1], "block": [32]}}
    report = kcheck.check(kcheck.Spec("rmsnorm", reference=reference, **SPEC, **runs))
    sizes = ((failure.case.dims["M"], failure.case.dims["N"]) for failure in report.failures)
    return report, frozenset(sizes)


def rows() -> Iterator[tuple[str, ...]]:
    """A row of the table for each framework; raises AssertionError where verdicts differ."""
    expected: frozenset[tuple[int, int]] | None = None
    for name in installed():
        good, none = failing_sizes(name, "good")
        bad, sizes = failing_sizes(name, "bad")
        assert not none, f"{name}: the correct op fails\n{good}"
        assert expected in (None, sizes), (
            f"{name}: other cases fail: {sorted(sizes)}, not {sorted(expected or ())}"
        )
        expected = sizes
        assert sizes
        assert all(n > 32 for _, n in sizes)
        # A module knows its version under whatever name it was installed: tensorflow-cpu, tensorflow-rocm.
        version = (
            metadata.version("numba-cuda") if name == "numba.cuda" else importlib.import_module(name).__version__
        )
        yield name, version, good.device, f"{good.cases} passed", f"{len(bad.failures)} of {bad.cases} failed"


def table(found: list[tuple[str, ...]]) -> str:
    head = ("framework", "version", "device", "correct op", "planted bug")
    lines = [head, ("---",) * len(head), *found]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    text = table(list(rows()))
    if "--write" in sys.argv:
        page = PAGE.read_text("utf-8")
        PAGE.write_text(re.sub(f"{BEGIN}.*?{END}", f"{BEGIN}{text}{END}", page, flags=re.DOTALL), "utf-8")
    print(text, end="")
