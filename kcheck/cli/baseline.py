"""``kcheck baseline``: save, list, show, rm."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from kcheck.cli.exits import Exit
from kcheck.cli.measured import project, specs_of, take, versions
from kcheck.cli.params import CASES, DEVICE, SEED, where_options


@click.group("baseline")
def command() -> None:
    """Save, list and remove baselines.

    \b
      kcheck baseline save v1
      kcheck baseline list
      kcheck diff v1                     compare with it later

    A baseline records numeric errors, passed cases, registers, spills, instructions and occupancy of every op.
    Baselines are files in the project's baselines/ folder; commit them.
    """


@command.command("save")
@click.argument("name")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[SPEC]...")
@DEVICE
@where_options
@click.option("--cases", type=CASES, metavar="N", help="Number of cases per spec (default: the spec's).")
@click.option("--seed", type=SEED, metavar="S", help="Master seed of the cases (default: the spec's).")
def save(
    name: str, paths: tuple[Path, ...], *, device: str, cases: int | None, seed: int | None, **where: Any
) -> int:
    """Run specs, lint their kernels, and save the numbers as NAME. Default paths: all specs of the project.

    Replaces an existing baseline of the same name.
    """
    from kcheck.cli.outputs import claimed_stdout
    from kcheck.cli.specs import none_found, project_specs
    from kcheck.model.baseline import Baseline
    from kcheck.report import plain, wording
    from kcheck.specfile.paths import shown
    from kcheck.store import baselines

    paths = paths or project_specs("baseline save NAME")
    root = project(paths)
    baselines.check_writable(root, name)
    specs = [
        replace(
            spec,
            count=spec.count if cases is None else cases,
            seed=spec.seed if seed is None else seed,
        )
        for spec in specs_of(paths)
    ]
    if not specs:
        click.echo(f"kcheck: {none_found(paths, may_recurse=False)}", err=True)
        return Exit.NOTHING
    with claimed_stdout() as out:
        taken = take(specs, device)
        for note in taken.notes:
            click.echo(f"note: {plain.line(note)}", file=out)
        if taken.interrupted:
            click.echo("interrupted: no baseline was saved", file=out)
            return Exit.INTERRUPTED
        if not taken.ops:
            click.echo("kcheck: error: no spec could be measured; no baseline was saved", err=True)
            return Exit.USAGE
        asked = tuple(Path(os.path.relpath(path.resolve(), root.resolve())).as_posix() for path in paths)
        replaced = baselines.path_of(root, name).exists()
        path = baselines.save(root, Baseline(name, versions(), asked, taken.ops))
        failed = {op: found.failed for op, found in taken.ops.items() if found.failed}
        for op, count in failed.items():
            click.echo(
                f"note: {wording.count(count, 'case')} of {plain.line(op)} failed; saved as failures",
                file=out,
            )
        if replaced:
            click.echo(f"note: replaced the earlier baseline {plain.line(name)!r}", file=out)
        kernels = sum(len(found.kernels) for found in taken.ops.values())
        click.echo(
            f"wrote {shown(path)}: {wording.count(len(taken.ops), 'op')}, "
            f"{wording.count(kernels, 'specialization')}, "
            f"{wording.count(sum(f.passed + f.failed for f in taken.ops.values()), 'case')}",
            file=out,
        )
    return Exit.GOOD


@command.command("list")
def list_() -> int:
    """List the baselines of this project."""
    from kcheck.report import wording
    from kcheck.store import baselines

    root = project(())
    names = baselines.names(root)
    if not names:
        click.echo("no baselines; save one with: kcheck baseline save NAME")
    for name in names:
        found = baselines.load(root, name)
        kernels = sum(len(op.kernels) for op in found.ops.values())
        made = "  ".join(
            f"{key} {value}" for key, value in found.versions.items() if key in ("kcheck", "numba-cuda")
        )
        ops, compiled = wording.count(len(found.ops), "op"), wording.count(kernels, "specialization")
        click.echo(f"{name:<16}  {ops:>7}  {compiled:>19}  {made}")
    return Exit.GOOD


@command.command("show")
@click.argument("name")
@click.argument("ops", nargs=-1, metavar="[OP]...")
def show(name: str, ops: tuple[str, ...]) -> int:
    """Show the numbers in a baseline, for every op or the named ones."""
    from kcheck.errors import UserError
    from kcheck.nearest import did_you_mean
    from kcheck.report import plain, wording
    from kcheck.report.lint_text import short_types
    from kcheck.store import baselines

    found = baselines.load(project(()), name)
    for op in ops:
        if op not in found.ops:
            raise UserError(
                f"baseline {name!r} has no op {op!r}; {did_you_mean(op, found.ops) or 'see kcheck baseline show'}"
            )
    click.echo("  ".join(f"{key} {value}" for key, value in found.versions.items()))
    for op in ops or tuple(found.ops):
        held = found.ops[op]
        cases = f"{held.passed} of {wording.count(held.passed + held.failed, 'case')} passed on {held.device}"
        click.echo(f"\n{plain.line(op)}  {plain.line(held.spec)}  {cases}")
        for dtype, errors in held.errors.items():
            unit = "noise floors" if errors.unit == "floor" else "allowed errors"
            numbers = f"median {errors.median:.2g}  p95 {errors.p95:.2g}  largest {errors.largest:.2g}"
            click.echo(f"  {dtype:<9} error in {unit}: {numbers}  max ulp {wording.ulps(errors.ulp)}")
        for (kernel, target, types), numbers_of in held.kernels.items():
            click.echo(f"  {plain.line(kernel)}  {target}  {short_types(types)}")
            shown = [
                f"{key} {value:g}" for key, value in numbers_of.items() if value or key in ("registers", "spills")
            ]
            for line in _wrapped(shown):
                click.echo(f"    {line}")
    return Exit.GOOD


def _wrapped(words: list[str]) -> list[str]:
    from kcheck.report import layout

    return list(layout.wrap(words, "  ", 76))


@command.command("rm")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def remove(names: tuple[str, ...]) -> int:
    """Delete baselines."""
    from kcheck.store import baselines

    root = project(())
    for name in names:
        baselines.remove(root, name)
        click.echo(f"removed {name}", file=sys.stdout)
    return Exit.GOOD
