"""What ``kcheck baseline save`` and ``kcheck diff`` share: run specs, lint their kernels, keep the numbers."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from kcheck.dataclass import dataclass
from kcheck.errors import SpecError, UserError
from kcheck.model.note import is_note
from kcheck.version import __version__

if TYPE_CHECKING:
    from kcheck.model import OpSpec
    from kcheck.model.baseline import OpBaseline


@dataclass(frozen=True, slots=True)
class Taken:
    """Measurements by op; the notes list what was not measured.
    After Ctrl-C, ``interrupted`` is true and ``ops`` is empty."""

    ops: dict[str, OpBaseline]
    notes: tuple[str, ...]
    interrupted: bool


def project(paths: Sequence[Path]) -> Path:
    """The project root of the paths, or of the current folder.

    Raises:
        UserError: they are in several projects, or in none.
    """
    from kcheck.specfile.paths import NO_PROJECT, nearest_root

    roots = {nearest_root(path) for path in paths or (Path("."),)}
    if None in roots:
        raise UserError(f"{NO_PROJECT}; change to your project, or create an empty kcheck.yaml in its root")
    if len(roots) > 1:
        raise UserError(f"a baseline covers one project, but these specs are in {len(roots)} projects")
    root = roots.pop()
    assert root is not None
    return root


def specs_of(paths: Sequence[Path]) -> list[OpSpec]:
    """The specs at paths.

    Raises:
        SpecError: one of them is invalid, or a path does not exist.
    """
    from kcheck.cli.specs import collect
    from kcheck.model import OpSpec

    found = collect(paths, recursive=False)
    faults = [fault for spec in found if not isinstance(spec, OpSpec) for fault in spec.faults]
    if faults:
        raise SpecError(faults)
    return [spec for spec in found if isinstance(spec, OpSpec)]


def versions() -> dict[str, str]:
    """The versions of the packages and tools that compile and measure kernels."""
    from kcheck.device.artifact import no_compiler

    found = {
        "kcheck": __version__,
        "numba": metadata.version("numba"),
        "numba-cuda": metadata.version("numba-cuda"),
    }
    if not no_compiler():
        from kcheck.driver.cubin import assembler_version

        found["assembler"] = assembler_version()
    return found


def take(specs: Sequence[OpSpec], device: str) -> Taken:
    """Run the cases of specs and lint their kernels."""
    from kcheck.cli.executors import executor_for
    from kcheck.cli.interrupt import Interrupts
    from kcheck.cli.settings import given, settings_for
    from kcheck.device import choose_for
    from kcheck.errors import KernelError
    from kcheck.model import SpecStarted
    from kcheck.report import progress_bar
    from kcheck.runner import Options, run_with
    from kcheck.runner.linting import lint_spec
    from kcheck.runner.regression import ResultCollector

    settings = settings_for([Path(spec.root) for spec in specs])
    device = given("device", settings.device)
    command = shlex.join(["kcheck", *sys.argv[1:]])
    interrupts = Interrupts()
    bar = progress_bar(sys.stderr) if sys.stderr.isatty() and os.environ.get("TERM") != "dumb" else None
    running: ResultCollector | None = None
    notes: list[str] = []
    interrupted = False
    # `lint_spec` checks `artifact` below. `whole` computes the noise floor of every case, in which errors are
    # measured.
    bare = [replace(spec, artifact=None, tolerance=replace(spec.tolerance, whole=True)) for spec in specs]
    options = Options(command=command, timeout=settings.timeout, device="" if device == "auto" else device)
    jobs = given("jobs", settings.jobs)
    with interrupts.installed(), executor_for(bare, options, device, jobs) as executor:
        events = run_with(executor, bare, options)
        collectors = {(spec.root, spec.path): ResultCollector(spec, executor.name) for spec in specs}
        for event in events:
            with interrupts.held():
                if bar is not None:
                    bar.handle(event)
                if isinstance(event, SpecStarted):
                    running = collectors[event.root, event.path]
                elif running is not None:
                    running.handle(event)
                notes += [str(fault) for fault in getattr(event, "faults", ())]
                interrupted |= getattr(event, "interrupted", False)
        if bar is not None:
            bar.close()
    ops: dict[str, OpBaseline] = {}
    if interrupted:  # half a measurement is useless
        return Taken(ops, tuple(notes), True)
    chosen = choose_for(specs, device)
    for spec in specs:
        collector = collectors[spec.root, spec.path]
        if not collector.passed + collector.failed:
            continue
        try:
            linted = lint_spec(spec, chosen, ())
        except KernelError as error:
            notes.append(str(error))
            continue
        notes += [f"{spec.op}: {note}" for note in linted.notes if not is_note(note, "occupancy")]
        ops[spec.op] = collector.result(linted.metrics)
    return Taken(ops, tuple(dict.fromkeys(notes)), False)
