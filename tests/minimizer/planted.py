"""A device that runs no kernel: what comes out is right, but where a planted condition holds."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np

from kcheck.generator import CaseArrays, plan
from kcheck.minimizer import Minimized, Minimizer, Strategy
from kcheck.model import Case, Finding, OpSpec, Outcome
from kcheck.runner import KnownFailure
from kcheck.specfile import load_spec

Fails = Callable[[CaseArrays], object]
SPEC = """\
kcheck: 1
op: planted
dims: {{{dims}}}
{constraints}
dtypes: {{T: [float16, float32]}}
inputs: {{x: {{shape: [{shape}], dtype: T, layouts: [contiguous, strided], values: [{values}]}}}}
params: {{flag: {{dtype: int32, values: [0, 1, 7]}}}}
outputs: {{y: [{shape}]}}
kernel: kernels/k.py:kernel
launch: {{args: [x, y], grid: [1], block: [64]}}
reference: references/r.py:same
invariants: [finite]
"""


class Planted:
    """The device: every output is a copy of the input of its shape, but wrong as ``fails`` says.

    Args:
        fails: of a case's arrays, whether it fails: False, True for a wrong number, ``race``, or ``harmless`` for
            a race that is a warning by default.
    """

    name = "cpu"
    description = "planted"
    lost = ""
    instruments: tuple[str, ...] = ("racecheck",)
    compiles_in_process = False

    def __init__(self, fails: Fails) -> None:
        self.fails = fails
        self.runs = 0

    def prepare(self, spec: OpSpec) -> None:
        """Nothing to load."""

    def launched(self, spec: OpSpec) -> tuple[Any, ...]:
        return ()

    def run(
        self, spec: OpSpec, arrays: CaseArrays, *, timeout: float | None, instrument: Collection[str] = ()
    ) -> Outcome:
        self.runs += 1
        x = arrays.allocation("x").view()
        y = x.copy()
        ends = self.fails(arrays)
        findings = ()
        if ends in ("race", "harmless"):
            is_race = ends == "race"
            race = Finding("racecheck", "two threads write y", "error" if is_race else "warn", lenient=not is_race)
            findings = (race,) if "racecheck" in instrument else ()
        elif ends and y.size:
            y.reshape(-1)[-1] = 3 if np.isfinite(x.reshape(-1)[-1]) and x.reshape(-1)[-1] != 3 else 5
        return Outcome(arrays.case, "cpu", {"y": y}, {}, findings, (), tuple(instrument))


def planted_spec(
    folder: Path, dims: str, *, shape: str, constraints: str = "", values: str = "normal, {uniform: [-1, 1]}"
) -> OpSpec:
    """A spec of one input and one output of its shape."""
    for path, text in (
        ("kernels/k.py", "def kernel(x, y): ...\n"),
        ("references/r.py", "def same(x):\n    return x\n"),
        ("kcheck.yaml", ""),
        ("specs/planted.yaml", SPEC.format(dims=dims, shape=shape, constraints=constraints, values=values)),
    ):
        (folder / path).parent.mkdir(exist_ok=True, parents=True)
        (folder / path).write_text(text)
    return load_spec(folder / "specs/planted.yaml")


def failing(spec: OpSpec, device: Planted, count: int = 200) -> Case:
    """The case with the largest sizes of those that fail."""
    from kcheck.generator import materialize

    found = [case for case in plan(spec, count=count, master=5) if device.fails(materialize(spec, case))]
    return max(found, key=lambda case: sum(case.dims.values()))


def minimized(spec: OpSpec, fails: Fails, *, strategy: Strategy = "all", most: int = 400) -> Minimized:
    """The smallest case of those that fail so."""
    device = Planted(fails)
    minimizer = Minimizer(
        spec, KnownFailure(failing(spec, device)), device, most=most, timeout=None, tell=lambda *told: None
    )
    assert minimizer.fails
    minimizer.search(strategy)
    found = minimizer.end()
    assert found.runs == device.runs <= most
    return found
