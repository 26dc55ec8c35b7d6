"""A program that makes many monitored calls, a hundred of them wrong; write what was found into docs/monitor.md.

    python benchmarks/monitor_soak.py [CALLS] [--write]

A child process makes the calls in two threads, and ends while its checker still runs. Half of the calls are
sampled.
The reference notes which wrong calls it has seen: these must be reported, each once, and no other.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "monitor.md"
MARKS = "<!-- monitor soak -->\n", "<!-- /monitor soak -->"
PLANTED = 100
THREADS = 2
SCALE = 1 << 20  # the number of a call over this is exact in float32


def resident() -> int:
    """Bytes of memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def child(calls: int) -> None:
    """Make the calls, and print what was found."""
    import numpy as np

    from kcheck.monitor import EquivalenceChecker, equivalent

    step = calls // PLANTED
    wrong = {step * n + step // 2 for n in range(PLANTED)}
    seen: list[int] = []
    found: list[int] = []

    def number(x: Any) -> int:
        return round(float(x[0]) * SCALE)

    def reference(x: Any) -> Any:
        if number(x) in wrong:
            seen.append(number(x))
        return x + x

    @equivalent(reference, lambda mismatch: found.append(number(mismatch.inputs[0])))
    def double(x: Any) -> Any:
        y = 2 * x
        if number(x) in wrong:
            y[100] += 1
        return y

    memory: dict[int, int] = {}

    def call(first: int) -> None:
        x = np.random.default_rng(first).random(256, np.float32)
        for n in range(first, calls, THREADS):
            x[0] = n / SCALE
            double(x)
            if first == 0 and n in (calls // 10 // THREADS * THREADS, calls - THREADS):
                memory[n] = resident()

    EquivalenceChecker.start(sample_probability=0.5, policy="block", max_queue_bytes=4 << 20)
    begun = time.process_time()
    threads = [threading.Thread(target=call, args=(n,)) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    EquivalenceChecker.flush()
    stats = EquivalenceChecker.stats()
    answer = {
        "calls": stats.calls,
        "checked": stats.checked,
        "dropped": sum(stats.dropped.values()),
        "planted": len(wrong),
        "seen": sorted(seen),
        "found": sorted(found),
        "memory": [memory[n] for n in sorted(memory)],
        "peak": stats.peak_queue_bytes,
        "seconds": time.process_time() - begun,
    }
    print(json.dumps(answer), flush=True)


def measured(calls: int) -> dict[str, Any]:
    """What a child found.

    Raises:
        AssertionError: it missed or invented a mismatch, its memory grew, or it did not exit cleanly.
    """
    command = [sys.executable, str(Path(__file__).resolve()), str(calls), "--child"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    found = len(answer["found"])
    own = f"{answer['checked']:,} of {calls:,} calls checked; mismatches: {found}"
    assert done.stderr == f"{own}, errors of references: 0, of copies: 0, dropped: 0\n", done.stderr
    assert answer["calls"] == calls
    assert answer["found"] == answer["seen"], "a wrong call that was checked was not found, or found twice"
    assert answer["dropped"] == 0
    return answer


def table(answer: dict[str, Any]) -> str:
    before, after = answer["memory"]
    rows = [
        ("calls", f"{answer['calls']:,}"),
        ("calls that were checked", f"{answer['checked']:,}"),
        ("wrong calls", f"{answer['planted']:,}"),
        ("wrong calls that were checked", f"{len(answer['seen']):,}"),
        ("wrong calls that were found", f"{len(answer['found']):,}"),
        ("false mismatches", f"{len(set(answer['found']) - set(answer['seen'])):,}"),
        ("calls dropped", f"{answer['dropped']:,}"),
        ("memory of the process after a tenth of the calls", f"{before / 2**20:.1f} MiB"),
        ("memory of the process at the end", f"{after / 2**20:.1f} MiB"),
        ("peak memory of the queue", f"{answer['peak'] / 2**20:.1f} MiB"),
        ("processor time, of all threads, for each call", f"{answer['seconds'] / answer['calls'] * 1e6:.0f} us"),
        ("exit code if the program ends while the checker is running", "0"),
    ]
    return "| | |\n|---|---:|\n" + "".join(f"| {name} | {value} |\n" for name, value in rows)


def write(text: str, marks: tuple[str, str]) -> None:
    """Put a text between two markers of docs/monitor.md."""
    page = PAGE.read_text("utf-8")
    begin, end = marks
    found = re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", f"{begin}{text}{end}", page, flags=re.DOTALL)
    PAGE.write_text(found, "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("calls", type=int, nargs="?", default=1_000_000)
    parser.add_argument("--write", action="store_true", help="write docs/monitor.md")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.calls)
        return
    text = table(measured(options.calls))
    print(text, end="")
    if options.write:
        write(text, MARKS)


if __name__ == "__main__":
    main()
