"""``kcheck gc``."""

from __future__ import annotations

import click

from kcheck.cli.exits import Exit


@click.command("gc")
@click.option("--runs", type=click.IntRange(min=1), metavar="N", help="Number of runs to keep (default: 200).")
@click.option("--snapshots", type=click.IntRange(min=0), metavar="MIB", help="MiB for inputs (default: 256).")
def command(runs: int | None, snapshots: int | None) -> int:
    """Delete old runs and snapshots to free disk space.

    \b
      kcheck gc
      kcheck gc --runs 10

    Open failures stay: their seeds reproduce them even without a snapshot. `kcheck run` applies the same limits;
    this command also deletes the inputs of fixed failures, and shrinks the file.
    """
    from kcheck.cli.stored import here, say
    from kcheck.report import wording
    from kcheck.store import RUNS, SNAPSHOT_BYTES, Store

    with Store.open(here()) as store:
        most = SNAPSHOT_BYTES if snapshots is None else snapshots << 20
        gone, before, after = store.collect(RUNS if runs is None else runs, most)
    parts = [(gone.runs, "run"), (gone.failures, "closed failure"), (gone.snapshots, "snapshot")]
    deleted = [wording.count(number, noun) for number, noun in parts if number]
    say(f"deleted {', '.join(deleted) or 'nothing'}; the store now takes {_size(after)} (was {_size(before)})")
    return Exit.GOOD


def _size(size: int) -> str:
    return f"{size / 2**20:.1f} MiB" if size >= 2**20 else f"{size / 2**10:.0f} KiB"
