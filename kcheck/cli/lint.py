"""``kcheck lint``."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kcheck.cli.exits import Exit
from kcheck.cli.params import COLOR

if TYPE_CHECKING:
    from kcheck.model import OpSpec, SpecRefused
    from kcheck.runner.linting import Linted


class _Target(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2 only
    """``sm_80``, or ``8.0`` and ``80`` for short."""

    name = "target"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        found = re.fullmatch(r"(?:sm_)?(\d{1,2})\.?(\d)([af]?)", str(value))
        if found is None:
            self.fail(f"{value!r} is not a target; write sm_80, sm_90 or another one", param, ctx)
        return f"sm_{found[1]}{found[2]}{found[3]}"


class _BlockType(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2 only
    """``256`` or ``16,16``."""

    name = "block"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int, int]:
        found = re.fullmatch(r"(\d+)(?:,(\d+))?(?:,(\d+))?", str(value))
        sizes = [int(size or 1) for size in found.groups()] if found else [0]
        threads = sizes[0] * sizes[-1] * sizes[len(sizes) // 2] if found else 0
        if not 1 <= threads <= 1024:
            self.fail(f"{value!r} is not a block size; write 256 or 16,16 (at most 1024 threads)", param, ctx)
        return sizes[0], sizes[1], sizes[2]


@click.command("lint")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[SPEC|KERNEL]...")
@click.option("-r", "--recursive", is_flag=True, help="Include specs in subfolders.")
@click.option(
    "--ptx",
    "files",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Lint a PTX file instead of specs (repeatable).",
)
@click.option(
    "--entry", default="", metavar="NAME", help="With --ptx: lint only this kernel (part of its name is enough)."
)
@click.option(
    "--block",
    type=_BlockType(),
    metavar="X[,Y[,Z]]",
    help="With --ptx: number of threads per block, for occupancy.",
)
@click.option(
    "--target",
    "targets",
    type=_Target(),
    multiple=True,
    metavar="SM",
    help="Compile for this target instead of the spec's `artifact: targets` (repeatable).",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Fail (exit 1) on warnings, and if a check in `artifact:` could not run.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json"]),
    default="text",
    help="Output format.",
)
@COLOR
def command(
    *,
    paths: tuple[Path, ...],
    recursive: bool,
    files: tuple[Path, ...],
    entry: str,
    block: tuple[int, int, int] | None,
    targets: tuple[str, ...],
    strict: bool,
    format_: str,
    color: str,
) -> int:
    """Measure compiled kernels and check the limits in `artifact:`.

    Shows the following for each target and each specialization (combination of dtypes and layouts) of a spec:
    registers, spills, and bytes of stack, shared and constant memory, as ptxas allocates them; PTX instructions by
    kind, and machine instructions if nvdisasm is installed; theoretical occupancy. Warns about code that is likely
    to be slow. Needs no GPU. Default paths: all specs of the project.

    \b
      kcheck lint                              every spec of this project
      kcheck lint kernels/softmax.py           the specs that use this file
      kcheck lint specs/matmul.yaml --target sm_90
      kcheck lint --ptx kernel.ptx --block 256
    """
    if files and paths:
        raise click.UsageError("--ptx and specs cannot be combined")
    if not files and (entry or block):
        raise click.UsageError("--entry and --block need --ptx")
    from kcheck.cli.outputs import claimed_stdout
    from kcheck.cli.specs import none_found, project_specs

    paths = paths if paths or files else project_specs("lint")

    with claimed_stdout():
        found = list(_of_ptx(files, entry, targets, block) if files else _of_specs(paths, recursive, targets))
    if not found:
        click.echo(f"kcheck: {none_found(paths, may_recurse=not recursive)}", err=True)
        return Exit.NOTHING
    if format_ == "json":
        from kcheck.device.disassembler import find_disassembler

        program = find_disassembler() or None
        click.echo(json.dumps({"disassembler": program, "lint": [_as_json(one) for one in found]}, indent=1))
    else:
        _tell(found, color)
    short = any(linted.unchecked or any(metric.advice for metric in linted.metrics) for linted in found)
    broken = any(linted.findings or any(m.problem for m in linted.metrics) for linted in found)
    return Exit.FAILED if broken or (strict and short) else Exit.GOOD


def _of_ptx(
    files: Sequence[Path], entry: str, targets: Sequence[str], block: tuple[int, int, int] | None
) -> Iterator[Linted]:
    from kcheck.errors import KernelError, PtxError, UserError
    from kcheck.runner.linting import lint_ptx

    for path in files:
        try:
            text = path.read_bytes().rstrip(b"\0").decode("utf-8-sig")
            yield lint_ptx(text, str(path), entry, targets, block)
        except UnicodeDecodeError as error:
            raise UserError(f"{path}: not PTX: it is not text (byte {error.start})") from error
        except (PtxError, KernelError) as error:
            raise UserError(str(error)) from error


def _of_specs(paths: Sequence[Path], recursive: bool, targets: Sequence[str]) -> Iterator[Linted]:
    from kcheck.cli.specs import collect
    from kcheck.device import choose
    from kcheck.errors import SpecError
    from kcheck.model import SpecRefused
    from kcheck.runner.linting import lint_spec

    specs: tuple[OpSpec | SpecRefused, ...] = collect(paths, recursive=recursive)
    faults = [fault for spec in specs if isinstance(spec, SpecRefused) for fault in spec.faults]
    if faults:
        raise SpecError(faults)
    whole = [spec for spec in specs if not isinstance(spec, SpecRefused)]
    # Which kernels a launcher launches is known only after it runs, which the cpu device can do without a GPU.
    device = choose("cpu", targets) if any(spec.launcher is not None for spec in whole) else None
    for spec in whole:
        yield lint_spec(spec, device, targets, sass=True, timeout=_timeout(spec))


def _timeout(spec: OpSpec) -> float | None:
    """The time limit of a case of a launcher, in seconds: KCHECK_TIMEOUT, or that of the project."""
    from kcheck.cli.params import SECONDS
    from kcheck.cli.settings import settings_for

    given = os.environ.get("KCHECK_TIMEOUT")
    if given:
        limit: float | None = SECONDS.convert(given, None, click.get_current_context())
        return limit
    return settings_for([Path(spec.root)]).timeout


def _tell(found: Sequence[Linted], color: str) -> None:
    from kcheck.cli.outputs import columns, painter
    from kcheck.report import layout, plain, wording
    from kcheck.report.lint_text import lint_lines

    paint, colored = painter(color, sys.stdout)
    width = columns()
    for linted in found:
        for line in lint_lines(
            linted.op, linted.path, linted.metrics, linted.findings, linted.notes, width=width, paint=paint
        ):
            click.echo(layout.encodable(line, sys.stdout.encoding), color=colored)
    for note in _without_sass(found):
        for line in layout.wrap(plain.line(f"note: {note}").split(" "), " ", width):
            click.echo(layout.encodable(line, sys.stdout.encoding))
    metrics = [metric for linted in found for metric in linted.metrics]
    broken = sum(len(linted.findings) for linted in found)
    missed = sum(bool(linted.unchecked) for linted in found)
    advice = {(f.rule, f.kernel, f.place) for metric in metrics for f in metric.advice}
    total = (
        f"{wording.count(len(metrics), 'specialization')} of "
        f"{wording.count(len({(m.kernel, m.place) for m in metrics}), 'kernel')}: "
        f"{wording.count(broken, 'violation')}, {wording.count(len(advice), 'warning')}"
        + (f", {wording.count(missed, 'spec')} not checked in full" if missed else "")
    )
    for line in layout.wrap(total.split(" "), " ", width):
        click.echo(line)


def _without_sass(found: Sequence[Linted]) -> Iterator[str]:
    """One note for each reason why there is no machine code: which checks were not made."""
    reasons = dict.fromkeys(reason for linted in found for reason in linted.no_sass)
    for reason in reasons:
        missed = [one.op for one in found if one.unchecked and reason in one.no_sass]
        if missed:
            yield f"SASS patterns of {', '.join(missed)} were not checked: {reason}"
        else:
            yield f"SASS was not examined: {reason}"


def _as_json(linted: Linted) -> dict[str, Any]:
    made = asdict(linted)
    for row, metric in zip(made["metrics"], linted.metrics, strict=True):
        if metric.resources is not None:
            row["resources"]["spills"] = metric.resources.spills
    return made
