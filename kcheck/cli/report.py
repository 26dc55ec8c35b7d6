"""``kcheck report``."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from kcheck.cli.exits import Exit
from kcheck.cli.outputs import PairedCommand, pair
from kcheck.cli.params import COLOR
from kcheck.cli.stored import SINCE
from kcheck.report import REPORTERS

if TYPE_CHECKING:
    from kcheck.model import Event
    from kcheck.store import Store


@click.command("report", cls=PairedCommand)
@click.option("--run", "run", type=click.IntRange(min=1), metavar="ID", help="A run of `kcheck runs`.")
@click.option(
    "--since",
    type=SINCE,
    metavar="WHEN",
    help="The newest run of each spec since then: 24h, 3d, 2026-11-20 or 2026-11-20T14:30.",
)
@click.option(
    "--format",
    "formats",
    type=click.Choice(list(REPORTERS)),
    multiple=True,
    help="Format of the report. Repeatable; each can have its own -o.",
)
@click.option(
    "-o",
    "--output",
    "files",
    multiple=True,
    metavar="FILE",
    help="Output file of the preceding --format (default: stdout).",
)
@click.option("-v", "--verbose", is_flag=True, help="Show every failing case in full.")
@click.option("-q", "--quiet", is_flag=True, help="Show only what is wrong.")
@COLOR
@click.pass_context
def command(
    ctx: click.Context,
    *,
    run: int | None,
    since: datetime | None,
    formats: tuple[str, ...],
    files: tuple[str, ...],
    verbose: bool,
    quiet: bool,
    color: str,
) -> int:
    """Write reports of stored runs, as `kcheck run` would have written them.

    \b
      kcheck report                                      the last run
      kcheck report --run 12 --format sarif -o r.sarif
      kcheck report --since 24h --format markdown        the newest run of each spec

    Runs nothing. The exit code is 0 also if the run failed.
    """
    if verbose and quiet:
        raise click.UsageError("-v and -q exclude each other")
    if run is not None and since is not None:
        raise click.UsageError("--run and --since exclude each other")
    outputs = pair(ctx.meta["kcheck.order"], formats, files)

    from kcheck.cli.reports import Reports
    from kcheck.cli.stored import here, trend
    from kcheck.model import RunStarted
    from kcheck.store import Store

    with Store.open(here()) as store:
        events = _since(store, since) if since is not None else _run(store, run)
    if not events:
        click.echo(f"kcheck: no run is stored{' since then' if since else ''}; `kcheck runs` lists them", err=True)
        return Exit.NOTHING
    until = next((event.started for event in events if isinstance(event, RunStarted)), None)
    with Reports(outputs, verbosity=verbose - quiet, color=color, trend=lambda: trend(until=until)) as reports:
        code = reports.consume(iter(events))
    if reports.lost or code is Exit.PIPE:
        return code
    return code if code is Exit.INTERRUPTED and not reports.summary.interrupted else Exit.GOOD


def _run(store: Store, number: int | None) -> list[Event]:
    """The events of a run; of the newest one by default.

    Raises:
        UserError: the run is not stored, or only its counts are.
    """
    from kcheck.errors import UserError
    from kcheck.store import RUNS_WITH_DETAILS

    stored = [each.id for each in store.runs(-1)]
    if number is None and not stored:
        return []
    if number is not None and number not in stored:
        raise UserError(f"run {number} is not stored; `kcheck runs` lists the stored runs")
    found = store.events(stored[0] if number is None else number)
    if not found:
        raise UserError(
            f"run {number or stored[0]} has no details: an older kcheck stored it, or it is not among the last"
            f" {RUNS_WITH_DETAILS} runs; run the specs again"
        )
    return found


def _since(store: Store, since: datetime) -> list[Event]:
    """The events of the newest run of each spec, as one run."""
    from kcheck.cli.merged import merged

    return merged([store.events(each.id) for each in store.runs(-1) if each.started >= since])
