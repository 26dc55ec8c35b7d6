"""Time Triton kernels on the cpu device and in Triton's own interpreter, and ``mma`` against the processor's peak.

    python benchmarks/triton_bench.py           print the tables
    python benchmarks/triton_bench.py --write   write them into docs/performance.md, too

Each side runs in its own process, on one core: ``TRITON_INTERPRET=1`` replaces the compiler in a whole
process. Times are seconds of processor time, warm, the median of several launches. The peak is that of NumPy's
product of float32 matrices on the same core.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT), str(HERE)]

import exact_sums  # noqa: E402
from host_tensor import HostTensor  # noqa: E402
from measuring import seconds, write  # noqa: E402
from triton_corpus import measure_corpus, table_of_corpus  # noqa: E402

GOALS = {"matmul 512 x 512 x 512": 0.15, "attention 1 x 4 x 1024 x 64": 0.6}
"""Seconds on the cpu device."""
FASTER = 100
"""How many times faster than the interpreter, at least."""
SHARE = 0.1
"""Of the peak, at least, in products of mma."""
LEAST = 9  # launches


# --- in the children ---


def jobs() -> dict[str, Callable[[], None]]:
    """A launch of each kernel, whose result is right."""
    import numpy as np
    import triton_kernels as kernels

    chance = np.random.default_rng(0)
    n = 512
    a, b = (HostTensor(chance.standard_normal((n, n)).astype(np.float16)) for _ in range(2))
    c = HostTensor(np.zeros((n, n), np.float16))
    heads, length, d = 4, 1024, 64
    q, k, v = (HostTensor(chance.standard_normal((heads, length, d)).astype(np.float16)) for _ in range(3))
    out = HostTensor(np.zeros((heads, length, d), np.float16))
    scale = d**-0.5 * 1.4426950408889634  # exp2 instead of exp

    def matmul() -> None:
        kernels.matmul[(n // 64, n // 64)](a, b, c, n, n, n, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, num_warps=4)

    def attention() -> None:
        kernels.attention[(length // 64, heads)](q, k, v, out, scale, length, D=d, BLOCK=64, num_warps=4)

    matmul()
    _check("matmul", c.array, a.array.astype(np.float32) @ b.array.astype(np.float32), 0.1)
    attention()
    wide = [x.array.astype(np.float32) for x in (q, k, v)]
    score = wide[0] @ wide[1].transpose(0, 2, 1) * d**-0.5
    score = np.where(np.tri(length, dtype=bool), score, -np.inf)
    weight = np.exp(score - score.max(-1, keepdims=True))
    _check("attention", out.array, (weight / weight.sum(-1, keepdims=True)) @ wide[2], 0.02)
    return dict(zip(GOALS, (matmul, attention), strict=True))


def _check(name: str, result: Any, expected: Any, allowed: float) -> None:
    error = abs(result.astype(expected.dtype) - expected).max()
    if not error <= allowed:
        raise SystemExit(f"{name}: wrong by {error}, allowed {allowed}")


def measure(least: int) -> dict[str, float]:
    """Median seconds of processor time of a launch, by name."""
    found = {}
    for name, job in jobs().items():
        times = []
        for _ in range(least):
            start = time.process_time()
            job()
            times.append(time.process_time() - start)
        found[name] = statistics.median(times)
    return found


_MATMUL_FLOPS = 2 * 512**3
_ROUNDS, _CHAINS = 2000, 8
_FLOPS = 2 * 16 * 8 * 16


def _products() -> str:
    """PTX of one warp that multiplies: chains of mma that do not depend on each other."""
    form = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
    chains = "\n".join(
        f"{form} {{{c}}}, {{%a0, %a1, %a2, %a3}}, {{%a4, %a5}}, {{{c}}};"
        for c in (", ".join(f"%c{4 * n + k}" for k in range(4)) for n in range(_CHAINS))
    )
    zeros = "\n".join(f"mov.f32 %c{n}, 0f00000000;" for n in range(4 * _CHAINS))
    sums = "\n".join(f"add.f32 %c0, %c0, %c{n};" for n in range(1, 4 * _CHAINS))
    return f"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry products(.param .u64 out) {{
.reg .pred %p;
.reg .b32 %i, %t, %a<6>;
.reg .f32 %c<{4 * _CHAINS}>;
.reg .b64 %out;
ld.param.u64 %out, [out];
mov.u32 %t, %tid.x;
{chr(10).join(f"mad.lo.u32 %a{n}, %t, {n + 3}, 0x3C003C00;" for n in range(6))}
{zeros}
mov.u32 %i, 0;
AGAIN:
{chains}
add.u32 %i, %i, 1;
setp.lt.u32 %p, %i, {_ROUNDS};
@%p bra AGAIN;
{sums}
mad.wide.u32 %out, %t, 4, %out;
st.global.f32 [%out], %c0;
ret;
}}
"""


def measure_mma(folder: Path) -> dict[str, float]:
    """Floating-point operations per second of ``mma.m16n8k16``, of its sums alone, and of NumPy's product of
    float32."""
    import numpy as np

    from kcheck.cpu.cache import ObjectCache
    from kcheck.cpu.executor import Executor, KernelLaunch
    from kcheck.cpu.memory import Memory, MemoryKind

    memory = Memory(64 << 20)
    executor = Executor(memory, 1, ObjectCache(folder), time.monotonic, print, lambda _: None)
    executor.kernels.quick = False
    module = executor.load(_products())
    params = struct.pack("<Q", memory.allocate(128, MemoryKind.DEVICE))
    launch = KernelLaunch(module, "products", params, (1, 1, 1), (32, 1, 1), 0, False)
    x, y = (np.random.default_rng(n).standard_normal((768, 768)).astype(np.float32) for n in range(2))
    work = {
        "mma": (lambda: executor.launch(launch), _ROUNDS * _CHAINS * _FLOPS),
        "peak": (lambda: x @ y, 2 * 768**3),
    }
    rates: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(2 * LEAST):
        for name, (job, operations) in work.items():
            start = time.process_time()
            job()
            rates[name].append(operations / (time.process_time() - start))
    return {name: statistics.median(found[2:]) for name, found in rates.items()} | {"sums": exact_sums.rate()}


# --- in the parent ---


def child(mode: str, folder: Path) -> dict[str, Any]:
    """Run this file on one core and read what it prints in its last line."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    variables |= {"KCHECK_CACHE_DIR": str(folder / "cache"), "TRITON_CACHE_DIR": str(folder / "triton")}
    command = [sys.executable, str(HERE / "triton_bench.py"), "--child", mode]
    if mode == "interpreter":
        variables["TRITON_INTERPRET"] = "1"
    elif mode == "cpu":
        command = [sys.executable, "-m", "kcheck", "exec", "--", *command]
    done = subprocess.run(command, env=variables, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def table(cpu: dict[str, float], interpreter: dict[str, float], mma: dict[str, float]) -> str:
    """The text of the page, with the goals that are missed."""
    lines = ["| kernel | cpu device | goal | interpreter | times faster |", "|---|---:|---:|---:|---:|"]
    missed = []
    for name, goal in GOALS.items():
        times = interpreter[name] / cpu[name]
        told = (seconds(cpu[name]), seconds(goal), seconds(interpreter[name]), f"{times:.0f}")
        lines.append(f"| {name} | {' | '.join(told)} |")
        if cpu[name] >= goal:
            missed.append(f"{name}: {told[0]}, goal {told[1]}")
        if times < FASTER:
            missed.append(f"{name}: {times:.0f} times faster than the interpreter, goal {FASTER}")
    share = mma["mma"] / mma["peak"]
    needed = _MATMUL_FLOPS * FASTER / interpreter["matmul 512 x 512 x 512"]
    if share < SHARE:
        missed.append(f"mma.m16n8k16: {share:.1%} of the peak, goal {SHARE:.0%}")
    lines += ["", *(f"Missed: {goal}.  " for goal in missed)]
    lines += [
        "",
        f"`mma.m16n8k16` of float16, with the sums of a tensor core bit by bit: {mma['mma'] / 1e9:.1f} GFLOP/s, "
        f"{share:.1%} of",
        f"the {mma['peak'] / 1e9:.0f} GFLOP/s of NumPy's product of float32 on the same core. The four vector "
        "instructions of each product",
        f"(multiply, scale, truncate, add) reach {mma['sums'] / 1e9:.0f} GFLOP/s by themselves "
        f"(`benchmarks/exact_sums.py`); {FASTER} times the speed of the",
        f"interpreter would need {needed / 1e9:.0f} GFLOP/s in the matmul.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
        if arguments.child == "mma":
            found = measure_mma(Path(os.environ["KCHECK_CACHE_DIR"]))
        else:
            is_cpu = arguments.child == "cpu"
            found = {"large": measure(LEAST if is_cpu else 1), "corpus": measure_corpus(profiles=not is_cpu)}
        print(json.dumps(found))
        return
    with tempfile.TemporaryDirectory(prefix="kcheck-triton-bench-") as name:
        cpu, interpreter, mma = (child(mode, Path(name)) for mode in ("cpu", "interpreter", "mma"))
    texts = {
        "triton": table(cpu["large"], interpreter["large"], mma),
        "triton corpus": table_of_corpus(cpu["corpus"], interpreter["corpus"]),
    }
    for mark, text in texts.items():
        print(text)
        if arguments.write:
            write(text, mark)


if __name__ == "__main__":
    main()
