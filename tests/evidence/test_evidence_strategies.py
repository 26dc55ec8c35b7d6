"""How other ways of testing choose inputs, as the evidence models them."""

from __future__ import annotations

import pytest

from benchmarks.evidence.corpus import control_spec
from benchmarks.evidence.strategies import STRATEGIES, friendly, friendly_sizes, open_inputs, random_shape
from kcheck.generator import plan

SPECS = {name: control_spec(name) for name in ("softmax", "matmul", "attention", "reduce_sum")}


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("softmax", {"M": 2, "N": 384}),  # rows of three blocks of 128
        ("matmul", {"M": 32, "N": 32, "K": 32}),  # square
        ("attention", {"B": 3, "N": 32, "D": 32}),
        ("reduce_sum", {"N": 1024}),
    ],
)
def test_the_friendly_shape_is_regular(name: str, sizes: dict[str, int]) -> None:
    """Multiples of the tile or powers of two up to one cap; the first dtype, Gaussian values, contiguous."""
    assert friendly_sizes(SPECS[name]) == sizes
    (case,) = friendly(SPECS[name], 1, 3)
    assert {dim: case.dims[dim] for dim in sizes} == sizes
    assert set(case.layouts.values()) == {"contiguous"}
    assert {str(d) for d in case.values.values()} == {"normal"}
    assert all(drawn == SPECS[name].dtypes[v].choices[0] for v, drawn in case.dtypes.items())


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", SPECS)
def test_cases_are_as_many_as_asked_for_and_differ_by_seed(name: str, strategy: str) -> None:
    """Each strategy is a function of spec, count and seed."""
    spec, draw = SPECS[name], STRATEGIES[strategy]
    cases = draw(spec, 5, 1)
    if strategy == "16 bits" and name in ("matmul", "reduce_sum"):  # which take float32 alone
        assert cases == ()
        return
    assert cases == draw(spec, 5, 1)
    assert cases != draw(spec, 5, 2)
    generated = [case for case in cases if not case.label.startswith("example")]
    assert len(generated) == 5


def test_each_strategy_keeps_to_its_own() -> None:
    """Sizes, dtypes and values are those that its name says."""
    spec = SPECS["softmax"]
    assert all(case.dims["N"] % 128 == 0 for case in STRATEGIES["regular"](spec, 20, 0))
    edges = {1, 2, 31, 32, 33, 127, 128, 129, 257, 400}
    assert all(case.dims["N"] in edges for case in STRATEGIES["boundary"](spec, 20, 0))
    assert {case.dtypes["T"] for case in STRATEGIES["16 bits"](spec, 20, 0)} == {"float16"}
    assert {case.dtypes["T"] for case in STRATEGIES["float32"](spec, 20, 0)} == {"float32"}
    assert {str(case.values["x"]) for case in STRATEGIES["nan-injected"](spec, 20, 0)} == {"nan_injected"}
    assert {str(case.values["x"]) for case in STRATEGIES["default"](spec, 20, 0)} == {"normal", "uniform"}
    assert not {str(case.values["x"]) for case in STRATEGIES["adversarial"](spec, 20, 0)} & {"normal", "uniform"}
    assert STRATEGIES["mix"](spec, 30, 0) == plan(spec, count=30, master=0)


def test_indices_are_not_open() -> None:
    """A strategy chooses values where the spec leaves them to chance, and not those of integers."""
    assert [array.name for array in open_inputs(control_spec("embedding"))] == ["table"]
    (case,) = random_shape(control_spec("embedding"), 1, 0)
    assert case.values["table"].name == "normal"
