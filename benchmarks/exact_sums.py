"""How fast sums as a tensor core computes them can be: the instructions of each product, without any others.

A product is multiplied, scaled to the unit of its block, truncated to an integer and added. ``mma`` also finds the
largest exponent of each block, aligns the accumulator, normalizes the sum, and brings rows and columns together.
"""

from __future__ import annotations

import ctypes
import statistics
import time
from typing import Any

_LANES, _TERMS, _REPEATS = 16, 8, 200_000


def _text() -> str:
    """LLVM IR of a loop over blocks of _TERMS products, for two rows and two columns in each lane."""
    floats, integers = f"<{_LANES} x float>", f"<{_LANES} x i32>"
    lines = ["define void @sums(ptr %x, ptr %y, ptr %out, i64 %n) {\nentry:\n  br label %loop\nloop:"]
    lines.append("  %i = phi i64 [0, %entry], [%next, %loop]")
    lines += [f"  %s{r} = phi {integers} [zeroinitializer, %entry], [%e{r}_{_TERMS}, %loop]" for r in range(4)]
    # The factors move, so that they are loaded again each time.
    lines.append("  %at = and i64 %i, 7")
    totals = [f"%s{r}" for r in range(4)]
    for k in range(_TERMS):
        for name in "xy":
            for h in range(2):
                lines.append(
                    f"  %{name}p{k}_{h} = getelementptr [{4 * _LANES} x i8], ptr %{name}, i64 {2 * k + h}"
                )
                lines.append(f"  %{name}q{k}_{h} = getelementptr {floats}, ptr %{name}p{k}_{h}, i64 %at")
                lines.append(f"  %{name}{k}_{h} = load {floats}, ptr %{name}q{k}_{h}, align 64")
        for r in range(4):
            lines.append(f"  %p{r}_{k} = fmul {floats} %x{k}_{r // 2}, %y{k}_{r % 2}")
            lines.append(f"  %u{r}_{k} = fmul {floats} %p{r}_{k}, splat (float {1024.0 * 2**r:e})")
            lines.append(f"  %w{r}_{k} = fptosi {floats} %u{r}_{k} to {integers}")
            lines.append(f"  %e{r}_{k + 1} = add {integers} {totals[r]}, %w{r}_{k}")
            totals[r] = f"%e{r}_{k + 1}"
    lines.append(
        "  %next = add i64 %i, 1\n  %more = icmp ult i64 %next, %n\n  br i1 %more, label %loop, label %end\nend:"
    )
    for r in range(4):
        lines.append(f"  %o{r} = getelementptr {integers}, ptr %out, i64 {r}")
        lines.append(f"  store {integers} {totals[r]}, ptr %o{r}, align 64")
    return "\n".join([*lines, "  ret void\n}"])


def _aligned(values: Any) -> Any:
    """The values as float32, at a multiple of 64 bytes."""
    import numpy as np

    room = np.zeros(values.size + 16, np.float32)
    start = -room.ctypes.data % 64 // 4
    room[start : start + values.size] = values
    return room[start : start + values.size]


def rate(repeats: int = 9) -> float:
    """Floating-point operations per second of the sums alone, on one core: the median."""
    import numpy as np

    from kcheck.cpu.jit import LoadedCode, compile_ir

    code = LoadedCode((compile_ir(_text(), _LANES),), ("sums",))
    run = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64)(code.address("sums"))
    chance = np.random.default_rng(0)
    x, y, out = (_aligned(chance.standard_normal(1024)) for _ in range(3))
    found = []
    for _ in range(repeats):
        begun = time.process_time()
        run(x.ctypes.data, y.ctypes.data, out.ctypes.data, _REPEATS)
        found.append(2 * _REPEATS * _TERMS * 4 * _LANES / (time.process_time() - begun))
    return statistics.median(found)


if __name__ == "__main__":
    print(f"{rate() / 1e9:.1f} GFLOP/s")
