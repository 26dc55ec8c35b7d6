"""One buggy twin, minimized and checked from all sides: a separate process, for ``benchmarks.minimize``."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.evidence.corpus import Twin, control_spec, twins
from benchmarks.minimize.smallest import smallest
from kcheck.device import Device, choose
from kcheck.generator import plan, restore
from kcheck.minimizer import Minimizer
from kcheck.minimizer.order import free_dims
from kcheck.minimizer.trials import FailureKind
from kcheck.model import Case, OpSpec, Status
from kcheck.runner import KnownFailure, execute
from kcheck.specfile import load_spec
from kcheck.store import bits
from kcheck.store.kcase import Kcase, write_kcase
from kcheck.version import __version__

CASES = 30
"""Cases to draw; of those that fail the largest is minimized, which is the hardest."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The result for one twin.

    Attributes:
        rule: the rule that it fails by.
        before, dims: drawn sizes of the failing case, and of the smallest one.
        true: the true smallest ones; None if there are too many to try.
        tried: how many assignments of sizes were tried to find them.
        runs, seconds: of the minimizer.
        control_passes: whether the correct kernel passes the smallest case.
        matters: the first sentence.
    """

    name: str
    rule: str
    before: dict[str, int]
    dims: dict[str, int]
    true: dict[str, int] | None
    tried: int
    runs: int
    seconds: float
    whole: bool
    control_passes: bool
    matters: str

    @property
    def off(self) -> int | None:
        """How far the worst size is from the true smallest one; None if that is unknown."""
        return None if self.true is None else max((abs(self.dims[d] - self.true[d]) for d in self.dims), default=0)


def measure(twin: Twin, folder: Path) -> Measured:
    """Minimize a failing case of a twin.

    Args:
        folder: where the exported case goes.

    Raises:
        LookupError: none of its cases failed.
    """
    device = choose("cpu", [])
    spec = load_spec(twin.spec)
    case, rule = _failing(spec, device)
    minimizer = Minimizer(spec, KnownFailure(case, rule), device, timeout=20, tell=lambda *told: None)
    minimizer.search()
    found = minimizer.end()
    names = free_dims(spec)
    dims = {name: found.case.dims[name] for name in names}
    file = folder / f"{twin.name}.kcase"
    captured = found.captured
    content = io.BytesIO()
    write_kcase(content, Kcase(captured.snapshot, found.executed.verdict, bits(captured.outputs)), __version__)
    file.write_bytes(content.getvalue())
    control = control_spec(twin.of)
    same = replace(found.case, spec=control.path, op=control.op)
    arrays = restore(replace(captured.snapshot, case=same))
    clean = execute(control, same, device, timeout=20, arrays=arrays)
    true = smallest(spec, dims, FailureKind.of(minimizer.first.verdict), device, case.seed)
    return Measured(
        name=twin.name,
        rule=rule,
        before={name: case.dims[name] for name in names},
        dims=dims,
        true=None if true is None else true.dims,
        tried=0 if true is None else true.assignments,
        runs=found.runs,
        seconds=found.seconds,
        whole=found.whole,
        control_passes=clean.verdict.status is Status.PASSED,
        matters=found.matters[0] if found.matters else "",
    )


def _failing(spec: OpSpec, device: Device) -> tuple[Case, str]:
    failing = []
    for case in plan(spec, count=CASES, master=0):
        verdict = execute(spec, case, device, timeout=20).verdict
        if verdict.status is Status.FAILED:
            failing.append((sum(case.dims.values()), case, verdict.rule))
    if not failing:
        raise LookupError(f"{spec.op}: none of {CASES} cases failed")
    _, case, rule = max(failing, key=lambda each: each[0])
    return case, rule


def main() -> None:
    """Measure one twin; print only its answer, as JSON, to stdout."""
    name, folder = sys.argv[1:]
    (twin,) = (twin for twin in twins() if twin.name == name)
    out, sys.stdout = sys.stdout, sys.stderr  # kernels may print
    print(json.dumps(asdict(measure(twin, Path(folder)))), file=out)


if __name__ == "__main__":
    main()
