"""Threads of one block, or lanes of one warp, that race for shared memory (racecheck)."""

import numpy as np
from numba import cuda, float32, int32
from pairs import pair

ALL = 0xFFFFFFFF


def ints(*shape):
    """An array of int32 zeros."""
    return np.zeros(shape, np.int32)


def counted(n):
    """0, 1, 2, ... as int32."""
    return np.arange(n, dtype=np.int32)


# Barriers left out


@pair(1, 128, data=ints(128), total=ints(1), like="NVIDIA Racecheck/block_error.cu")
@cuda.jit
def sum_of_a_block(data, total):
    """One thread adds up what all threads of the block have stored, and does not wait for them."""
    tile = cuda.shared.array(128, int32)
    t = cuda.threadIdx.x
    tile[t] = data[t] + t  # racecheck
    cuda.syncthreads()  # bug: pass
    if t == 0:
        for j in range(128):
            total[0] += tile[j]  # racecheck, initcheck?


@pair(1, 64, data=ints(64), total=ints(1), like="NVIDIA Racecheck/warp_error.cu")
@cuda.jit
def sum_of_a_warp(data, total):
    """The first lane of each warp adds up what its warp has stored, and does not wait for it."""
    tile = cuda.shared.array(64, int32)
    sums = cuda.shared.array(2, int32)
    t = cuda.threadIdx.x
    w = t // 32
    tile[t] = data[t] + t  # racecheck
    cuda.syncwarp()  # bug: pass
    if t % 32 == 0:
        sums[w] = 0
        for j in range(32):
            sums[w] += tile[w * 32 + j]  # racecheck, initcheck?
    cuda.syncthreads()
    if t == 0:
        for j in range(2):
            total[0] += sums[j]  # initcheck?


@pair(1, 4, data=ints(1), like="Oclgrind data-race/local_read_write_race")
@cuda.jit
def second_store_not_waited_for(data):
    """There is a barrier after the first store to the tile, and none after the second."""
    tile = cuda.shared.array(4, int32)
    t = cuda.threadIdx.x
    tile[t] = 0
    cuda.syncthreads()
    tile[t] = t  # racecheck
    cuda.syncthreads()  # bug: pass
    if t == 0:
        for j in range(4):
            data[0] += tile[j]  # racecheck


@pair(1, 4, data=ints(4), like="Oclgrind data-race/local_write_write_race")
@cuda.jit
def all_store_their_own(data):
    """Every thread stores its number in the same place."""
    tile = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 3:  # bug: if t >= 0:
        tile[0] = t  # racecheck
    cuda.syncthreads()
    data[t] = tile[0]


@pair(1, 64, x=ints(64), data=ints(64))
@cuda.jit
def all_store_the_same(x, data):
    """Every thread stores the same value in the same place: no thread can tell, and yet it is a race."""
    tile = cuda.shared.array(2, int32)
    t = cuda.threadIdx.x
    if t == 0:  # bug: if t >= 0:
        tile[x[t]] = 7  # racecheck (warn)
    cuda.syncthreads()
    data[t] = tile[x[63 - t]]


@pair(1, 64, data=ints(64), total=ints(1), like="Oclgrind data-race/global_only_fence")
@cuda.jit
def fence_for_a_barrier(data, total):
    """A fence orders the accesses of the thread that executes it, and waits for nobody."""
    tile = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    tile[t] = data[t] + t  # racecheck
    cuda.syncthreads()  # bug: cuda.threadfence_block()
    if t == 0:
        for j in range(64):
            total[0] += tile[j]  # racecheck, initcheck?


@pair(1, 256, x=counted(256), y=ints(16, 16))
@cuda.jit
def warp_barrier_for_a_block(x, y):
    """What is transposed through a tile crosses warps, and ``syncwarp`` waits for one of them."""
    tile = cuda.shared.array((16, 16), int32)
    row, column = cuda.threadIdx.x // 16, cuda.threadIdx.x % 16
    tile[row, column] = x[cuda.threadIdx.x]  # racecheck
    cuda.syncthreads()  # bug: cuda.syncwarp()
    y[row, column] = tile[column, row]  # racecheck


@pair(2, 128, x=counted(256), sums=ints(2))
@cuda.jit
def tree_of_sums(x, sums):
    """Each step of the tree reads what other warps have written in the step before."""
    tile = cuda.shared.array(128, int32)
    t = cuda.threadIdx.x
    tile[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    step = 64
    while step > 0:
        if t < step:
            tile[t] += tile[t + step]  # racecheck
        cuda.syncthreads()  # bug: pass
        step //= 2
    if t == 0:
        sums[cuda.blockIdx.x] = tile[0]


@pair(1, 64, x=counted(64), y=ints(64))
@cuda.jit
def scan_in_place(x, y):
    """A prefix sum reads its left neighbors while these store their new sums."""
    tile = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    cuda.syncthreads()
    step = 1
    while step < 64:
        left = tile[t - step] if t >= step else 0  # racecheck
        cuda.syncthreads()  # bug: pass
        tile[t] += left  # racecheck
        cuda.syncthreads()
        step *= 2
    y[t] = tile[t]


A = np.arange(16 * 24, dtype=np.float32).reshape(16, 24)


@pair((2, 2), (8, 8), a=A, b=A.T.copy(), c=np.zeros((16, 16), "f4"))
@cuda.jit
def tiles_of_a_product(a, b, c):
    """The next tile is loaded while others still multiply the last one."""
    left = cuda.shared.array((8, 8), float32)
    right = cuda.shared.array((8, 8), float32)
    column, row = cuda.grid(2)
    j, i = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for k in range(3):
        left[i, j] = a[row, 8 * k + j]  # racecheck
        right[i, j] = b[8 * k + i, column]  # racecheck
        cuda.syncthreads()
        for m in range(8):
            total += left[i, m] * right[m, j]  # racecheck
        cuda.syncthreads()  # bug: pass
    c[row, column] = total


@pair(1, 96, x=counted(96) % 5, y=ints(96))
@cuda.jit
def flag_reset_too_early(x, y):
    """One thread resets the flag of the next round while others still look at that of this one."""
    again = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    left = x[t]
    if t == 0:
        again[0] = 0
    cuda.syncthreads()
    going = True
    while going:
        y[t] += 1
        left -= 1
        if left > 0:
            cuda.atomic.max(again, 0, 1)
        cuda.syncthreads()  # synccheck (warn)?
        going = again[0] == 1  # racecheck
        cuda.syncthreads()  # bug: pass
        if t == 0:
            again[0] = 0  # racecheck
        cuda.syncthreads()  # synccheck (warn)?


# Wrong places


@pair(1, 64, x=counted(64), y=ints(64))
@cuda.jit
def two_for_one_slot(x, y):
    """Neighbors store in the same slot."""
    tile = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    tile[t] = 0
    cuda.syncthreads()
    slot = t  # bug: slot = t // 2 * 2
    tile[slot] = x[t]  # racecheck
    cuda.syncthreads()
    y[t] = tile[t]


@pair(1, 64, shared=128 * 4, x=counted(64), y=ints(64))
@cuda.jit
def parts_that_overlap(x, y):
    """Two arrays are cut from dynamic shared memory, and the second begins within the first."""
    memory = cuda.shared.array(0, int32)
    second = memory[64:]  # bug: second = memory[63:]
    t = cuda.threadIdx.x
    memory[t] = x[t]  # racecheck
    second[t] = 2 * x[t]  # racecheck
    cuda.syncthreads()
    y[t] = second[63 - t]


@pair(1, 64, x=counted(65), y=ints(64))
@cuda.jit
def halo_in_a_taken_slot(x, y):
    """The element past the tile's end goes to the tile's last slot, which another thread fills."""
    tile = cuda.shared.array(65, int32)
    t = cuda.threadIdx.x
    tile[t] = x[t]  # racecheck
    if t == 0:
        tile[64] = x[64]  # bug: tile[63] = x[64]  # racecheck
    cuda.syncthreads()
    y[t] = tile[t] + tile[t ^ 1]


# Warps, which have not run in lock step since Volta


@pair(1, 32, x=counted(32), y=ints(32))
@cuda.jit
def neighbour_in_the_warp(x, y):
    """A lane reads its neighbor's slot in the belief that lanes go together."""
    tile = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    tile[t] = x[t]  # racecheck
    cuda.syncwarp()  # bug: pass
    y[t] = tile[(t + 1) % 32]  # racecheck


@pair(1, 32, x=counted(32), sums=ints(1))
@cuda.jit
def last_steps_of_a_tree(x, sums):
    """The last five steps of a tree of sums are left to the warp's lock step."""
    tile = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    tile[t + 32] = 0
    cuda.syncwarp()
    step = 16
    while step > 0:
        left = tile[t] + tile[t + step]  # racecheck
        cuda.syncwarp()
        tile[t] = left  # racecheck
        cuda.syncwarp()  # bug: pass
        step //= 2
    if t == 0:
        sums[0] = tile[0]


@pair(1, 32, y=ints(16))
@cuda.jit
def halves_in_two_branches(y):
    """One half of a warp reads what the other half has written in the branch before."""
    tile = cuda.shared.array(16, int32)
    t = cuda.threadIdx.x
    if t < 16:
        tile[t] = t + 1  # racecheck
    cuda.syncwarp()  # bug: pass
    if t >= 16:
        y[t - 16] = tile[31 - t]  # racecheck


@pair(1, 32, x=counted(32), y=ints(32))
@cuda.jit
def half_of_a_mask(x, y):
    """Each half of a warp waits for itself, and then reads what the other half has written."""
    tile = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    mask = ALL  # bug: mask = 0xFFFF if t < 16 else 0xFFFF0000
    tile[t] = x[t]  # racecheck
    cuda.syncwarp(mask)
    y[t] = tile[31 - t]  # racecheck


@pair(1, 32, x=counted(32), y=ints(32))
@cuda.jit
def met_at_a_shuffle(x, y):
    """All lanes meet at a shuffle between the store and the load, but it does not order memory."""
    tile = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    tile[t] = x[t]  # racecheck
    first = cuda.shfl_sync(ALL, x[t], 0)
    cuda.syncwarp()  # bug: pass
    y[t] = tile[31 - t] + first  # racecheck, initcheck?


@pair(1, 64, x=counted(64), y=ints(64))
@cuda.jit
def reused_by_the_warp(x, y):
    """Each warp has a row of its own, and stores the next round's before all of it have read this one's."""
    tile = cuda.shared.array((2, 32), int32)
    w, lane = cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    for j in range(3):
        tile[w, lane] = x[cuda.threadIdx.x] + j  # racecheck
        cuda.syncwarp()
        y[cuda.threadIdx.x] += tile[w, 31 - lane]  # racecheck
        cuda.syncwarp()  # bug: pass


# Atomics and plain accesses


@pair(1, 128, values=counted(128) % 7, counts=ints(8))
@cuda.jit
def histogram(values, counts):
    """Bins are counted up by plain additions."""
    bins = cuda.shared.array(8, int32)
    t = cuda.threadIdx.x
    if t < 8:
        bins[t] = 0
    cuda.syncthreads()
    cuda.atomic.add(bins, values[t], 1)  # bug: bins[values[t]] += 1  # racecheck
    cuda.syncthreads()
    if t < 8:
        counts[t] = bins[t]


@pair(2, 4, data=ints(2), like="Oclgrind atomics/atomic_local_fence")
@cuda.jit
def counter_set_too_late(data):
    """Threads count up a counter that the first of them may not yet have set to zero."""
    count = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        count[0] = 0  # racecheck
    cuda.syncthreads()  # bug: pass
    cuda.atomic.add(count, 0, cuda.grid(1))  # racecheck
    cuda.syncthreads()
    if t == 0:
        data[cuda.blockIdx.x] = count[0]


@pair(1, 64, data=ints(1))
@cuda.jit
def counter_read_too_early(data):
    """The counter is read when not all threads have counted."""
    count = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        count[0] = 0
    cuda.syncthreads()
    cuda.atomic.add(count, 0, 1)  # racecheck
    cuda.syncthreads()  # bug: pass
    if t == 0:
        data[0] = count[0]  # racecheck


@pair(1, 4, data=ints(5), like="Oclgrind atomics/atomic_cmpxchg_false_race")
@cuda.jit
def one_exchange_a_round(data):
    """One of the threads exchanges in each round; without the barrier some still read what they compare with."""
    count = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        count[0] = 0
    cuda.syncthreads()
    done = False
    for _ in range(4):
        cuda.syncthreads()
        before = count[0]  # racecheck
        cuda.syncthreads()  # bug: pass
        if not done and cuda.atomic.cas(count, 0, before, before + 1) == before:  # racecheck
            done = True
            data[t + 1] = count[0]  # racecheck?
    cuda.syncthreads()
    if t == 0:
        data[0] = count[0]


@pair(1, 64, x=counted(64), y=ints(1))
@cuda.jit
def message_within_a_block(x, y):
    """One warp passes a value to another by a flag, and does not fence the value off from the flag."""
    value = cuda.shared.array(1, int32)
    flag = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        flag[0] = 0
    cuda.syncthreads()
    if t == 0:
        value[0] = x[42]  # racecheck
        cuda.threadfence_block()  # bug: pass
        cuda.atomic.exch(flag, 0, 1)
    elif t == 32:
        while cuda.atomic.add(flag, 0, 0) == 0:
            pass
        cuda.threadfence_block()
        y[0] = value[0]  # racecheck
