"""Runs the corpus, specs and the benchmark's kernels at several widths, in quick code and in the better one, in a
process on the cpu device.

A result is what was left in memory, as digests, with the head of each array for messages.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
Result = dict[str, Any]
Code = tuple[int, bool]
"""Lanes per vector, whether quick."""


def answer(device: Any, request: dict[str, Any]) -> Any:
    """Results by code, for one row or benchmark; for a spec, those of each case by its label."""
    if "rows" in request:
        from corpus import ROWS

        return list(ROWS)
    codes = [(width, quick) for width, quick in request["codes"]]
    if "spec" in request:
        return _spec(device, request["spec"], request["cases"], codes)
    run, name = (_benchmark, request["benchmark"]) if "benchmark" in request else (_row, request["row"])
    results = []
    for code in codes:
        _use(device, code)
        results.append(run(device, name))
    return results


def _use(device: Any, code: Code) -> None:
    """From here on kernels have so many lanes to a vector, and are quick code or the better one."""
    device.executor.width, device.executor.kernels.quick = code
    device.executor.kernels.known.clear()


def _result(arrays: list[np.ndarray], findings: list[Any], computed: bool) -> Result:
    return {
        "bytes": [hashlib.blake2b(np.ascontiguousarray(a).tobytes()).hexdigest() for a in arrays],
        "head": [repr(a.ravel()[:8].tolist()) for a in arrays],
        "findings": findings,
        "computed": computed,
    }


def _launch(device: Any, kernel: Any, shape: tuple[Any, ...], arguments: list[Any]) -> Result:
    from numba import cuda

    placed = [cuda.to_device(a) if isinstance(a, np.ndarray) else a for a in arguments]
    device.executor.report = device.findings.append  # specs take it over
    kernel[shape](*placed)
    pairs = [(d.copy_to_host(), a) for d, a in zip(placed, arguments, strict=True) if isinstance(a, np.ndarray)]
    return _result([d for d, _ in pairs], device.told(), any(d.tobytes() != a.tobytes() for d, a in pairs))


def _row(device: Any, name: str) -> Result:
    from corpus import ROWS

    row = ROWS[name]
    arguments = list(row.make(np.random.default_rng(zlib.crc32(name.encode()))))
    return _launch(device, row.kernel, (row.grid, row.block, 0, row.shared), arguments)


def _benchmark(device: Any, name: str) -> Result:
    sys.path[:0] = [str(ROOT / "benchmarks")]
    from workloads import WORKLOADS

    import kernels

    work = next(w for w in WORKLOADS if w.kernel == name)
    arguments = work.make(np.random.default_rng(zlib.crc32(name.encode())), *work.sizes[0])
    return _launch(device, getattr(kernels, name), work.shape(arguments), list(arguments.values()))


@functools.cache
def _runner(device: Any) -> Any:
    """What runs specs, on the device that this process has already."""
    from kcheck.cpu.cache import ObjectCache
    from kcheck.device import cpu
    from kcheck.device.launching import LaunchingDevice
    from kcheck.driver.host_ranges import HostRanges
    from kcheck.triton.session import patch_triton

    machine = device.installed.machine
    patch_triton(
        machine, HostRanges(machine.memory), ObjectCache(Path(os.environ["KCHECK_CACHE_DIR"]) / "code"), "cpu"
    )
    cpu._installed = lambda *capability: device.installed
    return LaunchingDevice(cpu.CpuBackend())


def _spec(device: Any, path: str, count: int, codes: list[Code]) -> dict[str, list[Result]]:
    from kcheck.generator import materialize, plan
    from kcheck.specfile import load_spec

    spec = load_spec(ROOT / path)
    runner = _runner(device)
    runner.prepare(spec)
    found: dict[str, list[Result]] = {}
    for case in plan(spec, count=count, master=20):
        for code in codes:
            _use(device, code)
            outcome = runner.run(spec, materialize(spec, case), timeout=None)
            told = [f"{f.rule}: {f.message}" for f in outcome.findings]
            outputs = [np.asarray(outcome.outputs[name]) for name in sorted(outcome.outputs)]
            found.setdefault(case.label, []).append(_result(outputs, told, computed=True))
    return found
