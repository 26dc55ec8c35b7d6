"""The arrays of a case: same seed same bytes, as declared, in guarded memory."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kcheck.errors import KernelError, SpecError
from kcheck.generator import GUARDS, POISON, expand, materialize
from kcheck.generator.distributions import DISTRIBUTIONS
from kcheck.generator.layouts import geometry
from kcheck.generator.memory import check_memory
from kcheck.generator.values import draw
from kcheck.model import DTYPES, Case, Distribution, FunctionRef, OpSpec, Span
from kcheck.rng import Xorshift128Plus, derive

PLACE = Span("specs/op.yaml", 9, 7)
LAYOUTS = ("contiguous", "strided", "transposed", "offset", "broadcast", "reversed")


@pytest.fixture(name="spec")
def spec_with_everything(build: Callable[..., OpSpec]) -> OpSpec:
    return build(
        {"N": (0, 40), "M": (1, 40)},
        inputs={
            "x": {"shape": ("N", "M"), "layouts": LAYOUTS},
            "w": {"shape": ("M",), "dtype": "bfloat16", "layouts": LAYOUTS},
            "i": {"shape": ("N",), "dtype": "int64", "values": (Distribution("integers", (0, "M - 1")),)},
            "p": {"shape": ("N + 1",), "dtype": "int32", "values": (Distribution("offsets", "N * M"),)},
        },
        outputs={"y": {"shape": ("N", "M"), "layouts": LAYOUTS}, "z": {"shape": ("N", "M"), "alias": "x"}},
        dtypes=("float32", "float16", "complex64"),
        params={"scale": {"dtype": "T", "expr": "1 / M"}, "n": {"dtype": "int32", "values": (3,)}},
    )


def test_same_seed_same_bytes(spec: OpSpec) -> None:
    """Every buffer is the same, byte for byte, each time; whatever layouts and dtypes were drawn."""
    for seed in range(25):
        case = expand(spec, seed)
        one, two = materialize(spec, case), materialize(spec, case)
        assert list(one.allocations) == ["x", "w", "i", "p", "y"]
        for name, allocation in one.allocations.items():
            other = two.allocations[name]
            assert allocation.buffer.tobytes() == other.buffer.tobytes()
            assert (allocation.strides, allocation.offset) == (other.strides, other.offset)


def test_every_name_has_the_stream_that_the_spec_language_says(
    spec: OpSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Below a case seed the domains are kind/name (SPEC, Seeds); nothing else is derived from the seed itself."""
    domains = set()

    def noted(seed: int, domain: str) -> int:
        if seed == 11:
            domains.add(domain)
        return derive(seed, domain)

    # By sys.modules: the package's expand is a function.
    monkeypatch.setattr(sys.modules["kcheck.generator.expand"], "derive", noted)
    monkeypatch.setattr(sys.modules["kcheck.generator.shapes"], "derive_seed", noted)
    materialize(spec, expand(spec, 11))
    inputs = {"x", "w", "i", "p"}
    expected = {f"{kind}/{name}" for kind in ("values", "data", "layouts") for name in inputs}
    expected |= {"dims/N", "dims/M", "dtypes/T", "params/n", "layouts/y", "palette"}
    assert domains == expected


def test_arrays_are_as_declared(spec: OpSpec) -> None:
    """Shapes, dtypes, roles, aliases, poison and guard bytes are those of the case."""
    guards = set()
    for seed in range(25):
        case = expand(spec, seed)
        made = materialize(spec, case)
        n, m = case.dims["N"], case.dims["M"]
        assert made.case is case
        assert made.allocations["x"].view().shape == (n, m)
        assert made.allocations["x"].dtype.name == case.dtypes["T"]
        assert made.allocations["w"].dtype.name == "bfloat16"
        assert [a.role for a in made.allocations.values()] == ["input"] * 4 + ["output"]
        assert made.allocation("z") is made.allocations["x"]
        y = made.allocation("y")
        assert (y.buffer[y.element_mask()] == POISON).all()
        guards |= {a.guard for a in made.allocations.values()}
        assert all((a.buffer[~a.element_mask()] == GUARDS[seed & 1]).all() for a in made.allocations.values())
        indices, offsets = made.allocations["i"].view(), made.allocations["p"].view()
        assert ((indices >= 0) & (indices < m)).all()
        assert (offsets[0], offsets[-1]) == (0, n * m)
    assert guards == set(GUARDS)


def test_params_are_rounded_to_their_dtype(spec: OpSpec) -> None:
    """A param is one element of its dtype, that of a type variable too."""
    case = replace(
        expand(spec, 3), dtypes={"T": "float16"}, dims={"N": 2, "M": 3}, params={"scale": 1 / 3, "n": 3}
    )
    params = materialize(spec, case).params
    assert params["scale"] == np.float16(1 / 3)
    assert params["scale"].dtype == np.float16
    assert (params["n"], params["n"].dtype) == (3, np.int32)
    with pytest.raises(SpecError, match=r"param 'n': 2\.5 is not a value of int32"):
        materialize(spec, replace(case, params={"scale": 0.5, "n": 2.5}))


def test_layouts_do_not_change_values(spec: OpSpec) -> None:
    """The logical values of a seed are the same under every layout without a zero stride."""
    case = replace(expand(spec, 11), dims={"N": 6, "M": 7}, dtypes={"T": "float32"})
    expected = materialize(spec, case).allocations["x"].view().copy()
    for layout in ("contiguous", "strided", "transposed", "offset", "reversed"):
        changed = materialize(spec, replace(case, layouts={**case.layouts, "x": layout}))
        if case.layouts["x"] != "broadcast":
            np.testing.assert_array_equal(changed.allocations["x"].view(), expected)


def test_adding_an_array_changes_no_other_bytes(spec: OpSpec) -> None:
    """With an array more, the others are the same bytes."""
    more = replace(spec, inputs={"a": replace(spec.inputs["x"], name="a"), **spec.inputs})
    one, two = materialize(spec, expand(spec, 5)), materialize(more, expand(more, 5))
    for name in spec.inputs:
        assert one.allocations[name].buffer.tobytes() == two.allocations[name].buffer.tobytes()
    assert two.allocations["a"].buffer.tobytes() != two.allocations["x"].buffer.tobytes()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"shape": ("N",), "values": (Distribution("constant", 1e6),), "dtype": "float16"},
            "does not fit in float16",
        ),
        (
            {"shape": ("N",), "values": (Distribution("integers", (0, "N - 5")),), "dtype": "int8"},
            "there is no integer from 0 to -1 (with N=4)",
        ),
        ({"shape": ("N - 5",)}, "a size must not be negative, but is -1 for N=4"),
    ],
)
def test_arrays_that_cannot_be_made_say_why(
    build: Callable[..., OpSpec], fields: dict[str, Any], message: str
) -> None:
    """Values and shapes that cannot be are refused with place and fix, naming the dims."""
    spec = build({"N": [4]}, inputs={"x": fields})
    with pytest.raises(SpecError, match=r"specs/op\.yaml:3:5: .*; ") as caught:
        materialize(spec, expand(spec, 0))
    assert message in str(caught.value)


@pytest.fixture(name="limit")
def limited(monkeypatch: pytest.MonkeyPatch) -> int:
    """A machine with 32 GiB."""
    monkeypatch.setattr(importlib.import_module("kcheck.generator.memory"), "memory_limit", lambda: 16 << 30)
    return 16 << 30


def test_absurd_memory_is_refused_before_it_is_taken(build: Callable[..., OpSpec], limit: int) -> None:
    """A case beyond the limit says what it takes, names its largest array and the product to bound."""
    fields = {"shape": ("N", "N"), "layouts": ("contiguous",)}
    spec = build({"N": [1 << 20]}, inputs={"x": fields, "y": {"shape": ("N",)}}, memory=1 << 60)
    with pytest.raises(SpecError, match=r"takes [0-9]+.0 GiB of memory.*the largest is 'x'.*bounds N \* N"):
        materialize(spec, expand(spec, 0))


@pytest.mark.parametrize(
    ("dtype", "values", "rows", "takes"),
    [
        ("int8", "integers", 2**19, ""),  # five copies, and one for the reference: 12 GiB
        ("int8", "ties", 2**19, "96.0 GiB to draw"),  # in one part
        ("float16", "normal", 2**19, "20.0 GiB for 5 copies of the arrays and 32.0 GiB for the reference"),
        ("float16", "normal", 2**17, ""),
        ("float64", "normal", 2**17, "20.0 GiB for 5 copies of the arrays and 8.0 GiB for the reference"),
    ],
)
def test_a_case_is_refused_by_what_it_takes(
    build: Callable[..., OpSpec], limit: int, dtype: str, values: str, rows: int, takes: str
) -> None:
    """By dtype: a float is converted to float64 for the reference, an integer is not."""
    spec = build(
        {"R": [rows], "D": [4096]},
        inputs={"x": {"shape": ("R", "D"), "dtype": dtype, "values": (Distribution(values),)}},
        memory=1 << 60,  # of ordinary cases
    )
    case = expand(spec, 0)
    shape = (rows, 4096)
    places = {"x": geometry(shape, DTYPES[dtype].itemsize, "contiguous", Xorshift128Plus(0))}
    if takes:
        with pytest.raises(SpecError, match=takes):
            check_memory(spec, case, {"x": shape}, places)
    else:
        check_memory(spec, case, {"x": shape}, places)


@pytest.mark.parametrize("name", [name for name, row in DISTRIBUTIONS.items() if row.by_element])
@pytest.mark.parametrize("dtype", ["int8", "float16", "complex64"])
def test_an_array_is_drawn_in_parts_with_the_same_values(
    name: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments: dict[str, Any] = {"constant": 1, "choice": (0, 1, 2), "bernoulli": 0.3, "integers": (-5, 4)}
    if not DISTRIBUTIONS[name].discrete and dtype == "int8":
        return
    drawn = []
    for most in (10**9, 100):
        monkeypatch.setattr(importlib.import_module("kcheck.generator.values"), "_PART", most)
        stream = Xorshift128Plus(5)
        drawn.append(draw(Distribution(name, arguments.get(name)), (7, 31), DTYPES[dtype], stream, {}).tobytes())
        drawn.append(stream.word().to_bytes(8))
    assert drawn[:2] == drawn[2:]


GENERATORS = """
import numpy as np

def mask(rng, shape, dtype, n, q):
    assert q.shape == (n, 3)
    return (q.sum(axis=1) > rng.floats(shape[0])).astype(dtype)

def scribble(shape, dtype, q, *, extra=1):
    q[...] = 7
    return np.zeros(shape, dtype)

def short(shape, dtype):
    return np.zeros(shape[0] - 1, dtype)

def wide(shape):
    return np.zeros(shape)

def listed(shape):
    return [0] * shape[0]

def asks(shape, later):
    return None

def raises(shape):
    raise IndexError("no row 3")

def leaves(shape):
    raise SystemExit(0)

opaque = type
"""


def generated(build: Callable[..., OpSpec], root: Path, name: str) -> tuple[OpSpec, Case]:
    (root / "gen.py").write_text(GENERATORS, encoding="utf-8")
    values = Distribution("from", FunctionRef("gen.py", name, PLACE), PLACE)
    spec = build(
        {"n": [5]},
        inputs={
            "q": {"shape": ("n", 3)},
            "m": {"shape": ("n",), "values": (values,), "layouts": ("contiguous", "broadcast")},
            "later": {"shape": ("n",)},
        },
        root=str(root),
    )
    return spec, expand(spec, 1)


def test_a_generator_gets_what_it_names(build: Callable[..., OpSpec], tmp_path: Path) -> None:
    """``from`` calls a function with rng, shape, dtype, dims and earlier arrays by name: always the same."""
    spec, case = generated(build, tmp_path, "mask")
    one, two = materialize(spec, case), materialize(spec, case)
    assert case.layouts["m"] == "contiguous"
    np.testing.assert_array_equal(one.allocations["m"].view(), two.allocations["m"].view())


def test_a_generator_cannot_change_what_it_reads(build: Callable[..., OpSpec], tmp_path: Path) -> None:
    """Earlier arrays are handed over as copies."""
    spec, case = generated(build, tmp_path, "scribble")
    assert not (materialize(spec, case).allocations["q"].view() == 7).any()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("short", "returned shape (4,); return (5,)"),
        ("wide", "returned dtype float64; convert the result with .astype(dtype), here float32"),
        ("listed", "returned list; return a numpy array of shape (5,)"),
        ("asks", "unknown parameter later; available: n, q, rng, shape, dtype"),
        ("raises", "raised IndexError: no row 3"),
        ("leaves", "raised SystemExit: 0"),
        ("opaque", "its signature cannot be read"),
    ],
)
def test_a_generator_that_is_wrong(build: Callable[..., OpSpec], tmp_path: Path, name: str, message: str) -> None:
    """Every fault of a generator is told with the place in the spec, the function, and the fix."""
    spec, case = generated(build, tmp_path, name)
    with pytest.raises(KernelError, match=r"specs/op\.yaml:9:7: gen\.py:") as caught:
        materialize(spec, case)
    assert message in str(caught.value)
