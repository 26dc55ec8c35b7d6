"""``kcheck diff``."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from kcheck.cli.exits import Exit
from kcheck.cli.measured import project, specs_of, take, versions
from kcheck.cli.params import COLOR, DEVICE, where_options

if TYPE_CHECKING:
    from kcheck.model.baseline import Baseline
    from kcheck.runner.regression import Difference


@click.command("diff")
@click.argument("name")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[SPEC]...")
@DEVICE
@where_options
@click.option("--fail-on-regression", is_flag=True, help="Exit with 1 if a number is worse than its limit allows.")
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", help="Output format.")
@COLOR
def command(
    name: str,
    paths: tuple[Path, ...],
    *,
    device: str,
    fail_on_regression: bool,
    format_: str,
    color: str,
    **where: Any,
) -> int:
    """Show regressions and improvements against the baseline NAME.

    \b
      kcheck diff v1
      kcheck diff v1 --fail-on-regression    exit with 1 on a regression, for CI

    Runs the same cases again and lints the kernels. `regression:` in a spec or in kcheck.yaml sets how much worse
    a number may get: {registers: +4, spills: 0, error: 1.5x}. Default paths: the specs of the baseline.
    """
    from kcheck.cli.outputs import claimed_stdout
    from kcheck.report import plain
    from kcheck.runner.regression import difference
    from kcheck.specfile.project import read_project
    from kcheck.store import baselines

    root = project(paths)
    before = baselines.load(root, name)
    limits = read_project(root).settings().regression
    asked = paths or tuple(path for part in before.paths if (path := root / part).exists())
    specs = [
        replace(spec, count=known.count, seed=known.seed) if (known := before.ops.get(spec.op)) else spec
        for spec in (specs_of(asked) if asked else [])
    ]
    with claimed_stdout() as out:
        taken = take(specs, device)
        if taken.interrupted:
            click.echo("interrupted: nothing was compared", file=out)
            return Exit.INTERRUPTED
        ops = before.ops
        if paths:  # ops that were not selected must not be reported as gone
            ops = {op: found for op, found in ops.items() if any(spec.op == op for spec in specs)}
        by_op = {spec.op: {**limits, **spec.regression} for spec in specs}
        found = difference(ops, taken.ops, by_op, (before.versions, versions()))
        if format_ == "json":
            made = asdict(found) | {"notes": taken.notes, "regressions": len(found.regressions)}
            click.echo(json.dumps(made, indent=1), file=out)
        else:
            for note in taken.notes:
                click.echo(f"note: {plain.line(note)}", file=out)
            _tell(before, found, color, out)
    return Exit.FAILED if fail_on_regression and found.regressions else Exit.GOOD


def _tell(before: Baseline, found: Difference, color: str, out: TextIO) -> None:
    from kcheck.cli.outputs import columns, painter
    from kcheck.report import layout, plain, wording
    from kcheck.report.diff_text import change_lines
    from kcheck.report.lint_text import short_types

    paint, colored = painter(color, out)
    width = columns()
    lines = list(change_lines(found.changes, width, paint))
    for mark, kernels in (("new", found.new), ("gone", found.gone)):
        for op, kernel, target, types in kernels:
            what = "  ".join(part for part in (op, kernel, target, short_types(types)) if part)
            lines.append(layout.cut_end(plain.line(f"{mark:<4}  {what}"), width))
    for op in found.other_cases:
        lines += layout.wrap(
            f"note: {plain.line(op)} ran different cases than before because its spec has changed; the "
            "errors cannot be compared".split(" "),
            " ",
            width,
        )
    if found.versions:
        told = ", ".join(f"{name} {was} → {now}" for name, was, now in found.versions)
        cause = ", a likely cause of the changes" if found.changes else ""
        lines += layout.wrap(
            f"the toolchain differs from that of {before.name}: {told}{cause}".split(" "), " ", width
        )
    for line in lines:
        click.echo(layout.encodable(line, getattr(out, "encoding", None)), file=out, color=colored)
    if lines:
        click.echo("", file=out)
    better = sum(change.kind == "better" for change in found.changes)
    within = sum(change.kind == "within" for change in found.changes)
    click.echo(
        f"since {before.name}: {wording.count(len(found.regressions), 'regression')}, "
        f"{within} worse within limits, "
        f"{better} better, {len(found.new)} new, {len(found.gone)} gone",
        file=out,
    )
