"""Hostile kernels that do harm by what their threads do together, or never stop doing."""

from __future__ import annotations

from typing import Any

from row import Case

THREADS: list[Case] = []


def add(family: str, name: str, kernel: str, launch: str, **expected: Any) -> None:
    """Enter one row."""
    THREADS.append(Case(family, name, "@cuda.jit\ndef k" + kernel, launch, **expected))


# Never ends

_ENDLESS = {
    "uniform": "(a):\n    while a[0] == 0:\n        a[1] += 1\n",
    "nothing in it": "(a):\n    while True:\n        pass\n",
    "odd lanes": "(a):\n    i = cuda.grid(1)\n    while i % 2 == 1 and a[0] == 0:\n        a[1] = i\n",
    "last lane": "(a):\n    i = cuda.grid(1)\n    while i == 63 and a[0] == 0:\n        a[1] = i\n",
    "one block": "(a):\n    while cuda.blockIdx.x == 1 and a[0] == 0:\n        a[1] += 1\n",
    "with a barrier": "(a):\n    while a[0] == 0:\n        cuda.syncthreads()\n",
    "with two barriers": (
        "(a):\n    s = cuda.shared.array(1, int32)\n    while True:\n        s[0] = 0\n"
        "        cuda.syncthreads()\n"
        "        if a[0] + s[0] == 1:\n            break\n        cuda.syncthreads()\n"
    ),
    "a flag that nobody sets": "(a):\n    while cuda.atomic.add(a, 0, 0) == 0:\n        pass\n",
    "a lock that nobody frees": "(a):\n    while cuda.atomic.cas(a, 0, 0, 1) != 0:\n        pass\n",
    "a flag of a later block": (
        "(a):\n    if cuda.blockIdx.x == 0:\n        while cuda.atomic.add(a, 0, 0) < 10**6:\n            pass\n"
        "    else:\n        cuda.atomic.add(a, 0, 1)\n"
    ),
    "nanosleep": "(a):\n    while a[0] == 0:\n        cuda.nanosleep(1000)\n",
    "a range of 2**62": "(a):\n    for i in range(2**62):\n        a[1] = a[i % 2] + i\n",
    "nested": "(a):\n    for i in range(10):\n        while a[0] == 0:\n            a[1] += i\n",
    "with a shuffle": "(a):\n    while cuda.shfl_sync(0xFFFFFFFF, a[0], 0) == 0:\n        a[1] = 1\n",
    "with a vote": "(a):\n    while not cuda.any_sync(0xFFFFFFFF, a[0]):\n        a[1] = 1\n",
    "with syncwarp": "(a):\n    while a[0] == 0:\n        cuda.syncwarp()\n",
    "in a function": None,
    "prints": "(a):\n    while a[0] == 0:\n        print('again and again', a[1])\n",
}
for _name, _kernel in _ENDLESS.items():
    if _kernel is None:
        _kernel = (
            "(a):\n    forever(a)\n@cuda.jit(device=True, inline='never')\ndef forever(a):\n"
            "    while a[0] == 0:\n        a[1] += 1\n"
        )
    add(
        "endless",
        _name,
        _kernel,
        "k[2, 64](np.zeros(2, 'i4'))",
        rule="timeout",
        raises="LAUNCH_TIMEOUT",
        limit=0.3,
    )

# Recursion

for _name, _call in {
    "itself": "dive(i)",
    "one another": "pingpong(i)",
    "with large frames": "hoard(i)",
    "10**8 deep": "descend(10**8)",
}.items():
    for _who, _guard, _first in (("all", "i >= 0", 0), ("one lane", "i == 17", 17)):
        add(
            "recursion",
            f"{_name}, {_who}",
            f"(a):\n    i = int32(cuda.grid(1))\n    if {_guard}:\n        a[i] = {_call}\n",
            "k[1, 32](np.zeros(32, 'i4'))",
            rule="stack",
            raises="CUDA_ERROR",
            thread=(_first, 0, 0),
        )
add(
    "recursion",
    "deep and bounded",
    "(a):\n    i = int32(cuda.grid(1))\n    a[i] = descend(i + 200)\n",
    "value = cuda.to_device(np.zeros(32, 'i4'))\nk[1, 32](value)\nvalue = value.copy_to_host()",
    value=[(i + 200 + 1) // 2 for i in range(32)],
)

# Traps and exceptions

for _who, _guard in (("all", "i >= 0"), ("one lane", "i == 17"), ("last block", "i >= 64")):
    add(
        "trap",
        _who,
        f"(a):\n    i = int32(cuda.grid(1))\n    a[i] = trap(1 if {_guard} else 0)\n",
        "k[3, 32](np.zeros(96, 'i4'))",
        rule="trap",
        raises="CUDA_ERROR_LAUNCH_FAILED",
    )
add(
    "trap",
    "an instruction that is not supported",
    "(a):\n    a[0] = breakpoint_(a[0])\n",
    "k[3, 32](np.zeros(96, 'i4'))",
    rule="compile",
    raises="CUDA_ERROR_INVALID_PTX",
    says="brkpt: breakpoints need a debugger",
)
add(
    "trap",
    "a wild function pointer",
    "(a):\n    a[0] = call_at(uint64(a[1]))\n",
    "k[1, 1](np.array([0, 12345], 'i8'))",
    rule="memcheck",
    raises="CUDA_ERROR",
)
add(
    "trap",
    "a null function pointer",
    "(a):\n    a[0] = call_at(uint64(a[1]))\n",
    "k[1, 32](np.array([0, 0], 'i8'))",
    rule="memcheck",
    raises="CUDA_ERROR",
)


def _debug(name: str, body: str, error: str) -> None:
    kernel = f"@cuda.jit(debug=True, opt=False)\ndef k(a):\n    i = cuda.grid(1)\n{body}"
    THREADS.append(Case("exception", name, kernel, "k[2, 32](np.zeros(64, 'i4'))", raises=error))


_debug("raised", "    raise ValueError('no')\n", "ValueError")
_debug(
    "raised by one thread",
    "    if i == 37:\n        raise RuntimeError('37')\n",
    r"RuntimeError: .*tid=\[0, 0, 5\] ctaid=\[0, 0, 1\]: 37",
)
_debug("an assertion", "    assert i < 60\n", "AssertionError")
_debug("a division by zero", "    a[i] = 5 // (i - i)\n", "ZeroDivisionError")
_debug("a remainder by zero", "    a[i] = i % a[i]\n", "ZeroDivisionError")
_debug("a float division by zero", "    a[i] = 1.0 / a[i]\n", "ZeroDivisionError")
_debug("an index past", "    v = (1, 2, 3)\n    a[i] = v[i]\n", "IndexError")
_debug("after a barrier", "    cuda.syncthreads()\n    if i == 1:\n        raise KeyError\n", "KeyError")

# Integer division by zero: undefined on a GPU, never a signal here

for _name, _call, _dtype in (
    ("int32", "divide(int32(7), int32(a[i]))", "i4"),
    ("uint32 remainder", "leftover(uint32(7), uint32(a[i]))", "u4"),
    ("int64", "wide_divide(7, a[i])", "i8"),
):
    for _who, _zeros in (
        ("all lanes", "np.zeros(32"),
        ("one lane", "np.arange(32"),
        ("last lane", "np.arange(31, -1, -1"),
    ):
        add(
            "division",
            f"{_name}, {_who}",
            f"(a):\n    i = cuda.grid(1)\n    a[i] = {_call}\n",
            f"k[1, 32]({_zeros}, dtype='{_dtype}'))",
            rule="division",
        )
for _name, _call, _dtype, _least in (
    ("int32 least by -1", "divide(int32(b[i]), int32(a[i]))", "i4", -(2**31)),
    ("int64 least by -1", "wide_divide(b[i], a[i])", "i8", -(2**63)),
):
    add(
        "division",
        _name,
        f"(a, b):\n    i = cuda.grid(1)\n    b[i] = {_call}\n",
        f"k[1, 32](np.full(32, -1, '{_dtype}'), np.full(32, {_least}, '{_dtype}'))",
    )

# Barriers that not every thread reaches

_BARRIERS = {
    "half of the block": (
        "(a):\n    t = cuda.threadIdx.x\n    if t < 32:\n        cuda.syncthreads()  # here\n    a[t] = t\n"
    ),
    "half of a warp": (
        "(a):\n    t = cuda.threadIdx.x\n    if t % 32 < 16:\n        cuda.syncthreads()  # here\n    a[t] = t\n"
    ),
    "one thread": (
        "(a):\n    t = cuda.threadIdx.x\n    if t == 63:\n        cuda.syncthreads()  # here\n    a[t] = t\n"
    ),
    "all but one": (
        "(a):\n    t = cuda.threadIdx.x\n    if t != 5:\n        cuda.syncthreads()  # here\n    a[t] = t\n"
    ),
    "two barriers": (
        "(a):\n    t = cuda.threadIdx.x\n    if t < 32:\n        a[t] = 1\n"
        "        cuda.syncthreads()\n        a[t] += 2\n"
        "    else:\n        a[t] = 2\n        cuda.syncthreads()\n        a[t] += 3\n"
    ),
    "an early return": (
        "(a):\n    t = cuda.threadIdx.x\n    if t >= 50:\n        return\n"
        "    cuda.syncthreads()  # here\n    a[t] = t\n"
    ),
    "other trip counts": (
        "(a):\n    t = cuda.threadIdx.x\n    for j in range(t // 32 + 1):\n"
        "        cuda.syncthreads()  # here\n        a[t] += j\n"
    ),
    "the last block only": (
        "(a):\n    t = cuda.threadIdx.x\n    if cuda.blockIdx.x < 1 or t < 40:\n"
        "        cuda.syncthreads()  # here\n    a[t] = t\n"
    ),
    "a count": (
        "(a):\n    t = cuda.threadIdx.x\n    if t < 40:\n        a[t] = cuda.syncthreads_count(1)  # here\n"
    ),
}
for _name, _kernel in _BARRIERS.items():
    add("barrier", _name, _kernel, "k[2, 64](np.zeros(64, 'i4'))", rule="synccheck")

# Wrong masks

_MASKS = {
    "shfl, half of the warp": "    if t % 32 < 16:\n        a[t] = cuda.shfl_sync(0xFFFFFFFF, t, 3)  # here\n",
    "shfl_up, one lane gone": "    if t % 32 != 9:\n        a[t] = cuda.shfl_up_sync(0xFFFFFFFF, t, 1)  # here\n",
    "shfl_down, an early return": (
        "    if t > 40:\n        return\n    a[t] = cuda.shfl_down_sync(0xFFFFFFFF, t, 1)  # here\n"
    ),
    "shfl_xor, odd lanes": "    if t % 2:\n        a[t] = cuda.shfl_xor_sync(0xFFFFFFFF, t, 1)  # here\n",
    "ballot, a branch": "    if t % 32 < 7:\n        a[t] = cuda.ballot_sync(0xFFFFFFFF, 1)  # here\n",
    "any, a branch": "    if t % 32 < 7:\n        a[t] = cuda.any_sync(0xFFFFFFFF, t == 3)  # here\n",
    "all, a branch": "    if t % 32 < 7:\n        a[t] = cuda.all_sync(0xFFFFFFFF, t == 3)  # here\n",
    "match_any, a branch": "    if t % 32 < 7:\n        a[t] = cuda.match_any_sync(0xFFFFFFFF, t % 3)  # here\n",
    "a mask without the lane itself": "    a[t] = cuda.shfl_sync(0x0000FFFF, t, 3)  # here\n",
    "an empty mask": "    a[t] = cuda.shfl_sync(0, t, 3)  # here\n",
    "syncwarp, a branch": "    if t % 32 < 7:\n        cuda.syncwarp(0xFFFFFFFF)  # here\n        a[t] = 1\n",
}
for _name, _kernel in _MASKS.items():
    _says = "do(es)? not take part"
    if "a mask" in _name or "an empty" in _name:
        _says = "the mask does not name"
    elif "an early return" in _name:
        _says = (
            "reads lane 9, which has exited|lanes 9-31, which do not take part"  # the latter at one lane a vector
        )
    _kernel = "(a):\n    t = int32(cuda.threadIdx.x)\n" + _kernel + "    a[t] += 1\n"
    add("mask", _name, _kernel, "k[1, 64](np.zeros(64, 'i4'))", rule="synccheck", says=_says)
add(
    "mask",
    "a warp of 20",
    "(a):\n    t = int32(cuda.threadIdx.x)\n    a[t] = cuda.shfl_down_sync(0xFFFFFFFF, t, 1)  # here\n",
    "k[1, 20](np.zeros(64, 'i4'))",
    rule="synccheck",
)

# Cooperative launches

_GRID = "(a):\n    g = cuda.cg.this_grid()\n    {before}\n    g.sync()\n    a[0] = 1\n"
add(
    "cooperative",
    "a grid too large",
    _GRID.format(before="a[1] = 2"),
    "k[10**6, 32](np.zeros(2, 'i4'))",
    raises="COOPERATIVE_LAUNCH_TOO_LARGE|exceeds the limit",
)
add(
    "cooperative",
    "a block gone",
    _GRID.format(before="if cuda.blockIdx.x == 2:\n        return"),
    "k[4, 32](np.zeros(2, 'i4'))",
    rule="synccheck",
)
add(
    "cooperative",
    "threads gone",
    _GRID.format(before="if cuda.threadIdx.x == 2:\n        return"),
    "k[4, 32](np.zeros(2, 'i4'))",
    rule="synccheck",
)
add(
    "cooperative",
    "an endless wait between grid barriers",
    _GRID.format(before="while a[1] == 0:\n        a[0] += 1"),
    "k[4, 32](np.zeros(2, 'i4'))",
    rule="timeout",
    raises="LAUNCH_TIMEOUT",
    limit=0.3,
)

# What must end well, though it tempts

_FINE = {
    "a storm of prints": (
        "(a):\n    for j in range(300):\n        print('thread', cuda.grid(1), 'says', j, a[0])\n",
        "k[50, 64](np.zeros(1, 'f4'))",
    ),
    "a print of a % sign": ("(a):\n    print('100%d %s %n %', a[0])\n", "k[1, 1](np.zeros(1, 'f4'))"),
    "racing blocks": ("(a):\n    a[0] += cuda.grid(1)\n", "k[1000, 64](np.zeros(1, 'i4'))"),
    "racing threads in shared memory": (
        "(a):\n    s = cuda.shared.array(2, int32)\n    for j in range(100):\n"
        "        s[j % 2] += cuda.threadIdx.x\n"
        "    a[0] = s[1]\n",
        "k[64, 256](np.zeros(1, 'i4'))",
    ),
    "a megabyte of local memory a thread": (
        "(a):\n    v = cuda.local.array(1 << 18, int32)\n    i = cuda.grid(1)\n"
        "    for j in range(0, 1 << 18, 4096):\n"
        "        v[j] = i\n    a[i] = v[(i % 64) * 4096]\n",
        "k[2, 32](np.zeros(64, 'i4'))",
    ),
    "a shift past the width": (
        "(a):\n    i = cuda.grid(1)\n    a[i] = (a[i] << (i * 8)) + (a[i] >> (i + 20))\n",
        "k[1, 64](np.ones(64, 'i4'))",
    ),
    "the largest grid in y and z": (
        "(a):\n    if cuda.blockIdx.y == 65534:\n        a[0] = 1\n",
        "k[(1, 65535, 2), 1](np.zeros(1, 'i4'))",
    ),
    "reading what was never written": (
        "(a):\n    v = cuda.local.array(8, float32)\n    a[0] = v[3]\n",
        "k[1, 1](np.zeros(1, 'f4'))",
    ),
    "NaN as an index's guard": (
        "(a):\n    i = cuda.grid(1)\n    x = a[i] / a[i]\n    if x > 0 and x < 64:\n        a[int32(x)] = 1\n",
        "k[1, 64](np.zeros(64, 'f8'))",
    ),
    "spinning lanes of one warp": (
        "(a):\n    while cuda.atomic.cas(a, 0, 0, 1) != 0:\n        pass\n    a[1] += 1\n    cuda.threadfence()\n"
        "    cuda.atomic.exch(a, 0, 0)\n",
        "k[2, 64](np.zeros(2, 'i4'))",
    ),
}
for _name, (_kernel, _launch) in _FINE.items():
    add("tempting", _name, _kernel, _launch)

for _value in ("nan", "inf", "-inf", "1e30", "-1e30"):
    for _kind, _low, _high in (("int32", -(2**31), 2**31 - 1), ("int64", -(2**63), 2**63 - 1)):
        _expected = {"nan": 0, "inf": _high, "-inf": _low, "1e30": _high, "-1e30": _low}[_value]
        if _value == "nan" and _kind == "int64":
            _expected = -(2**63)
        add(
            "conversion",
            f"{_value} to {_kind}",
            f"(a, b):\n    b[cuda.grid(1)] = {_kind}(a[cuda.grid(1)])\n",
            f"b = cuda.to_device(np.zeros(9, '{_kind}'))\nk[1, 9](np.full(9, {_value!r}, 'f4').astype('f4'), b)\n"
            "value = b.copy_to_host()",
            value=[_expected] * 9,
        )

# printf and malloc of CUDA C

for _name, _at in (("null", "0"), ("a wild address", "2**63 + 5"), ("an array without an end", "address(x)")):
    add(
        "printf",
        f"a text at {_name}",
        "(a, at):\n    a[0] = say(at)\n",
        f"x = place('x', np.full(64, 65, 'u1'))\nk[2, 32](np.zeros(1, 'i4'), np.uint64({_at}))",
    )
for _width in (2**30, -(2**31), 5000):
    add(
        "printf",
        f"a width of {_width}",
        "(a, n):\n    a[0] = pad(n)\n",
        f"k[1, 8](np.zeros(1, 'i4'), np.int32({_width}))",
    )
for _bytes, _taken in ((2**40, 0), (2**64 - 1, 0)):
    add(
        "malloc",
        f"{_bytes} bytes",
        "(a, n):\n    a[cuda.grid(1)] = take(n)\n",
        f"value = cuda.to_device(np.zeros(64, 'i4'))\nk[2, 32](value, np.uint64({_bytes}))\n"
        "value = value.copy_to_host()",
        value=[_taken] * 64,
    )
add(
    "malloc",
    "until there is none",
    "(a):\n    for j in range(1000):\n        a[0] = take(uint64(1 << 20))\n",
    "value = cuda.to_device(np.ones(1, 'i4'))\nk[1, 1](value)\nvalue = value.copy_to_host()",
    value=[0],
)
for _name, _at in (("null", "0"), ("a wild address", "12345"), ("an array", "address(x)")):
    add(
        "malloc",
        f"{_name} freed",
        "(a, at):\n    a[0] = take_back(at)\n",
        f"x = place('x', np.zeros(64, 'i4'))\nk[1, 2](np.zeros(1, 'i4'), np.uint64({_at}))",
    )
add(
    "local",
    "another's, handed round",
    "(a):\n    i = int32(cuda.grid(1))\n    a[i] = leave(i)\n    cuda.syncthreads()\n"
    "    a[i] = uint64(peek(a[(i + 33) % 64]) * 0)\n",
    "k[1, 64](np.zeros(64, 'u8'))",
    rule="memcheck",
    raises="CUDA_ERROR",
)
for _bytes in (65, 70000, 2**31 - 1):
    add(
        "local",
        f"a buffer of 64 bytes filled with {_bytes}",
        "(a, n):\n    a[0] = fill(n)\n",
        f"k[1, 3](np.zeros(1, 'i4'), np.int32({_bytes}))",
        rule="memcheck",
        raises="ILLEGAL_ADDRESS",
    )
