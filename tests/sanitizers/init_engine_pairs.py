"""What initcheck has to follow: through barriers, lanes, branches, atomics, packed bytes."""

import numpy as np
from numba import cuda, float32, int32, uint32
from pairs import Unwritten, pair

ALL = 0xFFFFFFFF


def ints(*shape):
    """An array of int32 zeros."""
    return np.zeros(shape, np.int32)


def never(n, dtype=np.int32):
    """An array on the device that nobody has written."""
    return Unwritten(n, dtype)


@pair(2, 64, x=never(128), y=ints(128))
@cuda.jit
def across_a_barrier(x, y):
    """A value waits at a barrier in a register, and is computed with behind it."""
    tile = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    mine = x[cuda.grid(1)]
    tile[t] = t
    cuda.syncthreads()
    y[cuda.grid(1)] = mine if tile[63 - t] < 64 else 0  # bug: y[cuda.grid(1)] = mine + tile[63 - t]  # initcheck


@pair(1, 32, x=never(32), y=ints(32))
@cuda.jit
def handed_round(x, y):
    """A value goes to another lane before it is computed with."""
    t = cuda.threadIdx.x
    given = cuda.shfl_xor_sync(ALL, x[t], 5)
    y[t] = given  # bug: y[t] = given * 3  # initcheck


@pair(1, 32, x=np.ones(32, np.int32), z=never(32), y=ints(32))
@cuda.jit
def decided_together(x, z, y):
    """One lane votes by what nobody wrote, and all lanes do what came of it."""
    t = cuda.threadIdx.x
    mine = x[t]  # bug: mine = z[t] if t == 7 else x[t]
    if cuda.any_sync(ALL, mine > 0):  # initcheck
        y[t] = 1


@pair(1, 64, x=np.ones(64, np.int32), z=never(64), y=ints(64))
@cuda.jit
def counted_at_a_barrier(x, z, y):
    """A barrier counts the threads for which a condition holds that nobody can know."""
    t = cuda.threadIdx.x
    mine = x[t]  # bug: mine = z[t] if t == 40 else x[t]
    y[t] = cuda.syncthreads_count(mine)  # initcheck


@pair(1, 32, x=never(128, np.uint8), y=np.zeros(32, np.uint32))
@cuda.jit
def packed_into_a_word(x, y):
    """Four bytes are packed into a word, which is a copy; what is added to one of them is a use."""
    t = cuda.threadIdx.x
    first = uint32(x[4 * t])  # bug: first = uint32(x[4 * t] + 1)
    y[t] = first | uint32(x[4 * t + 1]) << 8 | uint32(x[4 * t + 2]) << 16 | uint32(x[4 * t + 3]) << 24  # initcheck


@pair(1, 32, x=never(32), y=np.zeros(32, np.int16))
@cuda.jit
def half_of_a_word(x, y):
    """Half of a word is taken out of it; of the other half a sum is made."""
    t = cuda.threadIdx.x
    word = x[t]
    y[t] = (word >> 16) & 0xFFFF  # bug: y[t] = ((word >> 16) & 0xFFFF) + 7  # initcheck


@pair(1, 32, x=never(32), flags=np.ones(1, np.int32), y=ints(32))
@cuda.jit
def decided_for_all(x, flags, y):
    """The whole warp reads one word, and goes one way by it."""
    word = flags[0]  # bug: word = x[0]
    if word > 0:  # initcheck
        y[cuda.threadIdx.x] = 1


@pair(1, 32, x=np.ones(32, np.int32), gaps=never(32), y=ints(32), n=4)
@cuda.jit
def added_in_a_loop(x, gaps, y, n):
    """A sum begins with what nobody wrote."""
    t = cuda.threadIdx.x
    total = x[t]  # bug: total = gaps[t]
    for k in range(n):
        total += x[(t + k) % 32]
    y[t] = total  # initcheck


@pair(1, 32, locks=never(32), y=ints(32))
@cuda.jit
def exchanged(locks, y):
    """An exchange takes out what was in a lock before anybody set it."""
    t = cuda.threadIdx.x
    before = cuda.atomic.exch(locks, t, 1)
    y[t] = before  # bug: y[t] = before + 1  # initcheck


@pair(1, 32, x=np.ones(32, np.int32), order=never(32), y=ints(32))
@cuda.jit
def index_that_was_copied(x, order, y):
    """An index is copied about, and then used."""
    tile = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    tile[t] = order[t]
    cuda.syncwarp()
    where = t  # bug: where = tile[t ^ 1] & 31
    y[t] = x[where]  # initcheck


@pair(3, 32, x=np.ones(96, np.float32), y=np.zeros(96, np.float32))
@cuda.jit
def the_next_block_starts_anew(x, y):
    """What one block left in shared memory is not the next one's."""
    tile = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    if cuda.blockIdx.x >= 0:  # bug: if cuda.blockIdx.x == 0:
        tile[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    y[cuda.grid(1)] = tile[31 - t] + 1  # initcheck


@pair(1, 64, x=never(64), y=ints(64), n=3)
@cuda.jit
def some_lanes_wait(x, y, n):
    """Lanes that leave a loop early keep what they know of their values."""
    t = cuda.threadIdx.x
    mine = x[t]
    kept = 0
    for k in range(t % n + 1):
        kept = k
    y[t] = mine if kept < n else 1  # bug: y[t] = mine - kept  # initcheck
