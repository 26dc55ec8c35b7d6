"""Kernels whose result depends on the order of threads, each with a clean twin; used by the tests of schedules."""

from __future__ import annotations

HEAD = """
kcheck: 1
op: op
kernel: k.py:op
reference: r.py:op
dims: {N: [%d]}
inputs: {x: {shape: [N], dtype: int32, values: {integers: [0, 9]}}, c: {shape: [4], dtype: int32, values: zeros}}
mutates: [c]
outputs: {y: {shape: [N], dtype: int32}}
launch: {args: [x, c, y], grid: [%d], block: [%d]%s}
cases: {count: 1}
"""


def spec(n: int, grid: int, block: int, *, cooperative: bool = False, more: str = "") -> str:
    """A spec of N elements; ``c`` is four zeros that the kernel may use to count."""
    return HEAD % (n, grid, block, ", cooperative: true" if cooperative else "") + more


REFERENCE = "def op(x, c):\n    return {'y': x * 0}\n"


def kernel(body: str) -> str:
    """A kernel of three statements' room: ``i`` is the thread's index in the grid, ``t`` in the block."""
    return (
        "@cuda.jit\ndef op(x, c, y):\n    i = cuda.grid(1)\n    t = cuda.threadIdx.x\n    b = cuda.blockIdx.x\n"
        + "".join(f"    {line}\n" for line in body.strip().split("\n"))
    )


SHARED = "s = cuda.shared.array(1, int32)\n"

ROWS: dict[str, tuple[tuple[int, int, int], str, str, str]] = {
    # name: ((N, grid, block), the statement with the bug, its clean twin, the order that shows it)
    "the last warp wins": (
        (96, 1, 96),
        SHARED + "if t % 32 == 0: s[0] = t\ncuda.syncthreads()\ny[i] = s[0]",
        SHARED + "if t == 64: s[0] = t\ncuda.syncthreads()\ny[i] = s[0]",
        "reverse",
    ),
    "the last block wins": (
        (3, 3, 1),
        "c[0] = b\ny[i] = 0\nif b == 2: y[0] = c[0]\nif b == 0: y[0] = c[0]",
        "c[b] = b\ny[i] = c[b]",
        "reverse",
    ),
    "tickets among lanes": (
        (32, 1, 32),
        "y[i] = cuda.atomic.add(c, 0, 1)",
        "y[i] = 0 * cuda.atomic.add(c, 0, 1)",
        "reverse",
    ),
    "tickets among some lanes": (
        (32, 1, 32),
        "y[i] = 0\nif x[i] < 5: y[i] = cuda.atomic.add(c, 0, 1)",
        "y[i] = 0\nif x[i] < 5: y[i] = cuda.atomic.add(c, 0, 1) * 0",
        "reverse",
    ),
    "tickets among warps": (
        (128, 1, 128),
        "y[i] = 0\nif t % 32 == 0: y[i] = cuda.atomic.add(c, 0, 1)",
        "y[i] = 0\nif t % 32 == 0: y[i] = t + 0 * cuda.atomic.add(c, 0, 1)",
        "reverse",
    ),
    "tickets among blocks": (
        (7, 7, 1),
        "y[i] = cuda.atomic.add(c, 0, 1)",
        "y[i] = b + 0 * cuda.atomic.add(c, 0, 1)",
        "reverse",
    ),
    # The one in the middle has the same turn from either end.
    "the turn of the middle block": (
        (11, 11, 1),
        "n = cuda.atomic.add(c, 0, 1)\ny[i] = 0\nif b == 5: y[i] = n",
        "n = cuda.atomic.add(c, 0, 1)\ny[i] = 0\nif b == 5: y[i] = 4",
        "shuffled",
    ),
    "the turn of the middle warp": (
        (352, 1, 352),
        "y[i] = 0\nif t % 32 == 0:\n    n = cuda.atomic.add(c, 0, 1)\n    if t == 160: y[i] = n",
        "y[i] = 0\nif t % 32 == 0:\n    n = cuda.atomic.add(c, 0, 1)\n    if t == 160: y[i] = 5",
        "shuffled",
    ),
    "the turn of the middle block, after a grid barrier": (
        (11, 11, 1),
        "y[i] = 0\ncuda.cg.this_grid().sync()\nn = cuda.atomic.add(c, 0, 1)\nif b == 5: y[i] = n",
        "y[i] = 0\ncuda.cg.this_grid().sync()\nn = cuda.atomic.add(c, 0, 1)\nif b == 5: y[i] = 4",
        "shuffled",
    ),
    "the turn of the middle warp, after a barrier": (
        (352, 1, 352),
        "y[i] = 0\ncuda.syncthreads()\nif t % 32 == 0:\n    n = cuda.atomic.add(c, 0, 1)\n"
        "    if t == 160: y[i] = n",
        "y[i] = 0\ncuda.syncthreads()\nif t % 32 == 0:\n    n = cuda.atomic.add(c, 0, 1)\n"
        "    if t == 160: y[i] = 5",
        "shuffled",
    ),
}

WAITING = {
    # Right under every order: threads that wait for one another.
    "a lock": (
        (96, 3, 32),
        "y[i] = 0\nwhile cuda.atomic.cas(c, 0, 0, 1) != 0:\n    pass\nc[1] += 1\ncuda.threadfence()\n"
        "cuda.atomic.exch(c, 0, 0)",
    ),
    "a flag that the last warp sets": (
        (128, 1, 128),
        "if t == 127: cuda.atomic.exch(c, 0, 7)\nwhile cuda.atomic.add(c, 0, 0) == 0:\n    pass\n"
        "y[i] = cuda.atomic.add(c, 0, 0)",
    ),
    "a flag that the first lane sets": (
        (32, 1, 32),
        "if t == 0: cuda.atomic.exch(c, 0, 7)\nwhile cuda.atomic.add(c, 0, 0) == 0:\n    pass\n"
        "y[i] = cuda.atomic.add(c, 0, 0)",
    ),
    "blocks in the order of their tickets": (
        (8, 8, 1),
        "n = cuda.atomic.add(c, 0, 1)\nwhile cuda.atomic.add(c, 1, 0) != n:\n    pass\n"
        "cuda.atomic.add(c, 1, 1)\ny[i] = 3",
    ),
    "barriers and warps of unequal work": (
        (200, 2, 100),
        "n = 0\nfor k in range(5):\n    for j in range(t // 32 * 3): n += x[(i + j) % 200] * 0\n"
        "    cuda.syncthreads()\ny[i] = n",
    ),
    "a count of those that come": (
        (96, 1, 96),
        "y[i] = cuda.syncthreads_count(t % 3 == 0)",
    ),
}
