"""``kcheck failures``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click

from kcheck.cli.casename import STATES, numbered
from kcheck.cli.exits import Exit
from kcheck.cli.stored import SINCE

if TYPE_CHECKING:
    from kcheck.store import Store, StoredFailure

_SHOWN = 10  # failures of one spec, without --all
HEAD = ("", "id", "seed", "rule", "times", "last seen", "case")
_WITH_SEED = ((0, 1, 2, 3, 4, 5, 6), (0, 1, 2, 3, 5, 6), (0, 1, 2, 3, 6))
_WITHOUT_SEED = ((0, 1, 3, 5, 6), (0, 1, 3, 6))
"""The columns of the table: the first choice with which each failure fits on one line, otherwise the last."""
_ROOM = 24  # columns of a case beside the seed; with fewer, the seed is not shown
_RIGHT = (0, 2, 4)


@click.command("failures")
@click.option("--op", metavar="NAME", default="", help="Only failures of this op.")
@click.option("--rule", metavar="RULE", default="", help="Only failures of this rule, such as racecheck.")
@click.option("--since", type=SINCE, metavar="WHEN", help="Only failures seen since WHEN: 2026-11-20, 12h, 3d.")
@click.option("-a", "--all", "everything", is_flag=True, help="List every failure, including fixed and gone ones.")
def command(op: str, rule: str, since: datetime | None, everything: bool) -> int:
    """List the open failures, newest first.

    \b
      kcheck failures                    open failures of this project
      kcheck failures --op softmax       of one op
      kcheck reproduce 1                 run the first one again

    A failure stays open until the same case passes. The next `kcheck run` starts with the open failures.

    `show`, `reproduce`, `minimize` and `export` accept the number or the id of a failure, or `last`. A number
    is that of the list printed last, also after another run.
    """
    from kcheck.cli.stored import here, say, say_title
    from kcheck.report import wording
    from kcheck.store import Store

    with Store.open(here()) as store:
        found = store.failures(op=op, rule=rule, since=since, states=STATES if everything else ("open",))
        is_all = not (op or rule or since or everything)  # then do not read them twice: 2,000 failures take 0.15 s
        order = numbered(found if is_all else store.failures())
        number_of = {failure.id: number for number, failure in enumerate(order, start=1)}
        _keep(store, order)
    if not found:
        filtered = op or rule or since or everything
        say("no stored failures match" if filtered else "no open failures")
        return Exit.GOOD
    by_spec: dict[tuple[str, str], list[StoredFailure]] = {}
    for failure in found:
        by_spec.setdefault((failure.op, failure.path), []).append(failure)
    for (name, path), failures in by_spec.items():
        say_title(name, path, wording.count(len(failures), "failure"))
        shown = failures if everything else failures[:_SHOWN]
        head = (*HEAD[:-1], "state" if everything else HEAD[-1])
        say_failures([head, *(_row(failure, number_of.get(failure.id), everything) for failure in shown)])
        if len(failures) > len(shown):
            say(f"  and {len(failures) - len(shown):,} more (-a shows all)")
        say()
    first = next((failure for failures in by_spec.values() for failure in failures), None)
    if first is not None:
        say(f"Run one again by its number or id: kcheck reproduce {number_of.get(first.id, first.short)}")
    return Exit.GOOD


def say_failures(rows: Sequence[Sequence[str]]) -> None:
    """Print the table of failures, with fewer columns on a narrow terminal. The id is always shown. The seed is
    shown if there is room for a case beside it, even if the case then takes several lines."""
    from kcheck.cli.stored import say_table, width
    from kcheck.report import layout

    def chosen(columns: Sequence[int]) -> list[tuple[str, ...]]:
        return [tuple(row[place] for place in columns) for row in rows]

    has_room = layout.table_width(chosen(_WITH_SEED[-1][:-1])) + 2 + _ROOM < width()
    for columns in _WITH_SEED if has_room else (*_WITH_SEED, *_WITHOUT_SEED):
        fewer = chosen(columns)
        if layout.table_width(fewer) < width():
            break
    right = [number for number, place in enumerate(columns) if place in _RIGHT]
    say_table(fewer, right=right, indent=1, wrapped=True)


def _keep(store: Store, order: Sequence[StoredFailure]) -> None:
    """Store which failure each number of this list stands for; the next list replaces it."""
    from kcheck.store import StoreError

    try:
        store.keep_list(order)
    except StoreError as error:
        click.echo(f"kcheck: warning: {error}; the numbers of this list may change with the next run", err=True)


def _row(failure: StoredFailure, number: int | None, with_state: bool) -> tuple[str, ...]:
    from kcheck.cli.stored import day_or_time

    case = _facts(failure.case.dims, failure.case.dtypes)
    return (
        "" if number is None else str(number),
        failure.short,
        str(failure.case.seed),
        failure.rule,
        str(failure.times),
        day_or_time(failure.last_seen),
        f"{failure.state:<5}  {case}" if with_state else case,
    )


def _facts(*pairs: Mapping[str, object]) -> str:
    return " ".join(f"{name}={value}" for each in pairs for name, value in each.items())
