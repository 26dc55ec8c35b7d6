"""What overflow has to tell apart: numbers that wrap by design, sums that wrap on the way, offsets that wrap."""

import numpy as np
from numba import cuda, int32, uint32
from pairs import pair

ROW = 1 << 16


def only(value, dtype=np.int32):
    """An array of one element: what a kernel loads is no constant."""
    return np.full(1, value, dtype)


def ints(n):
    """An array of int32 zeros."""
    return np.zeros(n, np.int32)


@pair(1, 32, keys=np.arange(32, dtype=np.uint32), row=only(ROW), table=ints(64))
@cuda.jit
def multiplied_into_a_table(keys, row, table):
    """A multiplicative hash wraps and its top bits are a slot."""
    t = cuda.threadIdx.x
    hashed = uint32(keys[t] * uint32(2654435761))
    offset = row[0] * row[0] % 32  # bug: offset = int32(row[0] * row[0])  # overflow
    cuda.atomic.add(table, (hashed >> uint32(27)) + offset, 1)


@pair(1, 32, keys=np.arange(32, dtype=np.uint32), row=only(ROW), table=ints(64))
@cuda.jit
def remainder_of_a_hash(keys, row, table):
    """A hash wraps and its remainder, by a constant that is no power of two, is a slot."""
    t = cuda.threadIdx.x
    hashed = uint32(keys[t] * uint32(2246822519) + uint32(374761393))
    offset = row[0] * row[0] % 7  # bug: offset = int32(row[0] * row[0])  # overflow
    cuda.atomic.add(table, hashed % uint32(11) + offset, 1)


@pair(1, 32, keys=np.arange(32, dtype=np.int32), row=only(ROW), table=ints(64))
@cuda.jit
def remainder_of_a_signed_hash(keys, row, table):
    """The same in signed integers, as Java has it."""
    t = cuda.threadIdx.x
    hashed = int32(0)
    for k in range(4):
        hashed = int32(hashed * int32(31) + keys[(t + k) % 32] * int32(104729))
    slot = hashed % int32(13)
    offset = row[0] * row[0] % 7  # bug: offset = int32(row[0] * row[0])  # overflow
    cuda.atomic.add(table, slot + offset, 1)


@pair(2, 32, row=only(ROW), x=np.ones(64, np.int32), y=ints(64), n=np.int32(64))
@cuda.jit
def neighbours_on_both_sides(row, x, y, n):
    """Indices go down as well as up, in 32 bits, as the grid and the block are numbered."""
    i = int32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    left = int32(i - int32(1))
    right = int32(i + int32(1))
    total = x[i]
    if left >= 0:
        total += x[left]
    if right < n:
        total += x[right]
    offset = 0  # bug: offset = int32(row[0] * row[0])  # overflow
    y[i + offset] = total


@pair(1, 32, row=only(ROW), x=np.ones(64, np.uint32), y=ints(64))
@cuda.jit
def counted_down_unsigned(row, x, y):
    """An unsigned index is counted down, by adding what is minus one."""
    i = uint32(cuda.threadIdx.x + uint32(32))
    total = 0
    while i > uint32(cuda.threadIdx.x):
        i = uint32(i - uint32(1))
        total += x[i]
    offset = 0  # bug: offset = int32(row[0] * row[0])  # overflow
    y[cuda.threadIdx.x + offset] = total


@pair(1, 32, start=only(7), row=only(ROW), y=ints(64))
@cuda.jit
def half_of_a_difference(start, row, y):
    """A sum that wraps on the way and is right in the end is right."""
    t = cuda.threadIdx.x
    far = int32(2147483647)
    there = int32(far + start[0])
    back = int32(there - far)
    offset = 0  # bug: offset = int32(row[0] * row[0])  # overflow
    y[back + t + offset] = 1


@pair(1, 32, row=only(ROW), pitch=only(ROW), y=ints(64), rounds=3)
@cuda.jit
def carried_through_a_loop(row, pitch, y, rounds):
    """An offset grows by a pitch from round to round, of which the compiler makes a product at the loop's line."""
    offset = int32(0)
    step = row[0]  # bug: step = int32(row[0] << 14)
    for _ in range(rounds + 1):  # overflow
        offset = int32(offset + step)
    if offset < 64:
        y[offset + cuda.threadIdx.x] = 1
