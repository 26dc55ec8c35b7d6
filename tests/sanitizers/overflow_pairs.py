"""Offsets that wrap in 32 bits and then are addresses (overflow).

Integers in numba are 64 bits wide unless one asks for less: these kernels do, as those that were translated from C
do. The wrapped offset passes its guard and is a wrong element of the array, so that nothing else shows it.
"""

import numpy as np
from numba import cuda, int32, uint32  # noqa: F401 (the other twins')
from pairs import pair

ROW = PITCH = 1 << 16


def ints(*shape):
    """An array of int32 zeros."""
    return np.zeros(shape, np.int32)


def only(value, dtype=np.int32):
    """An array of one element: what a kernel loads is no constant."""
    return np.full(1, value, dtype)


in_c = """
extern "C" __device__ int {name}({result} *result, int row, int pitch) {{
  *result = ({result})row * pitch;
  return 0;
}}
"""
offset_of = cuda.declare_device(
    "offset_of", "int32(int32, int32)", link=cuda.CUSource(in_c.format(name="offset_of", result="int"))
)
"""A product of ints, as C has it."""
wide_offset_of = cuda.declare_device(
    "wide_offset_of",
    "int64(int32, int32)",
    link=cuda.CUSource(in_c.format(name="wide_offset_of", result="long long")),
)
"""The same in 64 bits."""


@pair(1, 32, row=only(ROW), pitch=np.int32(PITCH), y=ints(64), n=64)
@cuda.jit
def row_times_pitch(row, pitch, y, n):
    """The offset of a row is taken in 32 bits."""
    offset = row[0] * pitch  # bug: offset = int32(row[0] * pitch)  # overflow
    t = cuda.threadIdx.x
    if offset + t < n:
        y[offset + t] = t


@pair(1, 1, b=only(3), h=np.int32(1 << 20), w=np.int32(1 << 12), y=ints(64), n=64)
@cuda.jit
def three_dimensions(b, h, w, y, n):
    """Three indices are flattened in 32 bits."""
    offset = (b[0] * h + 5) * w + 2  # bug: offset = int32((b[0] * h + 5) * w - 20470)  # overflow
    if 0 <= offset < n:
        y[offset] = 1


@pair(1, 1, i=only(ROW), y=ints(1 << 15 | 1), n=1 << 15 | 1)
@cuda.jit
def triangle(i, y, n):
    """The first place of a row of a packed triangle: the product is halved after it has wrapped."""
    row = i[0]
    product = row * (row + 1)  # bug: product = int32(row * (row + 1))  # overflow
    if product // 2 < n:
        y[product // 2] = 1


@pair(1, 32, base=only(2**32 - 4, np.uint32), y=ints(64), n=64)
@cuda.jit
def sum_past_the_end(base, y, n):
    """A base near the end of 32 bits and a small index: the sum begins again at 0."""
    t = uint32(cuda.threadIdx.x)
    offset = np.int64(base[0]) + t  # bug: offset = uint32(base[0] + t)  # overflow
    if offset < n:
        y[offset] = 1


@pair(1, 1, cell=only(ROW + 1), y=ints(1 << 17), n=1 << 17)
@cuda.jit
def shifted_out(cell, y, n):
    """The top bit of a cell's number is shifted out."""
    offset = cell[0] << 16  # bug: offset = int32(cell[0] << 16)  # overflow
    if offset < n:
        y[offset] = 1


@pair(1, 1, row=only(ROW), pitch=np.int32(PITCH), y=ints(64), n=64)
@cuda.jit
def product_of_c(row, pitch, y, n):
    """A device function in C multiplies ints."""
    offset = wide_offset_of(row[0], pitch)  # bug: offset = offset_of(row[0], pitch)  # overflow
    if offset < n:
        y[offset] = 1


@pair(1, 4, starts=np.full(4, ROW, np.int32), pitch=np.int32(PITCH), y=ints(64), n=64)
@cuda.jit
def scaled_where_it_lies(starts, pitch, y, n):
    """Starts of rows are made offsets in an array of 32-bit integers."""
    t = cuda.threadIdx.x
    offset = starts[t] * pitch  # bug: starts[t] *= pitch; offset = starts[t]  # overflow
    if offset + t < n:
        y[offset + t] = 1


@pair(1, 32, x=np.full(32, ROW, np.int32), bins=ints(64), n=64)
@cuda.jit
def bins_of_squares(x, bins, n):
    """Squares are counted, and that of a large number is a small one."""
    d = x[cuda.threadIdx.x]
    square = d * d  # bug: square = int32(d * d)  # overflow
    if square < n:
        cuda.atomic.add(bins, square, 1)


@pair(1, 32, row=only(ROW, np.int64), pitch=PITCH, y=ints(64), n=64)
@cuda.jit
def stored_in_32_bits(row, pitch, y, n):
    """A product of 64 bits is stored in 32. Numba puts the product on the line of its first use."""
    t = cuda.threadIdx.x
    offset = row[0] * pitch  # bug: offset = int32(row[0] * pitch)
    if offset + t < n:  # overflow
        y[offset + t] = t


@pair(1, 1, row=only(ROW, np.int64), pitch=PITCH, y=ints(64), n=64)
@cuda.jit
def narrowed_then_summed(row, pitch, y, n):
    """A number of 64 bits is a term of a sum of 32."""
    offset = row[0] * pitch + 3  # bug: offset = int32(int32(row[0] * pitch) + int32(3))  # overflow
    if offset < n:
        y[offset] = 1


@pair(
    1,
    32,
    keys=np.arange(32, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15),
    row=only(ROW),
    pitch=np.int32(PITCH),
    y=ints(32),
)
@cuda.jit
def hashed_in_64_bits(keys, row, pitch, y):
    """The lower and the upper half of a hash, as they should be: parts of it choose a bin in both twins."""
    key = keys[cuda.threadIdx.x]
    low = uint32(key) & uint32(31)
    high = uint32(key >> uint32(32)) % uint32(32)
    place = row[0] * pitch % 32  # bug: place = int32(row[0] * pitch)  # overflow
    cuda.atomic.add(y, low ^ high, 1)
    cuda.atomic.add(y, place, 1)


@pair(1, 1, shape=np.array([ROW, PITCH, 7], np.int32), y=ints(64), n=64)
@cuda.jit
def strides_of_a_shape(shape, y, n):
    """A stride has wrapped, and what is made of it may not wrap any more."""
    stride = shape[0] * shape[1]  # bug: stride = int32(shape[0] * shape[1])  # overflow
    offset = stride * shape[2] + 5
    if offset < n:
        y[offset] = 1


@pair(
    1,
    32,
    seeds=np.arange(32, dtype=np.uint32) * np.uint32(2654435761),
    row=only(ROW),
    pitch=np.int32(PITCH),
    y=np.zeros(32, np.uint32),
)
@cuda.jit
def wrapped_on_purpose(seeds, row, pitch, y):
    """A random number wraps, as it should: it is a value, and no address, in both twins."""
    t = cuda.threadIdx.x
    number = uint32(seeds[t] * uint32(1664525) + uint32(1013904223))
    place = row[0] * pitch % 32 + t  # bug: place = int32(row[0] * pitch) + t  # overflow
    y[place] = number
