"""``kcheck gc``."""

from __future__ import annotations

from datetime import datetime

import click

from kcheck.cli.exits import Exit
from kcheck.cli.params import SIZE
from kcheck.cli.stored import SINCE


@click.command("gc")
@click.option("--runs", type=click.IntRange(min=1), metavar="N", help="Number of runs to keep (default: 200).")
@click.option(
    "--snapshots",
    type=click.IntRange(min=0),
    metavar="MIB",
    help="Maximum size of the stored inputs in MiB (default: 256).",
)
@click.option("--older-than", type=SINCE, metavar="AGE", help="Delete runs older than AGE: 30d, 12h, 2026-11-20.")
@click.option(
    "--max-size",
    type=SIZE,
    metavar="SIZE",
    help="Delete the oldest runs, then the oldest inputs, until the store takes at most SIZE: 200MB.",
)
def command(runs: int | None, snapshots: int | None, older_than: datetime | None, max_size: int | None) -> int:
    """Delete old runs and stored inputs to free disk space.

    \b
      kcheck gc
      kcheck gc --runs 10
      kcheck gc --older-than 30d --max-size 200MB

    Keeps the newest run and all open failures; a failure whose inputs were deleted can still be reproduced from
    its seed. `kcheck run` applies the same limits. This command also deletes the inputs of fixed failures, and
    compacts the store.
    """
    from kcheck.cli.stored import here, say
    from kcheck.report import wording
    from kcheck.store import RUNS, SNAPSHOT_BYTES, Limits, Store
    from kcheck.store.rows import when

    limits = Limits(
        RUNS if runs is None else runs,
        SNAPSHOT_BYTES if snapshots is None else snapshots << 20,
        "" if older_than is None else when(older_than),
        max_size,
    )
    with Store.open(here()) as store:
        gone, before, after = store.collect(limits)
    parts = [(gone.runs, "run"), (gone.failures, "closed failure"), (gone.snapshots, "snapshot")]
    deleted = [wording.count(number, noun) for number, noun in parts if number]
    if deleted:
        say(f"deleted {', '.join(deleted)}; the store now takes {_size(after)} (was {_size(before)})")
    else:
        say(f"nothing to delete; the store takes {_size(after)}")
    return Exit.GOOD


def _size(size: int) -> str:
    return f"{size / 2**20:.1f} MiB" if size >= 2**20 else f"{size / 2**10:.0f} KiB"
