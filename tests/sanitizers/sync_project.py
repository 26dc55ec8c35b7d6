"""Kernels that meet barriers, warps and grids wrongly, each with a clean twin that differs by one line."""

from __future__ import annotations

from dataclasses import dataclass

REFERENCE = "def op(x):\n    return {'y': x * 0}\n"


@dataclass(frozen=True)
class Row:
    """A kernel with a bug.

    Attributes:
        kernel: its statements; the finding's line ends in ``# here``, that of the other barrier in ``# there``.
        clean: what the line with ``# fix`` (or else ``# here``) becomes in the twin.
        says: the message; ``{there}`` is the number of the line marked so.
        thread, block: of the finding.
        grid, threads: of the launch.
        rule: of the finding.
    """

    kernel: str
    clean: str
    says: str
    thread: int = 0
    block: int = 0
    grid: int = 1
    threads: int = 64
    rule: str = "synccheck"
    cooperative: bool = False

    def spec(self) -> str:
        """The spec of both twins."""
        n = self.grid * self.threads
        more = ", cooperative: true" if self.cooperative else ""
        return f"""
kcheck: 1
op: op
kernel: k.py:op
reference: r.py:op
dims: {{N: [{n}]}}
inputs: {{x: {{shape: [N], dtype: int32, values: {{integers: [1, 9]}}}}}}
outputs: {{y: {{shape: [N], dtype: int32}}}}
launch: {{args: [x, y], grid: [{self.grid}], block: [{self.threads}]{more}}}
deterministic: false
cases: {{count: 1}}
"""

    def twins(self) -> tuple[str, str]:
        """The kernel with the bug, and without."""
        lines = self.kernel.strip("\n").split("\n")
        mark = "# fix" if "# fix" in self.kernel else "# here"
        at = next(k for k, line in enumerate(lines) if line.endswith(mark))
        indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
        fixed = [*lines[:at], indent + self.clean, *lines[at + 1 :]]
        return _whole(lines), _whole(fixed)


def _whole(lines: list[str]) -> str:
    head = [
        "@cuda.jit",
        "def op(x, y):",
        "    i = cuda.grid(1)",
        "    t = int32(cuda.threadIdx.x)",
        "    b = cuda.blockIdx.x",
        "    s = cuda.shared.array(64, int32)",
        "    y[i] = 0",
        "    s[t] = x[i]",
    ]
    return "\n".join([*head, *(f"    {line}" for line in lines)]) + "\n"


BARRIERS: dict[str, Row] = {
    "skipped by some threads": Row(
        "if t < 40:  # fix\n    cuda.syncthreads()  # here\ny[i] = 0 * s[t]\n",
        "if t < 64:",
        "40 of 64 threads wait at this barrier; 24 skipped it and exited",
    ),
    "skipped by all but one thread": Row(
        "if t == 63:  # fix\n    cuda.syncthreads()  # here\ny[i] = 0 * s[t]\n",
        "if t >= 0:",
        "1 of 64 threads waits at this barrier; 63 skipped it and exited",
        thread=63,
    ),
    "some threads, and another barrier for all": Row(
        "if t < 24:  # fix\n    cuda.syncthreads()  # here\ns[t] += 1\ncuda.syncthreads()  # there\n",
        "if t < 64:",
        "24 of 64 threads wait at this barrier, 40 at the one on line {there}",
    ),
    "two branches, each with a barrier": Row(
        "if t < 20:  # fix\n    s[t] += 1\n    cuda.syncthreads()  # here\n    s[t] += 2\n"
        "else:\n    s[t] -= 1\n    cuda.syncthreads()  # there\n    s[t] -= 2\n",
        "if t < 64:",
        "20 of 64 threads wait at this barrier, 44 at the one on line {there}",
    ),
    "other trip counts, and work for all behind the loop": Row(
        "for j in range(t // 32 + 1):  # fix\n    cuda.syncthreads()  # here\n    s[t] += j\ny[i] = 0 * s[t]\n",
        "for j in range(2):",
        "32 of 64 threads wait at this barrier; 32 skipped it and exited",
        thread=32,
    ),
    "a barrier in a guard in a loop": Row(
        "for j in range(x[i] * 0 + 3):\n    if t < 60 or j == 0:  # fix\n        cuda.syncthreads()  # here\n"
        "    s[t] += j\n",
        "if t < 64 or j == 0:",
        "60 of 64 threads wait at this barrier; 4 skipped it and exited",
    ),
    "a count by some": Row(
        "if t < 40:  # fix\n    s[t] = cuda.syncthreads_count(int32(t > 3))  # here\ny[i] = 0 * s[t]\n",
        "if t < 64:",
        "40 of 64 threads wait at this barrier; 24 skipped it and exited",
    ),
    "a break before the barrier": Row(
        "for j in range(4):\n    if x[i] * 0 + t < j * 8:  # fix\n        break\n    cuda.syncthreads()  # here\n"
        "    s[t] += j\ny[i] = 0 * s[t]\n",
        "if x[i] * 0 + t < 0:",
        "56 of 64 threads wait at this barrier; 8 skipped it and exited",
        thread=8,
    ),
    "a barrier in a function": Row(
        "if t < 32:  # fix\n    meet(s, t)\ny[i] = 0 * s[t]\n",
        "if t < 64:",
        "32 of 64 threads wait at this barrier; 32 skipped it and exited",
    ),
}

RETURNED: dict[str, Row] = {
    "threads that return": Row(
        "if t >= 50:  # fix\n    return\ncuda.syncthreads()  # here\ny[i] = 0 * s[t]\n",
        "if t >= 64:",
        "50 of 64 threads wait at this barrier; the other 14 exited",
    ),
    "the last block's threads": Row(
        "if i >= 160:  # fix\n    return\ncuda.syncthreads()  # here\ny[i] = 0 * s[t]\n",
        "if i >= 192:",
        "32 of 64 threads wait at this barrier; the other 32 exited",
        grid=3,
        block=2,
    ),
    "a barrier that is the last thing to do": Row(
        "if t < 40:  # fix\n    cuda.syncthreads()  # here\n",
        "if t < 64:",
        "40 of 64 threads wait at this barrier; the other 24 exited",
    ),
    "other trip counts, and nothing behind the loop": Row(
        "for j in range(t // 32 + 1):  # fix\n    cuda.syncthreads()  # here\n    s[t] += j\n",
        "for j in range(2):",
        "32 of 64 threads wait at this barrier; the other 32 exited",
        thread=32,
    ),
    "a return from a loop that has a barrier": Row(
        "for j in range(4):\n    if x[i] * 0 + t < j * 8:  # fix\n        return\n"
        "    cuda.syncthreads()  # here\n"
        "    s[t] += j\ny[i] = 0 * s[t]\n",
        "if x[i] * 0 + t < 0:",
        "56 of 64 threads wait at this barrier; the other 8 exited",
        thread=8,
    ),
    "a return between loops that have barriers": Row(
        "for j in range(3):\n    for k in range(x[0] * 0 + 3):\n        cuda.syncthreads()  # here\n"
        "        s[t] += k\n    if x[i] * 0 + t < j * 8:  # fix\n        return\ny[i] = 0 * s[t]\n",
        "if x[i] * 0 + t < 0:",
        "56 of 64 threads wait at this barrier; the other 8 exited",
        thread=8,
    ),
    "a count": Row(
        "if t >= 40:  # fix\n    return\ns[t] = cuda.syncthreads_count(1)  # here\ny[i] = 0 * s[t]\n",
        "if t >= 64:",
        "40 of 64 threads wait at this barrier; the other 24 exited",
    ),
}
"""What CUDA allows, and is worth a warning: threads that exit before a barrier, which waits for the others."""

WARPS: dict[str, Row] = {
    "shfl in a branch": Row(
        "if t % 32 < 16:  # fix\n    y[i] = 0 * cuda.shfl_sync(0xFFFFFFFF, t, 3)  # here\ny[i] = 0\n",
        "if t % 32 < 32:",
        "the mask names lanes 16-31, which do not take part; lanes 0-15 do",
        thread=16,
    ),
    "a mask of half of the warp": Row(
        "y[i] = 0 * cuda.shfl_down_sync(0x0000FFFF, t, 1)  # here\n",
        "y[i] = 0 * cuda.shfl_down_sync(0xFFFFFFFF, t, 1)",
        "lanes 16-31 take part, but the mask does not name them",
        thread=16,
    ),
    "ballot by odd lanes": Row(
        "if t % 2:  # fix\n    s[t] = cuda.ballot_sync(0xFFFFFFFF, 1)  # here\ny[i] = 0\n",
        "if t % 2 < 2:",
        "the mask names lanes 0, 2, 4, 6 ... (16 in all), which do not take part; "
        "lanes 1, 3, 5, 7 ... (16 in all) do",
        thread=0,
    ),
    "any in a branch": Row(
        "if t % 32 < 7:  # fix\n    s[t] = cuda.any_sync(0xFFFFFFFF, t == 3)  # here\ny[i] = 0\n",
        "if t % 32 < 32:",
        "the mask names lanes 7-31, which do not take part; lanes 0-6 do",
        thread=7,
    ),
    "match in a branch": Row(
        "if t % 32 < 7:  # fix\n    s[t] = cuda.match_any_sync(0xFFFFFFFF, t % 3)  # here\ny[i] = 0\n",
        "if t % 32 < 32:",
        "the mask names lanes 7-31, which do not take part; lanes 0-6 do",
        thread=7,
    ),
    "syncwarp in a branch": Row(
        "if t % 32 < 7:  # fix\n    cuda.syncwarp(0xFFFFFFFF)  # here\n    s[t] = 1\ny[i] = 0\n",
        "if t % 32 < 32:",
        "the mask names lanes 7-31, which do not take part; lanes 0-6 do",
        thread=7,
    ),
    "syncwarp without the lane itself": Row(
        "cuda.syncwarp(0xFFFFFFFE)  # here\n",
        "cuda.syncwarp(0xFFFFFFFF)",
        "lane 0 takes part, but the mask does not name it",
    ),
}

LEFT: dict[str, Row] = {
    "a shuffle whose value is not used": Row(
        "if t == 5:  # fix\n    return\ny[i] = 0 * cuda.shfl_up_sync(0xFFFFFFFF, t, 1)  # here\n",
        "if t == 64:",
        "the shuffle reads lane 5, which has exited",
        thread=5,
    ),
    "a shuffle whose value is not used, in a partial warp": Row(
        "y[i] = 0 * cuda.shfl_down_sync(0xFFFFFFFF, t, 1)  # here\n",
        "y[i] = 0 * cuda.shfl_down_sync(0x000FFFFF, t, 1)",
        "the shuffle reads lane 20, but this warp has 20 lanes",
        threads=20,
    ),
    "a shuffle whose value is discarded": Row(
        "v = x[i]\nif t >= 40:  # fix\n    return\nw = cuda.shfl_down_sync(0xFFFFFFFF, v, 4)  # here\n"
        "y[i] = (v if t >= 36 or t < 32 else w) * 0\ns[t] = v + (w if t < 4 else 0)\n",
        "if t >= 64:",
        "the shuffle reads lanes 8-11, which have exited",
        thread=40,
    ),
    "a vote after a return": Row(
        "if t >= 40:  # fix\n    return\ny[i] = 0 * cuda.ballot_sync(0xFFFFFFFF, t > 3)  # here\n",
        "if t >= 64:",
        "the mask names lanes 8-31, which have exited",
        thread=40,
    ),
    "a vote by the last to do anything": Row(
        "if t != 5:  # fix\n    s[t] = cuda.any_sync(0xFFFFFFFF, t == 3)  # here\n",
        "if t < 64:",
        "the mask names lane 5, which has exited",
        thread=5,
    ),
    "a match in a partial warp": Row(
        "y[i] = 0 * cuda.match_any_sync(0xFFFFFFFF, t % 3)  # here\n",
        "y[i] = 0 * cuda.match_any_sync(0x000FFFFF, t % 3)",
        "the mask names lanes 20-31, but this warp has 20 lanes",
        threads=20,
    ),
    "syncwarp in a partial warp": Row(
        "cuda.syncwarp()  # here\n",
        "cuda.syncwarp(0x000FFFFF)",
        "the mask names lanes 20-31, but this warp has 20 lanes",
        threads=20,
    ),
    "a shuffle that reads lanes that are there": Row(
        "if t >= 40:  # fix\n    return\ny[i] = 0 * cuda.shfl_up_sync(0xFFFFFFFF, t, 4)  # here\n",
        "if t >= 64:",
        "the mask names lanes 8-31, which have exited",
        thread=40,
    ),
    "lanes that left before a barrier": Row(
        "cuda.syncthreads()\nif t == 7:  # fix\n    return\ns[t] += 1\ncuda.syncwarp()  # here\n",
        "if t == 64:",
        "the mask names lane 7, which has exited",
        thread=7,
    ),
}
"""What CUDA allows, and is worth a warning: masks that name lanes which will not come any more."""

_LOST = "v = x[i]\nif t >= 40:  # fix\n    return\nw = cuda.shfl_down_sync(0xFFFFFFFF, v, 4)  # there\n"
_UNDEFINED = "an undefined value: the shuffle on line {there} reads lane 8, which has exited"
_BEYOND = "an undefined value: the shuffle on line {there} reads lane 8, but the block has only 40 threads"

USED: dict[str, Row] = {
    "stored": Row(
        _LOST + "y[i] = w & 0x1000  # here\n", "if t >= 64:", f"stores a value computed with {_UNDEFINED}"
    ),
    "stored as it is": Row(
        _LOST + "y[i] = w  # here\n", "if t >= 64:", f"stores a value computed with {_UNDEFINED}"
    ),
    "a branch": Row(
        _LOST + "if w > 4:  # here\n    cuda.atomic.add(s, 0, 1)\n", "if t >= 64:", f"branches on {_UNDEFINED}"
    ),
    "an address": Row(_LOST + "y[w % 64] = 0  # here\n", "if t >= 64:", f"computes an address with {_UNDEFINED}"),
    "of a lane that the block does not have": Row(
        "v = x[i]\nk = 8  # fix\nw = cuda.shfl_xor_sync(0xFFFFFFFF, v, k)  # there\ny[i] = w  # here\n",
        "k = 4",
        f"stores a value computed with {_BEYOND}",
        threads=40,
        thread=32,
    ),
    "shuffled on": Row(
        _LOST + "u = cuda.shfl_xor_sync(0xFFFFFFFF, w, 1)\ny[i] = u + 1  # here\n",
        "if t >= 64:",
        f"stores a value computed with {_UNDEFINED}",
    ),
}
"""Uses of what a shuffle reads from a lane that has exited."""

_NOT_NAMED = "the shuffle on line {there} reads lane 16, which its mask does not name"

UNNAMED: dict[str, Row] = {
    "of a lane that the mask does not name": Row(
        "v = x[i]\nw = 0\nif t % 32 < 16:\n    w = cuda.shfl_down_sync(0xFFFF, v, 8)  # there\n"
        "if t % 32 < 16:  # fix\n    y[i] = w & 0x1000  # here\nelse:\n    y[i] = 0\n",
        "if t % 32 < 8:",
        f"stores a value computed with an undefined value: {_NOT_NAMED}",
        thread=8,
    ),
    "of a lane that only another mask names": Row(
        "v = x[i]\nm = 0xFFFF if t % 32 < 16 else 0xFFFF0000\nw = cuda.shfl_xor_sync(m, v, 16)  # there\n"
        "w = w if v < 0 else w  # fix\ny[i] = w & 0x1000  # here\n",
        "w = v",
        f"stores a value computed with an undefined value: {_NOT_NAMED}",
    ),
}
"""Uses of what a shuffle reads from a lane that its mask does not name. The shuffle is no warning: its value is
often not used, as in a tree reduction by half a warp."""

GRIDS: dict[str, Row] = {
    "a block gone": Row(
        "g = cuda.cg.this_grid()\nif b == 2:  # fix\n    return\ng.sync()  # here\n",
        "if b == 4:",
        "3 of 4 blocks wait at this grid barrier, and 1 ended without reaching it",
        grid=4,
        threads=32,
        cooperative=True,
    ),
    "threads gone": Row(
        "g = cuda.cg.this_grid()\nif t == 2:  # fix\n    return\ng.sync()  # here\n",
        "if t == 99:",
        "31 of 32 threads wait at this grid barrier; the other 1 exited",
        grid=4,
        threads=32,
        cooperative=True,
    ),
    "two grid barriers": Row(
        "g = cuda.cg.this_grid()\nif b == 1:  # fix\n    s[t] = 0\n    g.sync()  # here\n    y[i] = s[t]\n"
        "else:\n    g.sync()  # there\n",
        "if b >= 0:",
        "1 of 4 blocks waits at this grid barrier, 3 at the one on line {there}",
        block=1,
        grid=4,
        threads=32,
        cooperative=True,
    ),
    "a barrier of the block against one of the grid": Row(
        "g = cuda.cg.this_grid()\nif t < 8:  # fix\n    cuda.syncthreads()  # here\n    s[t] = 0\n"
        "else:\n    g.sync()  # there\n    s[t] = 1\n",
        "if t < 32:",
        "8 of 32 threads wait at this barrier, 24 at the one on line {there}",
        grid=4,
        threads=32,
        cooperative=True,
    ),
}

FAULTS: dict[str, Row] = {
    "a trap": Row(
        "if t == 17:  # fix\n    y[i] = 0 * trap(x[i])  # here\n",
        "if t == 99:",
        "executed a trap",
        thread=17,
        rule="trap",
    ),
    "endless recursion": Row(
        "if t == 33:  # fix\n    y[i] = 0 * dive(t)\n",
        "if t == 99:",
        "overflowed the stack",
        thread=33,
        rule="stack",
    ),
    "an integer division by zero": Row(
        "if divide(t, x[i] // 99) == 99:  # here\n    y[i] = 1\n",
        "if divide(t, x[i] // 99 + 1) == 99:",
        "divides an integer by zero: the result is undefined",
        rule="division",
    ),
}

ENDLESS: dict[str, Row] = {
    "a flag that nobody sets": Row(
        "while cuda.atomic.add(x, 0, 0) > 0:  # here\n    s[t] += 1\n",
        "while cuda.atomic.add(x, 0, 0) > 99:",
        "",
        rule="timeout",
    ),
    "a lock that nobody frees": Row(
        "while cuda.atomic.cas(y, 0, 0, 1) != 0:  # here\n    pass\ncuda.atomic.exch(y, 0, 1)  # fix\n",
        "cuda.atomic.exch(y, 0, 0)",
        "",
        rule="timeout",
    ),
    "a flag that is set behind a barrier": Row(
        "if t == 0:\n    while cuda.atomic.add(y, 1, 0) == 0:  # here\n        pass\n"
        "cuda.syncthreads()  # fix\nif t == 32:\n    cuda.atomic.add(y, 1, 1)\n",
        "cuda.syncwarp(cuda.activemask())",
        "",
        rule="timeout",
    ),
    "a loop around a barrier": Row(
        "while x[t] > 0:  # here\n    cuda.syncthreads()\n    s[t] += x[t]\n",
        "while x[t] > 99:",
        "",
        rule="timeout",
    ),
    "a flag that a later block sets": Row(
        "if b == 0 and t == 0:\n    while cuda.atomic.add(y, 1, 0) == 0:  # here\n        pass\n"
        "if b == 3 and t == 32:  # fix\n    cuda.atomic.add(y, 1, 1)\n",
        "if b == 0 and t == 32:",
        "",
        grid=4,
        rule="timeout",
    ),
    "one block that never ends": Row(
        "n = 0\nif b == 2:  # fix\n    while x[i] > n - n:  # here\n        n += 1\ns[t] = n\n",
        "if b == 4:",
        "",
        grid=4,
        block=2,
        rule="timeout",
    ),
}

TABLES = {"barrier": BARRIERS, "warp": WARPS, "grid": GRIDS, "fault": FAULTS}

PRELUDE = '''
@cuda.jit(device=True, inline="never")
def meet(s, t):
    s[t] += 1
    cuda.syncthreads()  # here
    s[t] -= 1


C = r"""
extern "C" __device__ int trap(int *r, int n) { *r = n; if (n) __trap(); return 0; }
static __device__ __noinline__ int dive_(int n) { volatile int x = n; return dive_(n + 1) + x; }
extern "C" __device__ int dive(int *r, int n) { *r = dive_(n); return 0; }
extern "C" __device__ int divide(int *r, int a, int b) { *r = a / b; return 0; }
"""
trap = cuda.declare_device("trap", "int32(int32)", link=cuda.CUSource(C))
dive = cuda.declare_device("dive", "int32(int32)", link=cuda.CUSource(C))
divide = cuda.declare_device("divide", "int32(int32, int32)", link=cuda.CUSource(C))
'''
"""What some kernels call."""
