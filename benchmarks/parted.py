"""What warp-level operations cost whose lanes arrive along different paths, against lanes that arrive together.

    python benchmarks/parted.py

Each kernel executes the same number of shuffles per lane. Times are of a processor, one thread; medians of
interleaved launches.
"""

from __future__ import annotations

import struct
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import measuring  # noqa: E402

BLOCKS, THREADS, ROUNDS = 64, 128, 100
GOAL = 5
"""The most that a split warp may cost, as a multiple."""

HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 rounds)
{
    .reg .b32 %t, %n, %v, %w, %a, %b, %c, %i; .reg .b64 %o, %d; .reg .pred %p, %q, %s;
    ld.param.u64 %o, [out]; ld.param.u32 %n, [rounds];
    mov.u32 %t, %tid.x; mov.u32 %i, 0; mov.u32 %v, %t; mov.u32 %w, 1;
L:
    xor.b32 %a, %t, %i; and.b32 %a, %a, 1; setp.eq.u32 %q, %a, 0;
"""
TAIL = """
    add.u32 %i, %i, 1; setp.lt.u32 %p, %i, %n; @%p bra L;
    xor.b32 %v, %v, %w; mul.wide.u32 %d, %t, 4; add.u64 %o, %o, %d; st.global.u32 [%o], %v; ret;
}
"""
SHUFFLE = "shfl.sync.bfly.b32 {to}, {of}, 1, 31, -1;"
FIRST, SECOND = SHUFFLE.format(to="%b", of="%v"), SHUFFLE.format(to="%c", of="%w")


def _reduction(to: str, of: str) -> str:
    """Five shuffles of a register, added to it."""
    steps = (f"shfl.sync.bfly.b32 {to}, {of}, {1 << k}, 31, -1; add.u32 {of}, {of}, {to};" for k in range(5))
    return " ".join(steps)


KERNELS = {
    "together": f"{FIRST} add.u32 %v, %v, %b; mad.lo.u32 %w, %v, 5, %w;",
    "a reduction together": f"{_reduction('%b', '%v')} mad.lo.u32 %w, %v, 5, %w;",
    "one in each arm": f"""
    @%q bra A;
    {FIRST} add.u32 %v, %v, %b; bra J;
A:  {SECOND} mad.lo.u32 %w, %c, 5, %w;
J:  add.u32 %v, %v, 3;""",
    "a reduction in each arm": f"""
    @%q bra A;
    {_reduction("%b", "%v")} bra J;
A:  {_reduction("%c", "%w")}
J:  add.u32 %v, %v, 3;""",
}


def times() -> dict[str, float]:
    """Seconds of a launch of each kernel."""
    from kcheck.cpu.cache import ObjectCache
    from kcheck.cpu.executor import Ending, Executor, KernelLaunch
    from kcheck.cpu.memory import Memory, MemoryKind
    from kcheck.ptx.abi import Checks

    memory = Memory(1 << 24)
    with tempfile.TemporaryDirectory() as folder:
        executor = Executor(memory, 1, ObjectCache(Path(folder)), time.perf_counter, print, print)
        executor.checks, executor.kernels.quick = Checks(), False
        out = memory.allocate(4 * THREADS, MemoryKind.DEVICE)
        content = struct.pack("<QI", out, ROUNDS)

        def job(module: object) -> None:
            launch = KernelLaunch(module, "k", content, (BLOCKS, 1, 1), (THREADS, 1, 1), 0, False)
            if executor.launch(launch) is not Ending.FINISHED:
                raise SystemExit("the launch did not end normally")

        jobs: dict[str, Callable[[], None]] = {}
        for name, body in KERNELS.items():
            jobs[name] = partial(job, executor.load(HEAD + body + TAIL))
        return measuring.interleaved(jobs)


def main() -> None:
    """Print a table."""
    found = times()
    print(f"| {THREADS} threads x {BLOCKS} blocks, {ROUNDS} rounds | time | times together | goal |")
    print("|---|---:|---:|---:|")
    for name in KERNELS:
        base = "together" if "one" in name else "a reduction together"
        print(f"| {name} | {measuring.seconds(found[name])} | {found[name] / found[base]:.1f} | {GOAL} |")


if __name__ == "__main__":
    main()
