"""``kcheck calibrate``."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from kcheck.cli.exits import Exit, worst
from kcheck.cli.params import CASES, DEVICE, SEED, TIME_LIMIT, tags_option, where_options
from kcheck.cli.settings import given, settings_for
from kcheck.version import __version__

if TYPE_CHECKING:
    from kcheck.model import Calibration, OpSpec
    from kcheck.runner import Measured, Options

_OP_CELLS = 20


@click.command("calibrate")
@click.argument("paths", nargs=-1, required=True, metavar="SPEC...", type=click.Path(path_type=Path))
@click.option("-r", "--recursive", is_flag=True, help="Include specs in subfolders.")
@DEVICE
@where_options
@click.option("--cases", type=CASES, metavar="N", default=100, show_default=True, help="Number of cases per spec.")
@click.option(
    "--seed",
    type=SEED,
    metavar="S",
    help="Master seed of the cases (default: derived from the spec's seed, so that the cases differ from those "
    "of `kcheck run`).",
)
@tags_option("Calibrate only specs")
@TIME_LIMIT
@click.option("--allow-failing", is_flag=True, help="Also measure kernels that fail cases.")
def command(
    paths: tuple[Path, ...],
    *,
    recursive: bool,
    device: str,
    cases: int,
    seed: int | None,
    tags: tuple[str, ...],
    timeout: float | None,
    allow_failing: bool,
    **where: Any,
) -> int:
    """Measure the errors of correct kernels, for `tolerance: calibrated`.

    \b
      kcheck calibrate specs/softmax.yaml
      kcheck calibrate specs --cases 200

    Runs each spec and writes 1.5 times the 95th percentile of its errors, per op and output dtype, to
    calibration.yaml in the project root. Commit that file. Ops that are not run keep their entries. The kernels
    must be correct: a kernel that fails a case is not measured (exit 1).
    """
    from kcheck.cli.specs import collect, no_tag, none_found
    from kcheck.model import OpSpec
    from kcheck.report import plain
    from kcheck.runner import Options, select
    from kcheck.runner.calibrate import measured_spec

    settings = settings_for(paths)
    device, timeout = given("device", settings.device), given("timeout", settings.timeout)
    specs_found = collect(paths, recursive=recursive)
    found = select(specs_found, tags)
    if not found:
        why = no_tag(specs_found, tags) if specs_found else none_found(paths, may_recurse=not recursive)
        click.echo(f"kcheck: {why}", err=True)
        return Exit.NOTHING
    refused = [spec for spec in found if not isinstance(spec, OpSpec)]
    for spec in refused:
        for fault in spec.faults:
            click.echo(plain.line(str(fault)), err=True)
    specs = [measured_spec(spec, cases, seed) for spec in found if isinstance(spec, OpSpec)]
    options = Options(
        command=shlex.join(["kcheck", *sys.argv[1:]]), timeout=timeout, device="" if device == "auto" else device
    )
    done = _measure(specs, options, (device, given("jobs", settings.jobs)), allow_failing)
    if done is None:
        return Exit.INTERRUPTED
    return worst(
        code
        for code, happened in (
            (Exit.USAGE, refused or any(one.refusal and not one.failed for one in done)),
            (Exit.FAILED, any(one.refusal and one.failed for one in done)),
        )
        if happened
    )


def _measure(
    specs: Sequence[OpSpec], options: Options, where: tuple[str, int | str], allow_failing: bool
) -> list[Measured] | None:
    """Run the specs, show what was measured, and write it; None if it was interrupted.

    Args:
        where: the device, and the number of worker processes.
    """
    from kcheck.cli.executors import executor_for
    from kcheck.cli.interrupt import Interrupts
    from kcheck.cli.outputs import claimed_stdout
    from kcheck.model import RunFinished
    from kcheck.report import layout, plain, progress_bar, wording
    from kcheck.runner import Calibrator, run_with

    files = _CalibrationFiles(specs)
    calibrator, interrupts = Calibrator(specs, allow_failing), Interrupts()
    done: list[Measured] = []
    with ExitStack() as stack:
        stack.callback(files.discard)
        out = stack.enter_context(claimed_stdout())
        stack.enter_context(interrupts.installed())
        bar = progress_bar(sys.stderr) if sys.stderr.isatty() and os.environ.get("TERM") != "dumb" else None
        if bar is not None:
            stack.callback(bar.close)
        executor = stack.enter_context(executor_for(specs, options, *where))
        events = run_with(executor, specs, options)
        name = executor.name if executor.name != "gpu" else f"gpu {executor.description}"
        click.echo(f"kcheck {__version__} · {plain.line(name)} · {wording.count(len(specs), 'spec')}\n", file=out)
        width = min(_OP_CELLS, max((len(spec.op) for spec in specs), default=2))
        click.echo(_row(width, "op", "output", "cases", "median", "95%", "largest", "envelope"), file=out)
        interrupted = False
        try:
            for event in events:
                with interrupts.held():
                    interrupted = isinstance(event, RunFinished) and event.interrupted
                    if bar is not None:
                        bar.handle(event)
                    measured = calibrator.handle(event)
                    if measured is not None:
                        done.append(measured)
                        if bar is not None:
                            bar.close()
                        for line in _lines(measured, width):
                            click.echo(layout.encodable(line, getattr(out, "encoding", None)), file=out)
        except KeyboardInterrupt:
            interrupted = True
        versions = {"kcheck": __version__, "numba-cuda": metadata.version("numba-cuda")}
        good = [one for one in done if not one.refusal and not one.nothing]
        if interrupted:  # half a measurement is useless
            click.echo("\ninterrupted: nothing was written", file=out)
            return None
        files.write({(one.spec.root, one.spec.path): one.calibration(name, versions) for one in good}, out)
    return done


class _CalibrationFiles:
    """The calibration file of each project. It is read and opened for writing before anything runs, and does not
    change unless the run succeeds."""

    def __init__(self, specs: Sequence[OpSpec]) -> None:
        from kcheck.cli.outputs import ReportFile
        from kcheck.specfile.calibration import FILE, read_calibrations

        self._specs = specs
        self._files: dict[str, ReportFile] = {}
        for root in dict.fromkeys(spec.root for spec in specs):
            read_calibrations(Path(root))
        try:
            for root in dict.fromkeys(spec.root for spec in specs):
                self._files[root] = ReportFile(Path(root, FILE), "the file")
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        for file in self._files.values():
            file.discard()

    def write(self, measured: dict[tuple[str, str], Calibration], out: TextIO) -> None:
        """Write the measured ops; the file keeps its other ops."""
        from kcheck.report import wording
        from kcheck.specfile.calibration import calibration_text, read_calibrations
        from kcheck.specfile.paths import shown

        click.echo("", file=out)
        for root, file in self._files.items():
            new = [measured[root, spec.path] for spec in self._specs if (root, spec.path) in measured]
            if not new:
                click.echo(f"nothing to write to {shown(file.path)}", file=out)
                continue
            known = read_calibrations(Path(root))
            replaced = sum(one.op in known for one in new)
            kept = len(known) - replaced
            file.stream.write(calibration_text({**known, **{one.op: one for one in new}}))
            file.commit()
            told = f"{wording.count(len(new), 'op')}" + (f", {replaced} replaced" if replaced else "")
            told += f"; {wording.count(kept, 'op')} kept" if kept else ""
            click.echo(f"wrote {shown(file.path)}: {told}", file=out)


def _row(width: int, op: str, *cells: str) -> str:
    from kcheck.report import layout

    dtype, cases, *numbers = cells
    head = f"{layout.pad(layout.cut_end(op, width), width)}  {dtype:<13}  {cases:>5}"
    return (head + "".join(f"  {number:>8}" for number in numbers)).rstrip()


def _lines(measured: Measured, width: int) -> Iterator[str]:
    from kcheck.report import layout, plain
    from kcheck.runner.calibrate import envelope

    op = measured.spec.op
    if measured.refusal or measured.nothing:
        text = f"not calibrated: {measured.refusal}" if measured.refusal else "integers: nothing to calibrate"
        first = layout.pad(layout.cut_end(op, width), width) + "  "
        for number, line in enumerate(layout.wrap(plain.line(text).split(), " ", 80 - len(first))):
            yield (" " * len(first) if number else first) + line
        if measured.see:
            yield f"{' ' * len(first)}→ {plain.line(measured.see)}"
        return
    for number, (dtype, errors) in enumerate(sorted(measured.errors.items())):
        found = envelope(errors, dtype)
        figures = (f"{size:.1e}" for size in (found.median, found.p95, found.largest, found.envelope))
        yield _row(width, "" if number else op, dtype, str(found.cases), *figures)
