"""``kcheck coverage``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kcheck.cli.exits import Exit
from kcheck.cli.settings import PROFILE
from kcheck.cli.stored import SINCE

if TYPE_CHECKING:
    from kcheck.cases import Covered
    from kcheck.model import OpSpec


@click.command("coverage")
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path(path_type=Path))
@PROFILE
@click.option("--since", type=SINCE, metavar="WHEN", help="Only runs since then: 24h, 3d, 2026-11-20.")
@click.option(
    "--pairs", "most", type=click.IntRange(min=0), default=5, show_default=True, help="Missing pairs to list."
)
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", help="Output format.")
def command(paths: tuple[Path, ...], *, profile: str, since: datetime | None, most: int, format_: str) -> int:
    """Show what the cases that ran have covered: sizes, dtypes, layouts, distributions, params, and pairs of them.

    \b
      kcheck coverage
      kcheck coverage specs/softmax.yaml --since 24h
      kcheck coverage --format json

    Counts the cases of the stored runs that the spec still allows. What is possible is found by drawing cases
    without running them. Default paths: all specs of the project.
    """
    from kcheck.cases import covered
    from kcheck.cli.measured import specs_of
    from kcheck.cli.specs import none_found, project_specs
    from kcheck.store import Store

    paths = paths or project_specs("coverage")
    specs = specs_of(paths)
    if not specs:
        click.echo(f"kcheck: {none_found(paths, may_recurse=False)}", err=True)
        return Exit.NOTHING
    found = []
    for spec in specs:
        with Store.open(Path(spec.root)) as store:
            found.append((spec, covered(spec, store.cases(spec.op, since), most)))
    if format_ == "json":
        click.echo(
            json.dumps([{"spec": spec.path, "op": spec.op, **asdict(each)} for spec, each in found], indent=1)
        )
        return Exit.GOOD
    for number, (spec, each) in enumerate(found):
        for line in [*([""] if number else []), *_lines(spec, each)]:
            click.echo(line)
    return Exit.GOOD


def _lines(spec: OpSpec, found: Covered) -> Iterator[str]:
    """A spec: a row for each factor, then the pairs; at the width of the terminal."""
    from kcheck.cli.outputs import columns
    from kcheck.report import layout, plain, wording

    width = columns()
    yield from layout.wrap([plain.line(spec.path), f"· {wording.count(found.cases, 'case')}"], " ", width)
    if not found.cases:
        yield "  none of its cases has run; run: kcheck run " + plain.line(spec.path)
        return
    label = max(len(factor.name) for factor in found.factors)
    for factor in found.factors:
        every = len(factor.run) + len(factor.missing)
        parts = [f"{len(factor.run):>3} of {every:<3}"]
        parts += [f"not run: {', '.join(factor.missing)}"] if factor.missing else []
        parts += [f"impossible: {', '.join(factor.never)}"] if factor.never else []
        head = f"  {plain.line(factor.name):<{label}}  "
        words = "  ".join(parts).split(" ")
        for number, line in enumerate(layout.wrap(words, " ", max(20, width - len(head)))):
            yield (head if number == 0 else " " * (len(head) + 12)) + line.rstrip()
    share = 100 * found.pairs / found.possible if found.possible else 100
    yield f"  {'pairs':<{label}}  {found.pairs:>3,} of {found.possible:,} ({share:.0f}%)"
    for one, other in found.missing:
        yield f"  {'':<{label}}    not run: {plain.line(one)} with {plain.line(other)}"
