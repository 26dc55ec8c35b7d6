"""``kcheck cases``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from kcheck.cli.exits import Exit
from kcheck.cli.params import CASES, SEED


@click.command("cases")
@click.argument("path", metavar="SPEC", type=click.Path(path_type=Path))
@click.option("--cases", type=CASES, metavar="N", help="How many cases to draw, in place of the spec's own.")
@click.option(
    "--seed", type=SEED, metavar="S", help="Master seed that cases are drawn from, in place of the spec's."
)
@click.option("-k", "keyword", metavar="EXPR", default="", help="List the cases that EXPR selects, as in run.")
def command(path: Path, cases: int | None, seed: int | None, keyword: str) -> int:
    """List the cases of a spec, running nothing.

    One line per case. `kcheck run SPEC --case-seed SEED` runs a drawn one, `kcheck run SPEC -k LABEL` an example.
    """
    from kcheck.cases import plan
    from kcheck.runner import parse_keyword
    from kcheck.specfile import load_spec

    selects = parse_keyword(keyword) if keyword else None
    spec = load_spec(path)
    count = spec.count if cases is None else cases
    planned = plan(spec, count=count, master=spec.seed if seed is None else seed)
    rows = [("case", "seed", "dims", "dtypes", "params", "layouts", "values")]
    rows += [
        (
            case.label,
            str(case.seed),
            _facts(case.dims),
            _facts(case.dtypes),
            _facts(case.params),
            _facts(case.layouts),
            _facts(case.values),
        )
        for case in planned
        if selects is None or selects(case.id, spec.tags)
    ]
    if len(rows) == 1:
        click.echo("kcheck: nothing selected", err=True)
        return Exit.NOTHING
    for line in _aligned(rows):
        click.echo(line)
    return Exit.GOOD


def _facts(pairs: Mapping[str, object]) -> str:
    return " ".join(f"{name}={value}" for name, value in pairs.items())


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Columns as wide as their widest entry; one with nothing below its head is left out."""
    columns = [column for column in zip(*rows, strict=True) if any(column[1:])]
    widths = [max(map(len, column)) for column in columns]
    return [
        "  ".join(entry.ljust(width) for entry, width in zip(row, widths, strict=True)).rstrip()
        for row in zip(*columns, strict=True)
    ]
