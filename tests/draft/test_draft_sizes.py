"""Sizes that a draft guesses: those of dims, and scalars that are sizes."""

from __future__ import annotations

import re

import pytest

from kcheck.draft import Sketch, spec_text


@pytest.mark.parametrize(
    ("block", "axes", "sizes"),
    [(128, 1, "1..300"), (256, 2, "1..600"), (1024, 1, "1..2400"), (1024, 2, "1..1200"), (128, 3, "1..300")],
)
def test_default_sizes_need_more_than_two_blocks(drawn, block: int, axes: int, sizes: str) -> None:
    """A loop over columns with a stride of the block runs several times, so that its accumulator matters."""
    place = ", ".join(["cuda.blockIdx.x", "cuda.blockIdx.y", "c"][-axes:])
    found = drawn(f"""
        @cuda.jit
        def k(x, y, n):
            part = cuda.shared.array({block}, float32)
            t = cuda.threadIdx.x
            total = 0.0
            for c in range(t, n, {block}):
                total += x[{place}]
            part[t] = total
            y[0] = part[t]
    """)
    assert found.block == (block,)
    assert len(found.dims) == axes
    assert f"  n: {sizes}" in spec_text(found, "k.py:k", "r.py:k").splitlines()


def sizes_of(found: Sketch) -> list[str]:
    lines = spec_text(found, "k.py:k", "r.py:k").splitlines()
    return [line.strip() for line in lines if re.fullmatch(r"  \w+: 1\.\.\d+", line)]


def test_of_three_dims_one_has_more_than_two_blocks(drawn) -> None:
    """The others are small, so that their product is."""
    found = drawn("""
        @cuda.jit
        def k(x, y, n):
            i = cuda.grid(1)
            if i < n:
                for a in range(x.shape[1]):
                    for b in range(x.shape[2]):
                        y[i, a, b] = x[i, a, b]
    """)
    assert found.grid == ("ceildiv(n, 128)",)
    assert sizes_of(found) == ["n: 1..300", "M: 1..25", "N: 1..25"]


def test_a_dim_that_a_block_loops_over_has_more_than_two_blocks(drawn) -> None:
    """The grid names the others."""
    found = drawn("""
        @cuda.jit
        def k(x, y):
            for c in range(cuda.threadIdx.x, x.shape[2], 256):
                y[cuda.blockIdx.x, cuda.blockIdx.y, c] = x[cuda.blockIdx.x, cuda.blockIdx.y, c]
    """)
    *others, last = sizes_of(found)
    assert int(last.rpartition(".")[2]) > 2 * max(found.block)
    assert len(others) == 2
    assert all(int(line.rpartition(".")[2]) <= 40 for line in others)


def test_three_dims_of_small_blocks_are_small(drawn) -> None:
    found = drawn("""
        @cuda.jit
        def k(x, y):
            a, b, c = cuda.grid(3)
            if a < x.shape[0] and b < x.shape[1] and c < x.shape[2]:
                y[a, b, c] = x[a, b, c]
    """)
    assert found.block == (8, 8, 4)
    assert [line.rpartition(" ")[2] for line in sizes_of(found)] == ["1..40"] * 3


SCALARS = {
    "not used": ("n", "y[i] = x[i]", "dim N", "n is not used: the size N is passed for it"),
    "not used, by any name": ("flag", "y[i] = x[i]", "dim N", "flag is not used: the size N is passed for it"),
    "named like a size": (
        "count",
        "y[i] = x[i] / count",
        "dim N",
        "count is named like a size: the size N is passed for it",
    ),
    "named like a number": ("alpha", "y[i] = x[i] * alpha", "scalar float32", ""),
}


@pytest.mark.parametrize(("name", "line", "kind", "guess"), SCALARS.values(), ids=SCALARS)
def test_a_scalar_that_nothing_needs_or_named_like_a_size_is_a_size(
    drawn, name: str, line: str, kind: str, guess: str
) -> None:
    """Not 0.5; the draft says that it is a guess."""
    found = drawn(f"""
        @cuda.jit
        def k(x, y, {name}):
            i = cuda.grid(1)
            if i < x.shape[0]:
                {line}
    """)
    (argument,) = (one for one in found.arguments if one.name == name)
    assert f"{argument.kind} {argument.dim or argument.dtype}" == kind
    assert found.guesses == ((guess,) if guess else ())
    assert (f"# TODO: {guess}" in spec_text(found, "k.py:k", "r.py:k").splitlines()) is bool(guess)


def test_numbers_are_those_of_launches_in_the_file(drawn) -> None:
    """Arguments that are not constants, or not of one type, are guessed as before."""
    found = drawn("""
        LIMIT = 1024

        @cuda.jit
        def k(x, y, n, limit, scale, plus, other):
            i = cuda.grid(1)
            if i < n and i < limit:
                y[i] = x[i] * scale + plus + other

        def main(x, y, other):
            k[4, 64](x, y, x.size, LIMIT, 0.5, True, other)
            k[4, 64](x, y, x.size, 2 * LIMIT, -1.5, True, 3)
    """)
    text = spec_text(found, "k.py:k", "r.py:k")
    assert "limit: {dtype: int64, values: [1024, 2048]}   # from launches in the file" in text
    assert "scale: {dtype: float32, values: [0.5, -1.5]}   # from launches in the file" in text
    assert "plus: {dtype: bool, values: [true]}   # from launches in the file" in text
    assert "other: {dtype: float32, values: [0.5]}   # TODO: its values" in text
    assert "args: [x, y, n, limit, scale, plus, other]" in text


def test_of_several_dims_the_one_of_that_name_or_axis_is_meant(drawn) -> None:
    found = drawn("""
        @cuda.jit
        def k(x, y, m, width, rows):
            i, j = cuda.grid(2)
            M, N = x.shape
            if i < M and j < N:
                y[i, j] = x[i, j]
    """)
    dims = {one.name: one.dim for one in found.arguments if one.kind == "dim"}
    assert dims == {"m": "M", "width": "N", "rows": "M"}
