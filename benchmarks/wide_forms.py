"""What ``wide.py`` launches: for each kernel its arguments, grid and block, and how far its results may be off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Shape = tuple[int, ...]
Random = np.random.Generator
SIDE = 1024  # of matrices and images


@dataclass(frozen=True)
class Form:
    """A kernel of ``wide_kernels.py`` with its twin in ``wide_plain.py``.

    Attributes:
        name: for the table.
        kernel: its name in both modules.
        make: generator -> host arrays and scalars, in the kernel's order.
        outputs: which of the arguments are results, by position.
        tolerance: of the results, relative to 1 + the twin's.
    """

    name: str
    kernel: str
    grid: Shape
    block: Shape
    make: Callable[[Random], tuple[Any, ...]]
    outputs: Shape
    tolerance: float = 0.0


def floats(rng: Random, *shape: int) -> np.ndarray:
    return rng.random(shape, np.float32)


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def _map(*shape: int) -> Callable[[Random], tuple[Any, ...]]:
    """An array, and a result of its shape."""
    return lambda rng: (floats(rng, *shape), zeros(*shape))


def _sparse(rng: Random) -> tuple[Any, ...]:
    """CSR with 0 to 31 numbers in a row."""
    rows, columns = 1 << 15, 1 << 14
    starts = np.zeros(rows + 1, np.int32)
    starts[1:] = np.cumsum(rng.integers(0, 32, rows))
    places = rng.integers(0, columns, starts[-1], dtype=np.int32)
    return floats(rng, starts[-1]), places, starts, floats(rng, columns), zeros(rows)


def _options(rng: Random) -> tuple[Any, ...]:
    n = 1 << 16
    price, strike, years = (rng.uniform(low, high, n) for low, high in ((5, 30), (1, 100), (0.25, 10)))
    return np.zeros(n), np.zeros(n), price, strike, years, 0.02, 0.3


def _generators(rng: Random) -> tuple[Any, ...]:
    n = 1 << 13
    states = np.zeros(n, np.dtype([("s0", np.uint64), ("s1", np.uint64)], align=True))
    states["s0"], states["s1"] = (rng.integers(1, 1 << 63, n, dtype=np.uint64) for _ in range(2))
    return states, 64, zeros(n)


def _norm(rng: Random) -> tuple[Any, ...]:
    return floats(rng, SIDE, SIDE), floats(rng, SIDE), floats(rng, SIDE), np.float32(1e-5), zeros(SIDE, SIDE)


def _systems(rng: Random) -> tuple[Any, ...]:
    """Tridiagonal systems with a dominant diagonal."""
    shape = 4096, 64
    return (
        floats(rng, *shape),
        3 + floats(rng, *shape),
        floats(rng, *shape),
        floats(rng, *shape),
        zeros(*shape),
        zeros(*shape),
    )


def _bytes(rng: Random, *shape: int, most: int = 256) -> np.ndarray:
    return rng.integers(0, most, shape, dtype=np.uint8)


_LINE = 1 << 20
_SQUARES, _TILES = (SIDE // 16, SIDE // 16), (16, 16)

FORMS = (
    Form("2D stencil, x the row", "stencil_rows", _SQUARES, _TILES, _map(SIDE, SIDE), (1,), 1e-6),
    Form("2D stencil, x the column", "stencil_columns", _SQUARES, _TILES, _map(SIDE, SIDE), (1,), 1e-6),
    Form("3D heat, x the slowest", "heat", (16, 16, 16), (8, 8, 8),
         lambda r: (floats(r, 128, 128, 128), np.float32(0.1), zeros(128, 128, 128)), (2,), 1e-6),
    Form("game of life int8", "life", (SIDE // 32, SIDE // 8), (32, 8),
         lambda r: (_bytes(r, SIDE, SIDE, most=2).view(np.int8), np.zeros((SIDE, SIDE), np.int8)), (1,)),
    Form("1D convolution, local array", "convolution", (_LINE // 256,), (256,),
         lambda r: (floats(r, _LINE + 8), floats(r, 9), zeros(_LINE)), (2,), 1e-6),
    Form("naive matmul, x the row", "matmul", (16, 16), (16, 16),
         lambda r: (floats(r, 256, 256), floats(r, 256, 256), zeros(256, 256)), (2,), 1e-6),
    Form("tiled transpose, 32 x 8", "transpose", (SIDE // 32, SIDE // 32), (32, 8), _map(SIDE, SIDE), (1,)),
    Form("Floyd-Warshall step", "floyd_warshall", (SIDE // 16, SIDE // 16), (16, 16),
         lambda r: (floats(r, SIDE, SIDE), 17, zeros(SIDE, SIDE)), (2,)),
    Form("RGB to gray", "gray", _SQUARES, _TILES,
         lambda r: (_bytes(r, SIDE, SIDE, 3), zeros(SIDE, SIDE)), (1,), 1e-6),
    Form("bilinear resize", "resize", _SQUARES, _TILES,
         lambda r: (floats(r, 600, 700), zeros(SIDE, SIDE)), (1,), 1e-4),
    Form("Mandelbrot", "mandelbrot", (16, 32), (32, 8),
         lambda r: (-2.0, 1.0, -1.0, 1.0, np.zeros((256, 512), np.uint8), 50), (4,)),
    Form("histogram, global atomics", "histogram", (256,), (256,),
         lambda r: (floats(r, _LINE), np.float32(0), np.float32(1), np.zeros(64, np.int32)), (3,)),
    Form("scatter-add of floats", "scatter_add", (_LINE // 256,), (256,),
         lambda r: (floats(r, _LINE), r.integers(0, 4096, _LINE, dtype=np.int32), zeros(4096)), (2,), 1e-5),
    Form("CSR matrix-vector, a thread a row", "spmv", (128,), (256,), _sparse, (4,), 1e-5),
    Form("row sums, a thread a row", "row_sums", (16,), (256,),
         lambda r: (floats(r, 4096, 256), zeros(4096)), (1,), 1e-5),
    Form("k-means assignment", "nearest_center", (128,), (256,),
         lambda r: (floats(r, 1 << 15, 4), floats(r, 16, 4), np.zeros(1 << 15, np.int32)), (2,)),
    Form("n-body", "nbody", (4,), (256,),
         lambda r: (floats(r, 1024, 3), floats(r, 1024), np.float32(1e-2), zeros(1024, 3)), (3,), 1e-4),
    Form("saxpy, grid-stride", "saxpy", (256,), (256,),
         lambda r: (np.float32(2.5), floats(r, _LINE), floats(r, _LINE), zeros(_LINE)), (3,), 1e-6),
    Form("integer hash", "hashed", (_LINE // 256,), (256,),
         lambda r: (r.integers(0, 1 << 32, _LINE, dtype=np.uint32), np.zeros(_LINE, np.uint32)), (1,)),
    Form("Black-Scholes f64", "black_scholes", (256,), (256,), _options, (0, 1), 1e-9),
    Form("Monte Carlo pi, xoroshiro128p", "monte_carlo_pi", (64,), (128,), _generators, (2,), 1e-6),
    Form("block reduction, shared", "block_sums", (_LINE // 256,), (256,),
         lambda r: (floats(r, _LINE), zeros(_LINE // 256)), (1,), 1e-5),
    Form("prefix sums, shared", "prefix_sums", (512,), (256,), _map(1 << 18), (1,), 1e-5),
    Form("bitonic sort, shared", "bitonic_sort", (128,), (512,), _map(1 << 16), (1,)),
    Form("softmax, a block a row", "softmax", (256,), (256,), _map(256, SIDE), (1,), 1e-6),
    Form("layer norm, a warp a row", "layer_norm", (SIDE // 4,), (32, 4), _norm, (4,), 1e-4),
    Form("pairwise distances, padded tiles", "pairwise_distances", (32, 32), (16, 16),
         lambda r: (floats(r, 500, 64), floats(r, 500, 64), zeros(500, 500)), (2,), 1e-4),
    Form("tridiagonal, a thread a system", "tridiagonal", (32,), (128,), _systems, (5,), 1e-4),
    Form("int8 matmul, B transposed", "int8_matmul", (16, 16), (16, 16),
         lambda r: (_bytes(r, 256, 256).view(np.int8), _bytes(r, 256, 256).view(np.int8),
                    np.zeros((256, 256), np.int32)), (2,)),
    Form("k-means sums, 2-D atomics", "center_sums", (128,), (256,),
         lambda r: (floats(r, 1 << 15, 8), r.integers(0, 16, 1 << 15, dtype=np.int32), zeros(16, 8),
                    np.zeros(16, np.int32)), (2, 3), 1e-4),
)  # fmt: skip
