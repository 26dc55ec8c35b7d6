"""``kcheck show``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from kcheck.cli.exits import Exit
from kcheck.cli.params import SEED

if TYPE_CHECKING:
    from kcheck.model import Case
    from kcheck.report.detail import Row
    from kcheck.store import Store, StoredFailure, StoredVerdict


@click.command("show")
@click.argument("seed", metavar="SEED", type=SEED)
@click.option("--op", metavar="NAME", default="", help="Of this op, where several failed with the same seed.")
def command(seed: int, op: str) -> int:
    """Show a stored case without running it.

    \b
      kcheck show 17447113406779214469

    Shows its inputs, the worst elements, a small map of where in the output the error is, and earlier results.
    """
    from kcheck.cli.stored import here, say, say_rows, say_title
    from kcheck.store import Store

    with Store.open(here()) as store:
        failures = store.failures(seed=seed, op=op, states=("open", "fixed", "gone"))
        history = store.history(seed, op)
        if not failures and not history:
            about = f" of {op}" if op else ""
            raise click.UsageError(
                f"no case with seed {seed}{about} is stored; `kcheck failures` lists what failed"
            )
        for number, failure in enumerate(failures):
            if number:
                say()
            say_title(failure.path, failure.case.id)
            say_rows(_failure(store, failure, history))
        if not failures:
            say_title(history[0].path, history[0].case.id)
            say_rows(_history(history))
    return Exit.GOOD


def _failure(store: Store, failure: StoredFailure, history: list[StoredVerdict]) -> Iterator[Row]:
    from kcheck.cli.stored import moment, reproduce_line
    from kcheck.model import CaseFinished
    from kcheck.report import wording
    from kcheck.report.detail import Row, rows, sentence
    from kcheck.report.inputs import input_rows
    from kcheck.report.spread import spread_rows
    from kcheck.store.recorder import NEW_SNAPSHOTS

    state = f"{failure.state}, failed {wording.count(failure.times, 'time')} on the {failure.device}, first"
    state += f" {moment(failure.first_seen)}, last {moment(failure.last_seen)}"
    if failure.closed is not None:
        state += f", {failure.state} {moment(failure.closed)}"
    yield sentence("state", state)
    again = reproduce_line(failure.case.seed, failure.case.op)
    *detail, _, replay = rows(CaseFinished(failure.path, 1, failure.verdict, again, failure.last_seen))
    yield from detail
    snapshot = store.snapshot(failure)
    if snapshot is not None:
        yield from input_rows(snapshot)
    else:
        kept = f"a run keeps those of {NEW_SNAPSHOTS} new failures of a spec, while there is room"
        yield sentence("inputs", f"not kept: {kept}; the seed makes them again")
    for comparison in failure.verdict.comparisons:
        yield from spread_rows(comparison)
    yield from _history([each for each in history if _same(each.case, failure.case)])
    yield Row("seed", (str(failure.case.seed),))
    yield replay


def _same(one: Case, other: Case) -> bool:
    """Whether they are one case, whatever their labels."""
    return (one.op, one.dims, one.dtypes, one.layouts) == (other.op, other.dims, other.dtypes, other.layouts)


def _history(history: list[StoredVerdict]) -> Iterator[Row]:
    from kcheck.cli.stored import moment
    from kcheck.report.detail import Row

    for number, each in enumerate(history):
        words = (f"run {each.run}", moment(each.at), each.device, each.case.label, each.status.value, each.rule)
        yield Row("" if number else "runs", tuple(word for word in words if word))
