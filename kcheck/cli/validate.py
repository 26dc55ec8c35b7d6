"""``kcheck validate``."""

from __future__ import annotations

from pathlib import Path

import click

from kcheck.cli.exits import Exit


@click.command("validate")
@click.argument("paths", nargs=-1, metavar="[SPEC]...", type=click.Path(path_type=Path))
@click.option("-r", "--recursive", is_flag=True, help="Include specs in subfolders.")
@click.option(
    "--touched",
    is_flag=True,
    help="Treat SPECs as changed files: check the specs among them and the specs that use them. No error if "
    "nothing matches.",
)
def command(paths: tuple[Path, ...], recursive: bool, touched: bool) -> int:
    """Check op specs for mistakes without running anything.

    \b
      kcheck validate                        every spec of this project
      kcheck validate specs/softmax.yaml     one spec

    Prints every mistake as file:line:col: message; fix. Does not import your code. A folder selects the specs in
    it; a Python file selects the specs that use it. Default paths: all specs of the project.
    """
    from kcheck.cli.specs import collect, none_found, project_specs
    from kcheck.model import SpecRefused
    from kcheck.report import plain, wording

    paths = paths or (() if touched else project_specs("validate"))
    specs = collect(paths, recursive=recursive, touched=touched)
    refused = [spec for spec in specs if isinstance(spec, SpecRefused)]
    if not specs and touched:
        return Exit.GOOD
    if not specs:
        click.echo(f"kcheck: {none_found(paths, may_recurse=not recursive)}", err=True)
        return Exit.NOTHING
    for spec in refused:
        for fault in spec.faults:
            click.echo(plain.line(str(fault)))
    if refused:
        faults = sum(len(spec.faults) for spec in refused)
        among = "" if len(refused) == len(specs) else f"{len(refused)} of "
        click.echo(f"{wording.count(faults, 'error')} in {among}{wording.count(len(specs), 'spec')}")
        return Exit.USAGE
    click.echo(f"{wording.count(len(specs), 'spec')} valid")
    return Exit.GOOD
