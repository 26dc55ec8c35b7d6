"""Every measurement of one kernel, in a separate process.

usage: python -m benchmarks.evidence.measure < request > answer, both JSON; a crash costs one kernel and no more.

Most of the time goes into compiling, so a kernel is compiled once and examined in many cases. A run of a buggy
kernel ends once everything that is counted has caught it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.evidence.corpus import ROOT, control_spec, twins
from benchmarks.evidence.strategies import STRATEGIES, Strategy, friendly, mix, random_shape
from benchmarks.evidence.trial import INSTRUMENTED_CASES, POLICIES, Policy, Seen, cpu_device, look
from kcheck.device import Device
from kcheck.device.artifact import compile_here
from kcheck.device.assembler import assembled
from kcheck.device.kinds import KINDS, WantedArtifact
from kcheck.device.specialize import in_order
from kcheck.linter.ptx_text import find_entry
from kcheck.model import SANITIZERS, Case, FunctionRef, Level, OpSpec
from kcheck.model.compiled import CompiledKernel, Signature
from kcheck.runner import Calibrator, Options, run
from kcheck.runner.artifact import ArtifactCheck
from kcheck.runner.calibrate import measured_spec
from kcheck.specfile import load_spec

CALIBRATION_CASES = 100


@dataclass(frozen=True, slots=True)
class Request:
    """What to measure.

    Attributes:
        name: of a control, or of a twin if ``twin`` is set.
        seeds: master seeds; each is a separate run.
        cases, more: cases of a run, and of a longer one.
        soak: instead of all else, this many cases of a control, by seeds that nothing else uses.
        envelopes: what ``calibrated`` accepts, measured on the twin's control.
        excused: by strategy and seed, the labels of cases that the twin's control fails: they do not count.
    """

    name: str
    twin: bool
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    cases: int = 30
    more: int = 100
    soak: int = 0
    envelopes: Mapping[str, float] | None = None
    excused: Mapping[str, Mapping[str, Sequence[str]]] | None = None


def excuses(runs: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]) -> dict[str, dict[str, list[str]]]:
    """What a control's runs excuse in its twins: the cases of other tools' strategies that it fails itself."""
    return {
        strategy: {
            seed: [row["label"] for row in rows if (one := Seen.from_json(row)).fails() or one.problem]
            for seed, rows in runs[strategy].items()
        }
        for strategy in STRATEGIES
        if strategy != "mix" and strategy in runs
    }


def measure(request: Request) -> dict[str, Any]:
    """The results, as in JSON: ``runs`` by strategy and seed, ``static``, ``artifact``, ``envelopes``."""
    begun = time.process_time()
    found = {twin.name: twin for twin in twins()}.get(request.name) if request.twin else None
    spec = control_spec(request.name) if found is None else load_spec(found.spec)
    expected = () if found is None else found.caught_by
    device = cpu_device([spec])
    device.prepare(spec)
    answer: dict[str, Any] = {"name": request.name}
    if request.soak:
        answer["soak"] = _soak(device, spec, request.soak)
    else:
        measured = _Measured(device, spec, request)
        answer["runs"] = {"friendly": measured.runs(friendly, 1)}  # first: the device notes what it launched
        answer["static"] = static_metrics(device, spec)
        answer["envelopes"] = measured.envelopes
        answer["runs"] |= measured.everything()
        answer["artifact"] = []
        if spec.artifact is not None and (not request.twin or "artifact" in expected):
            with ArtifactCheck(spec, device, mix(spec, request.cases, spec.seed)) as check:
                answer["artifact"] = [finding.message for finding in check.result(device.launched(spec))[0]]
    return answer | {"seconds": time.process_time() - begun}


class _Measured:
    def __init__(self, device: Device, spec: OpSpec, request: Request) -> None:
        self.device, self.spec, self.request = device, spec, request
        self.envelopes = request.envelopes if request.twin else _envelopes(device, spec)

    def everything(self) -> dict[str, Any]:
        """All runs except the friendly one."""
        cases, more = self.request.cases, self.request.more
        found = {"random": self.runs(random_shape, 1)}
        found["mix"] = self.runs(mix, cases, POLICIES, self._caught_by_all)
        found[f"mix {more}"] = self.runs(mix, more, (), lambda seen: (seen.fails(), seen.fails(sanitizers=False)))
        for name, strategy in STRATEGIES.items():
            if name != "mix":  # values that its spec does not draw may break a correct kernel too: not a catch
                excused = (self.request.excused or {}).get(name, {})
                found[name] = self.runs(strategy, cases, (), lambda seen: (seen.fails(),), excused)
        return found

    def _caught_by_all(self, seen: Seen) -> tuple[bool, ...]:
        alone = (
            seen.fails(p, sanitizers=False, invariants=False) for p in POLICIES if p in seen.off or seen.fatal
        )
        return (seen.fails(), seen.fails(sanitizers=False), *alone)

    def runs(
        self,
        strategy: Strategy,
        count: int,
        policies: Sequence[Policy] = ("benchmark",),
        caught: Callable[[Seen], tuple[bool, ...]] = lambda seen: (),
        excused: Mapping[str, Sequence[str]] | None = None,
    ) -> dict[str, list[dict[str, Any]]]:
        """By seed, the cases of a strategy; for a twin only until everything in ``caught`` has been found once.
        Cases whose labels are ``excused`` are skipped."""
        found: dict[str, list[dict[str, Any]]] = {}
        for seed in self.request.seeds:
            left_out = (excused or {}).get(str(seed), ())
            cases = [case for case in strategy(self.spec, count, seed) if case.label not in left_out]
            found[str(seed)] = [one.to_json() for one in self._until(cases, policies, caught)]
        return found

    def _until(
        self, cases: Sequence[Case], policies: Sequence[Policy], caught: Callable[[Seen], tuple[bool, ...]]
    ) -> Iterator[Seen]:
        so_far: tuple[bool, ...] = ()
        for number, case in enumerate(cases):
            seen = look(
                self.device,
                self.spec,
                case,
                instrument=number < INSTRUMENTED_CASES,
                policies=policies,
                envelopes=self.envelopes,
            )
            yield seen
            now = caught(seen)
            so_far = tuple(a or b for a, b in zip(so_far, now, strict=True)) if so_far else now
            if self.request.twin and now and all(so_far):
                return


def _envelopes(device: Device, spec: OpSpec) -> dict[str, float]:
    """What ``kcheck calibrate`` would write for this control; empty if it refuses."""
    measured = measured_spec(spec, CALIBRATION_CASES, None)
    off: dict[str, Level] = dict.fromkeys(SANITIZERS, "off")
    calibrator = Calibrator([measured])
    for event in run([measured], Options(sanitize=off), device):
        done = calibrator.handle(event)
        if done is not None and not done.refusal:
            found = done.calibration(device.name, {}).envelopes
            return {dtype: envelope.envelope for dtype, envelope in found.items()}
    return {}


def static_metrics(device: Device, spec: OpSpec) -> dict[str, int]:
    """What the compiler reports about the kernels of the friendly case, and no run would show: PTX instructions in
    all, and the most registers of a thread."""
    instructions, registers = 0, 0
    for compiled in _compiled(device, spec):
        entry = find_entry(compiled.ptx, compiled.entry)
        if entry is None or compiled.resources is None:
            return {}
        instructions += entry.instructions
        registers = max(registers, compiled.resources.registers)
    return {"instructions": instructions, "registers": registers} if instructions else {}


def _compiled(device: Device, spec: OpSpec) -> Iterator[CompiledKernel]:
    """Each kernel of the friendly case, by the compiler of its kind."""
    target = spec.artifact.targets[0] if spec.artifact is not None else "sm_80"
    known: dict[str, tuple[FunctionRef, Signature]] = {}
    if spec.kernel is not None and spec.launch is not None:
        (case,) = friendly(spec, 1, 0)
        if spec.kernel.kind == "numba":
            known[spec.kernel.name] = (spec.kernel, in_order(spec, [case])[0])
        else:
            wanted = WantedArtifact([target], in_process=True)
            yield from KINDS[spec.kernel.kind].artifact(spec, [case], wanted).result()
    for one in device.launched(spec):
        if one.code is not None:
            yield assembled(one.code, target)
        elif one.signature is not None:
            path = os.path.relpath(os.path.realpath(one.place.file), os.path.realpath(spec.root))
            known.setdefault(
                one.kernel, (FunctionRef(Path(path).as_posix(), one.kernel, one.place), one.signature)
            )
    for function, signature in known.values():
        yield from compile_here(spec.root, function, [signature], [target])


def _soak(device: Device, spec: OpSpec, count: int) -> dict[str, Any]:
    """Many cases of a control under every sanitizer without instrumented code, and the first 20 under all."""
    alarms = []
    cases = mix(spec, count - len(spec.examples), _SOAK_SEED)
    for number, case in enumerate(cases):
        seen = look(device, spec, case, instrument=number < _SOAK_INSTRUMENTED)
        if seen.fails() or seen.problem:
            alarms.append(seen.to_json() | {"seed": case.seed})
    return {"cases": len(cases), "alarms": alarms, "seed": _SOAK_SEED}


_SOAK_SEED = 20_000
_SOAK_INSTRUMENTED = 20


def main() -> None:
    """Answer the request on stdin."""
    sys.path.insert(0, str(ROOT))
    row = json.load(sys.stdin)
    request = Request(**{**row, "seeds": tuple(row["seeds"])})
    with contextlib.redirect_stdout(sys.stderr):
        answer = json.dumps(measure(request))
    sys.stdout.write(answer)


def as_json(request: Request) -> str:
    """A request as :func:`main` reads it."""
    return json.dumps(dataclasses.asdict(request))


if __name__ == "__main__":
    main()
