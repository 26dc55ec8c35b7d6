"""Kernels whose outputs are not written, or that change an input (unwritten, mutated).

What follows the first line of a docstring is the spec's, on top of a default that asks for ``y = 2 * x`` of 70
elements by blocks of 32 threads; see ``on_specs.py``.
"""

import numpy as np
from numba import cuda, float32


def doubled(x):
    """The default's reference."""
    return {"y": 2 * x}


@cuda.jit
def double(x, y, n):
    """Without a bug: for launchers."""
    i = cuda.grid(1)
    if i < n:
        y[i] = 2 * x[i]


# Never written


@cuda.jit
def last_element_masked(x, y, n):
    """The guard is one too strict."""
    i = cuda.grid(1)
    if i < n:  # bug: if i < n - 1:
        y[i] = 2 * x[i]  # unwritten: y


@cuda.jit
def stride_too_long(x, y, n):
    """A loop over the grid takes steps of two grids.

    launch: {args: [x, y, N], grid: [1], block: [32]}
    """
    step = cuda.gridsize(1)  # bug: step = 2 * cuda.gridsize(1)
    for i in range(cuda.grid(1), n, step):
        y[i] = 2 * x[i]  # unwritten: y


@cuda.jit
def return_on_negative(x, y, n):
    """What is negative is nothing to do, and nothing is written for it."""
    i = cuda.grid(1)
    if i >= n:  # bug: if i >= n or x[i] < 0:
        return
    y[i] = 2 * x[i]  # unwritten: y


@cuda.jit
def branch_without_store(x, y, n):
    """One of two branches forgets to store."""
    i = cuda.grid(1)
    if i < n:
        if x[i] > 0:
            y[i] = 2 * x[i]
        else:
            y[i] = x[i] + x[i]  # bug: pass  # unwritten: y


def too_few_blocks(x, y, N):
    """The grid is rounded down.

    launcher: too_few_blocks
    """
    blocks = (N + 31) // 32  # bug: blocks = N // 32  # unwritten: y
    double[blocks, 32](x, y, N)


def summed(x):
    """Sums of 32 neighbors."""
    return {"y": x.reshape(-1, 32).sum(axis=1)}


@cuda.jit
def first_block_only(x, y):
    """The first thread of the grid stores where the first of each block should.

    dims: {N: [96]}
    reference: summed
    outputs: {y: [N // 32]}
    launch: {args: [x, y], grid: [N // 32], block: [32]}
    """
    i = cuda.grid(1)
    t = cuda.threadIdx.x
    total = x[i]
    for step in (16, 8, 4, 2, 1):
        total += cuda.shfl_down_sync(0xFFFFFFFF, total, step)
    if t == 0:  # bug: if i == 0:
        y[cuda.blockIdx.x] = total  # unwritten: y


@cuda.jit
def tail_of_a_row(x, y, columns):
    """Whole vectors of 32 columns are done, and what is left over is not.

    dims: {N: [45], M: [3]}
    inputs: {x: [M, N]}
    outputs: {y: [M, N]}
    launch: {args: [x, y, N], grid: [M], block: [32]}
    """
    row = cuda.blockIdx.x
    whole = columns  # bug: whole = columns - columns % 32
    for j in range(cuda.threadIdx.x, whole, 32):
        y[row, j] = 2 * x[row, j]  # unwritten: y


def doubled_and_signs(x):
    """With the sign beside it."""
    return {"y": 2 * x, "positive": x > 0}


@cuda.jit
def second_output(x, y, positive, n):
    """One of two outputs is left out.

    reference: doubled_and_signs
    outputs: {y: [N], positive: {shape: [N], dtype: bool}}
    launch: {args: [x, y, positive, N], grid: ["ceildiv(N, 32)"], block: [32]}
    """
    i = cuda.grid(1)
    if i < n:
        y[i] = 2 * x[i]
        positive[i] = x[i] > 0  # bug: pass  # unwritten: positive


# Inputs changed


@cuda.jit
def stored_on_both_sides(x, y, n):
    """The result goes back to the input as well."""
    i = cuda.grid(1)
    if i < n:
        y[i] = 2 * x[i]  # bug: x[i] = y[i] = 2 * x[i]  # mutated: x


@cuda.jit
def reduction_in_the_input(x, y):
    """A tree of sums is built in the input itself, not in a tile of its own.

    dims: {N: [96]}
    reference: summed
    outputs: {y: [N // 32]}
    launch: {args: [x, y], grid: [N // 32], block: [32]}
    """
    i = cuda.grid(1)
    t = cuda.threadIdx.x
    tile = cuda.shared.array(32, float32)  # bug: tile = x[i - t : i - t + 32]  # mutated: x
    tile[t] = x[i]
    cuda.syncthreads()
    step = 16
    while step > 0:
        if t < step:
            tile[t] += tile[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        y[cuda.blockIdx.x] = tile[0]


def medians(x):
    """The median of each row of seven."""
    return {"y": np.sort(x, axis=1)[:, 3]}


@cuda.jit
def rows_sorted_in_place(x, y, rows):
    """To find the median a row is sorted where it lies, not in a copy.

    dims: {M: [40]}
    reference: medians
    inputs: {x: [M, 7]}
    outputs: {y: [M]}
    launch: {args: [x, y, M], grid: [2], block: [32]}
    """
    r = cuda.grid(1)
    if r >= rows:
        return
    row = cuda.local.array(7, float32)  # bug: row = x[r]  # mutated: x
    for j in range(7):
        row[j] = x[r, j]
    for j in range(1, 7):
        k = j
        while k > 0 and row[k - 1] > row[k]:
            row[k - 1], row[k] = row[k], row[k - 1]
            k -= 1
    y[r] = row[3]


def picked(x, k):
    """Rows by numbers that may count from the end."""
    return {"y": 2 * x[k]}


@cuda.jit
def indices_made_positive(x, k, y, n):
    """Negative indices are fixed in the caller's array.

    reference: picked
    inputs: {x: [N], k: {shape: [N], dtype: int64, values: {integers: [-N, N - 1]}}}
    launch: {args: [x, k, y, N], grid: ["ceildiv(N, 32)"], block: [32]}
    """
    i = cuda.grid(1)
    if i < n:
        j = k[i] % n  # bug: k[i] %= n; j = k[i]  # mutated: k
        y[i] = 2 * x[j]


@cuda.jit
def emptied_after_use(x, y, n):
    """What was read is set to zero, as if for the next launch."""
    i = cuda.grid(1)
    if i < n:
        y[i] = 2 * x[i]
        y[i] += 0  # bug: x[i] = 0  # mutated: x


def rectified(x):
    """What is negative becomes zero."""
    return {"y": 2 * np.maximum(x, 0)}


@cuda.jit
def atomic_on_the_input(x, y, n):
    """An atomic maximum clips the input, where a local one would do.

    reference: rectified
    """
    i = cuda.grid(1)
    if i < n:
        value = max(x[i], float32(0))  # bug: cuda.atomic.max(x, i, 0); value = x[i]  # mutated: x
        y[i] = 2 * value


def turned(x):
    """Transposed."""
    return {"y": 2 * x.T}


@cuda.jit
def transposed_in_place(x, y, n):
    """A square is transposed by swapping its halves in the input.

    dims: {N: [24]}
    reference: turned
    inputs: {x: [N, N]}
    outputs: {y: [N, N]}
    launch: {args: [x, y, N], grid: [3, 3], block: [8, 8]}
    """
    column, row = cuda.grid(2)
    if row < n and column < row:
        low, high = x[row, column], x[column, row]  # bug: low, high = swap(x, row, column)  # mutated: x
        y[row, column] = 2 * high
        y[column, row] = 2 * low
    if row == column:
        y[row, row] = 2 * x[row, row]


@cuda.jit(device=True)
def swap(x, row, column):
    """Swaps two elements; the values that they had."""
    low, high = x[row, column], x[column, row]
    x[row, column], x[column, row] = high, low
    return low, high


def fourfold(x):
    """Doubled twice."""
    return {"y": 4 * x}


def input_as_workspace(x, y, N):
    """The first of two kernels writes its result over the input.

    launcher: input_as_workspace
    reference: fourfold
    """
    between = cuda.device_array_like(x)  # bug: between = x  # mutated: x
    double[3, 32](x, between, N)
    double[3, 32](between, y, N)


# Outputs read before they are written


@cuda.jit
def added_to_an_output(x, y, n):
    """The result is added to what the output holds, which is nothing yet."""
    i = cuda.grid(1)
    if i < n:
        y[i] = 2 * x[i]  # bug: y[i] += 2 * x[i] + 1  # initcheck
