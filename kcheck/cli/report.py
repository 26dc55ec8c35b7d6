"""``kcheck report``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kcheck.cli.exits import Exit
from kcheck.cli.formats import FILES, FORMATS
from kcheck.cli.outputs import PairedCommand, pair
from kcheck.cli.params import COLOR
from kcheck.cli.stored import SINCE
from kcheck.dataclass import dataclass

if TYPE_CHECKING:
    from kcheck.model import Event
    from kcheck.store import Store


@click.command("report", cls=PairedCommand)
@click.option(
    "--run", "run", type=click.IntRange(min=1), metavar="ID", help="The run with this ID in `kcheck runs`."
)
@click.option(
    "--since",
    type=SINCE,
    metavar="WHEN",
    help="The newest run of each spec since WHEN: 24h, 3d, 2026-11-20 or 2026-11-20T14:30.",
)
@FORMATS
@FILES
@click.option(
    "--sign",
    metavar="KEY",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Sign the results of the run with this private key (`kcheck keygen`).",
)
@click.option(
    "--envelope",
    metavar="FILE",
    default="kcheck.dsse.json",
    show_default=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="Output file of --sign.",
)
@click.option(
    "--pdf",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="With --sign: also write the signed results as a PDF, and sign its digest.",
)
@click.option("-v", "--verbose", is_flag=True, help="Show every failing case in full.")
@click.option("-q", "--quiet", is_flag=True, help="Show only failures, no warnings or notes.")
@COLOR
@click.pass_context
def command(
    ctx: click.Context,
    *,
    run: int | None,
    since: datetime | None,
    formats: tuple[str, ...],
    files: tuple[str, ...],
    sign: Path | None,
    envelope: Path,
    pdf: Path | None,
    verbose: bool,
    quiet: bool,
    color: str,
) -> int:
    """Write reports of stored runs, as `kcheck run` would have written them.

    \b
      kcheck report                                      the last run
      kcheck report --run 12 --format sarif -o r.sarif
      kcheck report --since 24h --format markdown        the newest run of each spec
      kcheck report --format html -o r.html --sign kcheck.key
      kcheck report --sign kcheck.key --pdf r.pdf        a signed report and its PDF

    Runs nothing. The exit code is 0 even if the run failed.
    """
    if verbose and quiet:
        raise click.UsageError("-v and -q cannot be combined")
    if sign is not None and since is not None:
        raise click.UsageError("--sign signs one run; choose it with --run instead of --since")
    if pdf is not None and sign is None:
        raise click.UsageError("--pdf needs --sign KEY")
    if run is not None and since is not None:
        raise click.UsageError("--run and --since cannot be combined")
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
    if sign is not None:
        _sign(events, Signing(sign, envelope, pdf), [output.path for output in outputs if output.path is not None])
    return code if code is Exit.INTERRUPTED and not reports.summary.interrupted else Exit.GOOD


@dataclass(frozen=True, slots=True)
class Signing:
    """``--sign``, ``--envelope`` and ``--pdf``."""

    key: Path
    envelope: Path
    pdf: Path | None


def _sign(events: Sequence[Event], signing: Signing, reports: Sequence[Path]) -> None:
    """Sign the results of a run, and the files of its reports.
    Raises:
        UserError: the key cannot be used, a package is missing, or a file cannot be written.
    """
    from kcheck.cli.outputs import ReportFile
    from kcheck.cli.signing import digest, key_id, pages, sign
    from kcheck.report.collect import EventCollector
    from kcheck.report.statement import statement

    collector = EventCollector()
    for event in events:
        collector.handle(event)
    run, digests = collector.collected(), {path.name: digest(path) for path in reports}
    if signing.pdf is not None:
        shown = pages(statement(run, digests), key_id(signing.key), signing.envelope.name)
        file = ReportFile(signing.pdf, "--pdf")
        file.stream.buffer.write(shown)
        file.commit()
        digests[signing.pdf.name] = digest(signing.pdf)
    text = sign(signing.key, statement(run, digests))
    file = ReportFile(signing.envelope, "--envelope")
    file.stream.write(text)
    file.commit()
    click.echo(f"signed: {signing.envelope}", err=True)


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
