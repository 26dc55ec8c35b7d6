"""``kcheck cases``."""

from __future__ import annotations

import itertools
import json
import linecache
import os
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kcheck.cli.exits import Exit
from kcheck.cli.outputs import columns
from kcheck.cli.params import SEED, cases_option
from kcheck.cli.settings import PROFILE

if TYPE_CHECKING:
    from kcheck.model import Case, OpSpec

_GAP = "  "


@click.command("cases")
@click.argument("path", metavar="SPEC", type=click.Path(path_type=Path))
@PROFILE
@cases_option(" (default: the spec's).")
@click.option("--seed", type=SEED, metavar="S", help="Master seed of the cases (default: the spec's).")
@click.option("-k", "keyword", metavar="EXPR", default="", help="Only cases that match EXPR, as in `kcheck run`.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    help="Format of the list (default: text).",
)
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Also list the cases that meet conditions in the kernel, with these conditions, and the sizes in its "
    'code (compiles the kernel; pip install "kcheck[prove]").',
)
def command(
    path: Path, *, profile: str, cases: int | None, seed: int | None, keyword: str, form: str, verbose: bool
) -> int:
    """List the cases of a spec without running them.

    \b
      kcheck cases specs/softmax.yaml
      kcheck cases specs/softmax.yaml -k float16
      kcheck cases specs/softmax.yaml --format json
      kcheck cases specs/softmax.yaml -v

    To run one of them: `kcheck run SPEC --case-seed SEED`. To run an example: `kcheck run SPEC -k LABEL`.
    """
    from kcheck.cli.specs import none_found
    from kcheck.generator import plan
    from kcheck.runner import parse_keyword
    from kcheck.specfile import discover, load_spec

    if path.is_dir() and not discover([path], recursive=False).specs:
        click.echo(f"kcheck: {none_found([path], may_recurse=False)}", err=True)
        return Exit.NOTHING
    selects = parse_keyword(keyword) if keyword else None
    spec = load_spec(path, profile)
    count = spec.count if cases is None else cases
    master = spec.seed if seed is None else seed
    planned = plan(spec, count=count, master=master, huge=True)
    reached, rows = _reached(spec, planned, master) if verbose else ((), ())
    planned = [*planned, *reached]
    chosen = [case for case in planned if selects is None or selects(case.id, spec.tags)]
    if not chosen:
        click.echo("kcheck: nothing selected", err=True)
        return Exit.NOTHING
    for line in _documents(spec, chosen) if form == "json" else _table(chosen):
        click.echo(line)
    for line in rows if form == "text" else ():
        click.echo(line)
    return Exit.GOOD


def _reached(spec: OpSpec, planned: Sequence[Case], master: int) -> tuple[Sequence[Case], Sequence[str]]:
    """The cases that a run adds by default, and lines about them: the condition that each of them meets, and the
    constants that the code has for each dim."""
    from kcheck.device import choose_for
    from kcheck.prover.prover import require_solver
    from kcheck.prover.reach import DEFAULT, ConditionReach, reach_cases, shown_places

    require_solver("-v")
    found = ConditionReach(DEFAULT).found(spec, planned, master, choose_for([spec], "cpu"))
    made = reach_cases(spec, master, found)
    lines = [""] if made or found.code else []
    for case, sizes in made:
        code = linecache.getline(sizes.file, sizes.line).strip() if sizes.file else ""
        lines.append(f"{case.label} is for {_place(spec, sizes.file, sizes.line)}" + (f": {code}" if code else ""))
    by_dim: dict[str, dict[tuple[str, int], list[tuple[str, int]]]] = {}
    for size in found.code:
        by_dim.setdefault(size.dim, {}).setdefault((size.word, size.size), []).append((size.file, size.line))
    for name in (name for name in spec.dims if name in by_dim):
        known = sorted(by_dim[name].items())
        shown = ", ".join(
            f"{word} {size} ({shown_places(spec, places) or 'the kernel'})" for (word, size), places in known
        )
        lines.append(f"{name} is {shown}")
    return [case for case, _ in made], lines


def _place(spec: OpSpec, file: str, line: int) -> str:
    return f"{os.path.relpath(file, spec.root)}:{line}" if file and line else "the kernel"


def _documents(spec: OpSpec, chosen: Sequence[Case]) -> Iterator[str]:
    """One JSON object: a case is one line, with the keys that it has in a report."""
    from kcheck.report.json_report import planned_document

    head = json.dumps({"path": spec.path, "op": spec.op, "tags": list(spec.tags)})
    yield head[:-1] + ', "cases": ['
    for number, case in enumerate(chosen, 1):
        yield f"  {json.dumps(planned_document(case))}{',' * (number < len(chosen))}"
    yield "]}"


def _table(chosen: Sequence[Case]) -> Iterator[str]:
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
        for case in chosen
    ]
    return _lines(rows, columns() if sys.stdout.isatty() else None)


def _facts(pairs: Mapping[str, object]) -> str:
    return " ".join(f"{name}={value}" for name, value in pairs.items())


def _lines(rows: Sequence[tuple[str, ...]], width: int | None) -> Iterator[str]:
    """Columns as wide as their widest entry; empty columns are left out.

    Entries of columns that do not fit in ``width`` follow on separate lines, indented by the first column.
    """
    columns = [column for column in zip(*rows, strict=True) if any(column[1:])]
    sizes = [max(map(len, column)) for column in columns]
    fitting = len(sizes)
    if width is not None:
        ends = [*itertools.accumulate(size + len(_GAP) for size in sizes)]
        fitting = max(1, sum(end - len(_GAP) <= width for end in ends))
    indent = sizes[0] + len(_GAP)
    for row in zip(*columns, strict=True):
        yield _GAP.join(map(str.ljust, row[:fitting], sizes)).rstrip()
        if width is not None:
            yield from (" " * indent + line for line in _packed(row[fitting:], max(20, width - indent)))


def _packed(entries: Sequence[str], width: int) -> Iterator[str]:
    """As many entries per line as fit; an entry wider than a line is broken at spaces."""
    line = ""
    for entry in filter(None, entries):
        if line and len(line) + len(_GAP) + len(entry) > width:
            yield line
            line = ""
        line = f"{line}{_GAP}{entry}" if line else entry
        if len(line) > width:
            *whole, line = textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False)
            yield from whole
    if line:
        yield line
