"""Threads of one block, or of several, that race for global memory (racecheck)."""

import numpy as np
from numba import cuda, int32, uint64
from pairs import pair

RECORD = np.dtype([("low", np.int32), ("high", np.int32)], align=True)


def from_cuda_c(name, signature, parameters, body):
    """A device function in CUDA C, for what numba.cuda has no words for; it returns what ``value`` holds."""
    source = f"""
extern "C" __device__ int {name}(int *result, unsigned long long at{parameters}) {{
  asm volatile({body} : "memory");
  *result = value;
  return 0;
}}
"""
    return cuda.declare_device(name, signature, link=cuda.CUSource(source))


VALUE = ("int32(uint64, int32)", ", int value")
publish = from_cuda_c("publish", *VALUE, '"st.release.gpu.s32 [%0], %1;" :: "l"(at), "r"(value)')
"""What the thread wrote before is seen by whoever acquires the value."""
put = from_cuda_c("put", *VALUE, '"st.relaxed.gpu.s32 [%0], %1;" :: "l"(at), "r"(value)')
"""The value alone is seen."""
acquire = from_cuda_c("acquire", *VALUE, '"ld.acquire.gpu.s32 %0, [%1];" : "=r"(value) : "l"(at)')
"""What was written before the value was released is seen, too."""


def ints(*shape):
    """An array of int32 zeros."""
    return np.zeros(shape, np.int32)


def counted(n):
    """0, 1, 2, ... as int32."""
    return np.arange(n, dtype=np.int32)


# Within a block


@pair(4, 4, scratch=ints(16), output=ints(4), like="Oclgrind data-race/global_fence")
@cuda.jit
def sum_through_global_memory(scratch, output):
    """A block's first thread adds up what the block has stored in global memory, and does not wait for it."""
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    scratch[cuda.grid(1)] = cuda.grid(1)  # racecheck
    cuda.syncthreads()  # bug: pass
    if t == 0:
        for j in range(4):
            output[b] += scratch[4 * b + j]  # racecheck


@pair(4, 4, scratch=ints(16), output=ints(4), like="Oclgrind data-race/local_only_fence")
@cuda.jit
def fence_between_global_accesses(scratch, output):
    """A fence orders the accesses of the thread that executes it, and waits for nobody."""
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    scratch[cuda.grid(1)] = cuda.grid(1)  # racecheck
    cuda.syncthreads()  # bug: cuda.threadfence()
    if t == 0:
        for j in range(4):
            output[b] += scratch[4 * b + j]  # racecheck


@pair(1, 4, data=counted(4), before=counted(4), like="Oclgrind data-race/global_read_write_race")
@cuda.jit
def shifted_in_place(data, before):
    """Each thread reads the element that its left neighbor overwrites."""
    i = cuda.grid(1)
    if i > 0:
        data[i] = before[i - 1]  # bug: data[i] = data[i - 1]  # racecheck


@pair(1, 64, data=np.full(1, 42, np.int32), output=ints(64), like="Oclgrind data-race/intragroup_hidden_race")
@cuda.jit
def overwritten_while_read(data, output):
    """Every thread reads a value, and the first then overwrites it: no result shows it."""
    t = cuda.threadIdx.x
    output[t] = data[0]  # racecheck
    cuda.syncthreads()  # bug: cuda.syncwarp()
    if t == 0:
        data[0] = -1  # racecheck


@pair(1, 32, data=ints(32), y=ints(32))
@cuda.jit
def lanes_through_global_memory(data, y):
    """A lane reads what another lane of its warp has stored, in global memory."""
    t = cuda.threadIdx.x
    data[t] = 3 * t  # racecheck
    cuda.syncwarp()  # bug: pass
    y[t] = data[t ^ 16]  # racecheck


@pair(1, 4, data=np.full(1, -1, np.int32), like="Oclgrind data-race/uniform_write_race")
@cuda.jit
def all_store_zero(data):
    """Every thread stores the same value in the same place."""
    if cuda.grid(1) == 0:  # bug: if cuda.grid(1) >= 0:
        data[0] = 0  # racecheck (warn)


# Between blocks


@pair(4, 1, value=np.full(1, 42, np.int32), output=ints(4), like="Oclgrind data-race/broadcast")
@cuda.jit
def broadcast(value, output):
    """All read one element, which is no race; storing to one element is."""
    i = cuda.grid(1)
    output[i] = value[0]  # bug: output[0] = value[0] + i  # racecheck


@pair(4, 1, data=ints(4), like="Oclgrind data-race/global_write_write_race")
@cuda.jit
def all_blocks_store(data):
    """Every block stores its number in the same place."""
    i = cuda.grid(1)
    slot = i  # bug: slot = 0
    data[slot] = i + 1  # racecheck


@pair(4, 1, data=counted(4), like="Oclgrind data-race/increment")
@cuda.jit
def increment(data):
    """An element is one thread's to increment, unless all increment the same."""
    i = cuda.grid(1)
    data[i] += 1  # bug: data[0] += 1  # racecheck


@pair(2, 1, data=ints(2), output=ints(2), like="Oclgrind data-race/intergroup_hidden_race")
@cuda.jit
def second_block_overwrites(data, output):
    """The second block overwrites what the first may still have to read: in order it goes well."""
    b = cuda.blockIdx.x
    output[b] = data[0]  # racecheck
    if b == 1:
        data[1] = b  # bug: data[0] = b  # racecheck


@pair(2, 4, data=ints(2), like="Oclgrind data-race/intergroup_race")
@cuda.jit
def barrier_for_a_grid(data):
    """A barrier waits for its block, and the sum is over what all blocks have stored."""
    b = cuda.blockIdx.x
    if cuda.threadIdx.x == 0:
        data[b] = b  # racecheck
    cuda.syncthreads()
    if cuda.grid(1) == 0:
        total = 0
        for j in range(1):  # bug: for j in range(cuda.gridDim.x):
            total += data[j]  # racecheck
        data[0] = total
    cuda.syncthreads()


@pair(3, 32, x=counted(98) % 2 * 9, y=ints(98))
@cuda.jit
def smoothed_in_place(x, y):
    """A block waits before it stores, but its neighbors' blocks still read what it overwrites."""
    i = cuda.grid(1) + 1
    mean = (x[i - 1] + x[i] + x[i + 1]) // 3  # racecheck
    cuda.syncthreads()
    y[i] = mean  # bug: x[i] = mean  # racecheck


@pair(2, 32, x=counted(100), y=ints(100))
@cuda.jit
def stride_of_one_block(x, y):
    """The blocks of a loop over a grid step by one block, and meet."""
    step = cuda.gridsize(1)  # bug: step = cuda.blockDim.x
    for i in range(cuda.grid(1), 100, step):
        y[i] += 2 * x[i]  # racecheck


@pair(2, 32, x=counted(64), k=counted(64) % 9, y=ints(9))
@cuda.jit
def scattered(x, k, y):
    """Sums are scattered to places that occur more than once."""
    i = cuda.grid(1)
    cuda.atomic.add(y, k[i], x[i])  # bug: y[k[i]] += x[i]  # racecheck


@pair(2, 48, x=counted(96), bits=np.zeros(3, np.uint32))
@cuda.jit
def bits_of_a_word(x, bits):
    """Threads set bits of the same word, which is read and stored as a whole."""
    i = cuda.grid(1)
    bit = np.uint32(1) << np.uint32(i % 32)
    cuda.atomic.or_(bits, i // 32, bit)  # bug: bits[i // 32] |= bit  # racecheck


@pair(2, 32, x=counted(64), marks=np.zeros(64, np.uint8))
@cuda.jit
def bytes_of_a_word(x, marks):
    """Neighboring bytes are no race; the same byte is."""
    i = cuda.grid(1)
    slot = i  # bug: slot = i ^ (i & 1)
    marks[slot] = x[i] + 1  # racecheck


@pair(2, 32, records=np.zeros(32, RECORD))
@cuda.jit
def fields_of_a_record(records):
    """Two blocks fill in the same records: one field each is no race."""
    t = cuda.threadIdx.x
    if cuda.blockIdx.x == 0:
        records[t].low = 1  # racecheck
    else:
        records[t].high = 2  # bug: records[t].low = 2  # racecheck


@pair(4, 32, x=np.ones(128, np.int32), partial=ints(4), y=ints(4))
@cuda.jit
def blocks_that_must_meet(x, partial, y):
    """Each block reads the others' sums: only a barrier of the grid makes them wait."""
    grid = cuda.cg.this_grid()
    b = cuda.blockIdx.x
    total = cuda.syncthreads_count(x[cuda.grid(1)])
    if cuda.threadIdx.x == 0:
        partial[b] = total  # racecheck
    grid.sync()  # bug: cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        for j in range(4):
            y[b] += partial[j]  # racecheck


# Atomics and plain accesses


@pair(2, 4, data=ints(2), scratch=np.full(2, -1, np.int32), like="Oclgrind atomics/atomic_global_fence_race")
@cuda.jit
def counter_of_all_blocks(data, scratch):
    """A counter per block is set, counted up and read by its block; one for all blocks is not theirs to set."""
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    slot = b  # bug: slot = 0
    if t == 0:
        scratch[slot] = 0  # racecheck, racecheck (warn)?
    cuda.syncthreads()
    cuda.atomic.add(scratch, slot, cuda.grid(1))  # racecheck
    cuda.syncthreads()
    if t == 0:
        data[b] = scratch[slot]  # racecheck


@pair(4, 1, data=ints(1), like="Oclgrind atomics/atomic_increment")
@cuda.jit
def counted_up(data):
    """A counter is read, incremented and stored, in three steps."""
    cuda.atomic.add(data, 0, 1)  # bug: data[0] += 1  # racecheck


@pair(2, 4, data=np.full(2, -1, np.int32), like="Oclgrind atomics/atomic_intergroup_race")
@cuda.jit
def set_by_one_block(data):
    """The first block sets the counter and waits; the second block counts without having waited."""
    if cuda.grid(1) == 0:
        data[1] = 0  # bug: data[0] = 0  # racecheck
    cuda.syncthreads()
    cuda.atomic.add(data, 0, 1)  # racecheck


@pair(1, 4, data=ints(1), output=ints(1), like="Oclgrind atomics/atomic_race_after")
@cuda.jit
def read_after_counting(data, output):
    """The last thread has counted and reads the counter, while others still count."""
    cuda.atomic.add(data, 0, 1)  # racecheck
    if cuda.grid(1) == cuda.gridsize(1) - 1:
        output[0] = cuda.atomic.add(data, 0, 0)  # bug: output[0] = data[0]  # racecheck


@pair(1, 4, data=ints(1), like="Oclgrind atomics/atomic_race_before")
@cuda.jit
def set_before_counting(data):
    """The first thread sets the counter while others count already."""
    if cuda.grid(1) == 0:
        data[0] = 0  # racecheck
    cuda.syncthreads()  # bug: pass
    cuda.atomic.sub(data, 0, 1)  # racecheck


@pair(1, 4, data=ints(4), like="Oclgrind atomics/atomic_same_workitem")
@cuda.jit
def plain_and_atomic_by_one_thread(data):
    """A thread may store to its own element and count it up; neighbors on one element race."""
    i = cuda.grid(1)
    mine = i  # bug: mine = i // 2
    if i % 2 == 0:
        data[mine] = 0  # racecheck
        cuda.atomic.add(data, mine, 1)  # racecheck?
    else:
        cuda.atomic.add(data, mine, 1)  # racecheck?
        data[mine] += 1  # racecheck


@pair(1, 2, data=np.full(1, -1, np.int32), like="Oclgrind atomics/atomic_cmpxchg_read_race")
@cuda.jit
def stored_beside_an_exchange(data):
    """One thread stores, the other compares and exchanges."""
    if cuda.grid(1) == 0:
        cuda.atomic.exch(data, 0, 0)  # bug: data[0] = 0  # racecheck
    else:
        cuda.atomic.cas(data, 0, 0, 0x01000001)  # racecheck


@pair(1, 2, data=np.full(1, -1, np.int32), like="Oclgrind atomics/atomic_cmpxchg_write_race")
@cuda.jit
def stored_before_an_exchange(data):
    """The first thread stores what the second compares with, and the second does not wait for it."""
    i = cuda.grid(1)
    if i == 0:
        data[0] = 0  # racecheck
    cuda.syncthreads()  # bug: pass
    cuda.atomic.cas(data, 0, i, 42)  # racecheck


# Fences, acquire and release


@pair(3, 32, x=np.ones(96, np.int32), partial=ints(3), count=ints(1), total=ints(1))
@cuda.jit
def last_block_adds_up(x, partial, count, total):
    """The block that draws the last ticket adds up the partial sums, which no fence holds before the ticket."""
    is_last = cuda.shared.array(1, int32)
    sums = cuda.syncthreads_count(x[cuda.grid(1)])
    if cuda.threadIdx.x == 0:
        partial[cuda.blockIdx.x] = sums  # racecheck
        cuda.threadfence()  # bug: pass
        ticket = cuda.atomic.add(count, 0, 1)
        is_last[0] = ticket == cuda.gridDim.x - 1
    cuda.syncthreads()
    if is_last[0] and cuda.threadIdx.x == 3:
        for j in range(3):
            total[0] += partial[j]  # racecheck


@pair(12, 64, partial=ints(768), count=ints(1), total=ints(64))
@cuda.jit
def last_block_reads_what_every_thread_wrote(partial, count, total):
    """So often that it is decided in a table. One thread of each block has no fence after its write."""
    is_last = cuda.shared.array(1, int32)
    thread = cuda.threadIdx.x
    partial[cuda.grid(1)] = thread  # racecheck
    if thread < 64:  # bug: if thread < 63:
        cuda.threadfence()
    cuda.syncthreads()
    if thread == 0:
        is_last[0] = cuda.atomic.add(count, 0, 1) == cuda.gridDim.x - 1
    cuda.syncthreads()
    if is_last[0]:
        for j in range(12):
            total[thread] += partial[64 * j + thread]  # racecheck


@pair(3, 32, count=ints(1))  # the clean one is as in the CUDA C++ Programming Guide, "Memory Fence Functions"
@cuda.jit
def last_block_resets_its_counter(count):
    """The last block resets the counter by a plain store. The first one must not: others still add to it."""
    is_done = cuda.shared.array(1, int32)
    if cuda.threadIdx.x == 0:
        cuda.threadfence()
        ticket = cuda.atomic.add(count, 0, 1)  # racecheck
        is_done[0] = ticket == cuda.gridDim.x - 1  # bug: is_done[0] = ticket == 0
    cuda.syncthreads()
    if is_done[0] and cuda.threadIdx.x == 3:
        count[0] = 0  # racecheck


@pair(3, 1, total=ints(1), count=ints(1), y=ints(1))
@cuda.jit
def atomic_sum_read_plainly(total, count, y):
    """The last block reads a sum by a plain load; no fence holds the additions before the ticket."""
    cuda.atomic.add(total, 0, 1)  # racecheck
    cuda.threadfence()  # bug: pass
    if cuda.atomic.add(count, 0, 1) == cuda.gridDim.x - 1:
        cuda.threadfence()
        y[0] = total[0]  # racecheck


@pair(3, 1, partial=ints(3), count=ints(1), total=ints(1))
@cuda.jit
def ticket_not_drawn(partial, count, total):
    """The last block by number adds up, where only tickets tell which one comes last."""
    b = cuda.blockIdx.x
    partial[b] = b + 1  # racecheck
    cuda.threadfence()
    ticket = cuda.atomic.add(count, 0, 1)  # bug: ticket = b
    cuda.threadfence()
    if ticket == 2:
        for j in range(3):
            total[0] += partial[j]  # racecheck


@pair(3, 4, lock=ints(1), total=ints(1))
@cuda.jit
def lock_without_a_fence(lock, total):
    """The lock is given back before what was done under it is sure to be seen."""
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass
    cuda.threadfence()
    total[0] += cuda.grid(1)  # racecheck
    cuda.threadfence()  # bug: pass
    cuda.atomic.exch(lock, 0, 0)


@pair(3, 4, lock=ints(1), total=ints(1))
@cuda.jit
def lock_not_waited_for(lock, total):
    """The lock is tried once, and entered whether it was free or not."""
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:  # bug: while cuda.atomic.cas(lock, 0, 0, 1) > 1:
        pass
    cuda.threadfence()
    total[0] += cuda.grid(1)  # racecheck
    cuda.threadfence()
    cuda.atomic.exch(lock, 0, 0)


@pair(3, 4, locks=ints(2), total=ints(1))
@cuda.jit
def two_locks_for_one_sum(locks, total):
    """Odd threads take one lock and even ones another, for the same sum."""
    own = 0  # bug: own = cuda.grid(1) % 2
    while cuda.atomic.cas(locks, own, 0, 1) != 0:
        pass
    cuda.threadfence()
    total[0] += cuda.grid(1)  # racecheck
    cuda.threadfence()
    cuda.atomic.exch(locks, own, 0)


@pair(2, 1, value=ints(1), flag=ints(1), y=ints(1))
@cuda.jit
def message_between_blocks(value, flag, y):
    """A block passes a value to the next by a flag, and does not fence the value off from the flag."""
    if cuda.blockIdx.x == 0:
        value[0] = 42  # racecheck
        cuda.threadfence()  # bug: pass
        cuda.atomic.exch(flag, 0, 1)
    elif cuda.atomic.add(flag, 0, 0) == 1:
        cuda.threadfence()
        y[0] = value[0]  # racecheck


@pair(2, 1, value=ints(1), flag=ints(1), y=ints(1))
@cuda.jit
def flag_read_plainly(value, flag, y):
    """The flag is set by an atomic, and read by a plain load, which orders nothing."""
    if cuda.blockIdx.x == 0:
        value[0] = 42  # racecheck?
        cuda.threadfence()
        cuda.atomic.exch(flag, 0, 1)  # racecheck
    elif cuda.atomic.add(flag, 0, 0) == 1:  # bug: elif flag[0] == 1:  # racecheck
        cuda.threadfence()
        y[0] = value[0]  # racecheck?


@pair(2, 1, value=ints(1), flag=ints(1), y=ints(1))
@cuda.jit
def fence_of_a_block_between_blocks(value, flag, y):
    """A fence for the block does not reach the other block."""
    if cuda.blockIdx.x == 0:
        value[0] = 42  # racecheck
        cuda.threadfence()  # bug: cuda.threadfence_block()
        cuda.atomic.exch(flag, 0, 1)
    elif cuda.atomic.add(flag, 0, 0) == 1:
        cuda.threadfence()
        y[0] = value[0]  # racecheck


@pair()
def relaxed_for_a_release():
    """The flag is stored without release, and what it stands for may come later."""

    @cuda.jit
    def pass_on(value, flag, at, y):
        if cuda.blockIdx.x == 0:
            value[0] = 42  # racecheck
            publish(at, 1)  # bug: put(at, 1)
        elif acquire(at, 0) == 1:
            y[0] = value[0]  # racecheck

    value, flag, y = (cuda.to_device(ints(1)) for _ in range(3))
    pass_on[2, 1](value, flag, uint64(flag.device_ctypes_pointer.value), y)
