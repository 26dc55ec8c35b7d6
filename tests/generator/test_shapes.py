"""Sizes: where kernels break, and always within the constraints."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kcheck.errors import SpecError
from kcheck.generator.shapes import Shapes, block_tiles, boundary_sizes, is_prime
from kcheck.model import Expression, LaunchSpec, OpSpec, Range, Span
from kcheck.symbolic import evaluate, parse

PLACE = Span("specs/op.yaml", 3, 5)


def test_primes() -> None:
    """is_prime agrees with a sieve, and is right on Carmichael numbers and large primes."""
    sieve = [n for n in range(2, 2000) if all(n % p for p in range(2, int(n**0.5) + 1))]
    assert [n for n in range(2000) if is_prime(n)] == sieve
    assert not any(is_prime(n) for n in (561, 41041, 825265, 3215031751))
    assert is_prime(2**31 - 1)
    assert is_prime(2**61 - 1)


@pytest.mark.parametrize(
    ("domain", "tiles", "expected"),
    [
        (Range(1, 5), (), {1, 2, 3, 4, 5}),
        (Range(0, 1000), (), {0, 1000, 1, 2, 31, 32, 33, 127, 128, 129}),
        (Range(1, 300), (64,), {1, 300, 2, 63, 64, 65, 129, 31, 32, 33, 127, 128}),
        (Range(40, 60), (16,), {40, 60}),
    ],
)
def test_boundary_sizes(domain: Range, tiles: tuple[int, ...], expected: set[int]) -> None:
    """Ends, 0 to 2, t-1, t, t+1, 2t+1 of each tile, around 32 and 128: those in the range, and nothing else."""
    assert set(boundary_sizes(domain, tiles)) == expected


@pytest.mark.parametrize(
    ("block", "expected"),
    [((), ()), (("256",), (256,)), (("16", "16"), (16, 256)), (("8", "N"), (8,)), (("1",), ())],
)
def test_blocks_are_tiles(build: Callable[..., OpSpec], block: tuple[str, ...], expected: tuple[int, ...]) -> None:
    """The constant sides of a block, and its size where all are constant, are tiles of every dim."""
    launch = LaunchSpec((), (), tuple(Expression(text, PLACE) for text in block), None, False, PLACE)
    assert block_tiles(build({"N": (1, 9)}, launch=launch)) == expected


def drawn(spec: OpSpec, count: int) -> list[dict[str, int]]:
    shapes = Shapes(spec)
    return [shapes.draw(seed, {}, spec.span) for seed in range(count)]


def test_every_class_comes_up(build: Callable[..., OpSpec]) -> None:
    """Every boundary size is drawn, block size and tiles included, and primes, powers of two and others too."""
    launch = LaunchSpec(
        (), (), (Expression("6 * 16", PLACE), Expression("ceildiv(N, 2)", PLACE)), None, False, PLACE
    )
    spec = build({"N": (0, 5000, (50,)), "M": (0, 5000)}, launch=launch)
    shapes = Shapes(spec)
    classes = {shapes.classes(sizes)["N"] for sizes in drawn(spec, 1500)}
    assert {"0", "1", "2", "5000", "49", "50", "51", "101", "95", "96", "97", "193", "31", "32", "129"} <= classes
    assert {"prime", "power of two", "unequal"} <= classes
    assert {shapes.classes(sizes)["M"] for sizes in drawn(spec, 1500)} >= {"95", "96", "97", "193"}
    assert "50" not in {shapes.classes(sizes)["M"] for sizes in drawn(spec, 1500)}


@pytest.mark.parametrize(
    ("dims", "constraints"),
    [
        ({"N": (1, 512), "B": [1, 2, 5], "D": (1, 128)}, ("B * N * N <= 1_000", "D <= N")),
        ({"M": (1, 4096), "N": (1, 4096), "K": (1, 4096)}, ("M * N * K <= 5000",)),
        ({"M": (1, 1000), "N": (1, 1000)}, ("M == 2 * N",)),
        ({"K": (1, 4096)}, ("K % 32 == 0", "K > 3000")),
        ({"N": (0, 64), "P": "2 * N + 1"}, ("P % 3 == 0",)),
        ({"A": (1, 2000), "B": (1, 2000)}, ("A == B * B + 1",)),
        ({"N": (1, 100), "H": "N - 50"}, ()),
    ],
)
def test_constraints_hold(
    build: Callable[..., OpSpec], dims: dict[str, object], constraints: tuple[str, ...]
) -> None:
    """Every draw meets every constraint, and draws differ."""
    spec = build(dims, constraints=constraints)
    cases = drawn(spec, 60)
    for sizes in cases:
        assert list(sizes) == list(dims)
        assert all(size >= 0 for size in sizes.values())
        for text in constraints:
            assert evaluate(parse(text), sizes)
    assert len({tuple(sizes.values()) for sizes in cases}) > 10
    assert cases == drawn(spec, 60)


def test_no_sizes_name_the_constraint(build: Callable[..., OpSpec]) -> None:
    """Where nothing is found, the fault names the constraint and its place."""
    spec = build({"N": (1, 10)}, constraints=("N > 0", "N * N == 50"))
    with pytest.raises(SpecError, match=r"specs/op\.yaml:3:5: found no sizes that satisfy 'N \* N == 50'"):
        Shapes(spec).draw(0, {}, spec.span)


def test_stated_dims_stand(build: Callable[..., OpSpec]) -> None:
    """What an example states is kept, outside its range too; the rest is drawn around it."""
    spec = build({"N": (1, 100), "M": (1, 100), "P": "2 * N"}, constraints=("M + N <= 120",))
    shapes = Shapes(spec)
    for seed in range(20):
        sizes = shapes.draw(seed, {"N": 110}, PLACE)
        assert sizes["N"] == 110
        assert sizes["P"] == 220
        assert sizes["M"] <= 10
    with pytest.raises(SpecError, match="do not match the derived"):
        shapes.draw(0, {"N": 10, "P": 21}, PLACE)
    with pytest.raises(SpecError, match="M \\+ N <= 120"):
        shapes.draw(0, {"N": 110, "M": 100}, PLACE)


def test_a_dim_draws_from_its_own_stream(build: Callable[..., OpSpec]) -> None:
    """A dim that is added leaves the sizes of the others as they were, where no constraint ties them."""
    one, two = build({"N": [3, 5, 7, 9]}), build({"A": (1, 50), "N": [3, 5, 7, 9]})
    assert [sizes["N"] for sizes in drawn(one, 50)] == [sizes["N"] for sizes in drawn(two, 50)]
