"""How a case grows with its elements: one elementwise kernel on the cpu device, and what its time goes to.

Part of `make scale`; alone:

    python -m benchmarks.elements 7        10^3 to 10^7 elements
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from kcheck.device import choose_for
from kcheck.generator import materialize, plan
from kcheck.oracle import Expected, judge
from kcheck.specfile import load_spec

LEAST, MOST = 3, 8
"""Powers of ten."""

_SPEC = """\
kcheck: 1
op: op
kernel: k.py:op
reference: r.py:reference
dims: {{N: [{elements}]}}
inputs: {{x: {{shape: [N], values: [normal]}}}}
outputs: {{y: [N]}}
launch: {{args: [x, y], grid: ["ceildiv(N, 256)"], block: [256]}}
"""
_KERNEL = """\
from numba import cuda


@cuda.jit
def op(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = max(x[i], 0)
"""
_REFERENCE = """\
import numpy as np


def reference(x):
    return np.maximum(x, 0)
"""
PARTS = ("inputs", "launch", "launch, instrumented", "reference and comparison")
SECTION = """\
## With the number of elements

One case of relu (float32) on the cpu device: wall-clock seconds, best of three, with the kernel compiled. The
shares are of their sum. A run instruments launches while the time that this takes allows it.

| elements | inputs | launch | launch, instrumented | reference and comparison |
|---:|---:|---:|---:|---:|
{rows}
"""
_T = TypeVar("_T")


def _timed(action: Callable[[], _T]) -> tuple[float, _T]:
    begun = time.perf_counter()
    result = action()
    return time.perf_counter() - begun, result


def parts(power: int) -> tuple[float, ...]:
    """Seconds for each of PARTS."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in (
            ("kcheck.yaml", ""),
            ("k.py", _KERNEL),
            ("r.py", _REFERENCE),
            ("op.yaml", _SPEC.format(elements=10**power)),
        ):
            (folder / file).write_text(text)
        spec = load_spec(folder / "op.yaml")
        device = choose_for([spec], "cpu")
        device.prepare(spec)
        (case, *_) = plan(spec, count=1, master=1)
        rounds = []
        for _ in range(4):  # the first one compiles
            made, arrays = _timed(lambda: materialize(spec, case))
            plain, outcome = _timed(lambda arrays=arrays: device.run(spec, arrays, timeout=None))  # type: ignore[misc]
            again = materialize(spec, case)
            watched, _ = _timed(
                lambda again=again: device.run(spec, again, timeout=None, instrument=device.instruments)  # type: ignore[misc]
            )
            judged, verdict = _timed(
                lambda arrays=arrays, outcome=outcome: judge(spec, arrays, outcome, Expected(spec, arrays))  # type: ignore[misc]
            )
            if verdict.findings:
                raise RuntimeError(str(verdict.findings[0]))
            rounds.append((made, plain, watched, judged))
        return min(rounds[1:], key=sum)


def section(most: int = MOST) -> str:
    """The section of docs/scale.md."""
    rows = []
    for power in range(LEAST, most + 1):
        found = parts(power)
        cells = [f"{seconds:.2g} s ({100 * seconds / sum(found):.0f}%)" for seconds in found]
        rows.append(f"| 10^{power} | {' | '.join(cells)} |")
        print(rows[-1], flush=True)
    return SECTION.format(rows="\n".join(rows))


if __name__ == "__main__":
    print(section(int(sys.argv[1]) if len(sys.argv) > 1 else MOST))
