"""The generators for use alone, and the Hypothesis strategy."""

from __future__ import annotations

import hypothesis
import numpy as np
import pytest

import kcheck


@pytest.mark.parametrize(
    ("seed", "domain", "derived"),
    [
        (42, "test", 11905773293262258603),
        (12345, "iter_0", 13013218331088976615),
        (98765, "iter_0", 14707833058110456562),
        (0, "", 1786884285633530058),
    ],
)
def test_derived_seeds_are_those_of_the_spec_page(seed: int, domain: str, derived: int) -> None:
    assert kcheck.SeededRng(seed).derive(domain).seed == derived


@pytest.mark.parametrize(
    ("seed", "words"),
    [
        (42, [14921385303349856026, 18113137345775244274, 13573055955469809868]),
        (0, [45495894887209155, 8678822967305584257, 6092928826745819050]),
    ],
)
def test_words_are_those_of_the_spec_page(seed: int, words: list[int]) -> None:
    rng = kcheck.SeededRng(seed)
    assert [rng.gen_u64() for _ in words] == words


def test_the_values_of_a_seeded_rng_are_in_their_ranges() -> None:
    rng = kcheck.SeededRng(7)
    drawn = [rng.gen_range(-3, 4) for _ in range(300)]
    assert set(drawn) == set(range(-3, 4))
    assert all(0 <= rng.gen_f32() < 1 for _ in range(100))
    assert {rng.choice("abc") for _ in range(50)} == set("abc")
    normal = rng.randn((100, 100))
    assert normal.dtype == np.float32
    assert abs(normal.mean()) < 0.05
    assert abs(normal.std() - 1) < 0.05


def test_a_derived_stream_does_not_depend_on_what_was_drawn() -> None:
    one, two = kcheck.SeededRng(5), kcheck.SeededRng(5)
    one.gen_u64()
    assert one.derive("x").gen_u64() == two.derive("x").gen_u64()


def test_shapes_include_the_neighbors_of_a_tile_and_satisfy_the_constraints() -> None:
    sizes = list(
        kcheck.shapes(M=range(1, 65), N={"range": "1..512", "tile": 48}, constraints=["M < N"], count=200)
    )
    assert {47, 48, 49, 97} <= {size["N"] for size in sizes}
    assert all(size["M"] < size["N"] for size in sizes)
    again = list(
        kcheck.shapes(M=range(1, 65), N={"range": "1..512", "tile": 48}, constraints=["M < N"], count=200)
    )
    assert sizes == again


@pytest.mark.parametrize("layout", ["contiguous", "strided", "transposed", "offset", "reversed", "broadcast"])
def test_a_layout_has_the_same_elements_except_broadcast(layout: str) -> None:
    array = np.arange(12.0).reshape(3, 4)
    ((name, view),) = kcheck.layouts(array, [layout])
    assert name == layout
    assert np.array_equal(view, array) == (layout != "broadcast")
    assert (0 in view.strides) == (layout == "broadcast")


def test_channels_last_is_a_layout_of_three_axes_or_more() -> None:
    array = np.arange(24.0).reshape(2, 3, 4)
    ((_, view),) = kcheck.layouts(array, ["channels_last"])
    assert np.array_equal(view, array)
    assert view.strides == (96, 8, 24)
    with pytest.raises(kcheck.UserError, match="needs at least 3 axes, the array has 2"):
        kcheck.layouts(array[0], ["channels_last"])


def test_layouts_of_a_vector_leave_out_those_that_need_two_axes() -> None:
    assert [name for name, _ in kcheck.layouts(np.ones(3))] == ["contiguous", "strided", "offset", "reversed"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kcheck.layouts(np.ones(3), ["transposed"]), "needs at least 2 axes, the array has 1"),
        (lambda: kcheck.layouts(np.ones(3), ["stride"]), "unknown layout 'stride'; did you mean 'strided'?"),
        (lambda: kcheck.dtypes(["float33"]), "unknown dtype 'float33'; did you mean 'float32'?"),
        (lambda: kcheck.values("nomal", 3), "no distribution 'nomal'; did you mean 'normal'?"),
        (lambda: kcheck.values("integers", 3, "int8"), "the distribution integers needs an argument"),
        (lambda: kcheck.values("zeros", 3, argument=1), "the distribution zeros takes no argument"),
        (lambda: kcheck.values("normal", 3, "int8"), "normal: "),
    ],
)
def test_generators_refuse_wrong_arguments(call, message: str) -> None:
    with pytest.raises(kcheck.UserError) as refused:
        call()
    assert message in str(refused.value)


def test_values_are_those_that_cases_draw() -> None:
    spec = kcheck.Spec(
        "op",
        dims={"N": [64]},
        inputs={"array": {"shape": ["N"], "values": "large"}},
        outputs={"y": ["N"]},
        reference=lambda array: array,
    )
    case = kcheck.case_of(spec, seed=11)
    assert np.array_equal(kcheck.values("large", 64, seed=11), case.inputs["array"])


SPEC = {
    "dims": {"M": range(1, 65), "N": range(1, 65)},
    "dtypes": ["float32", "float16"],
    "inputs": {"x": {"shape": ["M", "N"], "layouts": ["contiguous", "transposed"]}},
    "outputs": {"y": ["M", "N"]},
    "reference": lambda x: x,
}


def smallest(spec: kcheck.Spec, fails) -> kcheck.Case:
    """The case that Hypothesis shrinks to."""
    return hypothesis.find(
        kcheck.hypothesis.cases(spec), fails, settings=hypothesis.settings(database=None, derandomize=True)
    )


def test_hypothesis_shrinks_to_the_smallest_sizes_and_the_first_choices() -> None:
    found = smallest(kcheck.Spec("op", **SPEC), lambda case: case.dims["N"] >= 17)
    assert dict(found.dims) == {"M": 1, "N": 17}
    assert dict(found.dtypes) == {"T": "float32"}
    assert found.layouts["x"] == "contiguous"


def test_hypothesis_draws_within_the_constraints() -> None:
    spec = kcheck.Spec("op", **{**SPEC, "constraints": ["M * N % 6 == 0"]})

    @hypothesis.settings(max_examples=60, database=None, derandomize=True, deadline=None)
    @hypothesis.given(kcheck.hypothesis.cases(spec))
    def meets(case: kcheck.Case) -> None:
        assert case.dims["M"] * case.dims["N"] % 6 == 0

    meets()
