"""No spec of the project would pass a kernel that computes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcheck.generator import materialize, plan
from kcheck.oracle import Vacuity
from kcheck.specfile import load_spec

ROOT = Path(__file__).resolve().parents[2]
SPECS = sorted((ROOT / "specs").glob("*.yaml"))


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_a_spec_refutes_what_computes_nothing(path: Path) -> None:
    """Zeros, constants and copies are refuted by its first few cases: `--strict` holds, and costs nothing."""
    spec, vacuity = load_spec(path), Vacuity()
    for case in plan(spec, count=min(spec.count, 10), master=spec.seed):
        vacuity.observe(spec, materialize(spec, case))
        if vacuity.settled:
            return
    raise AssertionError(vacuity.findings() or vacuity.undecided)
