"""Kernels whose result depends on the order in which threads come (nondeterministic).

Specs stand in the docstrings, as in ``output_pairs.py``; each says that its result must not depend on the order.
"""

from numba import cuda, float32, int32


@cuda.jit
def copy(state, y):
    """One element, for launchers."""
    y[0] = state[0]


def doubled(x):
    """The default's reference."""
    return {"y": 2 * x}


def total(x, state):
    """The sum, of whatever precision."""
    return {"y": state + x.sum()}


@cuda.jit
def add_up(x, state, y, n):
    """Atomic sums: floats, in the order of their coming."""
    for i in range(cuda.grid(1), n, cuda.gridsize(1)):
        cuda.atomic.add(state, 0, x[i])


def floats_added_atomically(x, state, y, N):
    """Floats are added in whatever order the threads come, not by one thread.

    deterministic: true
    launcher: floats_added_atomically
    reference: total
    inputs: {x: {shape: [N], values: normal}, state: {shape: [1], values: zeros}}
    mutates: [state]
    outputs: {y: [1]}
    """
    threads = 1  # bug: threads = 32  # nondeterministic: y
    add_up[threads, threads](x, state, y, N)
    copy[1, 1](state, y)


@cuda.jit
def slots_by_ticket(x, count, y, n):
    """Each thread stores where a counter says, not where its number does.

    inputs: {x: [N], count: {shape: [1], dtype: int32, values: zeros}}
    mutates: [count]
    launch: {args: [x, count, y, N], grid: ["ceildiv(N, 32)"], block: [32]}
    """
    i = cuda.grid(1)
    if i < n:
        ticket = cuda.atomic.add(count, 0, 1)
        slot = i  # bug: slot = ticket  # nondeterministic: y
        y[slot] = 2 * x[i] + min(ticket, 0)


def of_the_first(x):
    """Of the first element alone."""
    return {"y": 2 * x[:1]}


@cuda.jit
def last_writer_wins(x, y):
    """Every block exchanges the result for its own.

    reference: of_the_first
    inputs: {x: {shape: [N], dtype: int32, values: permutation}}
    outputs: {y: {shape: [1], dtype: int32}}
    launch: {args: [x, y], grid: ["ceildiv(N, 32)"], block: [32]}
    """
    i = cuda.grid(1)
    if i == 0:  # bug: if cuda.threadIdx.x == 0:
        cuda.atomic.exch(y, 0, int32(2 * x[i]))  # nondeterministic: y


@cuda.jit
def racing_stores(x, y, n):
    """Every block stores its own result to the same place.

    reference: of_the_first
    outputs: {y: [1]}
    """
    i = cuda.grid(1)
    if i == 0:  # bug: if cuda.threadIdx.x == 0:
        y[0] = 2 * x[i]  # racecheck, nondeterministic: y


def firsts(k, owner):
    """The first index of each value, if there is one."""
    found = owner.copy()
    for i, value in enumerate(k):
        found[value] = min(found[value], i)
    return {"y": found}


@cuda.jit
def copy_all(source, y):
    """Element by element."""
    y[cuda.threadIdx.x] = source[cuda.threadIdx.x]


@cuda.jit
def first_to_claim(k, owner, n):
    """Whoever comes first owns a value, where the lowest index should.

    launcher: claim_and_copy
    reference: firsts
    inputs:
      k: {shape: [N], dtype: int32, values: {integers: [0, 7]}}
      owner: {shape: [8], dtype: int32, values: {constant: 9999}}
    mutates: [owner]
    outputs: {y: {shape: [8], dtype: int32}}
    """
    i = cuda.grid(1)
    if i < n:
        cuda.atomic.min(owner, k[i], i)  # bug: cuda.atomic.cas(owner, k[i], 9999, i)  # nondeterministic: y


def claim_and_copy(k, owner, y, N):
    """Two launches."""
    first_to_claim[3, 32](k, owner, N)
    copy_all[1, 8](owner, y)


def lowest_of_the_largest(x, best):
    """Where the largest of some equal values stands first."""
    return {"y": x.argmax(keepdims=True)}


@cuda.jit
def tie_by_arrival(x, best, y, n):
    """Among equals the last to come is told, not the first in order.

    dims: {N: [64]}
    reference: lowest_of_the_largest
    inputs: {x: {shape: [N], values: ties}, best: {shape: [1], dtype: int32, values: {constant: 9999}}}
    mutates: [best]
    outputs: {y: {shape: [1], dtype: int32}}
    launch: {args: [x, best, y, N], grid: [1], block: [N]}
    """
    largest = cuda.shared.array(1, float32)
    t = cuda.threadIdx.x
    if t == 0:
        largest[0] = x[0]
    cuda.syncthreads()
    cuda.atomic.max(largest, 0, x[t])
    cuda.syncthreads()
    if x[t] == largest[0]:
        cuda.atomic.min(best, 0, t)  # bug: cuda.atomic.exch(best, 0, t)  # nondeterministic: y
    cuda.syncthreads()
    if t == 0:
        y[0] = best[0]


def numbered(count):
    """The number of each block."""
    return {"y": [0, 3, 6, 9, 12]}


@cuda.jit
def number_of_arrival(count, y):
    """A block takes the number of its coming for its own.

    dims: {N: [5]}
    reference: numbered
    inputs: {count: {shape: [1], dtype: int32, values: zeros}}
    mutates: [count]
    outputs: {y: {shape: [N], dtype: int32}}
    launch: {args: [count, y], grid: [N], block: [1]}
    """
    came = cuda.atomic.add(count, 0, 1)
    number = cuda.blockIdx.x  # bug: number = came
    y[cuda.blockIdx.x] = 3 * number + min(came, 0)  # nondeterministic: y


def folded(k, state, lock):
    """Three times the sum."""
    return {"y": state + 3 * k.sum(keepdims=True)}


@cuda.jit
def fold(k, state, lock, n):
    """Under a lock, so no race; but what is done under it does not commute.

    dims: {N: [40]}
    launcher: fold_and_copy
    reference: folded
    inputs:
      k: {shape: [N], dtype: int32, values: {integers: [1, 9]}}
      state: {shape: [1], dtype: int32, values: zeros}
      lock: {shape: [1], dtype: int32, values: zeros}
    mutates: [state, lock]
    outputs: {y: {shape: [1], dtype: int32}}
    """
    i = cuda.grid(1)
    if i < n:
        while cuda.atomic.cas(lock, 0, 0, 1) != 0:
            pass
        cuda.threadfence()
        state[0] += 3 * k[i]  # bug: state[0] = 3 * state[0] % 10007 + k[i]  # nondeterministic: y
        cuda.threadfence()
        cuda.atomic.exch(lock, 0, 0)


def fold_and_copy(k, state, lock, y, N):
    """Two launches."""
    fold[2, 32](k, state, lock, N)
    copy[1, 1](state, y)


def running(k, count):
    """Each its own."""
    return {"y": 2 * k}


@cuda.jit
def running_total(k, count, y, n):
    """A running total is taken from a counter, and depends on who came before.

    reference: running
    inputs:
      k: {shape: [N], dtype: int32, values: {integers: [1, 9]}}
      count: {shape: [1], dtype: int32, values: zeros}
    mutates: [count]
    outputs: {y: {shape: [N], dtype: int32}}
    launch: {args: [k, count, y, N], grid: ["ceildiv(N, 32)"], block: [32]}
    """
    i = cuda.grid(1)
    if i < n:
        before = cuda.atomic.add(count, 0, k[i])
        shift = int32(0) * before  # bug: shift = before
        y[i] = 2 * k[i] + shift  # nondeterministic: y
