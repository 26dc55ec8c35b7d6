"""Which cases a run has: pure functions of the seed, examples first, pairs covered."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import asdict, replace
from itertools import combinations

import numpy as np
import pytest

from kcheck.errors import SpecError
from kcheck.generator import expand, materialize, plan
from kcheck.generator.corners import CORNERS, corner_seed
from kcheck.generator.expand import Expander
from kcheck.generator.specialization import code_of
from kcheck.model import (
    Case,
    Distribution,
    Example,
    Expression,
    KernelRef,
    LaunchSpec,
    NameArg,
    OpSpec,
    Span,
    TritonOptions,
)
from kcheck.rng import derive

PLACE = Span("specs/op.yaml", 3, 5)
LAYOUTS = ("contiguous", "strided", "transposed", "offset", "broadcast", "reversed")


@pytest.fixture(name="attention")
def attention_spec(build: Callable[..., OpSpec]) -> OpSpec:
    array = {"shape": ("B", "N", "D"), "layouts": ("contiguous", "strided", "transposed")}
    return build(
        {"B": [1, 2, 5], "N": (1, 512), "D": (1, 128, (32,)), "Dv": "2 * D"},
        inputs={
            "q": array,
            "k": {**array, "values": ("normal", "adversarial")},
            "v": {**array, "values": ("uniform",)},
        },
        outputs={"out": {"shape": ("B", "N", "D")}},
        constraints=("B * N * N <= 1_000_000",),
        dtypes=("float32", "float16"),
        params={
            "scale": {"expr": "1 / sqrt(D)"},
            "twice": {"expr": "scale * 2 + eps"},
            "eps": {"values": (1e-6, 1e-5)},
        },
    )


def test_expand_is_pure(attention: OpSpec) -> None:
    """The same seed gives the same case; another seed gives another."""
    assert expand(attention, 7) == expand(attention, 7)
    assert len({str(expand(attention, seed)) for seed in range(50)}) == 50
    case = expand(attention, 7)
    assert (case.label, case.seed, case.op, case.spec) == ("seed", 7, "op", "specs/op.yaml")


def test_labels_and_seeds(attention: OpSpec) -> None:
    """A case is called by its number or its corner, its seed is derived from that, and gives the case."""
    for case in plan(attention, count=30, master=12345):
        if case.label.startswith("iter_"):
            assert case.seed == derive(12345, case.label)
        else:
            assert case.label in CORNERS
            assert case.seed == corner_seed(12345, case.label)
        assert expand(attention, case.seed, case.label) == case
    assert {case.id for case in plan(attention, count=30, master=0)} == {
        case.id for case in plan(attention, count=30, master=0)
    }


@pytest.mark.parametrize("count", [0, 1, 10, 150])
def test_the_count_is_kept(attention: OpSpec, count: int) -> None:
    """A plan has as many generated cases as asked for, each seed once."""
    cases = plan(attention, count=count, master=3)
    assert len(cases) == count
    assert len({case.seed for case in cases}) == count


def coverage(spec: OpSpec, cases: tuple[Case, ...]) -> set[object]:
    expander = Expander(spec)
    return {pair for case in cases for pair in combinations(expander.coordinates(case), 2)}


def test_all_pairs_are_covered(build: Callable[..., OpSpec]) -> None:
    """Every pair of (size, dtype, layout, distribution, listed param) comes up, in few more cases than the largest
    product."""
    values = ("normal", "zeros", "large")
    spec = build(
        {"N": [1, 2, 3, 4]},
        inputs={
            "x": {"shape": ("N", "N"), "layouts": ("contiguous", "strided", "reversed"), "values": values},
            "y": {"shape": ("N", "N"), "layouts": ("contiguous", "offset"), "values": values},
        },
        dtypes=("float32", "float16"),
        params={"flag": {"values": (0.0, 1.0)}, "half": {"expr": "N / 2"}},
    )
    domains = {
        "dim N": "1234",
        "dtype T": ("float32", "float16"),
        "layout x": ("contiguous", "strided", "reversed"),
        "layout y": ("contiguous", "offset"),
        "values x": values,
        "values y": values,
        "param flag": ("0.0", "1.0"),
    }
    wanted = {((a, v), (b, w)) for a, b in combinations(domains, 2) for v in domains[a] for w in domains[b]}
    assert coverage(spec, plan(spec, count=24, master=1)) == wanted


def test_chosen_seeds_cover_more_than_the_first(attention: OpSpec) -> None:
    """The plan covers clearly more pairs than the same number of seeds taken in turn."""
    by_turn = tuple(expand(attention, derive(5, f"iter_{n}")) for n in range(30))
    chosen = coverage(attention, plan(attention, count=30, master=5))
    assert len(chosen) > 1.12 * len(coverage(attention, by_turn))


def test_triples_are_covered_after_pairs(build: Callable[..., OpSpec]) -> None:
    """Once every pair has run, a plan goes on with triples."""
    values = ("normal", "zeros", "large")
    layouts = ("contiguous", "strided", "reversed")
    inputs = {name: {"shape": ("N", "N"), "layouts": layouts, "values": values} for name in ("x", "y")}
    spec = build({"N": [1, 2, 3, 4]}, inputs=inputs, dtypes=("float32", "float16"))
    expander, found = Expander(spec), []
    for seed in range(5):
        cases = plan(spec, count=60, master=seed)
        found.append(len({triple for case in cases for triple in combinations(expander.coordinates(case), 3)}))
    assert sum(found) > 2500  # without that: fewer than 2,400


def test_examples_come_first_and_state_what_they_state(attention: OpSpec) -> None:
    """An example's stated parts are taken as they stand, the rest is drawn; its seed is derived from its label."""
    examples = (
        Example(
            PLACE,
            dims={"N": 65, "D": 200},
            dtypes={"T": "float16"},
            values={"q": Distribution("all_negative"), "k": Distribution("adversarial")},
            layouts={"q": "reversed"},
            params={"eps": 0.5},
        ),
        Example(PLACE),
    )
    spec = replace(attention, examples=examples)
    first, second, third = plan(spec, count=1, master=9)
    assert (first.label, first.seed) == ("example_0", derive(9, "example_0"))
    assert (first.dims["N"], first.dims["D"], first.dims["Dv"]) == (65, 200, 400)
    assert first.dims["B"] in (1, 2, 5)
    assert first.dtypes == {"T": "float16"}
    assert first.values["q"].name == "all_negative"
    assert first.values["k"].name != "adversarial"
    assert first.layouts["q"] == "reversed"
    assert first.params["twice"] == first.params["scale"] * 2 + 0.5
    assert second == expand(spec, derive(9, "example_1"), "example_1")
    assert third.label == "least"


def test_params_keep_the_order_of_the_spec(attention: OpSpec) -> None:
    """Params stand in the order of the spec, derived ones evaluated after those that they use."""
    case = expand(attention, 1)
    assert list(case.params) == ["scale", "twice", "eps"]
    assert case.params["scale"] == 1 / math.sqrt(case.dims["D"])


def test_adding_an_array_changes_no_other_draw(attention: OpSpec) -> None:
    """With an array more, every seed gives the other arrays, dims and params what it gave before."""
    more = replace(attention, inputs={"extra": replace(attention.inputs["q"], name="extra"), **attention.inputs})
    for seed in range(20):
        before, after = expand(attention, seed), expand(more, seed)
        assert (before.dims, before.dtypes, before.params) == (after.dims, after.dtypes, after.params)
        assert before.values == {name: v for name, v in after.values.items() if name != "extra"}
        assert before.layouts == {name: v for name, v in after.layouts.items() if name != "extra"}


def test_layouts_are_those_an_array_can_take(build: Callable[..., OpSpec]) -> None:
    """No zero stride where somebody writes or values must differ, no transpose of one axis, none at all of 0-d."""
    spec = build(
        {"N": (2, 9)},
        inputs={
            "scalar": {"shape": (), "layouts": LAYOUTS},
            "line": {"shape": ("N",), "layouts": LAYOUTS},
            "table": {"shape": ("N", "N"), "layouts": LAYOUTS},
            "rows": {"shape": ("N",), "dtype": "int64", "layouts": LAYOUTS, "values": ("permutation",)},
            "inplace": {"shape": ("N",), "layouts": LAYOUTS},
            "workspace": {"shape": ("N",), "layouts": LAYOUTS},
        },
        outputs={"out": {"shape": ("N",), "alias": "inplace"}, "new": {"shape": ("N", "N"), "layouts": LAYOUTS}},
        mutates=("workspace",),
    )
    seen: dict[str, set[str]] = {}
    for seed in range(150):
        case = expand(spec, seed)
        assert case.layouts["out"] == case.layouts["inplace"]
        for name, layout in case.layouts.items():
            seen.setdefault(name, set()).add(layout)
    everything = set(LAYOUTS)
    assert seen["scalar"] == {"contiguous", "offset"}
    assert seen["line"] == everything - {"transposed"}
    assert seen["table"] == everything
    assert seen["rows"] == seen["inplace"] == seen["workspace"] == everything - {"transposed", "broadcast"}
    assert seen["new"] == everything - {"broadcast"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"shape": ("N",), "layouts": ("transposed",)}, "'x' with 1 axis cannot have the layout transposed"),
        ({"shape": ("N",), "layouts": ("broadcast",), "dtype": "int8", "values": ("permutation",)}, "must differ"),
        ({"shape": ("N",), "dtype": "int8", "values": ("normal",)}, "int8 does not support 'normal'"),
    ],
)
def test_a_layout_that_no_case_can_have_is_refused(
    build: Callable[..., OpSpec], fields: dict[str, object], message: str
) -> None:
    """A layout or distribution that the array cannot take is refused with its place, not replaced."""
    with pytest.raises(SpecError, match=r"specs/op\.yaml:3:5: ") as caught:
        expand(build({"N": (1, 4)}, inputs={"x": fields}), 0)
    assert message in str(caught.value)


def test_a_param_without_a_value(build: Callable[..., OpSpec]) -> None:
    """A param whose expression fails for the dims drawn is refused, naming them."""
    spec = build({"D": [0]}, params={"scale": {"expr": "1 / D"}})
    with pytest.raises(SpecError, match="param 'scale': 1 / 0 divides by zero for D=0"):
        expand(spec, 0)


def test_a_case_is_small(attention: OpSpec) -> None:
    """A case is under 1 KB as JSON."""
    case = expand(attention, 2**64 - 1)
    fields = {key: value for key, value in asdict(case).items() if key != "values"}
    values = {name: str(value) for name, value in case.values.items()}
    assert len(json.dumps({**fields, "values": values})) < 1024


def test_cases_of_a_plan_share_what_is_equal(attention: OpSpec) -> None:
    """A plan of many cases takes little memory: equal dtypes, layouts and distributions are one object."""
    cases = plan(attention, count=50, master=1)
    for part in ("dims", "dtypes", "layouts", "values", "params"):
        drawn = [getattr(case, part) for case in cases]
        assert len({id(one) for one in drawn}) == len({repr(one) for one in drawn}), part


def test_a_plan_prefers_cases_that_share_code(build: Callable[..., OpSpec]) -> None:
    """A Triton kernel is compiled for each constant, and for sizes that are 1 or divisible by 16."""
    sizes = {"dims": {"M": (1, 40), "N": (1, 130), "D": (1, 100)}, "inputs": {"x": {"shape": ("M", "N", "D")}}}
    params = {"BLOCK": {"expr": "max(16, next_pow2(D))"}}
    plain = build(**sizes, params=params)
    triton = of_triton(plain, constants=("BLOCK",))

    code, expander = code_of(triton), Expander(triton)
    assert code is not None
    before, after = plan(plain, count=60, master=0), plan(triton, count=60, master=0)
    assert 2 * len({code(case) for case in after}) <= len({code(case) for case in before})

    def properties(cases: Iterable[Case]) -> set[tuple[str, str]]:
        return {coordinate for case in cases for coordinate in expander.coordinates(case)}

    assert properties(after) == properties(before)


def test_a_plan_does_not_starve_a_dtype(build: Callable[..., OpSpec]) -> None:
    """Code that is compiled already is preferred, but not to the point where hardly a case has the other dtype."""
    spec = build(
        {"M": (1, 3), "N": (1, 150, (64,))},
        dtypes=("float32", "float16"),
        inputs={"x": {"shape": ("M", "N"), "values": ("normal", "adversarial", "tiny")}, "w": {"shape": ("N",)}},
        params={"eps": {"values": (1e-6, 1e-5)}},
    )
    for seed in range(20):
        cases = plan(of_triton(spec, constants=()), count=30, master=seed)
        assert all(sum(case.dtypes["T"] == dtype for case in cases) >= 8 for dtype in ("float32", "float16")), seed


def test_a_plan_covers_both_signs_of_offset(build: Callable[..., OpSpec]) -> None:
    """The sign is known before values are drawn, in every layout, and both are combined with other properties."""
    fields = {"shape": ("M", "N"), "values": ("normal", "adversarial"), "layouts": LAYOUTS}
    spec = build({"M": (1, 8), "N": (1, 600)}, inputs={"x": fields}, dtypes=("float16", "bfloat16"))
    expander = Expander(spec)
    for seed in range(10):
        signs = set()
        for case in plan(spec, count=60, master=seed):
            if case.values["x"].name == "offset":
                above = materialize(spec, case).allocations["x"].view().astype(np.float64).mean() > 0
                assert ("values x", f"offset {'above' if above else 'below'} 0") in expander.coordinates(case)
                signs.add(above)
        assert signs == {True, False}, seed


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        pytest.param({"N": 16}, {"N": 32}, True, id="both divisible by 16"),
        pytest.param({"N": 16}, {"N": 17}, False, id="one divisible by 16"),
        pytest.param({"N": 1}, {"N": 3}, False, id="one is 1"),
        pytest.param({"N": 5}, {"N": 7}, True, id="neither"),
        pytest.param({"BLOCK": 64}, {"BLOCK": 128}, False, id="two constants"),
    ],
)
def test_the_code_that_a_case_of_triton_runs(
    build: Callable[..., OpSpec], one: dict[str, int], other: dict[str, int], is_same: bool
) -> None:
    spec = build({"N": (1, 40)}, inputs={"x": {"shape": ("N",)}}, params={"BLOCK": {"values": (64, 128)}})
    spec = of_triton(spec, constants=("BLOCK",))
    code = code_of(spec)
    assert code is not None
    first = replace(expand(spec, 0), dims={"N": 5}, params={"BLOCK": 64})

    def of(changes: dict[str, int]) -> Hashable:
        dims = {name: changes.get(name, value) for name, value in first.dims.items()}
        return code(replace(first, dims=dims, params={**first.params, **changes}))

    assert (of(one) == of(other)) is is_same


def of_triton(spec: OpSpec, constants: tuple[str, ...]) -> OpSpec:
    """The spec, of a Triton kernel that takes all dims."""
    args = tuple(NameArg(name, None, PLACE) for name in (*spec.inputs, *spec.dims))
    kernel = KernelRef("kernels/op.py", "op", PLACE, kind="triton")
    launch = LaunchSpec(args, (Expression("1", PLACE),), (), None, cooperative=False, span=PLACE)
    return replace(spec, kernel=kernel, launch=launch, compile=TritonOptions(constants))
