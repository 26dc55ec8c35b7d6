"""Runs the corpus, specs and the benchmark's kernels at several widths, in a process on the cpu device.

A result is what was left in memory, as digests, with the head of each array for messages.
"""

from __future__ import annotations

import functools
import hashlib
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
Result = dict[str, Any]


def answer(device: Any, request: dict[str, Any]) -> Any:
    """Results by width, for one row or benchmark; for a spec, those of each case by its label."""
    if "rows" in request:
        from corpus import ROWS

        return list(ROWS)
    widths = request["widths"]
    if "spec" in request:
        return _spec(device, request["spec"], request["cases"], widths)
    if "benchmark" in request:
        return [_benchmark(device, request["benchmark"], width) for width in widths]
    return [_row(device, request["row"], width) for width in widths]


def _result(arrays: list[np.ndarray], findings: list[Any], computed: bool) -> Result:
    return {
        "bytes": [hashlib.blake2b(np.ascontiguousarray(a).tobytes()).hexdigest() for a in arrays],
        "head": [repr(a.ravel()[:8].tolist()) for a in arrays],
        "findings": findings,
        "computed": computed,
    }


def _launch(device: Any, kernel: Any, shape: tuple[Any, ...], arguments: list[Any], width: int) -> Result:
    from numba import cuda

    placed = [cuda.to_device(a) if isinstance(a, np.ndarray) else a for a in arguments]
    device.executor.width = width
    device.executor.report = device.findings.append  # specs take it over
    kernel[shape](*placed)
    pairs = [(d.copy_to_host(), a) for d, a in zip(placed, arguments, strict=True) if isinstance(a, np.ndarray)]
    return _result([d for d, _ in pairs], device.told(), any(d.tobytes() != a.tobytes() for d, a in pairs))


def _row(device: Any, name: str, width: int) -> Result:
    from corpus import ROWS

    row = ROWS[name]
    arguments = list(row.make(np.random.default_rng(zlib.crc32(name.encode()))))
    return _launch(device, row.kernel, (row.grid, row.block, 0, row.shared), arguments, width)


def _benchmark(device: Any, name: str, width: int) -> Result:
    sys.path[:0] = [str(ROOT / "benchmarks")]
    from workloads import WORKLOADS

    import kernels

    work = next(w for w in WORKLOADS if w.kernel == name)
    arguments = work.make(np.random.default_rng(zlib.crc32(name.encode())), *work.sizes[0])
    return _launch(device, getattr(kernels, name), work.shape(arguments), list(arguments.values()), width)


@functools.cache
def _runner(device: Any) -> Any:
    """What runs specs, on the device that this process has already."""
    from kcheck.device import cpu
    from kcheck.device.launching import LaunchingDevice

    cpu._installed = lambda *capability: device.installed
    return LaunchingDevice(cpu.CpuBackend())


def _spec(device: Any, path: str, count: int, widths: list[int]) -> dict[str, list[Result]]:
    from kcheck.cases import materialize, plan
    from kcheck.specfile import load_spec

    spec = load_spec(ROOT / path)
    runner = _runner(device)
    runner.prepare(spec)
    found: dict[str, list[Result]] = {}
    for case in plan(spec, count=count, master=20):
        for width in widths:
            device.executor.width = width
            outcome = runner.run(spec, materialize(spec, case), timeout=None)
            told = [f"{f.rule}: {f.message}" for f in outcome.findings]
            outputs = [np.asarray(outcome.outputs[name]) for name in sorted(outcome.outputs)]
            found.setdefault(case.label, []).append(_result(outputs, told, computed=True))
    return found
