"""Accesses that go astray (memcheck)."""

import numpy as np
from numba import cuda, float32, int32
from pairs import pair

BYTES, INTS = np.zeros(64, np.uint8), np.zeros(32, np.int32)
STALE = np.ones(64, np.float32)


@pair(like="NVIDIA Memcheck/memcheck_demo.cu: unaligned_kernel")
def misaligned_store():
    """An integer is stored at an address that is one byte past a multiple of four."""

    @cuda.jit
    def store(numbers):
        numbers[0] = 42  # memcheck

    start = 4  # bug: start = 1
    memory = cuda.to_device(BYTES)
    store[1, 1](memory[start : start + 32].view(np.int32))


@pair(like="NVIDIA Memcheck/memcheck_demo.cu: out_of_bounds_kernel")
def wild_store():
    """A device function stores to an address that belongs to nobody."""

    @cuda.jit(device=True)
    def store_at(numbers, place):
        numbers[place] = 42  # memcheck

    @cuda.jit
    def store(numbers, place):
        store_at(numbers, place)

    place = 0  # bug: place = 0x87654320
    store[1, 1](cuda.to_device(INTS), place)


@pair(3, 32, x=np.ones(70, np.float32), y=np.zeros(70, np.float32), n=70)
@cuda.jit
def guard_off_by_one(x, y, n):
    """The guard lets the thread after the last element through."""
    i = cuda.grid(1)
    if i < n:  # bug: if i <= n:
        y[i] = x[i] * 2  # memcheck


@pair(1, 32, x=np.arange(32, dtype=np.float32), y=np.zeros(32, np.float32))
@cuda.jit
def no_guard_at_the_left(x, y):
    """The first two threads look before the array: -33 is no index, not even for Python."""
    i = cuda.grid(1)
    y[i] = x[max(i - 33, 0)] - x[i]  # bug: y[i] = x[i - 33] - x[i]  # memcheck


@pair(2, 32, x=np.ones(64, np.float32), y=np.zeros(64, np.float32))
@cuda.jit
def global_index_into_shared(x, y):
    """A shared tile is indexed by the thread of the grid, not of the block."""
    tile = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    slot = t  # bug: slot = i
    tile[slot] = x[i]  # memcheck
    cuda.syncthreads()
    y[i] = tile[31 - t]


@pair(1, 32, x=np.arange(33, dtype=np.float32), y=np.zeros(32, np.float32))
@cuda.jit
def neighbor_past_the_shared_array(x, y):
    """The last thread looks for its neighbor in the shared array that lies behind: inside the block's memory."""
    left = cuda.shared.array(32, float32)
    right = cuda.shared.array(32, float32)
    i = cuda.threadIdx.x
    left[i] = x[i]
    right[i] = x[i + 1]
    cuda.syncthreads()
    j = i % 31  # bug: j = i
    y[i] = left[j + 1] - right[i]  # memcheck


@pair(1, 32, x=np.arange(32, dtype=np.float32), y=np.zeros(32, np.float32))
@cuda.jit
def threads_before_the_second_shared_array(x, y):
    """An index before the start of the second array leads into the first."""
    seen = cuda.shared.array(32, float32)
    sums = cuda.shared.array(32, float32)
    i = cuda.threadIdx.x
    seen[i] = x[i]
    sums[i] = x[i]
    cuda.syncthreads()
    j = i  # bug: j = i - 40
    y[i] = sums[j] + seen[i]  # memcheck


@pair(1, 64, values=np.arange(64, dtype=np.int32), counts=np.zeros(8, np.int32))
@cuda.jit
def bin_past_the_last_shared_bin(values, counts):
    """The largest value is counted in the first bin of the next array."""
    bins = cuda.shared.array(8, int32)
    others = cuda.shared.array(8, int32)
    i = cuda.threadIdx.x
    if i < 8:
        bins[i] = 0
        others[i] = 0
    cuda.syncthreads()
    width = 8  # bug: width = 7
    cuda.atomic.add(bins, values[i] // width, 1)  # memcheck
    cuda.syncthreads()
    if i < 8:
        counts[i] = bins[i] + others[i]


@pair(1, 32, x=np.arange(32, dtype=np.float32), y=np.zeros(32, np.float32))
@cuda.jit
def buffers_that_change_places(x, y):
    """One name stands for two shared arrays in turn: only the whole of them is known."""
    first = cuda.shared.array(32, float32)
    second = cuda.shared.array(32, float32)
    i = cuda.threadIdx.x
    first[i] = x[i]
    second[i] = 0
    old, new = first, second
    for _ in range(3):
        cuda.syncthreads()
        new[i] = old[31 - i] + 1
        cuda.syncthreads()
        old, new = new, old
    j = i  # bug: j = i + 64
    y[i] = old[j]  # memcheck


@pair(1, 4, x=np.arange(36, dtype=np.int32), y=np.zeros(4, np.int32), n=9)
@cuda.jit
def local_too_small(x, y, n):
    """A row of nine is kept in a local array of eight."""
    kept = cuda.local.array(9, int32)  # bug: kept = cuda.local.array(8, int32)
    i = cuda.grid(1)
    for j in range(n):
        kept[j] = x[n * i + j]  # memcheck
    best = kept[0]
    for j in range(n):
        best = max(best, kept[(j * 5) % n])  # memcheck?
    y[i] = best


@pair(1, 64, values=np.arange(64, dtype=np.int32), counts=np.zeros(8, np.int32))
@cuda.jit
def bin_past_the_last(values, counts):
    """The largest value falls into a bin that does not exist."""
    i = cuda.grid(1)
    width = 8  # bug: width = 7
    cuda.atomic.add(counts, values[i] // width, 1)  # memcheck


@pair((2, 1), (16, 16), x=np.ones((16, 32), np.float32), y=np.zeros((32, 16), np.float32))
@cuda.jit
def rows_for_columns(x, y):
    """Row and column are taken for each other."""
    column, row = cuda.grid(2)
    y[column, row] = x[row, column]  # bug: y[row, column] = x[column, row]  # memcheck, racecheck


@pair()
def freed_array():
    """A kernel is launched on an array that the host has given back."""

    @cuda.jit
    def double(x):
        x[cuda.grid(1)] *= 2  # memcheck

    x = cuda.to_device(STALE)
    borrowed = cuda.as_cuda_array(Borrowed(x.__cuda_array_interface__))
    keep = x  # bug: keep = None
    del x
    cuda.current_context().memory_manager.deallocations.clear()
    double[1, 64](borrowed)
    del keep


class Borrowed:
    """The memory of an array, which does not keep it alive."""

    def __init__(self, interface):
        self.__cuda_array_interface__ = interface
