"""``kcheck runs``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kcheck.cli.exits import Exit

if TYPE_CHECKING:
    from kcheck.store import StoredRun


@click.command("runs")
@click.option(
    "-n",
    "most",
    type=click.IntRange(min=1),
    metavar="N",
    default=20,
    show_default=True,
    help="Maximum number of runs to list.",
)
def command(most: int) -> int:
    """List the stored runs of this project, newest first.

    \b
      kcheck runs
    """
    from kcheck.cli.stored import here, moment, say, say_table
    from kcheck.report import wording
    from kcheck.store import Store

    with Store.open(here()) as store:
        runs = store.runs(most)
    if not runs:
        say("no runs are stored in this project yet")
        return Exit.GOOD
    rows = [("run", "started", "device", "took", "cases", "command")]
    rows += [
        (
            str(run.id),
            moment(run.started),
            run.device,
            "-" if run.seconds is None else wording.seconds(run.seconds),
            _cases(run),
            run.command.removeprefix("kcheck "),
        )
        for run in runs
    ]
    say_table(rows, right=(0, 3))
    return Exit.GOOD


def _cases(run: StoredRun) -> str:
    """``100: 3 failed``; ``57 of 100`` if some cases were not run."""
    ran = run.passed + run.failed + run.errors
    text = f"{ran:,}" if ran == run.planned else f"{ran:,} of {run.planned:,}"
    wrong = [f"{run.failed:,} failed"] if run.failed else []
    wrong += [f"{run.errors:,} error{'' if run.errors == 1 else 's'}"] if run.errors else []
    wrong += ["interrupted"] if run.interrupted else []
    wrong += ["did not finish"] if run.seconds is None else []
    return f"{text}: {', '.join(wrong)}" if wrong else f"{text} passed"
