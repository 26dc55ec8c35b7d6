"""The hostile kernels: a table by family. A row is a kernel, its launch, and what must come of it.

The line of a kernel that does the harm is marked ``# here``: the finding must name it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cases_of_threads import THREADS
from row import Case

CASES: dict[str, Case] = {}

ILLEGAL, MISALIGNED = "CUDA_ERROR_ILLEGAL_ADDRESS", "CUDA_ERROR_MISALIGNED_ADDRESS"
INVALID = "CUDA_ERROR_INVALID_VALUE"
N = 40


def add(family: str, name: str, kernel: str, launch: str, **expected: Any) -> None:
    """Enter one row."""
    case = Case(family, name, kernel, launch, **expected)
    assert case.id not in CASES, case.id
    CASES[case.id] = case


def bad_access(family: str, name: str, kernel: str, launch: str, **expected: Any) -> None:
    """A row that must end as an illegal address, found by memcheck."""
    add(family, name, kernel, launch, **{"rule": "memcheck", "raises": ILLEGAL} | expected)


LOAD = "@cuda.jit\ndef k(a, i, out):\n    out[0] = a[i]  # here\n"
STORE = "@cuda.jit\ndef k(a, i, out):\n    a[i] = out[0]  # here\n"
ATOMIC = "@cuda.jit\ndef k(a, i, out):\n    cuda.atomic.add(a, i, out[0])  # here\n"
ACCESSES = {"load": (LOAD, "reads"), "store": (STORE, "writes"), "atomic": (ATOMIC, "updates")}


@dataclass(frozen=True)
class _Launch:
    dtype: str
    index: str

    def __str__(self) -> str:
        return f"k[1, 1](place('a', np.ones({N}, '{self.dtype}')), {self.index}, np.ones(1, '{self.dtype}'))"


# Global memory: off by one at both ends, for every size and way of access

for _access, (_kernel, _verb) in ACCESSES.items():
    for _dtype in ("i1", "i2", "i4", "i8", "f2", "f4", "f8", "c16"):
        if _access == "atomic" and _dtype not in ("i4", "i8", "f4", "f8"):
            continue
        for _end, _index, _told in (("past", N, rf"a\[{N}\]"), ("before", -N - 1, "a 1 element before")):
            bad_access(
                "off by one",
                f"{_access} {_dtype} {_end}",
                _kernel,
                str(_Launch(_dtype, str(_index))),
                says=f"{_verb} {_told}",
                array="a",
                index=(N if _end == "past" else -1,),
                block=(0, 0, 0),
                thread=(0, 0, 0),
            )

# Global memory: far away

for _access, (_kernel, _verb) in ACCESSES.items():
    for _at in ("2000", "2**31", "2**40", "-(2**33)", "2**60", "2**61 + 7"):
        bad_access("far away", f"{_access} {_at}", _kernel, str(_Launch("f4", _at)), says=_verb)

# One culprit among many: where and who must be told exactly

_WHO = [
    (
        "past in the last block only",
        "@cuda.jit\ndef k(a):\n    i = cuda.grid(1)\n    a[i] = i  # here\n",
        "k[3, 32](place('a', np.zeros(90, 'i4')))",
        {"index": (90,), "block": (2, 0, 0), "thread": (26, 0, 0)},
    ),
    (
        "one lane only",
        "@cuda.jit\ndef k(a):\n    i = cuda.grid(1)\n    a[i + (1000 if i == 37 else 0)] = i  # here\n",
        "k[2, 32](place('a', np.zeros(64, 'i4')))",
        {"index": (1037,), "block": (1, 0, 0), "thread": (5, 0, 0)},
    ),
    (
        "one branch only",
        "@cuda.jit\ndef k(a):\n    i = cuda.grid(1)\n    if i % 64 == 63:\n        a[i + 65] = i  # here\n"
        "    else:\n        a[i] = i\n",
        "k[2, 64](place('a', np.zeros(128, 'i4')))",
        {"index": (128,), "block": (0, 0, 0), "thread": (63, 0, 0)},
    ),
    (
        "last turn of a loop",
        "@cuda.jit\ndef k(a):\n    for j in range(0, a.size + 1):\n        a[j] = j  # here\n",
        "k[1, 1](place('a', np.zeros(50, 'i8')))",
        {"index": (50,), "block": (0, 0, 0), "thread": (0, 0, 0)},
    ),
    (
        "neighbor's element",
        "@cuda.jit\ndef k(a, b):\n    i = cuda.grid(1)\n    b[i] = a[i] + a[i + 1]  # here\n",
        "k[4, 32](place('a', np.zeros(128, 'f4')), place('b', np.zeros(128, 'f4')))",
        {"array": "a", "index": (128,), "block": (3, 0, 0), "thread": (31, 0, 0)},
    ),
    (
        "row past of two axes",
        "@cuda.jit\ndef k(a):\n    x, y = cuda.grid(2)\n    a[y, x] = 1  # here\n",
        "k[(1, 2), (8, 4)](place('a', np.zeros((7, 8), 'f4')))",
        {"index": (7, 0), "block": (0, 1, 0), "thread": (0, 3, 0)},
    ),
    (
        "three axes",
        "@cuda.jit\ndef k(a):\n    x, y, z = cuda.grid(3)\n    a[z, y, x] = 1  # here\n",
        "k[(1, 1, 3), (4, 4, 2)](place('a', np.zeros((5, 4, 4), 'f8')))",
        {"index": (5, 0, 0), "block": (0, 0, 2), "thread": (0, 0, 1)},
    ),
    (
        "device function",
        "@cuda.jit(device=True)\ndef get(a, i):\n    return a[i + 1]  # here\n"
        "@cuda.jit\ndef k(a, b):\n    i = cuda.grid(1)\n    b[i] = get(a, i)\n",
        "k[1, 32](place('a', np.zeros(32, 'i4')), place('b', np.zeros(32, 'i4')))",
        {"array": "a", "index": (32,), "thread": (31, 0, 0)},
    ),
    (
        "gather by wild indices",
        "@cuda.jit\ndef k(a, b):\n    i = cuda.grid(1)\n    b[i] = a[b[i]]  # here\n",
        "k[1, 64](place('a', np.zeros(64, 'i8')), place('b', np.arange(64) * 2 - 10))",
        {"array": "a", "index": (64,), "thread": (37, 0, 0)},
    ),
    (
        "after a barrier",
        "@cuda.jit\ndef k(a):\n    s = cuda.shared.array(64, int32)\n    t = cuda.threadIdx.x\n    s[t] = t\n"
        "    cuda.syncthreads()\n    a[s[t] + 1] = t  # here\n",
        "k[1, 64](place('a', np.zeros(64, 'i4')))",
        {"index": (64,), "thread": (63, 0, 0)},
    ),
    (
        "a struct's field",
        "@cuda.jit\ndef k(a):\n    i = cuda.grid(1)\n    a[i].y = i  # here\n",
        "k[1, 11](place('a', np.zeros(10, np.dtype([('x', 'i4'), ('y', 'i4')]))))",
        {"thread": (10, 0, 0)},
    ),
    (
        "a view of a part",
        "@cuda.jit\ndef k(a, n):\n    v = a[5:n]\n    v[n - 5] = 1  # here\n",
        "k[1, 1](place('a', np.zeros(20, 'i4')), 20)",
        {"index": (20,)},
    ),
    (
        "an empty array",
        "@cuda.jit\ndef k(a, out):\n    out[0] = a[0]  # here\n",
        "k[1, 1](cuda.device_array(0, np.float32), np.zeros(1, 'f4'))",
        {"array": None},
    ),
    (
        "complex, half of it outside",
        "@cuda.jit\ndef k(a):\n    i = cuda.grid(1)\n    a[i] = 1j  # here\n",
        "k[1, 33](place('a', np.zeros(32, 'c8')))",
        {"index": (32,), "thread": (32, 0, 0)},
    ),
]
for _name, _kernel, _run, _told_of in _WHO:
    bad_access("culprit", _name, _kernel, _run, **{"array": "a"} | _told_of)

# Shared, local and constant memory

_SHARED = (
    "@cuda.jit\ndef k(out, i):\n    s = cuda.shared.array({size}, int32)\n    t = cuda.threadIdx.x\n"
    "    s[t % 16] = t\n    cuda.syncthreads()\n    {access}  # here\n    out[t] = s[(t + 1) % 16]\n"
)
_DOES = {
    "load": "out[0] = s[uint64(i)]",
    "store": "s[uint64(i)] = t",
    "atomic": "cuda.atomic.add(s, int64(i), 1)",
}
for _name, _access in _DOES.items():
    _before = "2**64 - 17" if _name == "atomic" else "2**64 - 1"  # an index below zero counts from the end there
    for _at, _says in (("16", r"s\[16\]"), (_before, "s 1 element before"), ("2**34", rf"s\[{2**34}\]")):
        for _what, _size, _bytes in (("static", 16, 0), ("dynamic", 0, 64)):
            bad_access(
                f"{_what} shared",
                f"{_name} {_at}",
                _SHARED.format(size=_size, access=_access),
                f"k[1, 16, 0, {_bytes}](np.zeros(16, 'i4'), np.uint64({_at}))",
                says=_says,
                block=(0, 0, 0),
                thread=(0, 0, 0),
            )

_LOCAL = (
    "@cuda.jit\ndef k(out, i):\n    v = cuda.local.array(20, int32)\n    for j in range(20):\n        v[j] = j\n"
    "    {access}  # here\n    out[0] = v[i % 20]\n"
)
for _name, _access in {"load": "out[1] = v[uint64(i)]", "store": "v[uint64(i)] = 5"}.items():
    for _at in ("20", "2**64 - 1", "2**34", "2**20"):
        bad_access(
            "local",
            f"{_name} {_at}",
            _LOCAL.format(access=_access),
            f"k[1, 5](np.zeros(2, 'i4'), np.uint64({_at}))",
        )

_CONST = (
    "TABLE = np.arange(10, dtype=np.float32)\n@cuda.jit\ndef k(out, i):\n    c = cuda.const.array_like(TABLE)\n"
    "    out[0] = c[uint64(i)]  # here\n"
)
for _at in ("10", "2**64 - 1", "2**40"):
    bad_access("const", _at, _CONST, f"k[1, 1](np.zeros(1, 'f4'), np.uint64({_at}))", says="reads 4 bytes")

# Generic addresses made of integers

_GENERIC = {
    "load": "@cuda.jit\ndef k(out, at):\n    out[0] = peek(at)\n",
    "store": "@cuda.jit\ndef k(out, at):\n    out[0] = poke(at, int32(7))\n",
    "atomic": "@cuda.jit\ndef k(out, at):\n    out[0] = bump(at, int32(7))\n",
}
_WILD = {
    "null": "0",
    "null and a little": "16",
    "the first page": "4092",
    "no canonical address": "2**63",
    "the last word": "2**64 - 4",
    "the kernel's half": "0xFFFF800000000000",
    "the host's array": "host.ctypes.data",
    "a Python object": "id(host)",
    "code of the process": "ctypes.cast(ctypes.pythonapi.Py_IsInitialized, ctypes.c_void_p).value & ~3",
    "just past an array": "address(x) + 64",
    "just before an array": "address(x) - 4",
    "across the end": "address(y) + 8",
}
for _name, _kernel in _GENERIC.items():
    for _where, _at in _WILD.items():
        bad_access(
            "generic pointer",
            f"{_name} {_where}",
            _kernel,
            "import ctypes\nhost = np.zeros(64, 'i4')\nx = place('x', np.zeros(16, 'i4'))\n"
            f"y = place('y', np.zeros(10, 'i1'))\nk[1, 1](np.zeros(1, 'i4'), np.uint64({_at}))",
        )

# Misaligned

_VIEW = "k[1, 1](place('a', np.zeros(64, 'u1'))[{at}:{end}].view('{dtype}'), 1, np.ones(1, '{dtype}'))"
for _access, (_kernel, _verb) in ACCESSES.items():
    for _dtype, _at in (("i2", 1), ("f4", 1), ("f4", 2), ("i4", 3), ("f8", 4), ("i8", 1), ("f8", 6)):
        if _access == "atomic" and _dtype == "i2":
            continue
        add(
            "misaligned",
            f"{_access} {_dtype} at {_at}",
            _kernel,
            _VIEW.format(at=_at, end=_at + 48, dtype=_dtype),
            rule="memcheck",
            raises=MISALIGNED,
            says="not aligned to",
            array="a",
        )

# Use after free

_FREED = """
a = cuda.to_device(np.ones({n}, 'f4'))
stale = address(a)
del a
cuda.current_context().memory_manager.deallocations.clear()
"""
_REACH = """
k[1, 1](np.uint64(stale + 4 * ({at})), np.zeros(1, 'i4'))
"""
_STALE = {
    "load": "@cuda.jit\ndef k(at, out):\n    out[0] = peek(at)\n",
    "store": "@cuda.jit\ndef k(at, out):\n    out[0] = poke(at, int32(1))\n",
    "atomic": "@cuda.jit\ndef k(at, out):\n    out[0] = bump(at, int32(1))\n",
}
for _name, _kernel in _STALE.items():
    for _at in ("0", "100", "n - 1"):
        _n = 4096
        bad_access(
            "freed",
            f"{_name} {_at}",
            _kernel,
            f"n = {_n}\n" + _FREED.format(n="n") + _REACH.format(at=_at),
            says="that was freed",
        )
bad_access(
    "freed",
    "after others took memory",
    _STALE["load"],
    "n = 5000\n"
    + _FREED.format(n="n")
    + "others = [cuda.to_device(np.zeros(5000, 'f4')) for _ in range(8)]"
    + _REACH.format(at="7"),
    says="that was freed",
)
bad_access(
    "freed",
    "pinned memory",
    _STALE["store"],
    "p = cuda.pinned_array(100, 'f4')\nat = p.ctypes.data\ndel p\n"
    "cuda.current_context().memory_manager.deallocations.clear()\n"
    "k[1, 1](np.uint64(at), np.zeros(1, 'i4'))",
    says="freed|in no allocation",
)

# Every atomic on wild addresses

for _op in ("add", "sub", "max", "min", "and_", "or_", "xor", "inc", "dec", "exch"):
    _kernel = f"@cuda.jit\ndef k(a, i):\n    cuda.atomic.{_op}(a, i, uint32(3))  # here\n"
    bad_access(
        "atomic", f"{_op} past", _kernel, "k[1, 33](place('a', np.zeros(9, 'u4')), 9)", array="a", index=(9,)
    )
    _kernel = (
        f"@cuda.jit\ndef k(out, i):\n    s = cuda.shared.array(8, uint32)\n    s[cuda.threadIdx.x % 8] = 0\n"
        f"    cuda.syncthreads()\n    cuda.atomic.{_op}(s, i, uint32(3))  # here\n    out[0] = s[0]\n"
    )
    bad_access("atomic", f"{_op} in shared", _kernel, "k[1, 33](np.zeros(1, 'u4'), 2**30)", says=rf"s\[{2**30}\]")
for _op, _call in {"cas": "cas(a, i, 0, 1)", "compare_and_swap": "compare_and_swap(a[i:], 0, 1)"}.items():
    _kernel = f"@cuda.jit\ndef k(a, i):\n    cuda.atomic.{_call}  # here\n"
    bad_access(
        "atomic", f"{_op} past", _kernel, "k[1, 3](place('a', np.zeros(9, 'i4')), 9)", array="a", index=(9,)
    )

# Wrong launch sizes

_PLAIN = "@cuda.jit\ndef k(a):\n    a[0] = 1\n"
_SIZES = {
    "block of 0": "1, 0",
    "block of -1": "1, -1",
    "block of 1025": "1, 1025",
    "block of 1024 by 2": "1, (1024, 2)",
    "block of 65 in z": "1, (1, 1, 65)",
    "block of 2**31": "1, 2**31",
    "grid of 0": "0, 1",
    "grid of -1": "-1, 1",
    "grid of 2**31": "2**31, 1",
    "grid of 2**40": "2**40, 1",
    "grid of 65536 in y": "(1, 65536), 1",
    "grid of 65536 in z": "(1, 1, 65536), 1",
    "100 GB of shared memory": "1, 1, 0, 100 << 30",
    "4 GB of shared memory": "1, 1, 0, 4 << 30",
    "1 MB of shared memory": "1, 1, 0, 1 << 20",
    "a byte too much shared memory": "1, 1, 0, (163 << 10) + 1",
    "negative shared memory": "1, 1, 0, -1",
    "a grid of 1.5": "1.5, 1",
    "a block that is text": "1, 'x'",
    "a grid of four axes": "(1, 1, 1, 1), 1",
}
for _name, _shape in _SIZES.items():
    add("launch size", _name, _PLAIN, f"k[{_shape}](np.zeros(1, 'f4'))", raises=".")

# Wrong arguments

for _name, _arguments in {
    "none": "",
    "too many": "np.zeros(1), 1",
    "text": "'abc'",
    "no array": "None",
    "an object": "object()",
    "an array of objects": "np.array([None])",
    "a scalar": "1.5",
}.items():
    add("arguments", _name, _PLAIN, f"k[1, 1]({_arguments})", raises=".")

# Absurd memory

for _name, _asked in {
    "a terabyte": "cuda.device_array(1 << 40, np.int8)",
    "2**62 bytes": "cuda.device_array(1 << 62, np.int8)",
    "a pinned terabyte": "cuda.pinned_array(1 << 40, np.int8)",
    "a mapped terabyte": "cuda.mapped_array(1 << 40, np.int8)",
    "a managed terabyte": "cuda.managed_array(1 << 40, np.int8)",
    "all of it in pieces": "[cuda.device_array(1 << 30, np.int8) for _ in range(4000)]",
    "a negative length": "cuda.device_array(-5, np.int8)",
}.items():
    add("allocation", _name, _PLAIN, f"kept = {_asked}", raises=".")

for _case in THREADS:
    assert _case.id not in CASES, _case.id
    CASES[_case.id] = _case
