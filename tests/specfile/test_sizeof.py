"""``sizeof``, generators that ask for params, and the functions that a message lists."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kcheck.device.plan import geometry, scalars
from kcheck.generator import expand, materialize
from kcheck.specfile import load_spec

SPEC = """kcheck: 1
op: s
kernel: kernels/softmax.py:softmax
reference: references/softmax.py:softmax
dims: {M: 1..4, N: 1..9}
dtypes: [float32, float64]
params: {V: {dtype: int32, expr: 16 // sizeof(T)}}
inputs: {x: {shape: [M, N], values: {from: references/make.py:make}}}
outputs: {y: [M, N]}
launch: {args: [x, y], grid: [M], block: [32], shared: 4 * sizeof(T) * N + sizeof(float16)}
"""


@pytest.fixture
def written(project: Path) -> Callable[[str], Path]:
    """Writes the spec, with a generator beside it."""
    (project / "references/make.py").write_text(
        "import numpy as np\n\n\ndef make(rng, shape, dtype, V, M=7):\n"
        "    return np.full(shape, V * 100 + M, dtype)\n"
    )

    def write(text: str) -> Path:
        file = project / "specs/s.yaml"
        file.write_text(text)
        return file

    return write


def test_sizeof_is_that_of_the_dtype_of_the_case(written: Callable[[str], Path]) -> None:
    """In a param, in the shared memory of a launch, and in the param that a generator asks for."""
    spec = load_spec(written(SPEC))
    seen = set()
    for seed in range(20):
        case = expand(spec, seed)
        arrays = materialize(spec, case)
        size = np.dtype(case.dtypes["T"]).itemsize
        assert case.params["V"] == 16 // size
        assert spec.launch is not None
        shape = geometry(spec.launch, scalars(case, arrays.params))
        assert shape.shared == 4 * size * case.dims["N"] + 2
        assert set(arrays.allocation("x").view().ravel()) == {case.params["V"] * 100 + case.dims["M"]}
        seen.add(size)
    assert seen == {4, 8}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "M: 1..4",
            "M: {expr: 16 // sizeof(T)}",
            "dim 'M' cannot use sizeof(T): it depends on the dtype of a case",
        ),
        ("sizeof(T) * N", "sizeof(U) * N", "sizeof takes a dtype or a type variable, and 'U' is neither"),
        ("sizeof(T) * N", "sizeof(4) * N", "sizeof takes a dtype or a type variable; write sizeof(float32)"),
        ("sizeof(T) * N", "bytes(T) * N", "available: min, max, abs, sqrt, log2, ceildiv, next_pow2, sizeof"),
        ("V: {dtype", "W: {dtype", "generator 'make' takes 'V', which kcheck does not pass"),
    ],
)
def test_what_sizeof_cannot_do_is_told(
    old: str, new: str, message: str, written: Callable[[str], Path], faults: Callable[[str], list[str]]
) -> None:
    """Where the dtype is not known yet, and for what is not a dtype; functions of invariants are not listed."""
    written(SPEC)
    assert any(message in fault for fault in faults(SPEC.replace(old, new))), faults(SPEC.replace(old, new))


def test_sizeof_of_a_dtype_is_a_number_everywhere(written: Callable[[str], Path]) -> None:
    """It does not depend on the case."""
    spec = load_spec(written(SPEC.replace("M: 1..4", "M: {expr: 16 // sizeof(float32)}")))
    assert expand(spec, 1).dims["M"] == 4
