"""Runs hostile cases in a process on the cpu device, and after each a good kernel that must come out right."""

from __future__ import annotations

import functools
import linecache
import resource
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(tempfile.mkdtemp(prefix="kcheck-hostile-"))
PRELUDE = "import math\nimport numpy as np\nfrom numba import *\nfrom numba import cuda\n"
DEVICE_FUNCTIONS = (
    "peek poke bump divide leftover wide_divide dive pingpong hoard descend trap breakpoint_ call_at failing"
)

_sources: dict[str, dict[str, Any]] = {}
_good: list[Any] = []


def answer(device: Any, request: dict[str, Any]) -> dict[str, Any]:
    """What became of one case: its findings, the exception, whether the good kernel after it was right."""
    from cases import CASES

    case = CASES[request["case"]]
    scope = _compiled(case.family, case.kernel)
    device.executor.limit = case.limit
    device.executor.width = request["width"] or _width(device)
    device.findings.clear()
    device.printed.clear()
    raised = value = None
    try:
        value = _launch(device, case.launch, scope)
    except Exception as error:
        raised = f"{type(error).__name__}: {error}"
    told = device.told()
    return {
        "findings": told,
        "raised": raised,
        "value": value,
        "printed": sum(map(len, device.printed)),
        "line": scope["__line__"],
        "good": _good_kernel(device),
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    }


def _compiled(family: str, kernel: str) -> dict[str, Any]:
    """The names that a source defines; ``__line__`` is the line marked ``# here``, None where there is none."""
    if kernel not in _sources:
        path = FOLDER / f"{family.replace(' ', '_')}_{len(_sources)}.py"
        text = PRELUDE + kernel
        path.write_text(text)
        linecache.checkcache(str(path))
        scope: dict[str, Any] = {}
        for name in SIGNATURES:
            if name + "(" in kernel:
                scope[name] = _device_functions()[name]
        exec(compile(text, str(path), "exec"), scope)
        marked = [n for n, line in enumerate(text.split("\n"), 1) if line.rstrip().endswith("# here")]
        scope["__line__"] = marked[0] if marked else None
        _sources[kernel] = scope
    return _sources[kernel]


@functools.cache
def _width(device: Any) -> int:
    """The width that the device has chosen."""
    return int(device.executor.width)


def _launch(device: Any, launch: str, scope: dict[str, Any]) -> Any:
    """Run the launch's statements; what they assign to ``value``, if anything, as a list."""
    from numba import cuda

    from kcheck.cpu.memory import RangeLabel

    memory = device.executor.memory

    def place(name: str, array: Any) -> Any:
        """The array on the device, under a name."""
        placed = cuda.to_device(np.asarray(array))
        base = placed.device_ctypes_pointer.value or 0
        memory.label(
            RangeLabel(name, base, placed.shape, placed.strides, placed.dtype.itemsize, base, base + placed.nbytes)
        )
        return placed

    names = {**scope, "place": place, "address": lambda a: a.device_ctypes_pointer.value}
    exec(launch, names)
    cuda.synchronize()
    value = names.get("value")
    return None if value is None else np.asarray(value).tolist()


def _good_kernel(device: Any) -> bool:
    """Whether an ordinary kernel with shared memory and a barrier still computes what it should."""
    from numba import cuda, float32

    if not _good:

        @cuda.jit
        def reverse(x, y):
            tile = cuda.shared.array(64, float32)
            t = cuda.threadIdx.x
            tile[t] = x[cuda.grid(1)] * float32(2)
            cuda.syncthreads()
            y[cuda.grid(1)] = tile[63 - t] + float32(1)

        _good.append(reverse)
    device.executor.limit = 30
    x = np.arange(256, dtype=np.float32)
    y = cuda.to_device(np.zeros_like(x))
    _good[0][4, 64](cuda.to_device(x), y)
    expected = x.reshape(4, 64)[:, ::-1].ravel() * 2 + 1
    return not device.told() and bool((y.copy_to_host() == expected).all())


def _device_functions() -> dict[str, Any]:
    """Device functions in CUDA C: what numba.cuda gives Python no words for."""
    if not _functions:
        from numba import cuda

        for name, signature in SIGNATURES.items():
            lines = [line for line in CUDA_C.split("\n") if line[:2] != "D " or line.startswith(f"D {name}(")]
            _functions[name] = cuda.declare_device(name, signature, link=cuda.CUSource("\n".join(lines)))
    return _functions


_functions: dict[str, Any] = {}

SIGNATURES = {
    "peek": "int32(uint64)",
    "poke": "int32(uint64, int32)",
    "bump": "int32(uint64, int32)",
    "divide": "int32(int32, int32)",
    "leftover": "uint32(uint32, uint32)",
    "wide_divide": "int64(int64, int64)",
    "dive": "int32(int32)",
    "pingpong": "int32(int32)",
    "hoard": "int32(int32)",
    "descend": "int32(int32)",
    "trap": "int32(int32)",
    "breakpoint_": "int32(int32)",
    "call_at": "int32(uint64)",
    "say": "int32(uint64)",
    "pad": "int32(int32)",
    "take": "int32(uint64)",
    "take_back": "int32(uint64)",
    "leave": "uint64(int32)",
    "fill": "int32(int32)",
}
"""Each returns through its first C parameter, as numba's ABI has it."""

CUDA_C = r"""
#define D extern "C" __device__ int
#define N static __device__ __noinline__ int
typedef unsigned long long u64;
D peek(int *r, u64 a) { *r = *(volatile int *)a; return 0; }
D poke(int *r, u64 a, int v) { *(volatile int *)a = v; *r = v; return 0; }
D bump(int *r, u64 a, int v) { *r = atomicAdd((int *)a, v); return 0; }
D divide(int *r, int a, int b) { *r = a / b; return 0; }
D leftover(unsigned *r, unsigned a, unsigned b) { *r = a % b; return 0; }
D wide_divide(long long *r, long long a, long long b) { *r = a / b; return 0; }
N dive_(int n) { volatile int x = n; return dive_(n + 1) + x; }
D dive(int *r, int n) { *r = dive_(n); return 0; }
N pong_(int n);
N ping_(int n) { volatile int x = n; return pong_(n + 1) + x; }
N pong_(int n) { volatile int x = n; return ping_(n - 3) ^ x; }
D pingpong(int *r, int n) { *r = ping_(n); return 0; }
N hoard_(int n) {
  volatile int x[64];
  for (int i = 0; i < 64; i++) x[i] = n + i;
  return hoard_(n + x[n & 63]) + x[(n + 1) & 63];
}
D hoard(int *r, int n) { *r = hoard_(n); return 0; }
N descend_(int n) { volatile int x = n; return x <= 0 ? 0 : descend_(n - 1) + (x & 1); }
D descend(int *r, int n) { *r = descend_(n); return 0; }
D trap(int *r, int n) { *r = n; if (n) __trap(); return 0; }
D breakpoint_(int *r, int n) { *r = n; asm volatile("brkpt;"); return 0; }
D say(int *r, u64 a) { *r = printf("[%s]", (const char *)a); return 0; }
D pad(int *r, int n) { *r = printf("%*d|%.*f|%-*s", n, 1, n, 1.0, n, "x"); return 0; }
D take(int *r, u64 n) { char *p = (char *)malloc(n); if (p) { p[0] = 1; p[n - 1] = 2; } *r = p != 0; return 0; }
D take_back(int *r, u64 a) { free((void *)a); *r = 1; return 0; }
D leave(u64 *r, int n) { volatile int x[4]; x[n & 3] = n; *r = (u64)&x[0]; return 0; }
D fill(int *r, int n) { volatile char x[64]; for (int j = 0; j < n; j++) x[j] = 1; *r = x[0]; return 0; }
D call_at(int *r, u64 a) { *r = ((int (*)(int))a)(1); return 0; }
"""
