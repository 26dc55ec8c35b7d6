"""``kcheck merge``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kcheck.cli.exits import Exit
from kcheck.cli.formats import FILES, FORMATS
from kcheck.cli.outputs import PairedCommand, pair
from kcheck.cli.params import COLOR
from kcheck.errors import UserError

if TYPE_CHECKING:
    from kcheck.model import Event


@click.command("merge", cls=PairedCommand)
@click.argument("parts", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False))
@FORMATS
@FILES
@click.option("--coverage", is_flag=True, help="Show which lines of the kernels no case reached.")
@click.option("-v", "--verbose", is_flag=True, help="Show every failing case in full, and coverage.")
@click.option("-q", "--quiet", is_flag=True, help="Show only failures, no warnings or notes.")
@COLOR
@click.pass_context
def command(
    ctx: click.Context,
    parts: tuple[Path, ...],
    formats: tuple[str, ...],
    files: tuple[str, ...],
    coverage: bool,
    verbose: bool,
    quiet: bool,
    color: str,
) -> int:
    """Merge the reports of the shards of one run, in any format.

    PARTS are the JSON reports of `kcheck run --shard`, one for each shard, in any order.

    \b
      kcheck merge part1.json part2.json
      kcheck merge part*.json --format html -o report.html
      kcheck run --shard 1/2 --format json -o part1.json    the first part

    The report and the exit code are the same as for a run on one machine, except for times. It is an error (exit
    code 2) if a shard is missing, given twice, or was run with different specs, cases or versions.
    """
    if verbose and quiet:
        raise click.UsageError("-v and -q cannot be combined")
    outputs = pair(ctx.meta["kcheck.order"], formats, files)

    from kcheck.cli.reports import Reports
    from kcheck.runner.merge import merged_shards

    events = merged_shards([(str(path), _shard(path)) for path in parts])
    with Reports(outputs, verbosity=verbose - quiet, color=color, coverage=coverage) as reports:
        code = reports.consume(iter(events))
    if code is Exit.NOTHING:
        click.echo("kcheck: nothing selected: the shards have no cases", err=True)
    return code


def _shard(path: Path) -> list[Event]:
    """The events of a shard.

    Raises:
        UserError: the file is not the report of a shard.
    """
    try:
        document = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise UserError(f"{path}: not a JSON report ({error}); {_FIX}") from None
    if not isinstance(document, dict) or document.get("report") != "kcheck":
        raise UserError(f"{path}: not a kcheck report; {_FIX}")
    if "shard" not in document:
        raise UserError(f"{path}: the report of a whole run, not of a shard; {_FIX}")
    from kcheck.store.documents import DocumentRefused

    try:
        return _events(document)
    except (DocumentRefused, KeyError, TypeError) as error:
        raise UserError(
            f"{path}: cannot be read ({error}); merge with the version of kcheck that wrote it"
            f" ({document.get('kcheck', 'unknown')!s:.20})"
        ) from None


def _events(document: dict[str, Any]) -> list[Event]:
    from kcheck.model import CaseFinished, RunFinished, RunStarted, SpecFinished, SpecRefused, SpecStarted
    from kcheck.store.records import recorded, recorded_inputs

    found: list[Event] = [recorded(document["shard"]["record"], RunStarted)]
    for spec in document["specs"]:
        if "begin" not in spec:
            found.append(recorded(spec["record"], SpecRefused))
            continue
        found.append(recorded(spec["begin"], SpecStarted))
        for case in spec["cases"]:
            if "inputs" in case:
                found.append(recorded_inputs(case["inputs"]))
            found.append(recorded(case["record"], CaseFinished))
        found.append(recorded(spec["end"], SpecFinished))
    if "record" in document["summary"]:
        found.append(recorded(document["summary"]["record"], RunFinished))
    return found


_FIX = "write one with `kcheck run --shard 1/2 --format json -o FILE`"
