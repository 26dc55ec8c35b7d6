"""Small kernels with a race, and twins without.

A line marked ``# race`` is one side of a race, one marked ``# benign`` of two writes of the same value. A kernel
without a mark is clean.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numba import cuda, float32, float64, int8, int32, int64

THREADS = 64


@dataclass(frozen=True)
class Row:
    """A kernel and its launch. ``arrays`` are zeroed int32 arrays of so many elements, or dtypes of their own."""

    kernel: Any
    grid: int
    block: int
    arrays: tuple[tuple[str, int], ...]
    shared: int


ROWS: dict[str, Row] = {}


def row(
    *, grid: int = 2, block: int = THREADS, arrays: str = "i4 i4", size: int = 256, shared: int = 0
) -> Callable[[Any], Any]:
    """Enter a kernel; ``arrays`` are the dtypes of its arguments."""

    def enter(function: Any) -> Any:
        made = tuple((dtype, size) for dtype in arrays.split())
        ROWS[function.__name__] = Row(cuda.jit(function), grid, block, made, shared)
        return function

    return enter


@row()
def neighbour_without_barrier(x, out):
    s = cuda.shared.array(THREADS, int32)
    t = cuda.threadIdx.x
    s[t] = x[t]  # race
    out[cuda.grid(1)] = s[THREADS - 1 - t]  # race


@row(grid=1)
def neighbor_in_the_warp(x, out):
    s = cuda.shared.array(THREADS, int32)
    t = cuda.threadIdx.x
    s[t] = x[t]  # race
    out[t] = s[t ^ 1]  # race


@row(grid=1)
def neighbor_in_the_warp_in_a_branch(x, out):
    s = cuda.shared.array(THREADS, int32)
    t = cuda.threadIdx.x
    if t < 32:
        s[t] = x[t]  # race
        out[t] = s[t ^ 1]  # race
    cuda.syncthreads()
    out[THREADS + t] = s[0]


@row(grid=1)
def flags_of_others_in_a_loop_of_each_lane(x, out):
    """As in non-maximum suppression: each lane reads the flags of those before it, then sets its own."""
    s = cuda.shared.array(THREADS, int32)
    t = cuda.threadIdx.x
    count = 0
    for i in range(t):
        if s[i] != 0:  # race
            count += x[i]
    s[t] = count + 1  # race
    out[t] = count


@row(grid=1)
def all_write_one_element(x, out):
    s = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    s[0] = t  # race
    cuda.syncthreads()
    out[t] = s[0]


@row(grid=1)
def scan_on_one_line(x, out):
    s = cuda.shared.array(THREADS, int32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    if t > 0:
        s[t] += s[t - 1] + 1  # race
    cuda.syncthreads()
    out[t] = s[t]


@row(grid=1)
def one_element(x, out):
    carry = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == THREADS - 1:
        carry[0] = x[t] + 1  # race
    out[t] = carry[0]  # race


@row(grid=1)
def updates_of_one_element(x, out):
    s = cuda.shared.array(THREADS, int32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    s[x[t]] += 1  # race
    cuda.syncthreads()
    out[t] = s[t]


@row(grid=1)
def update_on_two_lines(x, out):
    s = cuda.shared.array(THREADS, int32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    if t % 32 == 0:
        before = s[0]  # race
        if before < 99:
            s[0] = before + 1  # race
    cuda.syncthreads()
    out[t] = s[t]


@row()
def neighbour_with_barrier(x, out):
    s = cuda.shared.array(THREADS, int32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    out[cuda.grid(1)] = s[THREADS - 1 - t]


@row(grid=1, block=32)
def lanes_in_lock_step(x, out):
    s = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    s[t] = x[t]  # race
    out[t] = s[31 - t]  # race


@row(grid=1, block=32)
def lanes_synchronised(x, out):
    s = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncwarp()
    out[t] = s[31 - t]


@row(grid=1, block=32)
def lanes_that_meet_at_a_shuffle(x, out):
    s = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    s[t] = x[t]  # race
    v = cuda.shfl_down_sync(0xFFFFFFFF, t, 1)
    out[t] = s[31 - t] + v  # race


@row(grid=1, block=64)
def a_warp_barrier_between_warps(x, out):
    s = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    s[t] = x[t]  # race
    cuda.syncwarp()
    out[t] = s[63 - t]  # race


@row(grid=1, block=32)
def half_a_warp_synchronised(x, out):
    s = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    if t < 16:
        cuda.syncwarp(0xFFFF)
        out[t] = s[15 - t]


@row(grid=1, block=32)
def half_a_warp_reads_the_other(x, out):
    s = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    s[t] = x[t]  # race
    if t < 16:
        cuda.syncwarp(0xFFFF)
        out[t] = s[31 - t]  # race


@row(grid=1, block=32)
def halves_with_masks_of_their_own(x, out):
    s = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    mask = 0xFFFF if t < 16 else 0xFFFF0000
    cuda.syncwarp(mask)
    out[t] = s[t ^ 15]


@row(grid=1, block=32)
def halves_across_masks(x, out):
    s = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    s[t] = x[t]  # race
    mask = 0xFFFF if t < 16 else 0xFFFF0000
    cuda.syncwarp(mask)
    out[t] = s[t ^ 16]  # race


@row()
def read_before_it_is_overwritten(x, out):
    s = cuda.shared.array(THREADS, int32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    v = s[THREADS - 1 - t]  # race
    s[t] = v + 1  # race
    cuda.syncthreads()
    out[cuda.grid(1)] = s[t]


@row()
def read_and_then_overwritten(x, out):
    s = cuda.shared.array(THREADS, int32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    v = s[THREADS - 1 - t]
    cuda.syncthreads()
    s[t] = v + 1
    cuda.syncthreads()
    out[cuda.grid(1)] = s[t]


@row()
def blocks_write_one_element(x, out):
    out[cuda.threadIdx.x] = cuda.blockIdx.x  # race


@row()
def blocks_write_their_own(x, out):
    out[cuda.grid(1)] = cuda.blockIdx.x


@row()
def blocks_write_the_same(x, out):
    out[cuda.threadIdx.x] = 1  # benign


@row()
def blocks_read_what_others_write(x, out):
    i = cuda.grid(1)
    out[i] = 1  # race
    cuda.syncthreads()
    x[i] = out[(i + THREADS) % (2 * THREADS)]  # race


@row()
def blocks_read_what_they_wrote(x, out):
    i = cuda.grid(1)
    out[i] = 1
    cuda.syncthreads()
    x[i] = out[i ^ 1]


@row()
def all_lanes_write_one_element(x, out):
    if cuda.blockIdx.x == 0:
        out[0] = cuda.threadIdx.x  # race


@row()
def all_lanes_write_the_same(x, out):
    if cuda.blockIdx.x == 0:
        out[0] = 7  # benign


@row()
def one_lane_writes(x, out):
    if cuda.grid(1) == 0:
        out[0] = 7


@row()
def increments_without_atomics(x, out):
    out[x[cuda.grid(1)]] += 1  # race


@row()
def increments_with_atomics(x, out):
    cuda.atomic.add(out, x[cuda.grid(1)], 1)


@row(grid=1)
def atomic_against_a_plain_read(x, out):
    t = cuda.threadIdx.x
    cuda.atomic.add(x, 0, 1)  # race
    if t == 40:
        out[t] = x[0]  # race


@row(grid=1)
def atomic_and_then_a_plain_read(x, out):
    t = cuda.threadIdx.x
    cuda.atomic.add(x, 0, 1)
    cuda.syncthreads()
    if t == 40:
        out[t] = x[0]


@row()
def test_before_an_atomic(x, out):
    i = cuda.grid(1)
    if i > out[0]:  # benign
        cuda.atomic.max(out, 0, i)  # benign


@row(arrays="f8 f8")
def test_before_an_atomic_on_floats(x, out):
    i = cuda.grid(1)
    if i > out[0]:  # benign
        cuda.atomic.max(out, 0, i)  # benign


@row(grid=1)
def test_before_an_atomic_in_shared_memory(x, out):
    s = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        s[0] = 0
    cuda.syncthreads()
    if t > s[0]:  # benign
        cuda.atomic.max(s, 0, t)  # benign
    cuda.syncthreads()
    out[t] = s[0]


@row()
def two_tests_before_an_atomic(x, out):
    i = cuda.grid(1)
    if i > out[0] and i % 2:  # benign
        cuda.atomic.max(out, 0, i)  # benign


@row()
def a_test_whose_value_is_stored_too(x, out):
    i = cuda.grid(1)
    v = out[0]  # race
    if i > v:
        cuda.atomic.max(out, 0, i)  # race
    x[i] = v


@row()
def a_test_before_an_atomic_and_a_store(x, out):
    i = cuda.grid(1)
    if i > out[0]:  # race
        cuda.atomic.max(out, 0, i)  # race
        x[i] = 1


@row()
def a_test_before_an_atomic_on_another_word(x, out):
    i = cuda.grid(1)
    if i > out[0]:  # race
        cuda.atomic.max(out, 1, i)
    cuda.atomic.max(out, 0, i)  # race


@row()
def a_value_that_is_an_operand_of_the_atomic(x, out):
    i = cuda.grid(1)
    if i > out[0]:  # race
        cuda.atomic.add(out, 0, i - out[0])  # race


@row()
def a_test_before_an_atomic_whose_result_is_used(x, out):
    i = cuda.grid(1)
    old = 0
    if i > out[0]:  # race
        old = cuda.atomic.max(out, 0, i)  # race
    x[i] = old


@row()
def a_test_before_a_plain_write(x, out):
    i = cuda.grid(1)
    if i == 100 - out[0]:  # race
        out[0] = 7  # race


@row()
def a_write_of_what_is_there(x, out):
    i = cuda.grid(1)
    if i == 70:
        out[0] = 0  # benign
    x[i] = out[0]  # benign


@row()
def a_read_before_a_write_of_what_is_there(x, out):
    i = cuda.grid(1)
    x[i] = out[0]  # benign
    if i == 70:
        out[0] = 0  # benign


@row(grid=1)
def a_write_of_what_is_there_since_the_barrier(x, out):
    t = cuda.threadIdx.x
    if t == 0:
        out[0] = 5
    cuda.syncthreads()
    if t == 40:
        out[0] = 5  # benign
    x[t] = out[0]  # benign


@row(grid=1, arrays="f8 f8")
def a_write_that_changes_the_value(x, out):
    t = cuda.threadIdx.x
    if t == 40:
        out[0] = 5  # race
    x[t] = out[0]  # race


@row(grid=1)
def plain_write_and_atomics(x, out):
    t = cuda.threadIdx.x
    if t == 0:
        x[0] = 0  # race
    cuda.atomic.add(x, 0, 1)  # race


@row(grid=1)
def plain_write_then_atomics(x, out):
    t = cuda.threadIdx.x
    if t == 0:
        x[0] = 0
    cuda.syncthreads()
    cuda.atomic.add(x, 0, 1)


@row(grid=1, arrays="f8 f4", shared=8 * THREADS)
def halves_of_a_double(x, out):
    """The same bytes, written as doubles and read as floats."""
    wide = cuda.shared.array(0, float64)
    narrow = cuda.shared.array(0, float32)
    t = cuda.threadIdx.x
    wide[t] = x[t]  # race
    out[t] = narrow[t]  # race


@row(grid=1, arrays="f8 f4", shared=8 * THREADS)
def halves_of_its_own_double(x, out):
    wide = cuda.shared.array(0, float64)
    narrow = cuda.shared.array(0, float32)
    t = cuda.threadIdx.x
    wide[t] = x[t]
    out[t] = narrow[2 * t] + narrow[2 * t + 1]


@row(grid=1, arrays="i1 i1")
def bytes_side_by_side(x, out):
    s = cuda.shared.array(THREADS, int8)
    t = cuda.threadIdx.x
    s[t] = x[t]
    out[t] = s[t]


@row(grid=1, arrays="i8 i4")
def elements_of_two_sizes(x, out):
    """Eight bytes and four: the records are of four."""
    s = cuda.shared.array(THREADS, int64)
    r = cuda.shared.array(THREADS, int32)
    t = cuda.threadIdx.x
    s[t] = x[t]  # race
    r[t] = out[t]
    cuda.syncwarp()
    out[t] = s[(t + 32) % THREADS] + r[t]  # race


@row(grid=1)
def loop_without_a_second_barrier(x, out):
    s = cuda.shared.array(THREADS, int32)
    t = cuda.threadIdx.x
    total = 0
    for k in range(3):
        s[t] = x[t] + k  # race
        cuda.syncthreads()
        total += s[THREADS - 1 - t]  # race
    out[t] = total


@row(grid=1)
def loop_with_a_second_barrier(x, out):
    s = cuda.shared.array(THREADS, int32)
    t = cuda.threadIdx.x
    total = 0
    for k in range(3):
        s[t] = x[t] + k
        cuda.syncthreads()
        total += s[THREADS - 1 - t]
        cuda.syncthreads()
    out[t] = total


@row(grid=1)
def broadcast_reads(x, out):
    s = cuda.shared.array(1, float32)
    t = cuda.threadIdx.x
    if t == 0:
        s[0] = x[5]
    cuda.syncthreads()
    out[t] = s[0]


@row(grid=1)
def broadcast_without_barrier(x, out):
    s = cuda.shared.array(1, float32)
    t = cuda.threadIdx.x
    if t == 0:
        s[0] = x[5]  # race
    out[t] = s[0]  # race


@row(grid=3)
def only_the_first_block_reads(x, out):
    """Two later blocks read too: the write of the last conflicts with the first's read all the same."""
    i = cuda.blockIdx.x
    if cuda.threadIdx.x == 0:
        if i < 2:
            out[i + 1] = x[0]  # race
        else:
            x[0] = 1  # race


@row(grid=1, block=96)
def the_first_warp_reads(x, out):
    """Its read is remembered over those of the warp that writes in the end."""
    t = cuda.threadIdx.x
    v = 0
    if t == 0:
        v = x[0]  # race
    cuda.syncwarp()
    if t >= 64:
        v = x[0]
    cuda.syncwarp()
    if t == 64:
        x[0] = 1  # race
    out[t] = v


@row(grid=4)
def last_block_sums_with_a_fence(x, out):
    """The last block adds up what all published before it (CUDA sample threadFenceReduction)."""
    last = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        out[1 + cuda.blockIdx.x] = x[cuda.blockIdx.x] + 1
        cuda.threadfence()
        last[0] = cuda.atomic.add(out, 100, 1)
    cuda.syncthreads()
    if last[0] == cuda.gridDim.x - 1 and t < 4:
        out[50 + t] = out[1 + t]


@row(grid=4)
def last_block_sums_without_a_fence(x, out):
    last = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        cuda.threadfence()
        out[1 + cuda.blockIdx.x] = x[cuda.blockIdx.x] + 1  # race
        last[0] = cuda.atomic.add(out, 100, 1)
    cuda.syncthreads()
    if last[0] == cuda.gridDim.x - 1 and t < 4:
        out[50 + t] = out[1 + t]  # race


@row(grid=4)
def last_block_sums_with_a_fence_of_the_block(x, out):
    """A fence that is for the block only tells other blocks nothing."""
    last = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        out[1 + cuda.blockIdx.x] = x[cuda.blockIdx.x] + 1  # race
        cuda.threadfence_block()
        last[0] = cuda.atomic.add(out, 100, 1)
    cuda.syncthreads()
    if last[0] == cuda.gridDim.x - 1 and t < 4:
        out[50 + t] = out[1 + t]  # race


@row(grid=4)
def last_block_resets_the_ticket(x, out):
    """Its atomic observes those of the other blocks, so they come before the reset (threadFenceReduction)."""
    last = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        cuda.threadfence()
        last[0] = cuda.atomic.add(out, 100, 1)
    cuda.syncthreads()
    if last[0] == cuda.gridDim.x - 1 and t == 40:
        out[100] = 0


@row(grid=4)
def a_reset_before_the_last_ticket(x, out):
    """The third ticket does not observe the fourth."""
    if cuda.threadIdx.x == 0:
        cuda.threadfence()
        ticket = cuda.atomic.add(out, 100, 1)  # race
        if ticket == 2:
            out[100] = 0  # race


@row(grid=4)
def a_reset_by_a_thread_that_did_not_wait(x, out):
    """Thread 40 did not see the ticket: no barrier is between the atomic of thread 0 and the write."""
    last = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        cuda.threadfence()
        last[0] = cuda.atomic.add(out, 100, 1)  # race
    if cuda.blockIdx.x == 3 and t == 40:
        out[100] = 0  # race
    cuda.syncthreads()


@row(grid=4)
def every_thread_fences_and_one_takes_the_ticket(x, out):
    last = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    if t < 32:
        x[i] = i
    cuda.threadfence()
    cuda.syncthreads()
    if t == 0:
        last[0] = cuda.atomic.add(out, 100, 1)
    cuda.syncthreads()
    if last[0] == cuda.gridDim.x - 1 and t < 4:
        out[50 + t] = x[t * THREADS + 31 - t]


@row(grid=2)
def a_lock_with_fences(x, out):
    while cuda.atomic.cas(out, 0, 0, 1) != 0:
        pass
    cuda.threadfence()
    out[1] += 1
    cuda.threadfence()
    cuda.atomic.exch(out, 0, 0)


@row(grid=2)
def a_lock_without_the_fence_before_it_is_left(x, out):
    while cuda.atomic.cas(out, 0, 0, 1) != 0:
        pass
    cuda.threadfence()
    out[1] += 1  # race
    cuda.atomic.exch(out, 0, 0)


@row(grid=2)
def a_write_after_the_lock_was_left(x, out):
    while cuda.atomic.cas(out, 0, 0, 1) != 0:
        pass
    cuda.threadfence()
    out[1] = x[0]  # race
    cuda.threadfence()
    cuda.atomic.exch(out, 0, 0)
    out[1] = cuda.grid(1)  # race


@row(grid=1)
def a_flag_between_warps(x, out):
    """One warp waits for what another one publishes."""
    t = cuda.threadIdx.x
    if t == 40:
        x[0] = 5
        cuda.threadfence()
        cuda.atomic.exch(out, 100, 1)
    if t == 1:
        while cuda.atomic.add(out, 100, 0) == 0:
            pass
        out[t] = x[0]


@row(grid=1)
def a_flag_without_a_fence(x, out):
    t = cuda.threadIdx.x
    if t == 40:
        cuda.threadfence()
        x[0] = 5  # race
        cuda.atomic.exch(out, 100, 1)
    if t == 1:
        while cuda.atomic.add(out, 100, 0) == 0:
            pass
        out[t] = x[0]  # race


@row(grid=1)
def a_flag_that_is_read_plainly(x, out):
    t = cuda.threadIdx.x
    if t == 40:
        x[0] = 5
        cuda.threadfence()
        cuda.atomic.exch(out, 100, 1)  # race
    if t == 1:
        out[t] = out[100]  # race


@row(grid=2)
def a_flag_passed_on(x, out):
    """What the second lane learned it publishes with what it did: the third knows of both."""
    if cuda.blockIdx.x == 0:
        t = cuda.threadIdx.x
        if t == 0:
            x[0] = 5
            cuda.threadfence()
            cuda.atomic.exch(out, 100, 1)
        if t == 33:
            while cuda.atomic.add(out, 100, 0) == 0:
                pass
            x[1] = 6
            cuda.threadfence()
            cuda.atomic.exch(out, 101, 1)
    elif cuda.threadIdx.x == 7:
        while cuda.atomic.add(out, 101, 0) == 0:
            pass
        out[7] = x[0] + x[1]


@row(grid=2)
def blocks_with_a_grid_barrier(x, out):
    i = cuda.grid(1)
    out[i] = i
    cuda.cg.this_grid().sync()
    x[i] = out[2 * THREADS - 1 - i]


@row(grid=2)
def blocks_and_the_next_round_of_the_grid(x, out):
    """What is written after the barrier races with what the others still read."""
    i = cuda.grid(1)
    out[i] = i
    cuda.cg.this_grid().sync()
    x[i] = out[2 * THREADS - 1 - i]  # race
    cuda.syncthreads()
    out[i] = 0  # race
