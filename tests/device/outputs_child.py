"""Run cases of a spec on a device and save what came out: ``outputs_child.py DEVICE SPEC COUNT FILE.npz``."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from kcheck.device import choose
from kcheck.generator import materialize, plan
from kcheck.oracle import judge
from kcheck.specfile import load_spec


def main(device_name: str, path: str, count: str, file: str) -> None:
    """One array per output and case, in float64, and one with the verdict."""
    device = choose(device_name)
    spec = load_spec(Path(path))
    device.prepare(spec)
    made = {}
    for case in plan(spec, count=int(count), master=7):
        arrays = materialize(spec, case)
        outcome = device.run(spec, arrays, timeout=120)
        verdict = judge(spec, arrays, outcome)
        said = [str(verdict.status), *(f.rule for f in verdict.findings), *(c.output for c in verdict.comparisons)]
        made[f"{case.id}/verdict"] = np.array(said)
        for name, values in outcome.outputs.items():
            made[f"{case.id}/{name}"] = values.astype(np.float64)
            made[f"{case.id}/{name}/dtype"] = np.array(arrays.allocation(name).dtype.name)
    np.savez(file, **made)


if __name__ == "__main__":
    main(*sys.argv[1:])
