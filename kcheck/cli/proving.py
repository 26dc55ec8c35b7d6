"""``kcheck run --prove``."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import click

from kcheck.cli.exits import Exit
from kcheck.errors import InternalError
from kcheck.model import OpSpec, SpecRefused


def prove_first(specs: Sequence[OpSpec | SpecRefused]) -> None:
    """Run ``kcheck prove`` on specs, in its own process: the device of this one may not be cpu. What it refutes is
    stored, so the run finds it again; errors in specs are the run's to report.

    Raises:
        UserError: the solver is not installed.
        InternalError: an error in kcheck itself.
    """
    from kcheck.prover.prover import require_solver
    from kcheck.runner.advise import as_typed_spec

    require_solver("--prove")
    paths = dict.fromkeys(as_typed_spec(spec) for spec in specs if isinstance(spec, OpSpec))
    if not paths:
        return
    command = [sys.executable, "-m", "kcheck", "prove", *paths]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == Exit.FAULT:
        raise InternalError(f"kcheck prove: {done.stderr.strip()}")
    if done.returncode == Exit.INTERRUPTED:
        raise click.Abort
