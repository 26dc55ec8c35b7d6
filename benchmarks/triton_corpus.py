"""The Triton kernels of ``specs/`` on the cpu device and in Triton's interpreter, on their own cases.

Each side draws the same cases from the spec, launches each once, and has the result judged by the spec. Then it
launches again and again: sums that go on from the last result take as long.
"""

from __future__ import annotations

import cProfile
import inspect
import math
import pstats
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from host_tensor import HostTensor
from measuring import geometric, seconds

SPECS = Path(__file__).resolve().parent.parent / "specs"
CASES = 4
"""Cases of each kernel: the largest of those that a run of its spec draws."""
LEAST, ROUND = 5, 0.02
"""Measurements of a case, and seconds of each, at least."""
_WRAPPERS = ("Autotuner", "Heuristics")
_WORK = ("create_dot", "create_masked_", "create_atomic")


def measure_corpus(*, profiles: bool) -> dict[str, dict[str, Any]]:
    """What came of each kernel, by op: ``times``, seconds of processor time of a launch by case; ``share``, of the
    interpreter's time that multiplies tiles or accesses memory; or ``error``.

    Args:
        profiles: whether this is the interpreter.
    """
    found = {}
    for path in sorted(SPECS.glob("*_triton.yaml")):
        try:
            found[path.stem] = _measure(path, profiles=profiles)
        except Exception as error:  # reported in the table, with the kernel
            told = (str(error).strip().splitlines() or [""])[-1]
            found[path.stem] = {"error": f"{type(error).__name__}: {told}"}
    return found


def _measure(path: Path, *, profiles: bool) -> dict[str, Any]:
    from kcheck.api.drawing import Case
    from kcheck.generator import materialize
    from kcheck.generator.plan import plan
    from kcheck.specfile import load_spec

    spec = load_spec(path)
    drawn = sorted(plan(spec, count=spec.count, master=spec.seed), key=lambda case: -math.prod(case.dims.values()))
    times: dict[str, float] = {}
    jobs = []
    for planned in drawn[:CASES]:
        case = Case(spec, planned, materialize(spec, planned))
        job = _job(spec, planned, case)
        job()
        verdict = case.judge()
        if not verdict.passed:
            raise ValueError(f"wrong result in {case.id}: {verdict.rule}")
        times[case.id] = _time(job)
        jobs.append(job)
    return {"times": times, "share": _share(jobs) if profiles else 0.0}


def _job(spec: Any, planned: Any, case: Any) -> Callable[[], None]:
    """A launch of a case. Its outputs are in the case's own arrays."""
    from kcheck.device.call import keywords
    from kcheck.device.kinds.triton import constants_of, load
    from kcheck.device.plan import geometry, scalar_argument, scalars
    from kcheck.specfile import load_function

    values: Mapping[str, Any] = {**case.inputs, **case.outputs}
    tensors = {name: HostTensor(array) for name, array in values.items()}
    names = scalars(planned, case.params)
    if spec.launcher is not None:
        launcher: Any = load_function(spec.root, spec.launcher)
        launcher.__globals__["cuda"] = _ON_HOST
        given = keywords(launcher, {**names, **tensors})
        return lambda: launcher(**given)
    kernel, heuristics = load(spec), {}
    while type(kernel).__name__ in _WRAPPERS:
        heuristics |= getattr(kernel, "values", {})
        kernel = kernel.fn
    memory = {name: case._arrays.allocation(name) for name in values}
    given = {}
    for name, argument in zip(_variables(kernel.fn), spec.launch.args, strict=False):
        tensor = tensors.get(getattr(argument, "name", ""))
        given[name] = tensor or scalar_argument(planned, case.params, memory, argument).item()
    given |= constants_of(spec, names)
    for name, compute in heuristics.items():
        given[name] = compute(given)
    grid = geometry(spec.launch, names).grid
    return lambda: kernel[grid](**given)


def _variables(function: Any) -> list[str]:
    """The parameters of a kernel that are not constants."""
    parameters = inspect.signature(function).parameters.values()
    return [parameter.name for parameter in parameters if "constexpr" not in str(parameter.annotation)]


def _array(shape: Any, dtype: Any) -> HostTensor:
    import numpy as np

    return HostTensor(np.empty(shape, dtype))


_ON_HOST = SimpleNamespace(to_device=HostTensor, device_array=_array)
"""What the launchers use of ``numba.cuda``. Both sides read the host's memory."""


def _time(job: Callable[[], None]) -> float:
    """Seconds of processor time of a launch: the median of several measurements."""
    start = time.process_time()
    job()
    count = max(round(ROUND / max(time.process_time() - start, 1e-6)), 1)
    found = []
    for _ in range(LEAST):
        start = time.process_time()
        for _ in range(count):
            job()
        found.append((time.process_time() - start) / count)
    return statistics.median(found)


def _share(jobs: list[Callable[[], None]]) -> float:
    """The share of the interpreter's time in which it multiplies tiles, loads, stores, or updates atomically."""
    profile = cProfile.Profile()
    for job in jobs:
        profile.runcall(job)
    work = total = 0.0
    for (_, _, function), (_, _, spent, *_) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        total += spent
        if function.startswith(_WORK) or "libtriton.interpreter" in function:
            work += spent
    return work / total


def table_of_corpus(cpu: Mapping[str, Any], interpreter: Mapping[str, Any]) -> str:
    """The text of the page."""
    lines = ["| kernel | largest case | cpu device | interpreter | times faster |", "|---|---|---:|---:|---:|"]
    ratios, shares, missing = [], [], []
    for op, own in cpu.items():
        other = interpreter[op]
        for side, name in ((own, "the cpu device"), (other, "the interpreter")):
            if "error" in side:
                missing.append(f"- `{op}`, {name}: `{side['error']}`")
        if "error" in own or "error" in other:
            continue
        ours, theirs = (geometric(list(side["times"].values())) for side in (own, other))
        ratios.append(theirs / ours)
        shares.append(other["share"])
        cells = (op, _sizes(next(iter(own["times"]))), seconds(ours), seconds(theirs), f"{ratios[-1]:.0f}")
        lines.append(f"| {' | '.join(cells)} |")
    mean, least, most = (round(ratio) for ratio in (geometric(ratios), min(ratios), max(ratios)))
    lines += [
        "",
        f"Times faster, geometric mean of {len(ratios)} kernels: {mean} ({least} to {most}).",
        f"Of the interpreter's time, at most {max(shares):.1%} multiplies tiles or accesses memory.",
    ]
    if missing:
        lines += ["", "Not compared:", "", *missing]
    return "\n".join([*lines, ""])


def _sizes(case: str) -> str:
    """The dims of a case in words, from its name ``op[iter_3-M=2-N=100-T=float32]``."""
    parts = [part for part in case.rstrip("]").split("-") if "=" in part and part.split("=")[1].isdigit()]
    return ", ".join(parts).replace("=", " ")
