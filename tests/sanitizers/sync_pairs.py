"""Barriers and warp-wide calls that not everybody reaches (synccheck)."""

import numpy as np
from numba import cuda, int32
from pairs import pair

ROUNDS, LENGTH = 16, 16 * 64 - 16
ALL = 0xFFFFFFFF

named_barrier = cuda.declare_device(
    "named_barrier",
    "int32(int32, int32)",
    link=cuda.CUSource("""
extern "C" __device__ int named_barrier(int *result, int number, int threads) {
  asm volatile("barrier.sync %0, %1;" :: "r"(number), "r"(threads) : "memory");
  *result = 0;
  return 0;
}
"""),
)
"""Waits at one of a block's sixteen barriers until so many threads have come."""


def ints(*shape):
    """An array of int32 zeros."""
    return np.zeros(shape, np.int32)


# Barriers of a block


@pair(1, 64, data=np.ones(LENGTH, np.int32), total=ints(1), like="NVIDIA Synccheck/divergent_threads.cu")
@cuda.jit
def barrier_inside_the_guard(data, total):
    """The last round has no data for some threads, and they skip its barrier."""
    tile = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    tile[t] = 0
    cuda.syncthreads()
    for b in range(ROUNDS):
        offset = 64 * b + t
        if offset < LENGTH:
            tile[t] += data[offset]
        cuda.syncthreads()  # bug:     cuda.syncthreads()  # synccheck
    if t == 0:
        for j in range(64):
            total[0] += tile[j]


@pair(1, 64, data=ints(64), like="Oclgrind barrier/barrier_divergence")
@cuda.jit
def one_thread_passes_by(data):
    """The first thread does not go to the barrier."""
    t = cuda.threadIdx.x
    if t >= 0:  # bug: if t != 0:
        cuda.syncthreads()  # synccheck
    data[t] = t


@pair(2, 64, data=ints(64, 2), like="Oclgrind barrier/barrier_different_instructions")
@cuda.jit
def one_barrier_in_each_branch(data):
    """The first thread waits at one barrier, the others at another."""
    t = cuda.threadIdx.x
    b = cuda.blockIdx.x
    first = b == 0  # bug: first = t == 0
    if first:
        data[t, b] += 42
        cuda.syncthreads()  # synccheck
    else:
        cuda.syncthreads()  # synccheck?
        data[t, b] += t


@pair(2, 64, x=ints(100), y=ints(100), n=100)
@cuda.jit
def return_before_the_barrier(x, y, n):
    """Threads past the end return, and the barrier waits for the others only."""
    tile = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    outside = i - t >= n  # bug: outside = i >= n
    if outside:
        return
    tile[t] = x[min(i, n - 1)]
    cuda.syncthreads()  # synccheck (warn)
    if i < n:
        y[i] = tile[t]


@pair(1, 64, y=ints(64), rounds=2)
@cuda.jit
def more_rounds_for_some(y, rounds):
    """The second warp goes round the loop, and to its barrier, once more."""
    t = cuda.threadIdx.x
    mine = rounds  # bug: mine = rounds + t // 32
    for j in range(mine):
        y[t] += j
        cuda.syncthreads()  # synccheck (warn)


@pair(1, 64, x=np.arange(64, dtype=np.int32), y=ints(64))
@cuda.jit
def barrier_after_and(x, y):
    """What stands after ``and`` is not evaluated by threads for which the first part is false."""
    t = cuda.threadIdx.x
    low = x[t] < 40
    odd = x[t] % 2
    odd = cuda.syncthreads_or(low and odd)  # bug: odd = low and cuda.syncthreads_or(odd)  # synccheck
    y[t] = 1 if odd else 2


@pair(1, 96, x=np.arange(96, dtype=np.int32), y=ints(96))
@cuda.jit
def count_among_some(x, y):
    """A counting barrier is reached by those that are counted only."""
    t = cuda.threadIdx.x
    chosen = x[t] < 200  # bug: chosen = x[t] < 32
    if chosen:
        y[t] = cuda.syncthreads_count(x[t] % 2)  # synccheck (warn)


@pair(1, 64, y=ints(64))
@cuda.jit
def barrier_in_a_function(y):
    """A device function with a barrier in it is called by one warp."""
    t = cuda.threadIdx.x
    y[t] = t
    if t < 64:  # bug: if t < 32:
        cuda.syncthreads()  # synccheck
    if t > 0:
        y[t] = 1 if t == 63 else y[t]


@pair(1, 128, x=np.arange(128, dtype=np.int32), y=ints(128))
@cuda.jit
def loop_until_done(x, y):
    """Each thread leaves the loop by its own value, where all should leave it together."""
    t = cuda.threadIdx.x
    left = x[t] % 3
    on = int32(1)
    while on:
        y[t] += 1
        left -= 1
        on = cuda.syncthreads_or(max(left, 0))  # bug: cuda.syncthreads(); on = int32(left > 0)  # synccheck (warn)


# Named barriers


@pair(1, 128, y=ints(128))
@cuda.jit
def named_for_each_half(y):
    """Two warps meet at a barrier of 64 threads; one of them has taken the other two's."""
    t = int32(cuda.threadIdx.x)
    number = 1 + t // 64  # bug: number = 1 + (t + 32) // 128
    y[t] = named_barrier(number, 64) + t  # synccheck


@pair(1, 64, y=ints(64))
@cuda.jit
def named_waits_for_too_many(y):
    """A barrier of 96 threads in a block of 64."""
    t = int32(cuda.threadIdx.x)
    y[t] = named_barrier(1, 64)  # bug: y[t] = named_barrier(1, 96)  # synccheck


# Warps


@pair(1, 32, total=ints(1), like="NVIDIA Synccheck/illegal_syncwarp.cu")
@cuda.jit
def one_lane_too_many(total):
    """Seventeen lanes come to a ``syncwarp`` whose mask, by a ballot, names sixteen."""
    tile = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    mask = cuda.ballot_sync(ALL, t < 16)
    if t < 16:  # bug: if t <= 16:
        tile[t] = t
        cuda.syncwarp(mask)  # synccheck
        if t == 0:
            for j in range(16):
                total[0] += tile[j]
    cuda.syncthreads()


@pair(1, 32, x=np.arange(32, dtype=np.int32), y=ints(32))
@cuda.jit
def full_mask_in_a_branch(x, y):
    """Half of a warp shuffles under a mask that names the whole of it."""
    t = cuda.threadIdx.x
    mask = 0xFFFF  # bug: mask = ALL
    if t < 16:
        y[t] = cuda.shfl_xor_sync(mask, x[t], 1)  # synccheck (warn)


@pair(1, 32, x=np.arange(32, dtype=np.int32), y=ints(32))
@cuda.jit
def caller_not_in_its_mask(x, y):
    """All lanes shuffle, and the mask names the lower half."""
    t = cuda.threadIdx.x
    mask = ALL  # bug: mask = 0xFFFF
    y[t] = cuda.shfl_xor_sync(mask, x[t], 3)  # synccheck


@pair(1, 64, x=np.arange(64, dtype=np.int32), y=ints(64), n=64)
@cuda.jit
def ballot_in_a_guard(x, y, n):
    """Lanes past the end wait after the guard while the others vote under the full mask."""
    i = cuda.grid(1)
    if i < n:  # bug: if i < n - 5:
        y[i] = cuda.popc(cuda.ballot_sync(ALL, x[i] > 9))  # synccheck
    y[i] += 1


@pair(1, 48, x=np.arange(48, dtype=np.int32), y=ints(48))
@cuda.jit
def half_a_warp_at_the_end(x, y):
    """The second warp of a block of 48 has sixteen lanes, and is summed up as if it had 32."""
    t = cuda.threadIdx.x
    mask, lanes = (ALL, 32) if t < 32 else (0xFFFF, 16)  # bug: mask, lanes = ALL, 32
    total = x[t]
    for step in (1, 2, 4, 8):
        other = cuda.shfl_down_sync(mask, total, step)  # synccheck (warn)
        if t % 32 + step < lanes:
            total += other
    y[t] = total  # synccheck


@pair(1, 32, x=np.arange(32, dtype=np.int32), y=ints(32))
@cuda.jit
def mask_of_another_group(x, y):
    """Groups of eight lanes wait under the mask of the first group."""
    t = cuda.threadIdx.x
    group = 0xFF << (t // 8 * 8)  # bug: group = 0xFF
    cuda.syncwarp(group)  # synccheck
    y[t] = x[t] + 1


@pair(1, 32, x=np.arange(32, dtype=np.int32), y=ints(32))
@cuda.jit
def vote_in_a_loop(x, y):
    """Lanes that are done have left the loop in which the others still vote under the full mask."""
    t = cuda.threadIdx.x
    left = x[t] % 4
    going = True
    while going:
        y[t] += 1
        left -= 1
        going = cuda.any_sync(ALL, left > 0)  # bug: going = left > 0 and cuda.any_sync(ALL, left > 0)  # synccheck
    y[t] += 1


@pair(1, 32, x=np.arange(32, dtype=np.int32) // 5, y=ints(32))
@cuda.jit
def match_in_a_branch(x, y):
    """Lanes look for their like under a mask that names lanes which are elsewhere."""
    t = cuda.threadIdx.x
    low = x[t] < 3
    mask = cuda.ballot_sync(ALL, low)  # bug: mask = cuda.ballot_sync(ALL, True)
    if low:
        y[t] = cuda.popc(cuda.match_any_sync(mask, x[t]))  # synccheck
    y[t] += 1


@pair(1, 32, y=ints(32))
@cuda.jit
def two_halves_of_a_warp_wait(y):
    """Each half waits in a branch of its own: for the whole warp in one, for itself in the other."""
    t = cuda.threadIdx.x
    mask = 0xFFFF0000  # bug: mask = ALL
    if t < 16:
        cuda.syncwarp(0xFFFF)
        y[t] = 1
    else:
        cuda.syncwarp(mask)  # synccheck
        y[t] = 2
